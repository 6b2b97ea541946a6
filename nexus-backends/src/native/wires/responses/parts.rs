//! Serialised parts of a conversation: messages, images, calls, and results of tools.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use nexus_core::{PromptBlock, ToolContent, ToolResult};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::shape::TextShape;
use crate::native::reply::FunctionCall;

/// Item with the result of a call.
#[derive(Serialize)]
pub(super) struct ToolOutput<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) call_id: &'a str,
    pub(super) output: Output<'a>,
}

/// Serialised result of a tool: text, or parts.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
}

impl Output<'_> {
    /// Returns a hash of the result, which identifies repeated results.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Text(text) => text.hash(&mut hasher),
            Self::Parts(parts) => parts.hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// Converts a tool's result for the model: one text, or parts if it contains an image.
pub(super) fn output_of(result: &ToolResult) -> Output<'_> {
    let has_picture = result.content.iter().any(|content| matches!(content, ToolContent::Image { .. }));
    if has_picture {
        let mark = result.is_error.then(|| json!({ "type": "input_text", "text": "Error:" }));
        return Output::Parts(
            mark.into_iter().chain(result.content.iter().filter_map(output_part)).collect(),
        );
    }
    let mut texts = result.content.iter().filter_map(text_of);
    let text = match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        // Most results are a single text, which is borrowed and not copied.
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let all: Vec<_> = [first, second].into_iter().chain(texts).collect();
            Cow::Owned(all.join("\n"))
        }
    };
    // The wire has no field for a failed call.
    match result.is_error {
        true => Output::Text(format!("Error: {text}").into()),
        false => Output::Text(text),
    }
}

fn text_of(content: &ToolContent) -> Option<Cow<'_, str>> {
    match content {
        ToolContent::Text { text } => Some(Cow::Borrowed(text)),
        ToolContent::Json { value } => Some(Cow::Owned(value.to_string())),
        _ => None,
    }
}

fn output_part(content: &ToolContent) -> Option<Value> {
    match content {
        ToolContent::Image { media_type, data } => Some(picture(media_type, data)),
        other => text_of(other).map(|text| json!({ "type": "input_text", "text": text })),
    }
}

/// Converts a block of the prompt; `None` if the API has no such part.
pub(super) fn input_part(block: &PromptBlock) -> Option<Value> {
    match block {
        PromptBlock::Text { text } => Some(json!({ "type": "input_text", "text": text })),
        PromptBlock::Image { media_type, data } => Some(picture(media_type, data)),
        _ => None,
    }
}

/// Text in place of an image that the server rejected.
const REFUSED_PICTURE: &str = "[a picture was here; the model's server rejected it]";

/// Replaces the images of an item by text. Returns true if it had any.
pub(super) fn replace_pictures(item: &mut Map<String, Value>) -> bool {
    let mut has_pictures = false;
    for key in ["content", "output"] {
        for part in item.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            if part.get("type").is_some_and(|kind| kind == "input_image") {
                *part = json!({ "type": "input_text", "text": REFUSED_PICTURE });
                has_pictures = true;
            }
        }
    }
    has_pictures
}

/// Returns an image part. `detail` is set although it has the default value, because vLLM rejects a part without it.
fn picture(media_type: &str, data: &str) -> Value {
    let url = format!("data:{media_type};base64,{data}");
    json!({ "type": "input_image", "image_url": url, "detail": "auto" })
}

/// Returns the content of a message that is a single text.
pub(super) fn text_content(shape: TextShape, text: &str) -> Value {
    match shape {
        TextShape::Plain => Value::String(text.to_owned()),
        TextShape::Parts => json!([{ "type": "input_text", "text": text }]),
    }
}

/// Returns a message with this role.
pub(super) fn message(role: &str, content: &Value) -> Value {
    json!({ "type": "message", "role": role, "content": content })
}

/// Returns a call without the ids that only its server knows.
pub(super) fn bare_call(call: &FunctionCall) -> Value {
    let mut item = json!({
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

/// Returns a call with free text, without the ids that only its server knows.
pub(super) fn bare_custom_call(call_id: &str, name: &str, input: &str) -> Value {
    json!({ "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input })
}

/// Returns reasoning without the fields that a server rejects in its input. If only raw text arrived, it becomes the
/// summary.
/// Source: recorded requests of a vendor's own program that replay reasoning.
pub(super) fn bare_reasoning(mut reasoning: Map<String, Value>) -> Map<String, Value> {
    reasoning.remove("status");
    let is_empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if is_empty(reasoning.get("summary")) {
        let texts = reasoning.get("content").and_then(Value::as_array).into_iter().flatten();
        let summary = texts
            .filter_map(|part| part.get("text"))
            .map(|text| json!({ "type": "summary_text", "text": text }));
        let summary: Vec<Value> = summary.collect();
        reasoning.insert("summary".to_owned(), Value::Array(summary));
    }
    reasoning
}
