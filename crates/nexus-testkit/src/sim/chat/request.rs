//! Reads a Chat Completions request in neutral words.

use serde_json::Value;

use crate::sim::conversation::{Conversation, Item, OfferedTool, content_text, list_at, string_at};
use crate::sim::server::Arrival;

pub(super) fn read(arrival: &Arrival<'_>) -> Conversation {
    let json = arrival.json;
    let text_at = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    // Newer models take only the second name, and many servers only the first.
    let bound = ["max_tokens", "max_completion_tokens"].iter().find_map(|key| json.get(key)?.as_u64());
    let mut read = Conversation {
        id: text_at("/user"),
        model: text_at("/model"),
        effort: text_at("/reasoning_effort"),
        stream: json.get("stream").and_then(Value::as_bool).unwrap_or(false),
        max_output_tokens: bound,
        output_schema: json.pointer("/response_format/json_schema/schema").cloned(),
        ..Conversation::default()
    };
    for tool in list_at(json, "tools") {
        let function = tool.get("function").unwrap_or(&Value::Null);
        read.tools.push(OfferedTool {
            namespace: None,
            name: string_at(function, "name"),
            kind: string_at(tool, "type"),
            description: string_at(function, "description"),
        });
    }
    for message in list_at(json, "messages") {
        read_message(&mut read, message);
    }
    read
}

fn read_message(read: &mut Conversation, message: &Value) {
    let content = message.get("content").unwrap_or(&Value::Null);
    match string_at(message, "role").as_str() {
        "system" | "developer" => read.add_system(&content_text(content)),
        "tool" => read.items.push(Item::ToolResult {
            id: string_at(message, "tool_call_id"),
            text: content_text(content),
            is_error: false,
        }),
        "assistant" => {
            // Servers differ in the name of this field, and clients send it back as it came.
            for key in ["reasoning_content", "reasoning"] {
                let thinking = string_at(message, key);
                if !thinking.is_empty() {
                    read.items.push(Item::Thinking(thinking));
                }
            }
            let text = content_text(content);
            if !text.is_empty() {
                read.items.push(Item::Assistant(text));
            }
            for call in list_at(message, "tool_calls") {
                let function = call.get("function").unwrap_or(&Value::Null);
                read.items.push(Item::ToolCall {
                    id: string_at(call, "id"),
                    name: string_at(function, "name"),
                    arguments: string_at(function, "arguments"),
                });
            }
        }
        _ => match content {
            Value::Array(parts) => parts.iter().for_each(|part| read_part(read, part)),
            text => read.items.push(Item::User(content_text(text))),
        },
    }
}

fn read_part(read: &mut Conversation, part: &Value) {
    match string_at(part, "type").as_str() {
        "text" => read.items.push(Item::User(string_at(part, "text"))),
        "image_url" => {
            let url = part.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
            let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            let (media_type, data) = inline.unwrap_or(("url", url));
            read.items.push(Item::Image { media_type: media_type.to_owned(), data: data.to_owned() });
        }
        other => read.items.push(Item::Other(other.to_owned())),
    }
}
