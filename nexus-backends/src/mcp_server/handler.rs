//! Where requests are answered.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::future::abortable;
use http_body_util::BodyExt as _;
use hyper::{Request, StatusCode, body::Incoming, header::HeaderValue, http::request::Parts};
use nexus_core::{CallId, Session, SessionToken, ToolResult};
use rmcp::model::{ErrorData, RequestId};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::activity::CallActivity;
use super::address::LoopbackAddress;
use super::clients::Clients;
use super::guard::{Intent, MAX_BODY_BYTES, Refusal, SESSION_HEADER, VERSION_HEADER, identify, intent, only};
use super::memory::{MemoryPermit, MessageMemory, MessageTooLarge, read_bytes};
use super::permit::{ConnectionPermit, MAX_AUTHENTICATED};
use super::response::McpResponse;
use super::wire::{Called, Message};
use super::{response, wire};

/// How long a body may take to come, and to find room. Source: our own choice: a program on this machine needs none.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers the requests of a session's programs.
pub(super) struct RequestHandler {
    session: Arc<Session>,
    address: LoopbackAddress,
    activity: Arc<CallActivity>,
    clients: Mutex<Clients>,
    permits: Arc<Semaphore>,
    memory: MessageMemory,
    calls: AtomicU64,
}

impl RequestHandler {
    pub(super) fn new(session: Arc<Session>, address: LoopbackAddress) -> Self {
        Self {
            session,
            address,
            activity: Arc::default(),
            clients: Mutex::default(),
            permits: Arc::new(Semaphore::new(MAX_AUTHENTICATED)),
            memory: MessageMemory::new(),
            calls: AtomicU64::new(1),
        }
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    #[cfg(feature = "cli")]
    pub(super) fn activity(&self) -> &Arc<CallActivity> {
        &self.activity
    }

    /// Answers one request.
    pub(super) async fn respond(
        self: &Arc<Self>,
        request: Request<Incoming>,
        permit: &ConnectionPermit,
    ) -> Result<McpResponse, Infallible> {
        let answered = self.answer(request, permit).await;
        Ok(answered.unwrap_or_else(|refusal| {
            tracing::debug!(?refusal, "a request to the tools was turned away");
            response::refused(refusal)
        }))
    }

    async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        permit: &ConnectionPermit,
    ) -> Result<McpResponse, Refusal> {
        let (head, body) = request.into_parts();
        let token = identify(&head, self.address, &self.session)?;
        if !permit.take(&self.permits) {
            return Err(Refusal::Busy);
        }
        match intent(&head, self.address)? {
            Intent::End => Ok(self.end_client(&head)),
            Intent::Message => {
                let (message, held) = self.read(body).await?;
                Ok(self.message(&head, message, held, token))
            }
        }
    }

    /// Reads a body, as far as there is room for it. The room is the message's for as long as it is held.
    async fn read(
        &self,
        mut body: Incoming,
    ) -> Result<(Result<Message, wire::Unreadable>, MemoryPermit), Refusal> {
        let too_large = |MessageTooLarge| Refusal::TooLarge;
        let read = async {
            let mut held = self.memory.hold();
            let mut whole = BytesMut::new();
            while let Some(frame) = body.frame().await {
                // Trailers say nothing that is asked for.
                let Ok(piece) = frame.map_err(|_broken| Refusal::Unread)?.into_data() else { continue };
                let bytes = whole.len() + piece.len();
                if bytes > MAX_BODY_BYTES {
                    return Err(Refusal::TooLarge);
                }
                held.grow_to(bytes).await.map_err(too_large)?;
                whole.extend_from_slice(&piece);
            }
            held.grow_to(read_bytes(&whole)).await.map_err(too_large)?;
            Ok((Message::read(&whole), held))
        };
        tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or(Err(Refusal::Unread))
    }

    fn message(
        self: &Arc<Self>,
        head: &Parts,
        message: Result<Message, wire::Unreadable>,
        held: MemoryPermit,
        token: SessionToken,
    ) -> McpResponse {
        match message {
            Err(unreadable) => response::error(StatusCode::BAD_REQUEST, unreadable.id, unreadable.error),
            Ok(Message::Request { id, method, params, flaw }) => match method.as_str() {
                "initialize" => self.initialize(id, &params),
                "ping" => response::result(id, json!({})),
                "tools/list" => match self.client(head) {
                    Ok(_) => {
                        self.activity.listed();
                        response::result(id, wire::listed(self.session.definitions()))
                    }
                    Err(no_client) => no_client.answer(Some(id)),
                },
                "tools/call" => match (self.client(head), Called::read(params, flaw)) {
                    (Err(no_client), _) => no_client.answer(Some(id)),
                    (_, Err(error)) => response::error(StatusCode::OK, Some(id), error),
                    (Ok(client), Ok(called)) => self.call(client, id, (called, held), token),
                },
                _ => response::error(StatusCode::OK, Some(id), wire::unknown_method()),
            },
            Ok(Message::Notification { method, params }) => match self.client(head) {
                Ok(client) => {
                    if method == "notifications/cancelled"
                        && let Some(request) = wire::cancelled(&params)
                    {
                        self.clients().cancel(client, &request);
                    }
                    response::empty(StatusCode::ACCEPTED)
                }
                Err(no_client) => no_client.answer(None),
            },
            Ok(Message::Answer) => response::empty(StatusCode::ACCEPTED),
        }
    }

