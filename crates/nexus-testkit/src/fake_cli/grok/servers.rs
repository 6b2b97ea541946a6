//! The MCP servers of Grok: their configuration, the form of their calls, and the length limit of their results.
//! Source: its recordings.

use std::{path::Path, time::Duration};

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

use super::super::{
    servers::{Answer, Handshake, ServerTool, Servers, config},
    stage::Stage,
};
use crate::sim::ToolCall;

/// Default time limit for a server to connect; its table can change it. The first model call of the real program waits at most
/// two seconds; a hook may delay it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Default size limit of a result for the model, in bytes; the environment can change it.
const MAX_BYTES: usize = 20_000;

/// Connects to the servers of `config.toml`.
pub(super) fn connect(grok_home: &Path, stage: &Stage) -> Servers {
    let config = config::read_toml(&grok_home.join("config.toml"));
    let named = config::named_in(&config, "headers", stage.given());
    let patience = named
        .iter()
        .filter_map(|(_, table)| Duration::try_from_secs_f64(table["startup_timeout_sec"].as_f64()?).ok());
    let handshake = Handshake {
        client: "grok-shell-nexus",
        version: ProtocolVersion::V_2025_11_25,
        discovers: true,
        patience: patience.max().unwrap_or(PATIENCE),
    };
    stage.connect(named.into_iter().map(|(server, _)| server).collect(), &handshake)
}

/// Returns the harness's name of the tool.
pub(super) fn name(tool: &ServerTool) -> String {
    format!("{}__{}", tool.server, tool.name)
}

/// The server's tool that `call` means, and its arguments: by `use_tool`, or by its own name.
pub(super) fn meant<'s>(call: &ToolCall, servers: &'s Servers) -> Option<(&'s ServerTool, Value)> {
    let (wire, input) = super::words_of(call);
    let (called, arguments) = match wire.as_str() {
        "use_tool" => {
            (input["tool_name"].as_str().unwrap_or_default().to_owned(), input["tool_input"].clone())
        }
        _ => (wire, input),
    };
    let tool = servers.tools().iter().find(|tool| name(tool) == called)?;
    Some((tool, arguments))
}

/// The answer to `search_tool`: the tools in whose name or description a word of the query occurs, or all.
pub(super) fn search(query: &str, servers: &Servers) -> String {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let is_meant = |tool: &&ServerTool| {
        let text = format!("{} {}", name(tool), tool.description).to_lowercase();
        words.iter().any(|word| text.contains(word.as_str()))
    };
    let mut found: Vec<&ServerTool> = servers.tools().iter().filter(is_meant).collect();
    // Return all tools rather than none: a scripted model has no second query.
    if found.is_empty() {
        found = servers.tools().iter().collect();
    }
    let results: Vec<Value> = servers
        .states()
        .map(|(server, _)| {
            let tools = found.iter().filter(|tool| tool.server == server).map(|tool| {
                json!({ "tool_name": name(tool), "description": tool.description, "input_schema": tool.schema })
            });
            json!({ "server": server, "tools": tools.collect::<Vec<_>>() })
        })
        .collect();
    let total = servers.tools().len();
    json!({ "results": results, "total_hidden_tools": total, "status": "ready", "note": null }).to_string()
}

/// Returns the `rawOutput` of a result.
pub(super) fn raw_output(tool: &ServerTool, answer: &Answer) -> Value {
    let mut raw = json!({ "type": "MCP", "tool_name": tool.name, "server_name": tool.server });
    match &answer.outcome {
        Ok(text) => raw["output"] = json!({ "OkayOutput": text }),
        Err(text) => {
            raw["output"] = json!({ "Error": text });
            raw["is_error"] = json!(true);
        }
    }
    raw
}

/// Returns the text of a server's result for the model. Pictures become text, too.
pub(super) fn told(tool: &ServerTool, answer: &Answer, max_bytes: Option<usize>) -> String {
    let pictures = answer.content.iter().filter_map(|block| block["data"].as_str());
    // The real program has no field for pictures, so their base64 becomes part of the text.
    let text = match &answer.outcome {
        Ok(text) => pictures.fold(text.clone(), |text, picture| format!("{text}\n{picture}")),
        Err(text) => format!("Failed to call {}: {text}", name(tool)),
    };
    let most = max_bytes.unwrap_or(MAX_BYTES);
    match text.get(..text.floor_char_boundary(most)) {
        Some(head) if head.len() < text.len() => format!("{head}\n[output truncated]"),
        _ => text,
    }
}
