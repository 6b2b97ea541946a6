//! Answers messages of any transport.

use std::sync::Arc;

use futures::future::BoxFuture;
use nexus_core::CancelToken;
use rmcp::model::{CallToolResult, ErrorCode, ErrorData, RequestId, Tool};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::{
    call::{RunningCall, WaitGuard, answer_of},
    context::{CallContext, CallProgress},
    deferred::SharedDeferredCalls,
    in_flight::InFlight,
    message::{Incoming, NotUnderstood, flawed},
    questions::Questions,
    reply::{Reply, ReplyStatus, ReplyStream},
    roots::{ClientRoots, RootsSource},
    service::{CallAnswer, JsonObject, ServiceInfo, ToolService},
    session_tools::SessionTools,
    wire::{self, RequestMeta},
};

/// Maximum number of calls that run at once. Source: our own bound; a typical client runs a few.
const MAX_CALLS: usize = 128;
/// Maximum number of messages of one call that wait for its client to read them.
const UNREAD_MESSAGES: usize = 16;

/// Facts that a transport knows about the client that sent a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSide {
    /// Name of the connection or MCP session. It separates equal request ids of two clients.
    pub(crate) session: String,
    /// True if the client announced roots in `initialize` and can answer requests.
    pub(crate) offers_roots: bool,
}

/// The tools that an endpoint serves.
enum ServedTools {
    /// Tools of a service. Their calls continue to their end after the client leaves.
    Service(Arc<dyn ToolService>),
    /// Tools of a session. Their calls end with the wait, and no task is spawned.
    Session(Arc<SessionTools>),
}

/// Answers messages for one service or one session.
pub(crate) struct Endpoint {
    served: ServedTools,
    info: ServiceInfo,
    tools: Vec<Tool>,
    /// Names of tools whose calls may take long.
    long: Vec<String>,
    in_flight: Arc<InFlight>,
    questions: Arc<Questions>,
    deferred: SharedDeferredCalls,
    permits: Arc<Semaphore>,
    /// Cancelled once the server ends.
    ending: CancelToken,
}

impl Endpoint {
    pub(crate) fn new(service: Arc<dyn ToolService>) -> Self {
        let tools = service.tools();
        let listed = tools.iter().map(wire::tool).collect();
        let long = tools.into_iter().filter(|tool| tool.may_take_long).map(|tool| tool.name).collect();
        Self::of(service.info(), listed, long, ServedTools::Service(service))
    }

    pub(crate) fn of_session(tools: Arc<SessionTools>) -> Self {
        Self::of(tools.info(), tools.listed(), Vec::new(), ServedTools::Session(tools))
    }

    fn of(info: ServiceInfo, tools: Vec<Tool>, long: Vec<String>, served: ServedTools) -> Self {
        Self {
            served,
            info,
            tools,
            long,
            in_flight: Arc::default(),
            questions: Arc::default(),
            deferred: SharedDeferredCalls::default(),
            permits: Arc::new(Semaphore::new(MAX_CALLS)),
            ending: CancelToken::new(),
        }
    }

    /// Ends all waits, and lets the service end the work that its calls began.
    pub(crate) async fn stop(&self) {
        self.ending.cancel();
        if let ServedTools::Service(service) = &self.served {
            service.stop().await;
        }
    }

    /// Ends all waits of a client that ends its MCP session.
    pub(crate) fn end_session(&self, session: &str) {
        // All clients without an MCP session share the empty name, so none of them may end the waits of
        // another.
        if !session.is_empty() {
            self.in_flight.end(session);
        }
    }

    /// Answers a malformed message.
    pub(crate) fn refuse(refused: NotUnderstood) -> Reply {
        Reply::Message(wire::error_message(refused.id, refused.error), ReplyStatus::BadRequest)
    }