    fn initialize(&self, id: RequestId, params: &Value) -> McpResponse {
        let result = match wire::initialized(params) {
            Ok(result) => result,
            Err(error) => return response::error(StatusCode::OK, Some(id), error),
        };
        let client = self.clients().begin();
        let mut answer = response::result(id, result);
        if let Ok(name) = HeaderValue::try_from(client.to_string()) {
            answer.headers_mut().insert(SESSION_HEADER, name);
        }
        answer
    }

    /// The client whose MCP session a request is part of.
    fn client(&self, head: &Parts) -> Result<Uuid, NoClient> {
        if head.headers.contains_key(VERSION_HEADER)
            && !only(&head.headers, VERSION_HEADER).is_some_and(wire::is_spoken)
        {
            return Err(NoClient::OtherRevision);
        }
        if !head.headers.contains_key(SESSION_HEADER) {
            return Err(NoClient::NoSession);
        }
        let named = only(&head.headers, SESSION_HEADER).and_then(|name| self.clients().find(name));
        named.ok_or(NoClient::UnknownSession)
    }

    fn end_client(&self, head: &Parts) -> McpResponse {
        match self.client(head) {
            Ok(client) => {
                self.clients().end(client);
                response::empty(StatusCode::NO_CONTENT)
            }
            Err(no_client) => no_client.answer(None),
        }
    }

    /// Has a call decided on and answered. Dropping the answer drops the tool that runs.
    fn call(
        self: &Arc<Self>,
        client: Uuid,
        id: RequestId,
        (called, held): (Called, MemoryPermit),
        token: SessionToken,
    ) -> McpResponse {
        let call = CallId::new(format!("mcp-{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        let (answered, end) = abortable(Arc::clone(self).pass(call, called, token));
        if !self.clients().call_begins(client, &id, end) {
            let error = ErrorData::invalid_request("a request of this id is under way", None);
            return response::error(StatusCode::OK, Some(id), error);
        }
        let pending = AwaitedCall { handler: Arc::clone(self), client, id };
        response::once_there(async move {
            let _held = held;
            let result = answered.await.ok()?;
            Some(pending.answer(result))
        })
    }

    /// Takes one call to the session.
    async fn pass(self: Arc<Self>, call: CallId, called: Called, token: SessionToken) -> ToolResult {
        let Called { tool, arguments, flaw } = called;
        let _place = self.session.in_order(&tool).await;
        let decided = match flaw {
            Some(flaw) => Err(self.session.deny_flawed(&token, &tool, &arguments, &flaw)),
            None => self.session.authorize(&token, &tool, &arguments),
        };
        // The tool has its own.
        drop(arguments);
        self.activity.decided();
        match decided {
            Ok(permit) => {
                let _running = self.activity.running();
                self.session.answer(call, permit).await
            }
            Err(denial) => Err(denial),
        }
        .unwrap_or_else(|denial| ToolResult::error(denial.to_string()))
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request is no client's.
#[derive(Clone, Copy, Debug)]
enum NoClient {
    OtherRevision,
    NoSession,
    UnknownSession,
}

impl NoClient {
    fn answer(self, id: Option<RequestId>) -> McpResponse {
        let (status, words) = match self {
            Self::OtherRevision => (StatusCode::BAD_REQUEST, "this revision of the protocol is not spoken"),
            Self::NoSession => (StatusCode::BAD_REQUEST, "the request names no MCP session"),
            Self::UnknownSession => (StatusCode::NOT_FOUND, "there is no such MCP session"),
        };
        response::error(status, id, ErrorData::invalid_request(words, None))
    }
}

/// Call that a client waits for.
struct AwaitedCall {
    handler: Arc<RequestHandler>,
    client: Uuid,
    id: RequestId,
}

impl AwaitedCall {
    fn answer(self, result: ToolResult) -> Bytes {
        response::result_message(self.id.clone(), wire::answered(result))
    }
}

impl Drop for AwaitedCall {
    fn drop(&mut self) {
        self.handler.clients().call_ends(self.client, &self.id);
    }
}
