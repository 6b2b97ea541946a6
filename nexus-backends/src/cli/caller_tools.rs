//! The caller's tools for the program of one turn: the address of their server, and the distinction between their calls
//! and calls of the program's own tools.

use std::sync::Arc;

use nexus_core::{Effects, Session, SessionToken, ToolDefinition};
use nexus_mcp::CallActivity;
use serde_json::Value;

use crate::mcp_server::McpServer;

/// Name of the server in every program: the tools are `mcp__nexus__NAME`, or `nexus__NAME`.
pub(crate) const SERVER: &str = "nexus";

/// Host of the server. A request to it must not use a proxy, which would see the token.
pub(crate) const HOST: &str = "127.0.0.1";

/// Variable that carries the token to a program that reads it from a variable.
pub(crate) const TOKEN_VARIABLE: &str = "NEXUS_TOOLS_TOKEN";

/// The caller's tools in one turn.
#[derive(Clone, Debug)]
pub struct CallerTools {
    session: Arc<Session>,
    url: String,
    activity: Arc<CallActivity>,
}

impl CallerTools {
    /// Name of the MCP server in every CLI's configuration: the tools are `mcp__nexus__NAME`, or `nexus__NAME`.
    pub const SERVER: &'static str = SERVER;

    /// Host in [`CallerTools::url`]. A CLI must not use a proxy for it, because the proxy would see the token.
    pub const HOST: &'static str = HOST;

    /// Returns the tools that `server` serves.
    pub(super) fn served_by(server: &McpServer) -> Self {
        Self {
            session: Arc::clone(server.session()),
            url: server.url(),
            activity: Arc::clone(server.activity()),
        }
    }

    /// Returns the tools of `session`, as if a server at `url` served them.
    #[cfg(test)]
    pub(crate) fn new(session: Arc<Session>, url: String) -> Self {
        Self { session, url, activity: Arc::default() }
    }

    /// Returns the URL of the tools' server: MCP over streamable HTTP, on loopback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the token that every request must have.
    pub fn token(&self) -> &SessionToken {
        self.session.token()
    }

    /// Returns the tools that the program must offer to the model, under the caller's names.
    pub fn definitions(&self) -> &[ToolDefinition] {
        self.session.definitions()
    }

    /// Returns the possible effects of a call. A call of a tool that does not exist has none, because it is denied.
    pub fn effects(&self, name: &str) -> Effects {
        self.definitions().iter().find(|tool| tool.name == name).map_or(Effects::None, |tool| tool.effects)
    }

    /// Returns true if the session denied a call of this turn that ended with an error. Returns false if only some of
    /// several equal calls were denied, because they cannot be distinguished.
    pub fn was_denied(&self, name: &str, arguments: &Value) -> bool {
        self.session.was_denied(name, arguments)
    }

    /// Returns true if the program has received the list of tools.
    pub fn were_listed(&self) -> bool {
        self.activity.is_listed()
    }

    /// Returns true if a call reached the session, whether it was allowed or denied.
    pub(super) fn were_called(&self) -> bool {
        self.activity.were_decided()
    }

    /// Waits until the session decides about a call, or a call ends.
    pub(super) async fn changed(&self) {
        self.activity.changed().await;
    }

    /// Returns true while a tool runs.
    pub(super) fn are_busy(&self) -> bool {
        self.activity.is_busy()
    }

    /// Returns the session of the turn.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the names of the tools that are not connected.
    pub fn missing(&self, is_connected: impl Fn(&str) -> bool) -> Vec<&str> {
        self.definitions().iter().map(|tool| tool.name.as_str()).filter(|name| !is_connected(name)).collect()
    }
}
