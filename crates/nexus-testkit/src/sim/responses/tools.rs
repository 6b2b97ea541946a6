//! Names and arguments that Codex gives its tools, classic and in code mode, and those of OpenCode, which speaks the same dialect.

use serde_json::{Value, json};

use super::stream::WireCall;
use crate::sim::conversation::Conversation;
use crate::sim::own_loop;
use crate::sim::tool_call::ToolCall;

/// A tool call in Codex's words, for the tools that the request offered.
pub(in crate::sim) fn render(call: &ToolCall, offered: &Conversation) -> WireCall {
    if let Some((name, arguments)) = own_loop::render(call, offered) {
        return WireCall::Function { namespace: None, name, arguments: arguments.to_string() };
    }
    match code_mode(offered) {
        Some(namespace) if is_neutral(call, offered) => WireCall::Custom {
            namespace: namespace.map(str::to_owned),
            name: "exec".into(),
            input: script(call),
        },
        _ => classic(call, offered),
    }
}

/// The namespace of the code-mode tool, if the request offers one.
fn code_mode(offered: &Conversation) -> Option<Option<&str>> {
    // Only the code-mode tool is a custom one. Another program may have a function named `exec`.
    let tool = offered.tool("exec").filter(|tool| tool.kind == "custom")?;
    Some(tool.namespace.as_deref())
}

/// Returns true if a call names a tool that is hidden inside code mode.
fn is_neutral(call: &ToolCall, offered: &Conversation) -> bool {
    match call {
        ToolCall::Shell { .. } | ToolCall::WriteFile { .. } | ToolCall::ReadFile { .. } => true,
        ToolCall::Mcp { server, tool, .. } => !offered
            .tools
            .iter()
            .any(|known| known.name == *tool && known.namespace == Some(mcp_namespace(server))),
        _ => false,
    }
}

/// The JavaScript for a neutral call; its value is shown to the model.
fn script(call: &ToolCall) -> String {
    let expression = match call {
        ToolCall::WriteFile { path, text } => {
            format!("tools.apply_patch({})", Value::from(patch(path, text)))
        }
        ToolCall::Mcp { server, tool, arguments } => {
            format!("tools.{}__{tool}({arguments})", mcp_namespace(server))
        }
        // JSON is also a JavaScript expression, so the arguments need no further quotes.
        other => format!("tools.exec_command({})", json!({ "cmd": command(other) })),
    };
    format!("const result = await {expression};\ntext(JSON.stringify(result));\n")
}

fn classic(call: &ToolCall, offered: &Conversation) -> WireCall {
    let function = |namespace: Option<String>, name: &str, arguments: String| WireCall::Function {
        namespace,
        name: name.to_owned(),
        arguments,
    };
    match call {
        // The offered tools identify the program: Codex has `apply_patch`, and OpenCode has `write` and `bash`.
        ToolCall::WriteFile { path, text } if offered.tool("apply_patch").is_some() => {
            WireCall::Custom { namespace: None, name: "apply_patch".into(), input: patch(path, text) }
        }
        ToolCall::WriteFile { path, text } if offered.tool("write").is_some() => {
            function(None, "write", json!({ "filePath": path, "content": text }).to_string())
        }
        ToolCall::ReadFile { path } if offered.tool("read").is_some() => {
            function(None, "read", json!({ "filePath": path }).to_string())
        }
        ToolCall::Shell { command } if offered.tool("bash").is_some() => {
            let arguments = json!({ "command": command, "description": "Runs a command" });
            function(None, "bash", arguments.to_string())
        }
        ToolCall::Shell { .. } | ToolCall::WriteFile { .. } | ToolCall::ReadFile { .. } => {
            let arguments = json!({ "cmd": command(call) }).to_string();
            function(None, "exec_command", arguments)
        }
        // OpenCode puts the server's name before the tool's.
        ToolCall::Mcp { server, tool, arguments } if offered.tool(&format!("{server}_{tool}")).is_some() => {
            function(None, &format!("{server}_{tool}"), arguments.to_string())
        }
        ToolCall::Mcp { server, tool, arguments } => {
            function(Some(mcp_namespace(server)), tool, arguments.to_string())
        }
        ToolCall::Function { namespace, name, arguments } => {
            function(namespace.clone(), name, arguments.to_string())
        }
        ToolCall::RawFunction { name, arguments } => function(None, name, arguments.clone()),
        ToolCall::Custom { namespace, name, input } => {
            WireCall::Custom { namespace: namespace.clone(), name: name.clone(), input: input.clone() }
        }
    }
}

/// The shell command that does the same; only neutral calls have one.
fn command(call: &ToolCall) -> String {
    match call {
        ToolCall::Shell { command } => command.clone(),
        ToolCall::ReadFile { path } => format!("cat -- {}", quoted(path)),
        ToolCall::WriteFile { path, text } => {
            format!("printf %s {} > {}", quoted(text), quoted(path))
        }
        _ => String::new(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn patch(path: &str, text: &str) -> String {
    let mut patch = format!("*** Begin Patch\n*** Add File: {path}\n");
    for line in text.lines() {
        patch.push('+');
        patch.push_str(line);
        patch.push('\n');
    }
    patch.push_str("*** End Patch\n");
    patch
}

fn mcp_namespace(server: &str) -> String {
    // Codex replaces each character other than an ASCII letter, digit or `_`. A server's name rarely has others than
    // these two.
    format!("mcp__{}", server.replace(['-', '.'], "_"))
}
