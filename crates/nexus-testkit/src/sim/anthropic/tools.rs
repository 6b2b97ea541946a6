//! Names and arguments that Claude Code gives its tools.

use serde_json::{Value, json};

use crate::sim::conversation::Conversation;
use crate::sim::own_loop;
use crate::sim::tool_call::ToolCall;

/// A tool call in Claude Code's words: the name, and the input as JSON text (which need not be JSON).
pub(super) fn render(call: &ToolCall, offered: &Conversation) -> (String, String) {
    if let Some((name, input)) = own_loop::render(call, offered) {
        return (name, input.to_string());
    }
    let (name, input): (String, Value) = match call {
        ToolCall::Shell { command } => {
            ("Bash".into(), json!({"command": command, "description": "Run a command"}))
        }
        ToolCall::WriteFile { path, text } => ("Write".into(), json!({"file_path": path, "content": text})),
        ToolCall::ReadFile { path } => ("Read".into(), json!({ "file_path": path })),
        ToolCall::Mcp { server, tool, arguments } => (format!("mcp__{server}__{tool}"), arguments.clone()),
        ToolCall::Function { name, arguments, .. } => (name.clone(), arguments.clone()),
        ToolCall::RawFunction { name, arguments } => return (name.clone(), arguments.clone()),
        ToolCall::Custom { name, input, .. } => (name.clone(), json!({ "input": input })),
    };
    (name, input.to_string())
}
