//! The connection of one client: its messages, and its open sessions.

mod sessions;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, AvailableCommandsUpdate, CancelNotification, ClientCapabilities,
        CloseSessionRequest, CloseSessionResponse, ConfigOptionUpdate, CurrentModeUpdate,
        DeleteSessionRequest, Error, Implementation, InitializeRequest, InitializeResponse,
        ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PromptCapabilities, PromptRequest,
        ResumeSessionRequest, SessionCapabilities, SessionCloseCapabilities, SessionConfigOption,
        SessionDeleteCapabilities, SessionId, SessionListCapabilities, SessionModeState,
        SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
        SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
    },
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use nexus_conversations::ConversationName;
use nexus_core::visible::Visible;
use nexus_router::Router;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    failure::of_configuration,
    incoming::{Incoming, params, with_reason},
    modes,
    outgoing::{Outgoing, lock},
    prompt::commands,
    prompt_turn::prompt,
    session::Session,
    session_client::SessionClient,
    setup::{Setup, blocking},
};

/// Connection of one client.
#[derive(Debug)]
pub(crate) struct Connection {
    setup: Arc<Setup>,
    out: Outgoing,
    /// Capabilities of the client. `None` until the client has introduced itself.
    client: Mutex<Option<ClientCapabilities>>,
    sessions: Mutex<HashMap<ConversationName, Arc<Session>>>,
    /// Sessions of the running prompts, by the JSON of their request ids.
    prompts: Mutex<HashMap<String, Arc<Session>>>,
    /// Prefix of this connection's ids, because a client may still have ids of an earlier connection.
    prefix: String,
    /// Number of prompts so far.
    prompted: AtomicU64,
}

/// Answer of a request, and the updates to send after it.
type AnswerAndUpdates = Result<(Value, Vec<(SessionClient, SessionUpdate)>), Error>;

/// Future of an answer.
type AnswerFuture = BoxFuture<'static, AnswerAndUpdates>;

impl Connection {
    pub(crate) fn new(setup: Arc<Setup>, out: Outgoing) -> Self {
        Self {
            setup,
            out,
            client: Mutex::default(),
            sessions: Mutex::default(),
            prompts: Mutex::default(),
            prefix: uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect(),
            prompted: AtomicU64::new(0),
        }
    }

