//! The MCP servers of Claude Code: their configuration, the names of their tools, and the length limit of their
//! results. Source: its recordings.

use std::time::Duration;

use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};

use super::super::{
    notes::Given,
    servers::{Answer, Handshake, Server, ServerTool, Servers, config::expanded},
    stage::Stage,
};
use crate::sim::ToolCall;

/// Default time limit for a server to connect; the environment can change it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum length of a tool result for the model, in characters. A tool can declare a higher limit.
const MAX_CHARS: usize = 50_000;

/// Highest limit that a tool may declare.
const MOST_CHARS: usize = 500_000;

/// Length of the preview that replaces a result that is too long.
const PREVIEW_CHARS: usize = 2000;

/// Connects to the servers of `--mcp-config`: a file, or the JSON itself.
///
/// # Errors
///
/// The vendor's sentence, when the configuration cannot be read.
pub(super) fn connect_configured(stage: &Stage) -> Result<Servers, String> {
    let Some(config) = stage.given().value_of("--mcp-config") else { return Ok(Servers::default()) };
    let text = match config.starts_with('{') {
        true => config.to_owned(),
        false => std::fs::read_to_string(config)
            .map_err(|_| format!("Error: Invalid MCP configuration: MCP config file not found: {config}"))?,
    };
    let config: Value =
        serde_json::from_str(&text).map_err(|error| format!("Error: Invalid MCP configuration: {error}"))?;
    Ok(connect(&config["mcpServers"], stage))
}

/// Connects to these servers.
pub(super) fn connect(entries: &Value, stage: &Stage) -> Servers {
    let given = stage.given();
    let entries = entries.as_object().into_iter().flatten();
    // Another kind of entry would be a server too, but none that this imitation speaks with.
    let entries = entries.filter(|(_, entry)| entry["type"] == "http");
    let servers = entries.map(|(name, entry)| server(name, entry, given)).collect();
    let patience = given.variable("MCP_CONNECT_TIMEOUT_MS").and_then(|millis| millis.parse().ok());
    let handshake = Handshake {
        client: "claude-code",
        version: ProtocolVersion::V_2025_06_18,
        discovers: false,
        patience: patience.map_or(PATIENCE, Duration::from_millis),
    };
    stage.connect(servers, &handshake)
}

fn server(name: &str, entry: &Value, given: &Given) -> Server {
    let headers = entry["headers"].as_object().into_iter().flatten();
    let headers =
        headers.filter_map(|(name, value)| Some((name.clone(), expanded(value.as_str()?, given)))).collect();
    let url = expanded(entry["url"].as_str().unwrap_or_default(), given);
    Server { name: name.to_owned(), url, headers }
}

/// The answer to `mcp_set_servers`.
pub(super) fn added(servers: &Servers) -> Value {
    let errors = servers.states().filter_map(|(name, failure)| Some((name.to_owned(), json!(failure?))));
    let errors: Map<String, Value> = errors.collect();
    let added: Vec<&str> = servers.states().map(|(name, _)| name).collect();
    json!({ "added": added, "removed": [], "errors": errors })
}

/// Returns the state and the tools of each server, for `mcp_status`.
pub(super) fn status(servers: &Servers) -> Vec<Value> {
    let status = |(name, failure): (&str, Option<&str>)| {
        let tools = servers.tools().iter().filter(|tool| tool.server == name);
        let tools: Vec<Value> = tools.map(|tool| json!({ "name": tool.name })).collect();
        let mut state = json!({ "name": name, "status": "connected", "tools": tools });
        if let Some(failure) = failure {
            (state["status"], state["error"]) = (json!("failed"), json!(failure));
        }
        state
    };
    servers.states().map(status).collect()
}

/// Returns the state of each server, for `system/init`.
pub(super) fn states(servers: &Servers) -> Vec<Value> {
    let state = |(name, failure): (&str, Option<&str>)| json!({ "name": name, "status": if failure.is_some() { "failed" } else { "connected" } });
    servers.states().map(state).collect()
}

/// Returns the model's name of the tool.
pub(super) fn name(tool: &ServerTool) -> String {
    format!("mcp__{}__{}", tool.server, tool.name)
}

/// Returns the server's tool that `call` names. `None` if it names another kind of tool.
pub(super) fn tool<'s>(call: &ToolCall, servers: &'s Servers) -> Option<&'s ServerTool> {
    match call {
        ToolCall::Mcp { server, tool, .. } => servers.find(server, tool),
        ToolCall::Function { name: called, .. } | ToolCall::RawFunction { name: called, .. } => {
            servers.tools().iter().find(|tool| name(tool) == *called)
        }
        _ => None,
    }
}

/// Returns the tool result for the model. A server's result that is too long is replaced with its beginning.
pub(super) fn told(call: &ToolCall, answer: &Answer, servers: &Servers) -> String {
    let whole = match &answer.structured {
        Some(structured) => structured.to_string(),
        None => answer.text().to_owned(),
    };
    let Some(tool) = tool(call, servers) else { return whole };
    let granted = tool.meta["anthropic/maxResultSizeChars"].as_u64().unwrap_or(0);
    // Without a declared limit, the clamp turns the zero into the default one.
    let most = usize::try_from(granted).unwrap_or(MOST_CHARS).clamp(MAX_CHARS, MOST_CHARS);
    // The limit counts characters, not bytes.
    let chars = whole.chars().count();
    if chars <= most {
        return whole;
    }
    let preview: String = whole.chars().take(PREVIEW_CHARS).collect();
    format!(
        "<persisted-output>\nOutput too large ({}KB). Full output saved to a file.\n\nPreview (first 2KB):\n\
         {preview}\n...\n</persisted-output>",
        chars / 1000
    )
}
