//! An open session of a connection.

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

/// An open session of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: ConversationName,
    pub(crate) cwd: PathBuf,
    /// MCP servers that the client named, and those of the configuration.
    pub(crate) servers: Servers,
    pub(crate) state: Mutex<SessionState>,
    /// Locked while the record is written, so that the newest state is written last.
    writing: Mutex<()>,
}

/// Mutable state of a session.
#[derive(Debug)]
pub(crate) struct SessionState {
    /// Type of the configuration for the next prompt.
    pub(crate) mode: String,
    pub(crate) access: ToolAccess,
    /// Beginning of the first prompt. `None` until a prompt is stored.
    pub(crate) title: Option<String>,
    /// The reduced access level that was last reported to the person, and its mode.
    pub(crate) told_level: Option<(String, ToolAccess)>,
    running: Option<PromptSignals>,
}

/// Signals of a running prompt.
#[derive(Clone, Debug)]
struct PromptSignals {
    cancel: CancelToken,
    /// Cancelled when the prompt has been answered.
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

    /// Begins a prompt, or another action that no prompt may overlap. It ends when the returned value is dropped.
    ///
    /// # Errors
    ///
    /// Another prompt or action is running.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<RunningPrompt, Error> {
        let mut state = lock(&self.state);
        if state.running.is_some() {
            return Err(busy());
        }
        let (cancel, done) = (CancelToken::new(), CancelToken::new());
        state.running = Some(PromptSignals { cancel: cancel.clone(), done: done.clone() });
        Ok(RunningPrompt { session: Arc::clone(self), cancel, done })
    }

    /// Cancels the running prompt, if any.
    pub(crate) fn cancel(&self) {
        if let Some(running) = &lock(&self.state).running {
            running.cancel.cancel();
        }
    }

    /// Waits until no prompt is running.
    pub(crate) async fn idle(&self) {
        let done = lock(&self.state).running.as_ref().map(|running| running.done.clone());
        if let Some(done) = done {
            done.cancelled().await;
        }
    }

    /// Writes the record, if a prompt of the session is stored. Blocks.
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

/// A running prompt of a session.
#[derive(Debug)]
pub(crate) struct RunningPrompt {
    pub(crate) session: Arc<Session>,
    pub(crate) cancel: CancelToken,
    done: CancelToken,
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        // Clear this before the signal, because a task that waits in `idle` may begin at once.
        lock(&self.session.state).running = None;
        self.done.cancel();
    }
}

/// Returns the error for a session with a running prompt.
fn busy() -> Error {
    with_reason(
        Error::invalid_request(),
        "a prompt is running in this session: wait for its answer, or \
        cancel it",
    )
    .data(json!({ "kind": "busy" }))
}
