//! Sessions as others hold them: for one turn, and as a router.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::Session;
use crate::approval::Approver;
use crate::tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter};

/// The session of one turn, closed when this is dropped.
#[derive(Debug)]
pub struct TurnSession(Arc<Session>);

impl Session {
    /// A session for one turn of this one's participant: with a token of its own, and closed when the guard is
    /// dropped. `tool_calls` is what the turn may make; it may make no more than is left of this session's budget.
    /// It asks whom this session asks.
    pub fn for_turn(&self, tool_calls: Option<u32>) -> TurnSession {
        self.for_turn_asking(tool_calls, None)
    }

    /// [`Session::for_turn`] that asks `approver`, if it is set, about calls that need an approval.
    pub(crate) fn for_turn_asking(
        &self,
        tool_calls: Option<u32>,
        approver: Option<&Approver>,
    ) -> TurnSession {
        TurnSession(self.below(tool_calls, approver))
    }

    /// The session as a router, for a loop that knows nothing of tokens.
    pub fn router(self: &Arc<Self>) -> Arc<dyn ToolRouter> {
        Arc::new(SessionRouter(Arc::clone(self)))
    }
}

impl TurnSession {
    /// Shares the session with a server for as long as the turn runs. Dropping this guard closes it all the
    /// same.
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

/// Calls through the session, with the session's own token.
#[derive(Debug)]
struct SessionRouter(Arc<Session>);

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
