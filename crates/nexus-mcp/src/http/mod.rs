//! Serving over streamable HTTP.

mod answer;
mod guard;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use hyper::{
    Request, Response, StatusCode, body::Incoming as Body, header::HeaderValue, http::request::Parts,
};
use nexus_http::{
    BodyMemory, BodyTooLarge, BoundedServer, HttpConnection, MemoryPermit, RequestHandler, ServerLimits,
    ServerNames,
    head::only,
    listen, read_body,
    response::{ResponseBody, empty},
};
use rmcp::model::{ErrorCode, ErrorData};
use uuid::Uuid;

use self::{
    answer::HttpAnswer,
    guard::{HeadGuard, MAX_BODY_BYTES, METHOD_HEADER, Rejection, VERSION_HEADER, Wanted},
};
use super::{
    endpoint::{ClientSide, Endpoint},
    message::Incoming,
    reply::Reply,
    service::ToolService,
    stdio::offers_roots,
    token::HttpToken,
    wire::RequestMeta,
};

pub(crate) use guard::{PATH, SESSION_HEADER, TokenCheck};

/// Longest time for a body to arrive and to get memory. Source: our own choice: a program on this machine needs almost none.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for sending finished answers once the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Suffix of an MCP session's name if its client announces roots. The name is the session's only state, so a restart of the
/// server loses nothing.
const WITH_ROOTS: &str = ".roots";
/// Longest name of an MCP session that the server reads, in bytes.
const MAX_SESSION_BYTES: usize = 128;

/// Settings of an HTTP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Address of the server. Port 0 means any free port.
    pub address: SocketAddr,
    /// Token that clients must send.
    pub token: HttpToken,
    /// Further names of this machine that requests may use, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Longest time for [`ToolService::stop`] and running calls when the server ends.
    pub stop_within: Duration,
}

impl HttpSettings {
    /// Creates settings without further names, and with ten seconds to end.
    pub fn new(address: SocketAddr, token: HttpToken) -> Self {
        Self { address, token, hosts: Vec::new(), stop_within: Duration::from_secs(10) }
    }
}

/// A server over streamable HTTP with one path, `/mcp`, to which clients POST messages. It answers a call with an event stream
/// that opens immediately. The work of a call continues when its client leaves.
///
/// Every request must have the token, name this server as its host, and come from no web page of another origin.
pub struct HttpServer {
    server: BoundedServer<HttpHandler>,
    stop_within: Duration,
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Opens the port. The server answers no request before [`HttpServer::serve`].
    ///
    /// # Errors
    ///
    /// The system cannot open the port at the address.
    pub async fn bind(service: Arc<dyn ToolService>, settings: HttpSettings) -> io::Result<Self> {
        let HttpSettings { address, token, hosts, stop_within } = settings;
        let server = server(address, Endpoint::new(service), TokenCheck::Server(token), hosts)?;
        Ok(Self { server, stop_within })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.server.handler().address()
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address())
    }

    /// Serves until `ended` completes, then stops the service.
    pub async fn serve(mut self, ended: impl Future<Output = ()>) {
        self.server.during(ended).await;
        // No new connections from here on. The clients of open ones still get their answers.
        self.server.close();
        let handler = self.server.shared_handler();
        let stopping = tokio::time::timeout(self.stop_within, handler.endpoint.stop());
        if self.server.during(stopping).await.is_err() {
            tracing::error!(within = ?self.stop_within, "the calls did not end in time");
        }
        self.server.finish(LAST_ANSWERS).await;
    }
}

/// Opens the port of a server.
pub(crate) fn server(
    address: SocketAddr,
    endpoint: Endpoint,
    token: TokenCheck,
    hosts: Vec<String>,
) -> io::Result<BoundedServer<HttpHandler>> {
    let listener = listen(address)?;
    let guard = HeadGuard { token, names: ServerNames::new(listener.local_addr()?, hosts) };
    let handler = HttpHandler { endpoint, guard, memory: BodyMemory::default() };
    Ok(BoundedServer::new(listener, handler, ServerLimits::default()))
}

/// Answers the requests of all connections.
pub(crate) struct HttpHandler {
    endpoint: Endpoint,
    guard: HeadGuard,
    memory: BodyMemory,
}

impl RequestHandler for HttpHandler {
    async fn respond(
        &self,
        request: Request<Body>,
        connection: &Arc<HttpConnection>,
    ) -> Response<ResponseBody> {
        self.answer(request, connection).await.unwrap_or_else(|rejection| {
            tracing::debug!(?rejection, "a request was rejected");
            answer::rejected(rejection)
        })
    }
}

