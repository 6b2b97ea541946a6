//! A session for one turn, and a session as a tool router.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::Session;
use crate::approval::Approver;
use crate::tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter};

/// The session of one turn. Dropping this value closes it.
#[derive(Debug)]
pub struct TurnSession(Arc<Session>);

impl Session {
    /// Creates a session for one turn of this session's participant. It has a token of its own, and closes when
    /// the guard is dropped. It allows at most `tool_calls` calls, and never more than remain in this session's
    /// budget. It requests approvals from the same approver.
    pub fn for_turn(&self, tool_calls: Option<u32>) -> TurnSession {
        self.for_turn_asking(tool_calls, None)
    }

    /// Like [`Session::for_turn`], with `approver` for calls that need an approval, if it is set.
    pub(crate) fn for_turn_asking(
        &self,
        tool_calls: Option<u32>,
        approver: Option<&Approver>,
    ) -> TurnSession {
        TurnSession(self.below(tool_calls, approver))
    }

    /// Returns the session as a router, for a loop that does not use tokens.
    pub fn router(self: &Arc<Self>) -> Arc<dyn ToolRouter> {
        Arc::new(SessionRouter(Arc::clone(self)))
    }
}

impl TurnSession {
    /// Shares the session with a server for as long as the turn runs. Dropping this guard still closes it.
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

/// Routes calls through the session with the session's own token.
#[derive(Debug)]
struct SessionRouter(Arc<Session>);

#[async_trait]
impl ToolRouter for SessionRouter {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.definitions().to_vec()
    }

    fn shared_definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(self.0.shared_definitions())
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.0.check_arguments(tool, arguments)
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.0.call(self.0.token(), call).await
    }
}
