//! Sessions of a client: creating, opening, listing and deleting them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol_schema::v1::{
    DeleteSessionRequest, DeleteSessionResponse, Error, ListSessionsRequest, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionId,
};
use nexus_conversations::{Conversation, ConversationErrorKind, ConversationName};
use nexus_core::ToolAccess;
use nexus_router::Router;
use serde_json::Value;

use super::{AnswerAndUpdates, Connection, answered, configured, not_found};
use crate::{
    failure::{of_configuration, of_conversation},
    incoming::with_reason,
    modes,
    outgoing::lock,
    replay::replay,
    servers::Servers,
    session::Session,
    session_list::list,
    setup::{Setup, blocking, is_unknown},
};

/// Maximum number of open sessions of a client. Source: our own bound.
const MAX_SESSIONS: usize = 1_000;

/// Prefix of the names of sessions that were created here.
const OWN_NAMES: &str = "acp-";

/// A client's request to open a session again.
struct Reopening {
    id: SessionId,
    cwd: PathBuf,
    /// MCP servers in the client's own JSON.
    servers: Value,
}

impl Connection {
    pub(super) async fn new_session(
        self: Arc<Self>,
        request: NewSessionRequest,
        servers: Value,
    ) -> AnswerAndUpdates {
        let cwd = request.cwd.clone();
        let router =
            blocking(&self.setup, move |setup| folder(&cwd).and_then(|()| configured(setup))).await??;
        let wanted = self.setup.options.kind.as_deref();
        let mode = modes::first_kind(&router, wanted).map_err(of_configuration)?;
        let name = format!("{OWN_NAMES}{}", uuid::Uuid::new_v4().simple());
        let name: ConversationName = name.parse().map_err(|error| of_conversation(&error))?;
        let servers = Servers::new(servers, &request.cwd, self.setup.options.tool_call_within);
        let session = Session::new(name, request.cwd, mode, self.setup.options.access, None, servers);
        let session = self.open(session).await?;
        let response = NewSessionResponse::new(session.name.to_string())
            .modes(self.modes(&router, &session))
            .config_options(self.options(&router, &session));
        answered(&response, vec![self.commands(&session)])
    }

    pub(super) async fn load_session(
        self: Arc<Self>,
        request: LoadSessionRequest,
        servers: Value,
    ) -> AnswerAndUpdates {
        let reopening = Reopening { id: request.session_id, cwd: request.cwd, servers };
        let (router, session, conversation) = self.reopen(reopening).await?;
        // No prompt may begin during the replay, because its updates would mix with the earlier messages.
        let replaying = session.begin()?;
        replay(&self.client(&session), &conversation).await;
        drop(replaying);
        let response = LoadSessionResponse::new()
            .modes(self.modes(&router, &session))
            .config_options(self.options(&router, &session));
        answered(&response, vec![self.commands(&session)])
    }

    pub(super) async fn resume_session(
        self: Arc<Self>,
        request: ResumeSessionRequest,
        servers: Value,
    ) -> AnswerAndUpdates {
        let reopening = Reopening { id: request.session_id, cwd: request.cwd, servers };
        let (router, session, _) = self.reopen(reopening).await?;
        let response = ResumeSessionResponse::new()
            .modes(self.modes(&router, &session))
            .config_options(self.options(&router, &session));
        answered(&response, vec![self.commands(&session)])
    }

    /// Opens a stored session, or an open session again, in the folder that the client names now.
    async fn reopen(&self, asked: Reopening) -> Result<(Router, Arc<Session>, Conversation), Error> {
        // Find an open session of this id first: the replaced session must not begin another prompt.
        let open = self.session(&asked.id).ok();
        let replaced = open.as_ref().map(Session::begin).transpose()?;
        let unknown = not_found(&asked.id);
        let name: ConversationName = asked.id.0.parse().map_err(|_| unknown.clone())?;
        let (cwd, of_work, is_open) = (asked.cwd.clone(), name.clone(), open.is_some());
        let (router, conversation, record, is_unreadable) = blocking(&self.setup, move |setup| {
            folder(&cwd)?;
            let conversation = match setup.conversations.load(&of_work) {
                // A session without a stored turn has no conversation yet.
                Err(error) if is_unknown(&error) && is_open => Conversation::default(),
                Err(error) if is_unknown(&error) => return Err(unknown),
                loaded => loaded.map_err(|error| of_conversation(&error))?,
            };
            let record = setup.records.read(&of_work);
            let is_unreadable = record.is_none() && setup.records.has(&of_work);
            Ok((configured(setup)?, conversation, record, is_unreadable))
        })
        .await??;
        let options = &self.setup.options;
        let (mode, access, title) = match (open, record) {
            // An open session may have newer options than its record.
            (Some(open), _) => {
                let state = lock(&open.state);
                (Some(state.mode.clone()), state.access, state.title.clone())
            }
            // This process may allow less than the process that wrote the record.
            (None, Some(record)) => {
                (Some(record.mode), record.access.min(options.access), Some(record.title))
            }
            // The session's access level is unknown, so it gets the lowest level.
            (None, None) if is_unreadable => (None, ToolAccess::ScopedOnly.min(options.access), None),
            (None, None) => (None, options.access, None),
        };
        // If the stored type is missing in the configuration, use the default type and keep the rest.
        let mode = match mode.filter(|mode| modes::check_kind(&router, mode).is_ok()) {
            Some(mode) => mode,
            None => modes::first_kind(&router, options.kind.as_deref()).map_err(of_configuration)?,
        };
        let servers = Servers::new(asked.servers, &asked.cwd, options.tool_call_within);
        let session = self.open(Session::new(name, asked.cwd, mode, access, title, servers)).await?;
        drop(replaced);
        Ok((router, session, conversation))
    }

