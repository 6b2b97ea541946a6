//! Conversion between the items of the Responses wire and those of the loop, for a conversation that moves.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::parts::{message, text_content};
use super::shape::TextShape;
use crate::native::items::{Author, Item, ItemPart, Origin, Sealed, joined_text, note_of, note_parts};
use crate::native::json_cursor::JsonCursor;
use crate::native::lenient::{JsonText, Text};
use crate::native::plain_json::{self, plain_object};

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

plain_object!(StoredItem<'a> {
    "type" => kind,
    "role" => role,
    "content" => content,
    "output" => output,
    "call_id" => call_id,
    "name" => name,
    "arguments" => arguments,
    "input" => input,
});

/// Converts an item of this wire, which `origin` created. The item in its own form is added if the fields that every wire
/// knows do not yield the same bytes. Without such fields it becomes reasoning, which only its origin can read.
pub(crate) fn to_item(json: &str, origin: &Origin, shape: TextShape) -> Item {
    let sealed = || Sealed { origin: origin.clone(), json: json.to_owned() };
    let Some(mut item) = known_fields(json) else { return Item::reasoning(sealed()) };
    let is_known = || of_item(&item, shape).is_some_and(|known| known.to_string() == json);
    // The comparison writes the whole item again, so look for a foreign field first.
    if has_other_fields(json) || !is_known() {
        item.set_sealed(Some(sealed()));
    }
    item
}

/// Converts a JSON list of this wire into items for another origin. Returns also the number of items that only their origin
/// can read, which are left out.
pub(crate) fn to_items(list: &str) -> Option<(Vec<Arc<Item>>, usize)> {
    let stored: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let items: Vec<_> = stored.iter().filter_map(|item| known_fields(item.get())).map(Arc::new).collect();
    let left_out = stored.len() - items.len();
    Some((items, left_out))
}

/// Returns true if an item certainly has a field that [`of_item`] writes on none, such as the id of a server.
fn has_other_fields(json: &str) -> bool {
    let Some(mut cursor) = JsonCursor::new(json) else { return false };
    let mut has_other = false;
    let read = cursor.object(|key, value| {
        has_other |=
            !matches!(key, "type" | "role" | "content" | "call_id" | "name" | "arguments" | "output");
        value.skip()
    });
    has_other && read.is_some()
}

fn known_fields(json: &str) -> Option<Item> {
    let item: StoredItem<'_> = plain_json::read(json).ok()?;
    let call = item.call_id.as_str();
    let name = item.name.as_str();
    Some(match item.kind.as_str() {
        "message" => {
            let role = match item.role.as_str() {
                "assistant" => Author::Assistant,
                _ => Author::User,
            };
            let parts = parts(&item.content);
            let texts: Option<Vec<&str>> = parts.iter().map(ItemPart::as_text).collect();
            texts.and_then(|texts| note_of(&texts)).unwrap_or_else(|| Item::message(role, parts))
        }
        "function_call" => Item::call(call, name, item.arguments.0),
        // Other wires have no calls with free text, so the text becomes an argument.
        "custom_tool_call" => Item::call(call, name, json!({ "input": item.input.as_str() }).to_string()),
        "function_call_output" | "custom_tool_call_output" => Item::result(call, parts(&item.output), false),
        _ => return None,
    })
}

/// Converts an item without its sealed form. `None` for reasoning.
pub(crate) fn of_item(item: &Item, shape: TextShape) -> Option<Value> {
    Some(match item {
        Item::Message { role: Author::User, parts, .. } => message("user", &user_content(parts, shape)),
        Item::Message { role: Author::Assistant, parts, .. } => {
            message("assistant", &Value::String(joined_text(parts)))
        }
        Item::Call { id, name, arguments, .. } => json!({
            "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
        }),
        Item::Result { call, parts, is_error, .. } => {
            json!({ "type": "function_call_output", "call_id": call, "output": output(parts, *is_error) })
        }
        Item::Compacted { dropped, summary } => {
            message("user", &user_content(&note_parts(*dropped, summary.as_deref()), shape))
        }
        _ => return None,
    })
}

fn user_content(parts: &[ItemPart], shape: TextShape) -> Value {
    match parts {
        [ItemPart::Text { text }] => text_content(shape, text),
        parts => Value::Array(input_parts(parts)),
    }
}

/// Returns the output of a call: one text, or parts if it contains an image, as the conversation writes it.
fn output(parts: &[ItemPart], is_error: bool) -> Value {
    if parts.iter().any(|part| matches!(part, ItemPart::Image { .. })) {
        let mark = is_error.then(|| json!({ "type": "input_text", "text": "Error:" }));
        return mark.into_iter().chain(input_parts(parts)).collect();
    }
    let text = joined_text(parts);
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
        let back: Value = items.iter().map(|item| of_item(item, TextShape::Parts).unwrap()).collect();
        assert_eq!(to_items(&back.to_string()).unwrap(), (items, 0));
        assert_eq!(back[2]["arguments"], "{ \"a\" : 1 }", "a prompt cache compares bytes");
        assert_eq!(back[0]["content"][1]["image_url"], "data:image/png;base64,AAAA");
    }

    #[test]
    fn an_item_has_its_own_form_beside_if_its_fields_do_not_yield_it() {
        let origin = Origin { wire: "responses".into(), server: "s".into(), model: "m".into() };
        let sealed =
            |json: &str| to_item(json, &origin, TextShape::Plain).sealed().map(|sealed| sealed.json.clone());
        for plain in [
            r#"{"type":"message","role":"user","content":"Add."}"#,
            r#"{"type":"message","role":"assistant","content":"So."}"#,
            r#"{"type":"function_call","call_id":"1","name":"add","arguments":"{}"}"#,
            r#"{"type":"function_call_output","call_id":"1","output":"2"}"#,
        ] {
            assert_eq!(sealed(plain), None, "{plain}");
        }
        for own in [
            r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"So."}]}"#,
            r#"{"type":"custom_tool_call","call_id":"1","name":"patch","input":"x"}"#,
            r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}"#,
            r#"{"type":"web_search_call","id":"ws"}"#,
        ] {
            assert_eq!(sealed(own).as_deref(), Some(own));
        }
    }
}
