//! Reads a request of the Gemini API in neutral words.

use serde_json::Value;

use crate::sim::conversation::{Conversation, Item, OfferedTool, list_at, string_at};
use crate::sim::server::Arrival;

pub(super) fn read(arrival: &Arrival<'_>) -> Conversation {
    let json = arrival.json;
    let text_at = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let model = arrival.path.rsplit_once("odels/").map_or("", |(_, call)| call);
    let mut read = Conversation {
        // The method follows the model's name behind a colon.
        model: model.split(':').next().map(str::to_owned),
        effort: text_at("/generationConfig/thinkingConfig/thinkingLevel"),
        stream: arrival.path.ends_with(":streamGenerateContent"),
        max_output_tokens: json.pointer("/generationConfig/maxOutputTokens").and_then(Value::as_u64),
        output_schema: json.pointer("/generationConfig/responseJsonSchema").cloned(),
        ..Conversation::default()
    };
    for tool in list_at(json, "tools") {
        for function in list_at(tool, "functionDeclarations") {
            read.tools.push(OfferedTool {
                namespace: None,
                name: string_at(function, "name"),
                kind: "function".to_owned(),
                description: string_at(function, "description"),
            });
        }
    }
    for part in json.get("systemInstruction").map(|system| list_at(system, "parts")).unwrap_or_default() {
        read.add_system(&string_at(part, "text"));
    }
    for content in list_at(json, "contents") {
        let is_model = string_at(content, "role") == "model";
        for part in list_at(content, "parts") {
            read_part(&mut read, part, is_model);
        }
    }
    read
}

fn read_part(read: &mut Conversation, part: &Value, is_model: bool) {
    if let Some(call) = part.get("functionCall") {
        read.items.push(Item::ToolCall {
            id: string_at(call, "id"),
            name: string_at(call, "name"),
            arguments: call.get("args").map(Value::to_string).unwrap_or_default(),
        });
    } else if let Some(response) = part.get("functionResponse") {
        let output = response.get("response").unwrap_or(&Value::Null);
        let is_error = output.get("error").is_some();
        let text = string_at(output, if is_error { "error" } else { "output" });
        read.items.push(Item::ToolResult { id: string_at(response, "id"), text, is_error });
        // The images of a result are parts inside of it.
        for picture in list_at(response, "parts") {
            read_part(read, picture, is_model);
        }
    } else if let Some(blob) = part.get("inlineData") {
        let (media_type, data) = (string_at(blob, "mimeType"), string_at(blob, "data"));
        read.items.push(Item::Image { media_type, data });
    } else if part.get("thought").and_then(Value::as_bool) == Some(true) {
        read.items.push(Item::Thinking(string_at(part, "text")));
    } else if let Some(text) = part.get("text").and_then(Value::as_str) {
        match (is_model, text) {
            // A signed part may have an empty text, which is not an answer of the model.
            (true, "") => {}
            (true, text) => read.items.push(Item::Assistant(text.to_owned())),
            (false, text) => read.items.push(Item::User(text.to_owned())),
        }
    } else {
        let kind = part.as_object().and_then(|part| part.keys().next().cloned());
        read.items.push(Item::Other(kind.unwrap_or_default()));
    }
}