    pub(super) async fn list_sessions(self: Arc<Self>, request: ListSessionsRequest) -> AnswerAndUpdates {
        let listed = blocking(&self.setup, move |setup| list(&setup.conversations, &setup.records, &request));
        answered(&listed.await?.map_err(|error| of_conversation(&error))?, Vec::new())
    }

    /// Deletes a session with its conversation. The protocol requires success for a missing session.
    pub(super) async fn delete_session(self: Arc<Self>, request: DeleteSessionRequest) -> AnswerAndUpdates {
        let open = self.session(&request.session_id).ok();
        // From here on, no prompt can begin in the session.
        let deleting = open.as_ref().map(Session::begin).transpose()?;
        let done = || answered(&DeleteSessionResponse::new(), Vec::new());
        let Ok(name) = request.session_id.0.parse::<ConversationName>() else { return done() };
        // Only sessions of editors are in the list that the client sees. Do not delete other conversations.
        let (of_hold, is_open) = (name.clone(), open.is_some());
        let held = blocking(&self.setup, move |setup| {
            let is_session =
                is_open || setup.records.has(&of_hold) || of_hold.as_str().starts_with(OWN_NAMES);
            // Read the summary first, because `hold` also accepts a name without a conversation.
            let held = setup.conversations.summary(&of_hold).and_then(|_| setup.conversations.hold(&of_hold));
            match held {
                _ if !is_session => Ok(None),
                Ok(held) => Ok(Some(Some(held))),
                // Delete an unreadable conversation, too.
                Err(error) if is_unknown(&error) || error.kind == ConversationErrorKind::Damaged => {
                    Ok(Some(None))
                }
                Err(error) => Err(of_conversation(&error)),
            }
        })
        .await??;
        let Some(held) = held else { return done() };
        // Forget the vendor's conversation first: only the stored name has the handle.
        if let Some(handle) = held.as_ref().and_then(|held| held.resume()) {
            let forgotten = match blocking(&self.setup, Setup::router).await? {
                Ok(router) => router.forget(handle).await.map(drop).map_err(|error| error.to_string()),
                Err(error) => Err(error),
            };
            // A vendor that cannot be reached must not prevent the deletion.
            if let Err(error) = forgotten {
                tracing::warn!(backend = %handle.backend(), %error, "it may still store its own copy of a \
                    session");
            }
        }
        blocking(&self.setup, move |setup| {
            let deleted = match held {
                Some(held) => held.delete().map(drop),
                None => setup.conversations.delete(&name).map(drop),
            };
            match deleted {
                Err(error) if !is_unknown(&error) => return Err(of_conversation(&error)),
                // Remove the record last: if the deletion fails, the session stays in the list.
                _ => setup.records.remove(&name),
            }
            if let Err(error) = setup.conversations.sweep() {
                tracing::warn!(%error, "the messages of a deleted session are still stored");
            }
            Ok(())
        })
        .await??;
        if let Some(open) = open {
            lock(&self.sessions).retain(|_, other| !Arc::ptr_eq(other, &open));
            open.servers.stop().await;
        }
        drop(deleting);
        done()
    }

    /// Opens a session. Replaces a session of the same name, and ends that session's servers first.
    async fn open(&self, session: Session) -> Result<Arc<Session>, Error> {
        let session = Arc::new(session);
        let former = {
            let mut sessions = lock(&self.sessions);
            if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&session.name) {
                let reason = format!("{MAX_SESSIONS} sessions are open: close some");
                return Err(with_reason(Error::invalid_request(), reason));
            }
            sessions.insert(session.name.clone(), Arc::clone(&session))
        };
        // Outside the lock, because this waits until the programs end.
        if let Some(former) = former {
            former.servers.stop().await;
        }
        Ok(session)
    }
}

/// Checks that a session can work in a folder. Blocks.
fn folder(cwd: &Path) -> Result<(), Error> {
    let reason = match (cwd.is_absolute(), cwd.is_dir()) {
        (true, true) => return Ok(()),
        (false, _) => "is to be absolute",
        (true, false) => "is no folder",
    };
    Err(with_reason(Error::invalid_params(), format!("`cwd` {reason}: {cwd:?}")))
}
