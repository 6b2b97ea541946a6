//! Converts a Responses request to the neutral form, for every location of its tools.

use serde_json::Value;

use crate::sim::conversation::{Conversation, Item, OfferedTool, content_text, list_at, string_at};
use crate::sim::server::Arrival;

pub(in crate::sim) fn read(arrival: &Arrival<'_>) -> Conversation {
    let json = arrival.json;
    let text_at = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let mut read = Conversation {
        // Codex uses the id of its thread as the cache key.
        id: text_at("/prompt_cache_key").or_else(|| arrival.header("session-id").map(str::to_owned)),
        model: text_at("/model"),
        effort: text_at("/reasoning/effort"),
        stream: json.get("stream").and_then(Value::as_bool).unwrap_or(false),
        max_output_tokens: json.get("max_output_tokens").and_then(Value::as_u64),
        output_schema: json.pointer("/text/format/schema").cloned(),
        ..Conversation::default()
    };
    if let Some(instructions) = text_at("/instructions") {
        read.add_system(&instructions);
    }
    offer(&mut read, None, list_at(json, "tools"));
    match json.get("input") {
        Some(Value::String(text)) => read.items.push(Item::User(text.clone())),
        Some(Value::Array(items)) => {
            for item in items {
                read_item(&mut read, item);
            }
        }
        _ => {}
    }
    read
}

/// Notes tools, those inside namespaces too.
fn offer(read: &mut Conversation, namespace: Option<&str>, tools: &[Value]) {
    for tool in tools {
        let kind = string_at(tool, "type");
        let name = string_at(tool, "name");
        if kind == "namespace" {
            offer(read, Some(&name), list_at(tool, "tools"));
            continue;
        }
        read.tools.push(OfferedTool {
            namespace: namespace.map(str::to_owned),
            name: if name.is_empty() { kind.clone() } else { name },
            kind,
            description: string_at(tool, "description"),
        });
    }
}

fn read_item(read: &mut Conversation, item: &Value) {
    let call_id = string_at(item, "call_id");
    match string_at(item, "type").as_str() {
        // A lite request has its tools in the input instead of the field `tools`.
        "additional_tools" => offer(read, None, list_at(item, "tools")),
        "message" | "" => read_message(read, item),
        "reasoning" => {
            let text: Vec<String> = list_at(item, "summary")
                .iter()
                .chain(list_at(item, "content"))
                .map(|part| string_at(part, "text"))
                .collect();
            read.items.push(Item::Thinking(text.join("\n")));
        }
        "function_call" | "custom_tool_call" => {
            let name = string_at(item, "name");
            let name = match item.get("namespace").and_then(Value::as_str) {
                Some(namespace) => format!("{namespace}.{name}"),
                None => name,
            };
            // A function has JSON arguments, and a custom tool has plain text.
            let arguments = item.get("arguments").or_else(|| item.get("input"));
            read.items.push(Item::ToolCall {
                id: call_id,
                name,
                arguments: arguments.and_then(Value::as_str).unwrap_or_default().to_owned(),
            });
        }
        "function_call_output" | "custom_tool_call_output" => {
            let output = item.get("output").unwrap_or(&Value::Null);
            read.items.push(Item::ToolResult { id: call_id, text: content_text(output), is_error: false });
            let is_image = |part: &&Value| string_at(part, "type") == "input_image";
            read.items.extend(list_at(item, "output").iter().filter(is_image).map(image));
        }
        other => read.items.push(Item::Other(other.to_owned())),
    }
}

fn read_message(read: &mut Conversation, message: &Value) {
    let role = string_at(message, "role");
    let parts = match message.get("content") {
        Some(Value::String(text)) => {
            read_text(read, &role, text);
            return;
        }
        Some(Value::Array(parts)) => parts,
        _ => return,
    };
    for part in parts {
        match string_at(part, "type").as_str() {
            "input_image" => read.items.push(image(part)),
            "input_text" | "output_text" | "text" => {
                read_text(read, &role, &string_at(part, "text"));
            }
            other => read.items.push(Item::Other(other.to_owned())),
        }
    }
}

fn image(part: &Value) -> Item {
    let url = string_at(part, "image_url");
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media_type, data) = inline.unwrap_or(("url", &url));
    Item::Image { media_type: media_type.to_owned(), data: data.to_owned() }
}

fn read_text(read: &mut Conversation, role: &str, text: &str) {
    match role {
        "assistant" => read.items.push(Item::Assistant(text.to_owned())),
        "system" | "developer" => read.add_system(text),
        _ => read.items.push(Item::User(text.to_owned())),
    }
}
