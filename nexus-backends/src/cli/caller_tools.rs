//! The caller's tools as one turn's program is given them: where they are served, and how calls of them are told from
//! calls of the program's own tools.

use std::sync::Arc;

use nexus_core::{Effects, Session, SessionToken, ToolDefinition};
use nexus_mcp::CallActivity;
use serde_json::Value;

use crate::mcp_server::McpServer;

/// The name of the server, for every program: its tools are `mcp__nexus__NAME`, or `nexus__NAME`.
pub(crate) const SERVER: &str = "nexus";

/// The host that they are served at. No proxy is to be asked for it: it would be shown the token.
pub(crate) const HOST: &str = "127.0.0.1";

/// The variable that carries the token to the program, where it takes it from one.
pub(crate) const TOKEN_VARIABLE: &str = "NEXUS_TOOLS_TOKEN";

/// The caller's tools in one turn.
#[derive(Clone, Debug)]
pub struct CallerTools {
    session: Arc<Session>,
    url: String,
    activity: Arc<CallActivity>,
}

impl CallerTools {
    /// The name of the MCP server in every CLI's configuration: its tools are `mcp__nexus__NAME`, or `nexus__NAME`.
    pub const SERVER: &'static str = SERVER;

    /// The host in [`CallerTools::url`]. A CLI must not ask a proxy for it: the proxy would be shown the token.
    pub const HOST: &'static str = HOST;

    /// Those that `server` serves.
    pub(super) fn served_by(server: &McpServer) -> Self {
        Self {
            session: Arc::clone(server.session()),
            url: server.url(),
            activity: Arc::clone(server.activity()),
        }
    }

    /// Those of `session`, as if they were served at `url`.
    #[cfg(test)]
    pub(crate) fn new(session: Arc<Session>, url: String) -> Self {
        Self { session, url, activity: Arc::default() }
    }

    /// Where they are served: MCP over streamable HTTP, on loopback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What every request must bear.
    pub fn token(&self) -> &SessionToken {
        self.session.token()
    }

    /// What the program must offer to the model, by the names that the caller knows.
    pub fn definitions(&self) -> &[ToolDefinition] {
        self.session.definitions()
    }

    /// What a call may change. A tool that is not there changes nothing: the call is denied.
    pub fn effects(&self, name: &str) -> Effects {
        self.definitions().iter().find(|tool| tool.name == name).map_or(Effects::None, |tool| tool.effects)
    }

    /// Whether the session denied a call of this turn that came back as an error. Where calls are alike it can be that
    /// one of them was and this cannot be told; then the answer is no.
    pub fn was_denied(&self, name: &str, arguments: &Value) -> bool {
        self.session.was_denied(name, arguments)
    }

    /// Whether the program has asked the server which tools there are, and was told.
    pub fn were_listed(&self) -> bool {
        self.activity.is_listed()
    }

    /// Whether a call reached the session, whatever was decided.
    pub(super) fn were_called(&self) -> bool {
        self.activity.were_decided()
    }

    /// Waits until a call was decided on, or has ended.
    pub(super) async fn changed(&self) {
        self.activity.changed().await;
    }

    /// Whether a tool runs.
    pub(super) fn are_busy(&self) -> bool {
        self.activity.is_busy()
    }

    /// The session of the turn.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The tools that are not among `connected`.
    pub fn missing(&self, is_connected: impl Fn(&str) -> bool) -> Vec<&str> {
        self.definitions().iter().map(|tool| tool.name.as_str()).filter(|name| !is_connected(name)).collect()
    }
}
