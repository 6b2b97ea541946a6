//! The caller's tools for one turn's program: the address of their server, and the distinction of their calls
//! from calls of the program's own tools.

use std::sync::Arc;

use nexus_core::{Effects, Session, SessionToken, ToolDefinition};
use nexus_mcp::CallActivity;
use serde_json::Value;

use crate::mcp_server::McpServer;

/// The name of the server, for every program: its tools are `mcp__nexus__NAME`, or `nexus__NAME`.
pub(crate) const SERVER: &str = "nexus";

/// Host of their server. No proxy may be used for it: the proxy would see the token.
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

    /// Tools that `server` serves.
    pub(super) fn served_by(server: &McpServer) -> Self {
        Self {
            session: Arc::clone(server.session()),
            url: server.url(),
            activity: Arc::clone(server.activity()),
        }
    }

    /// Tools of `session`, as if a server at `url` served them.
    #[cfg(test)]
    pub(crate) fn new(session: Arc<Session>, url: String) -> Self {
        Self { session, url, activity: Arc::default() }
    }

    /// Address of their server: MCP over streamable HTTP, on loopback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Token that every request must have.
    pub fn token(&self) -> &SessionToken {
        self.session.token()
    }

    /// Tools that the program must offer to the model, by the names that the caller knows.
    pub fn definitions(&self) -> &[ToolDefinition] {
        self.session.definitions()
    }

    /// Possible changes by a call. A tool that does not exist changes nothing: the call is denied.
    pub fn effects(&self, name: &str) -> Effects {
        self.definitions().iter().find(|tool| tool.name == name).map_or(Effects::None, |tool| tool.effects)
    }

    /// Returns true if the session denied a call of this turn that came back as an error. Where some of several
    /// equal calls were denied, it returns false, because they cannot be distinguished.
    pub fn was_denied(&self, name: &str, arguments: &Value) -> bool {
        self.session.was_denied(name, arguments)
    }

    /// Returns true if the program has requested the list of tools, and got it.
    pub fn were_listed(&self) -> bool {
        self.activity.is_listed()
    }

    /// Returns true if a call reached the session, with any decision.
    pub(super) fn were_called(&self) -> bool {
        self.activity.were_decided()
    }

    /// Waits until a call was decided on, or has ended.
    pub(super) async fn changed(&self) {
        self.activity.changed().await;
    }

    /// Returns true while a tool runs.
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