impl HttpHandler {
    pub(crate) fn address(&self) -> SocketAddr {
        self.guard.names.address()
    }

    async fn answer(
        &self,
        request: Request<Body>,
        connection: &HttpConnection,
    ) -> Result<HttpAnswer, Rejection> {
        let (head, body) = request.into_parts();
        self.guard.identify(&head)?;
        // Only a client with the token is admitted. All others have a time limit and can be evicted.
        if !connection.admit() {
            return Err(Rejection::Busy);
        }
        match HeadGuard::wanted(&head)? {
            Wanted::End => {
                self.endpoint.end_session(session_name(&head));
                Ok(empty(StatusCode::NO_CONTENT))
            }
            Wanted::Message { streams } => {
                let (body, memory) = self.read(body).await?;
                self.message(&head, &body, memory, streams).await
            }
        }
    }

    /// Reads a body, and waits for the memory of its JSON values. The message holds the memory permit until it is answered.
    async fn read(&self, body: Body) -> Result<(BytesMut, MemoryPermit), Rejection> {
        let read = async {
            let mut memory = self.memory.permit();
            let body = read_body(body, MAX_BODY_BYTES, Some(&mut memory)).await?;
            memory.grow_to_json(&body).await.map_err(|BodyTooLarge| Rejection::TooLarge)?;
            Ok((body, memory))
        };
        tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or(Err(Rejection::Unread))
    }

    async fn message(
        &self,
        head: &Parts,
        body: &[u8],
        memory: MemoryPermit,
        streams: bool,
    ) -> Result<HttpAnswer, Rejection> {
        let message = match Incoming::read(body) {
            Ok(message) => message,
            Err(refused) => return Ok(answered(Endpoint::refuse(refused), memory)),
        };
        let mut session = None;
        if let Incoming::Request { id, method, params, .. } = &message {
            if let Some(answer) = head_mismatch(head, method, params)? {
                let error = ErrorData::new(ErrorCode::HEADER_MISMATCH, answer, None);
                return Ok(answered(Reply::error(id.clone(), error, true), memory));
            }
            if method == "initialize" {
                let roots = if offers_roots(params) { WITH_ROOTS } else { "" };
                session = HeaderValue::try_from(format!("{}{roots}", Uuid::new_v4())).ok();
            }
        } else {
            guard::is_spoken_by(&head.headers, None)?;
        }
        let named = session_name(head);
        // The server can send requests to the client only over a stream.
        let client =
            ClientSide { session: named.to_owned(), offers_roots: streams && named.ends_with(WITH_ROOTS) };
        let mut answer = match self.endpoint.receive(message, &client) {
            Reply::Stream(mut messages) if !streams => {
                let mut last = None;
                while let Some(message) = messages.next().await {
                    last = Some(message);
                }
                match last {
                    Some(last) => answer::message(last, crate::reply::ReplyStatus::Answered),
                    None => empty(StatusCode::ACCEPTED),
                }
            }
            reply => answered(reply, memory),
        };
        if let Some(session) = session {
            answer.headers_mut().insert(SESSION_HEADER, session);
        }
        Ok(answer)
    }
}

fn answered(reply: Reply, memory: MemoryPermit) -> HttpAnswer {
    match reply {
        Reply::Nothing => empty(StatusCode::ACCEPTED),
        Reply::Message(message, status) => answer::message(message, status),
        Reply::Stream(messages) => answer::streamed(messages, memory),
    }
}

/// Returns the name of the request's MCP session, or an empty text.
fn session_name(head: &Parts) -> &str {
    only(&head.headers, SESSION_HEADER).filter(|name| name.len() <= MAX_SESSION_BYTES).unwrap_or_default()
}

/// Returns a sentence about the header that contradicts the message, if one does.
fn head_mismatch(
    head: &Parts,
    method: &str,
    params: &serde_json::Value,
) -> Result<Option<&'static str>, Rejection> {
    if head.headers.contains_key(METHOD_HEADER) && only(&head.headers, METHOD_HEADER) != Some(method) {
        return Ok(Some("the header Mcp-Method differs from the message's `method`"));
    }
    // An unknown revision gets its own error later, with the list of supported ones.
    let Ok(meta) = RequestMeta::read(params) else { return Ok(None) };
    if method == "initialize" {
        return Ok(None);
    }
    match (&meta.revision, only(&head.headers, VERSION_HEADER)) {
        (Some(revision), Some(named)) if revision != named => {
            Ok(Some("the header MCP-Protocol-Version differs from the revision in `_meta`"))
        }
        _ => guard::is_spoken_by(&head.headers, meta.revision.as_deref()).map(|()| None),
    }
}
