//! The caller's tools as one turn's program is given them: where they are served, and how calls of them are told from
//! calls of the program's own tools.

use std::sync::Arc;

use nexus_core::{Effects, Session, SessionToken, ToolDefinition};

/// The name of the server, for every program: its tools are `mcp__nexus__NAME`, or `nexus__NAME`.
pub(crate) const SERVER: &str = "nexus";

/// The variable that carries the token to the program, where it takes it from one.
pub(crate) const TOKEN_VARIABLE: &str = "NEXUS_TOOLS_TOKEN";

/// The caller's tools in one turn.
#[derive(Clone, Debug)]
pub(crate) struct CallerTools {
    session: Arc<Session>,
    url: String,
}

impl CallerTools {
    /// Those of `session`, which must have some, served at `url`.
    pub(crate) fn new(session: Arc<Session>, url: String) -> Self {
        Self { session, url }
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

    /// The tools that are not among `connected`.
    pub(crate) fn missing(&self, is_connected: impl Fn(&str) -> bool) -> Vec<&str> {
        self.definitions().iter().map(|tool| tool.name.as_str()).filter(|name| !is_connected(name)).collect()
    }
}
