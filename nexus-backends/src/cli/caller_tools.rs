//! The caller's tools as one turn's program is given them: where they are served, and how calls of them are told from
//! calls of the program's own tools.

use std::sync::Arc;

use nexus_core::{Effects, Session, SessionToken, ToolDefinition};
use serde_json::Value;

use crate::mcp_server::{CallRecord, ToolsDoor};

/// The name of the server, for every program: its tools are `mcp__nexus__NAME`, or `nexus__NAME`.
pub(crate) const SERVER: &str = "nexus";

/// The host that they are served at. No proxy is to be asked for it: it would be shown the token.
pub(crate) const HOST: &str = "127.0.0.1";

/// The variable that carries the token to the program, where it takes it from one.
#[cfg(feature = "codex")]
pub(crate) const TOKEN_VARIABLE: &str = "NEXUS_TOOLS_TOKEN";

/// The caller's tools in one turn.
#[derive(Clone, Debug)]
pub(crate) struct CallerTools {
    session: Arc<Session>,
    url: String,
    calls: Arc<CallRecord>,
}

impl CallerTools {
    /// Those that are behind a door.
    pub(crate) fn behind(door: &ToolsDoor) -> Self {
        Self { session: Arc::clone(door.session()), url: door.url(), calls: Arc::clone(door.record()) }
    }

    /// Those of `session`, as if they were served at `url`.
    #[cfg(test)]
    pub(crate) fn new(session: Arc<Session>, url: String) -> Self {
        Self { session, url, calls: Arc::default() }
    }

    /// Where they are served: MCP over streamable HTTP, on loopback.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What every request must bear.
    pub(crate) fn token(&self) -> &SessionToken {
        self.session.token()
    }

    /// What the program must offer to the model, by the names that the caller knows.
    pub(crate) fn definitions(&self) -> &[ToolDefinition] {
        self.session.definitions()
    }

    /// What a call may change. A tool that is not there changes nothing: the call is denied.
    pub(crate) fn effects(&self, name: &str) -> Effects {
        self.definitions().iter().find(|tool| tool.name == name).map_or(Effects::None, |tool| tool.effects)
    }

    /// Whether the session denied a call of this turn that came back as an error. Where calls are alike it can be that
    /// one of them was and this cannot be told; then the answer is no.
    pub(crate) fn was_denied(&self, name: &str, arguments: &Value) -> bool {
        self.session.was_denied(name, arguments)
    }

    /// Whether a call reached the session, whatever was decided.
    pub(crate) fn were_called(&self) -> bool {
        self.calls.were_decided()
    }

    /// Waits until a call was decided on, or has ended.
    pub(crate) async fn news(&self) {
        self.calls.news().await;
    }

    /// Whether a tool runs.
    pub(crate) fn are_busy(&self) -> bool {
        self.calls.is_busy()
    }

    /// The session of the turn.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The tools that are not among `connected`.
    pub(crate) fn missing(&self, is_connected: impl Fn(&str) -> bool) -> Vec<&str> {
        self.definitions().iter().map(|tool| tool.name.as_str()).filter(|name| !is_connected(name)).collect()
    }
}
