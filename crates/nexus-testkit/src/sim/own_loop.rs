//! Names and arguments of the tools of Nexus's own loop, and of agents without a dialect of their own.

use serde_json::{Value, json};

use super::conversation::Conversation;
use super::tool_call::ToolCall;

/// Tools that run a command line: their names in Gemini CLI and Qwen Code, and in Droid. Source: observed with the versions of
/// `real/agents/package.json`.
const SHELLS: [&str; 2] = ["run_shell_command", "Execute"];

/// Returns the name and the arguments of a neutral call, if the request offers the tool of Nexus's own loop or of such an agent.
pub(super) fn render(call: &ToolCall, offered: &Conversation) -> Option<(String, Value)> {
    if let ToolCall::Shell { command } = call
        // The offered tools identify the program, because these agents share one wire.
        && let Some(name) = SHELLS.into_iter().find(|name| offered.tool(name).is_some())
    {
        let arguments = match name {
            "Execute" => json!({
                "command": command, "summary": "Runs a command", "riskLevelReason": "It is a test", "riskLevel": "low",
            }),
            _ => json!({ "command": command, "description": "Runs a command", "is_background": false }),
        };
        return Some((name.to_owned(), arguments));
    }
    if let ToolCall::Mcp { server, tool, arguments } = call {
        return Some((of_server(server, tool, offered)?, arguments.clone()));
    }
    let (name, arguments) = match call {
        ToolCall::Shell { command } => ("run_command", json!({ "command": command })),
        ToolCall::WriteFile { path, text } => ("write_file", json!({ "path": path, "content": text })),
        ToolCall::ReadFile { path } => ("read_file", json!({ "path": path })),
        _ => return None,
    };
    // Other programs have tools of these names; only Nexus's loop has `list_files` beside them.
    (offered.tool("list_files").is_some() && offered.tool(name).is_some())
        .then(|| (name.to_owned(), arguments))
}

/// Returns the name under which an agent offers the tool of a server: both names with a separator of the agent's choice, perhaps after
/// `mcp`. Names in a namespace, and those that begin with `mcp__`, are the dialects' own.
fn of_server(server: &str, tool: &str, offered: &Conversation) -> Option<String> {
    let tools =
        offered.tools.iter().filter(|known| known.namespace.is_none() && !known.name.starts_with("mcp__"));
    let names = tools.map(|known| &known.name);
    let is_it = |name: &&String| {
        let rest = name.strip_prefix("mcp_").unwrap_or(name);
        let separator = rest.strip_prefix(server).and_then(|rest| rest.strip_suffix(tool));
        separator.is_some_and(|separator| {
            !separator.is_empty() && separator.bytes().all(|byte| !byte.is_ascii_alphanumeric())
        })
    };
    names.clone().find(is_it).cloned()
}