    /// Answers one message. Never waits.
    pub(crate) fn receive(&self, message: Incoming, client: &ClientSide) -> Reply {
        match message {
            Incoming::Request { id, method, params, flaw } => match RequestMeta::read(&params) {
                Ok(meta) if method == "tools/call" => self.call(id, params, flaw, meta, client),
                Ok(meta) => self.request(id, &method, &params, &meta, client),
                Err(error) => Reply::error(id, error, true),
            },
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                    && let Ok(id) = serde_json::from_value(id.clone())
                {
                    self.in_flight.cancel(&client.session, &id);
                }
                Reply::Nothing
            }
            Incoming::Answer { id, result } => {
                self.questions.answered(&id, result);
                Reply::Nothing
            }
        }
    }

    fn request(
        &self,
        id: RequestId,
        method: &str,
        params: &Value,
        meta: &RequestMeta,
        client: &ClientSide,
    ) -> Reply {
        let names_itself = meta.names_itself;
        match method {
            "initialize" => Reply::result(id, wire::initialized(params, &self.info)),
            "server/discover" => Reply::result(
                id,
                wire::discovered(&self.info, matches!(self.served, ServedTools::Service(_))),
            ),
            "ping" => Reply::result(id, wire::nothing(meta)),
            "tools/list" => match params.get("cursor") {
                None | Some(Value::Null) => {
                    // Some backends send the prompt only after the vendor's program has listed the tools.
                    if let ServedTools::Session(tools) = &self.served {
                        tools.activity().listed();
                    }
                    Reply::result(id, wire::listed(&self.tools, meta))
                }
                Some(_) => {
                    let problem = "this `cursor` does not exist: all tools are listed in one answer, without \
                        a cursor";
                    Reply::error(id, ErrorData::invalid_params(problem, None), names_itself)
                }
            },
            "tasks/get" => either(id, self.deferred.fetched(params), names_itself),
            "tasks/cancel" => either(id, self.deferred.cancelled(params), names_itself),
            "tasks/update" => either(id, self.deferred.updated(params), names_itself),
            "subscriptions/listen" => self.listen(id, client),
            other => {
                let served =
                    "initialize, server/discover, ping, tools/list, tools/call, tasks/get, tasks/cancel";
                let mut named = other.to_owned();
                // The name is the client's, and may have any length.
                named.truncate(named.floor_char_boundary(100));
                let problem = format!("unknown method {named:?}; the server supports {served}");
                Reply::error(id, ErrorData::new(ErrorCode::METHOD_NOT_FOUND, problem, None), names_itself)
            }
        }
    }

    fn call(
        &self,
        id: RequestId,
        params: Value,
        flaw: Option<String>,
        meta: RequestMeta,
        client: &ClientSide,
    ) -> Reply {
        let names_itself = meta.names_itself;
        let Value::Object(mut params) = params else {
            return Reply::error(id, nameless(), names_itself);
        };
        let Some(Value::String(tool)) = params.remove("name") else {
            return Reply::error(id, nameless(), names_itself);
        };
        // Report a mistake of the model as a result, because some clients do not show protocol errors to the
        // model.
        let refuse = |problem: String| {
            let result = wire::in_revision(wire::called(CallAnswer::error(problem)), &meta);
            Reply::result(id.clone(), result)
        };
        // This function never waits, so a call beyond the limit is refused.
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return refuse(format!(
                "{MAX_CALLS} calls are running, which is the limit: call {tool} again soon"
            ));
        };
        let (questions, roots) = mpsc::channel(1);
        let arguments = params.remove("arguments").unwrap_or_default();
        let roots_source = match self.served {
            ServedTools::Service(_) => roots_source(&params, &meta, client, questions),
            ServedTools::Session(_) => RootsSource::None,
        };
        let context = CallContext::new(CallProgress::default(), self.ending.child(), roots_source);
        // Subscribe before the call begins, so that its first line is not lost.
        let lines = context.progress().lines();
        let is_long = self.long.contains(&tool);
        let (running, task): (BoxFuture<'static, CallToolResult>, _) = match &self.served {
            // The session checks the tool and the arguments, and records its decision.
            ServedTools::Session(tools) => {
                let call = Arc::clone(tools).call(tool, arguments, flaw);
                let call = async move {
                    let _permit = permit;
                    call.await
                };
                (Box::pin(call), None)
            }
            ServedTools::Service(service) => {
                if let Some(flaw) = flaw {
                    return Self::refuse(flawed(id, &flaw));
                }
                if !self.tools.iter().any(|known| known.name == tool) {
                    return Reply::error(id, self.unknown_tool(tool), names_itself);
                }
                let arguments = match arguments {
                    Value::Null => JsonObject::new(),
                    Value::Object(arguments) => arguments,
                    other => {
                        let kind = kind_of(&other);
                        return refuse(format!(
                            "the arguments of {tool} are {kind}; they must be one JSON object: {{…}}"
                        ));
                    }
                };
                let (service, name, of_call) = (Arc::clone(service), tool.clone(), context.clone());
                let task = tokio::spawn(async move {
                    // The permit belongs to the work, which continues after its client has left.
                    let _permit = permit;
                    service.call(&name, arguments, of_call).await
                });
                let handle = task.abort_handle();
                (Box::pin(async move { wire::called(answer_of(task.await, &tool)) }), Some(handle))
            }
        };
        let (messages, unread) = mpsc::channel(UNREAD_MESSAGES);
        // Before the reply is returned, so that a cancellation that follows at once finds the call.
        let waiting = self.in_flight.begin(&client.session, &id);
        let call = RunningCall {
            id,
            lines,
            deferred: (meta.takes_tasks && is_long).then(|| Arc::clone(&self.deferred)),
            meta,
            running,
            task,
            waiting: WaitGuard::new(&context),
            context,
            roots,
            questions: Arc::clone(&self.questions),
            messages,
        };
        let work = Box::pin(call.wait(waiting.end().clone()));
        Reply::Stream(ReplyStream::new(unread, work, waiting))
    }

    fn unknown_tool(&self, mut named: String) -> ErrorData {
        named.truncate(named.floor_char_boundary(100));
        let known: Vec<_> = self.tools.iter().map(|tool| &*tool.name).collect();
        let problem = format!("unknown tool {named:?}; the tools are {}", known.join(", "));
        ErrorData::invalid_params(problem, Some(json!({ "tools": known })))
    }

    /// Answers a client that subscribes to changes. The lists of this server never change, so the client gets
    /// a confirmation and nothing more until it leaves.
    fn listen(&self, id: RequestId, client: &ClientSide) -> Reply {
        let (messages, unread) = mpsc::channel(1);
        let waiting = self.in_flight.begin(&client.session, &id);
        let (end, ending) = (waiting.end().cancelled(), self.ending.cancelled());
        let work = Box::pin(async move {
            let _ = messages.send(wire::nothing_to_listen_for(&id)).await;
            tokio::select! {
                () = end => {}
                () = ending => {}
            }
        });
        Reply::Stream(ReplyStream::new(unread, work, waiting))
    }
}

/// Returns the source of the client's roots, which depends on the protocol revision.
fn roots_source(
    params: &JsonObject,
    meta: &RequestMeta,
    client: &ClientSide,
    questions: mpsc::Sender<super::roots::RootsQuestion>,
) -> RootsSource {
    let answer = params.get("inputResponses").and_then(|inputs| inputs.get(wire::ROOTS_INPUT));
    match answer {
        Some(answer) if meta.names_itself => RootsSource::Known(ClientRoots::read(answer)),
        // The client sent the call again without roots. Do not request them a second time.
        _ if meta.names_itself && params.contains_key("inputResponses") => {
            RootsSource::Known(ClientRoots::NoAnswer)
        }
        _ if meta.offers_roots || (!meta.names_itself && client.offers_roots) => {
            RootsSource::asked(questions)
        }
        _ => RootsSource::None,
    }
}

fn nameless() -> ErrorData {
    ErrorData::invalid_params("`tools/call` needs the `name` of a tool, a string", None)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn either(id: RequestId, answer: Result<impl serde::Serialize, ErrorData>, names_itself: bool) -> Reply {
    match answer {
        Ok(result) => Reply::result(id, result),
        Err(error) => Reply::error(id, error, names_itself),
    }
}