    /// Handles a message. The returned future does the rest of the work; run it to completion, concurrently with others.
    pub(crate) fn receive(self: &Arc<Self>, message: Incoming) -> Option<BoxFuture<'static, ()>> {
        match message {
            Incoming::Response { id, outcome } => self.out.answered(&id, outcome),
            Incoming::Notification { method, params } => self.notified(&method, params),
            Incoming::Request { id, method, params } => {
                // Begin here and not in the future, so that requests take effect in the order of their lines.
                let work = self.requested(&id, &method, params);
                let connection = Arc::clone(self);
                return Some(Box::pin(async move { connection.answer(id, work).await }));
            }
        }
        None
    }

    /// Cancels every prompt.
    pub(crate) fn cancel_all(&self) {
        lock(&self.sessions).values().for_each(|session| session.cancel());
        lock(&self.prompts).values().for_each(|session| session.cancel());
    }

    /// Ends the servers of all sessions.
    pub(crate) async fn stop_servers(&self) {
        let sessions: Vec<Arc<Session>> = lock(&self.sessions).drain().map(|(_, session)| session).collect();
        join_all(sessions.iter().map(|session| session.servers.stop())).await;
    }

    async fn answer(&self, id: Value, work: Result<AnswerFuture, Error>) {
        let answer = match work {
            // The client waits for an answer, so a panic must produce one, too.
            Ok(work) => AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| {
                tracing::error!("a request of the client ended in a panic");
                Err(Error::internal_error())
            }),
            Err(error) => Err(error),
        };
        match answer {
            Ok((result, updates)) => {
                // Send the updates after the answer: the client does not know a new session before it.
                self.out.answer(&id, &Ok(result));
                updates.into_iter().for_each(|(client, update)| client.update(update));
            }
            Err(error) => self.out.answer(&id, &Err(error)),
        }
    }

    fn notified(&self, method: &str, value: Value) {
        match method {
            "session/cancel" => {
                let cancelled = params::<CancelNotification>(value);
                if let Ok(session) = cancelled.and_then(|cancel| self.session(&cancel.session_id)) {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                let id = value.get("requestId").map(Value::to_string).unwrap_or_default();
                if let Some(session) = lock(&self.prompts).get(&id) {
                    session.cancel();
                }
            }
            _ => tracing::debug!("a notification of the client is unknown"),
        }
    }

    /// Begins a request. Work that depends on the order of requests happens here, and the rest in the returned future.
    fn requested(self: &Arc<Self>, id: &Value, method: &str, value: Value) -> Result<AnswerFuture, Error> {
        if method == "initialize" {
            let answer = self.initialize(&params(value)?);
            return Ok(Box::pin(async move { answer }));
        }
        if lock(&self.client).is_none() {
            return Err(with_reason(Error::invalid_request(), "send `initialize` first"));
        }
        let this = Arc::clone(self);
        Ok(match method {
            "authenticate" => {
                let reason = "authentication is not supported here: log in with the vendor's own program or \
                    with `nexus login`";
                return Err(with_reason(Error::invalid_params(), reason));
            }
            "session/new" => {
                let (value, servers) = without_servers(value);
                let request: NewSessionRequest = params(value)?;
                Box::pin(async move { this.new_session(request, servers).await })
            }
            "session/load" => {
                let (value, servers) = without_servers(value);
                let request: LoadSessionRequest = params(value)?;
                Box::pin(async move { this.load_session(request, servers).await })
            }
            "session/resume" => {
                let (value, servers) = without_servers(value);
                let request: ResumeSessionRequest = params(value)?;
                Box::pin(async move { this.resume_session(request, servers).await })
            }
            "session/list" => {
                let request: ListSessionsRequest = params(value)?;
                Box::pin(async move { this.list_sessions(request).await })
            }
            "session/delete" => {
                let request: DeleteSessionRequest = params(value)?;
                Box::pin(async move { this.delete_session(request).await })
            }
            "session/close" => {
                let request: CloseSessionRequest = params(value)?;
                let session = self.session(&request.session_id)?;
                session.cancel();
                Box::pin(async move {
                    // Let the cancelled prompt store its turn first.
                    session.idle().await;
                    // A new prompt may have begun meanwhile; then the request fails as busy.
                    let closing = session.begin()?;
                    // Compare the session itself, because another request may have replaced it under the same name.
                    lock(&this.sessions).retain(|_, open| !Arc::ptr_eq(open, &session));
                    session.servers.stop().await;
                    drop(closing);
                    answered(&CloseSessionResponse::new(), Vec::new())
                })
            }
            "session/set_mode" => {
                let request: SetSessionModeRequest = params(value)?;
                let session = self.session(&request.session_id)?;
                self.set(session, modes::MODE, &request.mode_id.0, true)?
            }
            "session/set_config_option" => {
                let request: SetSessionConfigOptionRequest = params(value)?;
                let session = self.session(&request.session_id)?;
                let value = request.value.as_value_id().ok_or_else(|| unknown_option("a text"))?;
                self.set(session, &request.config_id.0, &value.0, false)?
            }
            "session/prompt" => {
                let request: PromptRequest = params(value)?;
                self.prompt(id, request)?
            }
            _ => return Err(with_reason(Error::method_not_found(), "there is no such method")),
        })
    }

    fn initialize(&self, request: &InitializeRequest) -> AnswerAndUpdates {
        *lock(&self.client) = Some(request.client_capabilities.clone());
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .delete(SessionDeleteCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .session_capabilities(sessions);
        let response = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("nexus", env!("CARGO_PKG_VERSION")).title("Nexus".to_owned()));
        answered(&response, Vec::new())
    }

    /// Sets an option for the next prompt.
    fn set(
        &self,
        session: Arc<Session>,
        option: &str,
        value: &str,
        is_mode: bool,
    ) -> Result<AnswerFuture, Error> {
        // Read the configuration here and not in the future: the next message may be the prompt that this option is for.
        let router = configured(&self.setup)?;
        let most = self.setup.options.access;
        match option {
            modes::MODE => {
                modes::check_kind(&router, value)
                    .map_err(|reason| with_reason(Error::invalid_params(), reason))?;
                value.clone_into(&mut lock(&session.state).mode);
            }
            modes::ACCESS => {
                let level =
                    modes::level(value, most).ok_or_else(|| unknown_option("one of those offered"))?;
                lock(&session.state).access = level;
            }
            _ => return Err(with_reason(Error::invalid_params(), "there is no such option")),
        }
        let client = self.client(&session);
        let options = self.options(&router, &session);
        let mode = lock(&session.state).mode.clone();
        let mut updates = Vec::new();
        if option == modes::MODE {
            let update = CurrentModeUpdate::new(mode);
            updates.push((client.clone(), SessionUpdate::CurrentModeUpdate(update)));
        }
        // Only the answer of `session/set_config_option` contains the options, so `session/set_mode` sends an update.
        let response = match is_mode {
            true => {
                let update = ConfigOptionUpdate::new(options);
                updates.push((client, SessionUpdate::ConfigOptionUpdate(update)));
                value_of(&SetSessionModeResponse::new())?
            }
            false => value_of(&SetSessionConfigOptionResponse::new(options))?,
        };
        let setup = Arc::clone(&self.setup);
        Ok(Box::pin(async move {
            blocking(&setup, move |setup| session.store(&setup.records)).await?;
            Ok((response, updates))
        }))
    }

    fn prompt(self: &Arc<Self>, id: &Value, request: PromptRequest) -> Result<AnswerFuture, Error> {
        let session = self.session(&request.session_id)?;
        let running = session.begin()?;
        let listed = ListedPrompt::new(Arc::clone(self), id.to_string(), &session);
        let prefix = format!("{}-{}", self.prefix, self.prompted.fetch_add(1, Ordering::Relaxed) + 1);
        let this = Arc::clone(self);
        Ok(Box::pin(async move {
            let client = this.client(&session);
            let outcome = prompt(&this.setup, &client, &running, prefix, request.prompt).await;
            // Release these before the answer: a client may send the next prompt as soon as it has the answer.
            drop((listed, running));
            answered(&outcome?, Vec::new())
        }))
    }

    fn session(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        let name = id.0.parse::<ConversationName>().ok();
        let session = name.and_then(|name| lock(&self.sessions).get(&name).cloned());
        session.ok_or_else(|| not_found(id))
    }

    fn client(&self, session: &Session) -> SessionClient {
        let id = SessionId::new(session.name.to_string());
        SessionClient::new(self.out.clone(), id, lock(&self.client).as_ref())
    }

    fn commands(&self, session: &Session) -> (SessionClient, SessionUpdate) {
        let update = AvailableCommandsUpdate::new(commands());
        (self.client(session), SessionUpdate::AvailableCommandsUpdate(update))
    }

    fn modes(&self, router: &Router, session: &Session) -> SessionModeState {
        modes::modes(router, &lock(&session.state).mode)
    }

    fn options(&self, router: &Router, session: &Session) -> Vec<SessionConfigOption> {
        let state = lock(&session.state);
        modes::options(router, &state.mode, state.access, self.setup.options.access)
    }
}

