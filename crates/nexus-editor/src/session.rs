//! A session that is open on a connection.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agent_client_protocol_schema::v1::Error;
use nexus_conversations::ConversationName;
use nexus_core::{CancelToken, ToolAccess};
use serde_json::json;

use crate::{
    incoming::with_reason,
    outgoing::lock,
    record::{SessionRecord, SessionRecords},
    servers::Servers,
};

/// A session that is open on a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: ConversationName,
    pub(crate) cwd: PathBuf,
    /// The MCP servers that the client named.
    pub(crate) servers: Servers,
    pub(crate) state: Mutex<SessionState>,
    /// Held while the record is written, so that the last state is what stays.
    writing: Mutex<()>,
}

/// Mutable state of a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    /// The type of the configuration that takes the next prompt.
    pub(crate) mode: String,
    pub(crate) access: ToolAccess,
    /// The first words; `None` until a prompt was stored.
    pub(crate) title: Option<String>,
    /// The reduced access level that was last reported to the person, and its mode.
    pub(crate) told_level: Option<(String, ToolAccess)>,
    running: Option<PromptSignals>,
}

/// Signals of a running prompt: to cancel it, and that it has ended.
#[derive(Clone, Debug)]
struct PromptSignals {
    cancel: CancelToken,
    /// Cancelled once the prompt is answered.
    done: CancelToken,
}

impl Session {
    pub(crate) fn new(
        name: ConversationName,
        cwd: PathBuf,
        mode: String,
        access: ToolAccess,
        title: Option<String>,
        servers: Servers,
    ) -> Self {
        let state = SessionState { mode, access, title, told_level: None, running: None };
        Self { name, cwd, servers, state: Mutex::new(state), writing: Mutex::new(()) }
    }

    /// Begins a prompt, or what no prompt may run beside, which ends when what is returned is dropped.
    ///
    /// # Errors
    ///
    /// Another one runs.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<RunningPrompt, Error> {
        let mut state = lock(&self.state);
        if state.running.is_some() {
            return Err(busy());
        }
        let (cancel, done) = (CancelToken::new(), CancelToken::new());
        state.running = Some(PromptSignals { cancel: cancel.clone(), done: done.clone() });
        Ok(RunningPrompt { session: Arc::clone(self), cancel, done })
    }

    /// Cancels the prompt that runs, if one does.
    pub(crate) fn cancel(&self) {
        if let Some(running) = &lock(&self.state).running {
            running.cancel.cancel();
        }
    }

    /// Waits until no prompt runs.
    pub(crate) async fn idle(&self) {
        let done = lock(&self.state).running.as_ref().map(|running| running.done.clone());
        if let Some(done) = done {
            done.cancelled().await;
        }
    }

    /// Writes the record, if the session has a prompt that is stored. Blocks.
    pub(crate) fn store(&self, records: &SessionRecords) {
        let _writing = lock(&self.writing);
        let record = {
            let state = lock(&self.state);
            let Some(title) = state.title.clone() else { return };
            SessionRecord { cwd: self.cwd.clone(), mode: state.mode.clone(), access: state.access, title }
        };
        if let Err(error) = records.write(&self.name, &record) {
            tracing::warn!(name = %self.name, %error, "the session will not be listed: its record cannot be written");
        }
    }
}

/// A prompt that runs in a session.
#[derive(Debug)]
pub(crate) struct RunningPrompt {
    pub(crate) session: Arc<Session>,
    pub(crate) cancel: CancelToken,
    done: CancelToken,
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        lock(&self.session.state).running = None;
        self.done.cancel();
    }
}

/// The session has a prompt that runs.
fn busy() -> Error {
    with_reason(
        Error::invalid_request(),
        "a prompt is running in this session: wait for its answer, or \
        cancel it",
    )
    .data(json!({ "kind": "busy" }))
}
