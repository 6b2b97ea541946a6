//! Reads a Messages request in neutral words.

use serde_json::Value;

use crate::sim::cloud::CloudCall;
use crate::sim::conversation::{Conversation, Item, OfferedTool, content_text, list_at, string_at};
use crate::sim::server::Arrival;

pub(super) fn read(arrival: &Arrival<'_>) -> Conversation {
    let json = arrival.json;
    let cloud = CloudCall::of(arrival.path);
    let named = || json.get("model").and_then(Value::as_str).map(str::to_owned);
    let streams = || json.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let mut read = Conversation {
        id: session_id(arrival),
        // At a cloud, the address names the model, and the body has no such field.
        model: cloud.as_ref().map_or_else(named, |call| Some(call.model.clone())),
        effort: json.pointer("/output_config/effort").and_then(Value::as_str).map(str::to_owned),
        stream: cloud.as_ref().map_or_else(streams, |call| call.stream),
        max_output_tokens: json.get("max_tokens").and_then(Value::as_u64),
        output_schema: json.pointer("/output_config/format/schema").cloned(),
        ..Conversation::default()
    };
    match json.get("system") {
        Some(Value::String(text)) => read.add_system(text),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                read.add_system(&string_at(block, "text"));
            }
        }
        _ => {}
    }
    for tool in list_at(json, "tools") {
        let kind = string_at(tool, "type");
        // A tool of the client may leave out its type. Tools of the vendor always name one.
        let custom = kind.is_empty() || kind == "custom";
        read.tools.push(OfferedTool {
            namespace: None,
            name: string_at(tool, "name"),
            kind: if custom { "function".into() } else { kind },
            description: string_at(tool, "description"),
        });
    }
    for message in list_at(json, "messages") {
        let role = string_at(message, "role");
        match message.get("content") {
            Some(Value::String(text)) => read.items.push(spoken(&role, text.clone())),
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    read.items.push(item(&role, block));
                    // A tool result may contain images. Add them as items, so that tests find them in one place.
                    let inside = list_at(block, "content").iter().map(|inner| item(&role, inner));
                    read.items.extend(inside.filter(|inner| matches!(inner, Item::Image { .. })));
                }
            }
            _ => {}
        }
    }
    read
}

/// A call of Claude Code outside of the turn: the one-token quota probe, or the title of the session.
pub(super) fn is_side_call(json: &Value) -> bool {
    // No turn asks for a single token, so this identifies the probe.
    json.get("max_tokens").and_then(Value::as_u64) == Some(1)
}

fn session_id(arrival: &Arrival<'_>) -> Option<String> {
    if let Some(id) = arrival.header("x-claude-code-session-id") {
        return Some(id.to_owned());
    }
    arrival.json.pointer("/metadata/user_id").and_then(Value::as_str).map(str::to_owned)
}

fn spoken(role: &str, text: String) -> Item {
    match role {
        "assistant" => Item::Assistant(text),
        _ => Item::User(text),
    }
}

fn item(role: &str, block: &Value) -> Item {
    match string_at(block, "type").as_str() {
        "text" => spoken(role, string_at(block, "text")),
        "thinking" => Item::Thinking(string_at(block, "thinking")),
        "image" => Item::Image {
            media_type: block
                .pointer("/source/media_type")
                .and_then(Value::as_str)
                .unwrap_or("url")
                .to_owned(),
            data: block
                .pointer("/source/data")
                .or_else(|| block.pointer("/source/url"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        },
        "tool_use" => Item::ToolCall {
            id: string_at(block, "id"),
            name: string_at(block, "name"),
            arguments: block.get("input").unwrap_or(&Value::Null).to_string(),
        },
        "tool_result" => Item::ToolResult {
            id: string_at(block, "tool_use_id"),
            text: content_text(block.get("content").unwrap_or(&Value::Null)),
            is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        },
        other => Item::Other(other.to_owned()),
    }
}
