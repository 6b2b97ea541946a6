//! `nexus demo server`: a server of two simulated vendors on this machine.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue},
};
use nexus_http::{
    BodyError, BodyMemory, BoundedServer, HttpConnection, RequestHandler, ServerLimits, ServerNames,
    head::stated_length,
    listen, read_body,
    response::{ResponseBody, with_body},
};
use serde_json::{Value, json};

use super::{
    configuration::{VENDORS, backends},
    messages,
    request::ModelRequest,
    script::{self, CAREFUL, CARELESS},
};
use crate::{
    args::DemoServerArgs,
    command_error::CommandError,
    interrupt::{self, Interrupts},
    output::{broken, say},
};

/// Largest body of a request, in bytes. Source: our own bound, far above the longest conversation with the script.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Longest time in which a body must arrive.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Longest time to send the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

pub(super) async fn serve(args: &DemoServerArgs) -> Result<ExitCode, CommandError> {
    let address = args.listen;
    if !address.ip().is_loopback() {
        return Err(CommandError::usage(format_args!(
            "--listen {address} is not on this machine; name 127.0.0.1 and a port, because the server asks for no \
             login"
        )));
    }
    let listener = listen(address).map_err(|error| {
        let message = format!("{address} cannot be opened: {error}");
        CommandError::failed(message).with_advice("name another port with --listen, or 0 for any free port")
    })?;
    let address = listener.local_addr().map_err(CommandError::failed)?;
    let mut interrupts = Interrupts::listen().map_err(|error| CommandError::deaf(&error))?;
    let handler =
        SimulatedVendors { names: ServerNames::new(address, Vec::new()), memory: BodyMemory::default() };
    let mut server = BoundedServer::new(listener, handler, ServerLimits::default());
    announce(address);
    let code = server
        .during(async {
            tokio::select! {
                came = interrupts.next() => came.map(|()| interrupt::exit_code()),
                // The demo that started this server has ended.
                () = broken() => Ok(ExitCode::SUCCESS),
            }
        })
        .await
        .map_err(|error| CommandError::deaf(&error))?;
    server.finish(LAST_ANSWERS).await;
    Ok(code)
}

/// Prints the address in the first line, where the demo that started this server reads it.
fn announce(address: SocketAddr) {
    say(format_args!("{} simulated vendors answer at http://{address} until Ctrl-C.", VENDORS.len()));
    say("A script plays them, not a model. To use them, write into a nexus.yaml:");
    say(format_args!("\n{}types:\n  executor: {{ group: {} }}", backends(address), VENDORS[0]));
}

/// Answers the requests to the simulated vendors.
struct SimulatedVendors {
    names: ServerNames,
    memory: BodyMemory,
}

/// Reason why a request has no answer of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DemoRejection(StatusCode, &'static str);

impl SimulatedVendors {
    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &HttpConnection,
    ) -> Result<Response<ResponseBody>, DemoRejection> {
        let (head, body) = request.into_parts();
        // A web page could reach this port through a host name of its own, so reject foreign hosts and origins.
        if self.names.check(&head).is_err() {
            return Err(DemoRejection(StatusCode::FORBIDDEN, "the request names another host or origin"));
        }
        // `admit` fails at the maximum number of admitted connections. This connection then keeps the short time limit
        // of a stranger, which is enough for one request.
        connection.admit();
        let not_found = DemoRejection(
            StatusCode::NOT_FOUND,
            "there is nothing here; `nexus demo server` prints the addresses of its vendors",
        );
        let mut path = head.uri.path().split('/').skip(1);
        let vendor = path.next().and_then(|name| VENDORS.into_iter().find(|vendor| *vendor == name));
        let (vendor, rest) = (vendor.ok_or(not_found)?, path.collect::<Vec<_>>());
        // A program may add the version of the API to a base URL that has it already.
        let rest = match rest.as_slice() {
            ["v1", rest @ ..] if rest.first() == Some(&"v1") => rest,
            rest => rest,
        };
        match (&head.method, rest) {
            (&Method::GET, ["v1", "models"]) => {
                let model = |id| json!({ "id": id, "object": "model", "created": 0, "owned_by": vendor });
                let models = [CAREFUL, CARELESS].map(model);
                Ok(json_answer(&json!({ "object": "list", "data": models })))
            }
            (&Method::POST, ["v1", api @ ("responses" | "messages")]) => {
                let too_large = DemoRejection(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
                // A stated length beyond the limit is rejected before any byte of the body is read.
                if stated_length(&head.headers).is_some_and(|length| length > MAX_BODY_BYTES as u64) {
                    return Err(too_large);
                }
                let mut permit = self.memory.permit();
                let read = read_body(body, MAX_BODY_BYTES, Some(&mut permit));
                let unread = DemoRejection(StatusCode::BAD_REQUEST, "the body was incomplete or too late");
                let body = match tokio::time::timeout(READ_WITHIN, read).await {
                    Ok(Ok(body)) => body,
                    Ok(Err(BodyError::TooLarge)) => return Err(too_large),
                    Ok(Err(BodyError::Incomplete)) | Err(_) => return Err(unread),
                };
                // Parsed JSON takes more memory than its text, so reserve it before parsing.
                permit.grow_to_json(&body).await.map_err(|_| too_large)?;
                let value: Value = serde_json::from_slice(&body)
                    .map_err(|_| DemoRejection(StatusCode::BAD_REQUEST, "the body is not JSON"))?;
                let is_messages = *api == "messages";
                let request = if is_messages { messages::read(&value) } else { ModelRequest::read(&value) };
                let reply = script::next(vendor, &request);
                let size = body.len();
                let stream = |events: String| with_body(StatusCode::OK, "text/event-stream", events);
                Ok(match (is_messages, request.is_streamed) {
                    (false, true) => stream(reply.streamed(&request, size)),
                    (false, false) => json_answer(&reply.whole(&request, size)),
                    (true, true) => stream(messages::streamed(&reply, &request, size)),
                    (true, false) => json_answer(&messages::whole(&reply, &request, size)),
                })
            }
            (_, ["v1", "models" | "responses" | "messages"]) => Err(DemoRejection(
                StatusCode::METHOD_NOT_ALLOWED,
                "use GET for models and POST for responses and messages",
            )),
            _ => Err(not_found),
        }
    }
}

impl RequestHandler for SimulatedVendors {
    async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<HttpConnection>,
    ) -> Response<ResponseBody> {
        self.answer(request, connection).await.unwrap_or_else(|DemoRejection(status, message)| {
            let error =
                json!({ "error": { "message": message, "type": "invalid_request_error", "code": null } });
            let mut answer = json_answer(&error);
            *answer.status_mut() = status;
            // The rest of the request is not read, so the connection cannot be used again.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            answer
        })
    }
}

fn json_answer(value: &Value) -> Response<ResponseBody> {
    with_body(StatusCode::OK, "application/json", value.to_string())
}

/// Returns the address in the first line of [`announce`].
pub(super) fn announced(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    rest.split(' ').next()?.parse().ok()
}
