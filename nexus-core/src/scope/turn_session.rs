//! Sessions as others hold them: for one turn, and as a router.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::Session;
use crate::tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter};

/// The session of one turn, closed when this is dropped.
#[derive(Debug)]
pub struct TurnSession(Arc<Session>);

impl TurnSession {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// The session, for whoever serves it as long as the turn runs. It is closed with this guard all the same.
    pub fn share(&self) -> Arc<Session> {
        Arc::clone(&self.0)
    }
}

impl Deref for TurnSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for TurnSession {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Calls through the gate, with the session's own token.
#[derive(Debug)]
pub(super) struct SessionRouter(pub(super) Arc<Session>);

#[async_trait]
impl ToolRouter for SessionRouter {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.definitions().to_vec()
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.0.check_arguments(tool, arguments)
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.0.call(self.0.token(), call).await
    }
}
