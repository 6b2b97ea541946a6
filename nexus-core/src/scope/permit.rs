//! That one call may be made.

use std::{fmt, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use serde_json::Value;

use super::{
    Denial,
    audit_log::{AuditLog, ToolOutcome},
};
use crate::{
    id::CallId,
    tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter},
};

/// That one call may be made. Only [`Session::authorize`](super::Session::authorize) makes one, and it is good for one
/// call, of the tools of that session.
pub struct Permit<'s> {
    tools: &'s dyn ToolRouter,
    definition: &'s ToolDefinition,
    arguments: Value,
    audit_log: &'s AuditLog,
    outcome: ToolOutcome,
}

impl<'s> Permit<'s> {
    pub(super) fn new(
        tools: &'s dyn ToolRouter,
        definition: &'s ToolDefinition,
        arguments: Value,
        audit_log: &'s AuditLog,
    ) -> Self {
        Self { tools, definition, arguments, audit_log, outcome: ToolOutcome::default() }
    }

    /// What becomes of the call is told to `outcome`.
    pub(super) fn telling(self, outcome: ToolOutcome) -> Self {
        Self { outcome, ..self }
    }

    /// The tool.
    pub fn definition(&self) -> &'s ToolDefinition {
        self.definition
    }

    /// The arguments as the tool gets them: each path is the one that was checked.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    pub(super) fn outcome(&self) -> &ToolOutcome {
        &self.outcome
    }

    /// Asks the tool. A panic of it becomes an error that says no more than that. A terminal tool that succeeds closes the
    /// session.
    pub(super) async fn answer(self, call: CallId) -> ToolResult {
        let Self { tools, definition, arguments, audit_log, outcome } = self;
        let call = ToolCall::new(call, definition.name.as_str(), arguments);
        // Also the making of the future may panic, so that happens inside.
        let result = AssertUnwindSafe(async move { tools.call(call).await }).catch_unwind().await;
        let result = result.unwrap_or_else(|_panic| {
            ToolResult::error(format!("the tool {:?} panicked; its work may be half done", definition.name))
        });
        if result.is_error {
            return result;
        }
        if definition.terminal && !audit_log.hand_in() {
            return ToolResult::error(Denial::Closed.to_string());
        }
        outcome.succeeded();
        result
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("tool", &self.definition.name)
            .field("arguments", &self.arguments)
            .finish()
    }
}
