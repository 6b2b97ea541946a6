//! Restricts a toolbox to its terminal tools.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{ToolCall, ToolDefinition, ToolResult, ToolRouter};
use serde_json::Value;

/// The terminal tools of another router.
#[derive(Debug)]
pub(super) struct TerminalTools(pub(super) Arc<dyn ToolRouter>);

#[async_trait]
impl ToolRouter for TerminalTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let mut definitions = self.0.definitions();
        definitions.retain(|tool| tool.terminal);
        definitions
    }

    fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.0.check_arguments(tool, arguments)
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.0.call(call).await
    }
}
