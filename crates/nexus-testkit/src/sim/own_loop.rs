//! Names and arguments of the tools of Nexus's own loop.

use serde_json::{Value, json};

use super::conversation::Conversation;
use super::tool_call::ToolCall;

/// Returns the name and the arguments of a neutral call, if the request offers the tool of Nexus's own loop.
pub(super) fn render(call: &ToolCall, offered: &Conversation) -> Option<(&'static str, Value)> {
    let (name, arguments) = match call {
        ToolCall::Shell { command } => ("run_command", json!({ "command": command })),
        ToolCall::WriteFile { path, text } => ("write_file", json!({ "path": path, "content": text })),
        ToolCall::ReadFile { path } => ("read_file", json!({ "path": path })),
        _ => return None,
    };
    // Other programs have tools of these names; only Nexus's loop has `list_files` beside them.
    (offered.tool("list_files").is_some() && offered.tool(name).is_some()).then_some((name, arguments))
}
