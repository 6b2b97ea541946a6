//! Conversion between the items of the Responses wire and those of the loop, for a conversation that moves.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::native::compaction::{dropped_in_note, note_text};
use crate::native::items::{Author, Item, ItemPart};
use crate::native::lenient::{JsonText, Text};

/// Fields of an item that have a meaning on every wire.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    content: Value,
    output: Value,
    #[serde(borrow)]
    call_id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: JsonText<'a>,
    #[serde(borrow)]
    input: Text<'a>,
}

/// Converts a JSON list of this wire into items of the loop. Returns also the number of items that only this wire can
/// read, which are left out.
pub(crate) fn to_items(list: &str) -> Option<(Vec<Item>, usize)> {
    let stored: Vec<StoredItem<'_>> = serde_json::from_str(list).ok()?;
    let mut left_out = 0;
    let mut items = Vec::with_capacity(stored.len());
    for item in stored {
        let call = item.call_id.as_str().to_owned();
        let name = item.name.as_str().to_owned();
        items.push(match item.kind.as_str() {
            "message" => {
                let role = match item.role.as_str() {
                    "assistant" => Author::Assistant,
                    _ => Author::User,
                };
                let parts = parts(&item.content);
                let note = match parts.as_slice() {
                    [ItemPart::Text { text }] => dropped_in_note(text),
                    _ => None,
                };
                match note {
                    Some(dropped) => Item::Compacted { dropped },
                    None => Item::Message { role, parts },
                }
            }
            "function_call" => Item::Call { id: call, name, arguments: item.arguments.0.into_owned() },
            "custom_tool_call" => {
                Item::Call { id: call, name, arguments: json!({ "input": item.input.as_str() }).to_string() }
            }
            "function_call_output" | "custom_tool_call_output" => {
                Item::Result { call, parts: parts(&item.output), is_error: false }
            }
            _ => {
                left_out += 1;
                continue;
            }
        });
    }
    Some((items, left_out))
}

/// Converts items of the loop into items of this wire.
pub(crate) fn of_items(items: &[Item]) -> Vec<Value> {
    let converted = items.iter().filter_map(|item| {
        Some(match item {
            Item::Message { role: Author::User, parts } => {
                json!({ "type": "message", "role": "user", "content": input_parts(parts) })
            }
            Item::Message { role: Author::Assistant, parts } => {
                let text = crate::native::items::joined_text(parts);
                json!({ "type": "message", "role": "assistant", "content": text })
            }
            Item::Call { id, name, arguments } => json!({
                "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
            }),
            Item::Result { call, parts, is_error } => {
                json!({ "type": "function_call_output", "call_id": call, "output": output(parts, *is_error) })
            }
            Item::Compacted { dropped } => {
                let note = [ItemPart::text(note_text(*dropped))];
                json!({ "type": "message", "role": "user", "content": input_parts(&note) })
            }
            Item::Reasoning { .. } => return None,
        })
    });
    converted.collect()
}

/// Returns the output of a call: one text, or parts if it contains an image, as the conversation writes it.
fn output(parts: &[ItemPart], is_error: bool) -> Value {
    if parts.iter().any(|part| matches!(part, ItemPart::Image { .. })) {
        let mark = is_error.then(|| json!({ "type": "input_text", "text": "Error:" }));
        return mark.into_iter().chain(input_parts(parts)).collect();
    }
    let text = crate::native::items::joined_text(parts);
    Value::String(if is_error { format!("Error: {text}") } else { text })
}

fn parts(content: &Value) -> Vec<ItemPart> {
    let part = |part: &Value| {
        if let Some(text) = part.as_str().or_else(|| part.get("text").and_then(Value::as_str)) {
            return Some(ItemPart::text(text));
        }
        if let Some(text) = part.get("refusal").and_then(Value::as_str) {
            return Some(ItemPart::text(text));
        }
        let url = part.get("image_url").and_then(Value::as_str)?;
        let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(ItemPart::Image { media_type: media_type.to_owned(), data: data.to_owned() })
    };
    match content {
        Value::Array(list) => list.iter().filter_map(part).collect(),
        other => part(other).into_iter().collect(),
    }
}

fn input_parts(parts: &[ItemPart]) -> Vec<Value> {
    let part = |part: &ItemPart| match part {
        ItemPart::Text { text } => json!({ "type": "input_text", "text": text }),
        ItemPart::Image { media_type, data } => {
            json!({ "type": "input_image", "image_url": format!("data:{media_type};base64,{data}"), "detail": "auto" })
        }
    };
    parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_wire_knows_survives_both_ways_and_the_rest_is_counted() {
        let stored = json!([
            { "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": "Add." },
                { "type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto" },
            ] },
            { "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x" },
            { "type": "message", "id": "m", "role": "assistant", "content": [{ "type": "output_text", "text": "So." }] },
            { "type": "function_call", "id": "fc", "call_id": "1", "name": "add", "arguments": "{ \"a\" : 1 }" },
            { "type": "function_call_output", "call_id": "1", "output": "2" },
        ]);
        let (items, left_out) = to_items(&stored.to_string()).unwrap();
        assert_eq!((items.len(), left_out), (4, 1));
        let back = Value::from(of_items(&items));
        assert_eq!(to_items(&back.to_string()).unwrap(), (items, 0));
        assert_eq!(back[2]["arguments"], "{ \"a\" : 1 }", "a prompt cache compares bytes");
        assert_eq!(back[0]["content"][1]["image_url"], "data:image/png;base64,AAAA");
    }
}