/// A prompt that can be cancelled by the id of its request, until this is dropped.
struct ListedPrompt {
    connection: Arc<Connection>,
    id: String,
}

impl ListedPrompt {
    fn new(connection: Arc<Connection>, id: String, session: &Arc<Session>) -> Self {
        lock(&connection.prompts).insert(id.clone(), Arc::clone(session));
        Self { connection, id }
    }
}

impl Drop for ListedPrompt {
    fn drop(&mut self) {
        lock(&self.connection.prompts).remove(&self.id);
    }
}

/// Removes the servers from the parameters of a session. They are parsed one by one, so that an unreadable server does not
/// fail the session.
fn without_servers(mut value: Value) -> (Value, Value) {
    let servers = match &mut value {
        Value::Object(object) => object.insert("mcpServers".to_owned(), json!([])).unwrap_or_default(),
        _ => Value::Null,
    };
    (value, servers)
}

fn configured(setup: &Setup) -> Result<Router, Error> {
    setup.router().map_err(of_configuration)
}

/// Returns the error for a session that does not exist or is not open.
fn not_found(id: &SessionId) -> Error {
    // The client chose the id, so it may be long.
    let shown: String = Visible(&id.0).to_string().chars().take(200).collect();
    with_reason(
        Error::session_not_found(id.clone()),
        format!("the session {shown} is not open and not stored"),
    )
}

fn unknown_option(what: &str) -> Error {
    with_reason(Error::invalid_params(), format!("the value of the option must be {what}"))
}

fn value_of(response: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(response).map_err(Error::into_internal_error)
}

fn answered(response: &impl Serialize, updates: Vec<(SessionClient, SessionUpdate)>) -> AnswerAndUpdates {
    Ok((value_of(response)?, updates))
}
