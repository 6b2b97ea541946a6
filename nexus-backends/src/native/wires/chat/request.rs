//! Items as messages of a request.

use std::{borrow::Cow, fmt::Write as _};

use nexus_core::Effort;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::AnswerFormat;
use super::super::writing::{ANSWER_TOOL, ANSWER_TOOL_USE, call_id, element, members, tool_name, write};
use super::shape::{ChatShape, ThinkingBack};
use crate::native::arguments::json_arguments;
use crate::native::item_transcript::RequestWriter;
use crate::native::items::{Exchange, Item, ItemPart, MISSING_RESULT, joined_text, user_parts};
use crate::native::tools::wire_tool::ToolList;
use crate::native::transcript::TurnConstants;

/// Writer of requests.
#[derive(Debug)]
pub(crate) struct ChatWriter(pub(crate) ChatShape);

#[derive(Serialize)]
struct ChatHead<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(skip_serializing_if = "ToolList::is_empty")]
    tools: ToolList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
}

#[derive(Serialize)]
struct TextMessage<'a> {
    role: &'a str,
    content: Content<'a>,
}

#[derive(Serialize)]
struct ModelMessage<'a> {
    role: &'a str,
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WrittenCall<'a>>,
}

#[derive(Serialize)]
struct WrittenCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WrittenFunction<'a>,
}

#[derive(Serialize)]
struct WrittenFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct ResultMessage<'a> {
    role: &'static str,
    tool_call_id: Cow<'a, str>,
    content: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
}

impl RequestWriter for ChatWriter {
    fn wire(&self) -> &'static str {
        "chat"
    }

    fn head(&self, opening: &TurnConstants<'_>, _conversation: &str) -> Vec<u8> {
        let shape = &self.0;
        let mut tools = ToolList { tools: opening.tools, last: None };
        // Some servers reject this field in a request without tools.
        let parallel_tool_calls = shape.parallel_tool_calls.filter(|_| !tools.is_empty());
        let (mut tool_choice, mut response_format) = (None, None);
        match (opening.output_format, shape.answer) {
            (Some(format), AnswerFormat::Tool) => {
                tool_choice = Some(match tools.is_empty() {
                    true => json!({ "type": "function", "function": { "name": ANSWER_TOOL } }),
                    // With other tools, the model may need results before it can answer, so it may choose the tool.
                    false => json!("required"),
                });
                tools.last = Some(answer_tool(format));
            }
            (Some(format), AnswerFormat::Native) => response_format = Some(schema_format(format)),
            _ => {}
        }
        let head = ChatHead {
            model: opening.plan.model.as_str(),
            stream: true,
            stream_options: shape.stream_usage.then(|| json!({ "include_usage": true })),
            tools,
            tool_choice,
            parallel_tool_calls,
            reasoning_effort: opening.effort,
            response_format,
        };
        let mut into = Vec::new();
        write(&mut into, &head);
        // Remove the closing brace: every request completes the object with its messages.
        into.pop();
        if let Some(more) = &shape.body {
            members(&mut into, more);
        }
        into.extend_from_slice(b",\"messages\":[");
        if let Some(system) = opening.system {
            element(&mut into, &TextMessage { role: shape.system, content: Content::Text(system.into()) });
        }
        into
    }

    fn body(&self, head: &[u8], items: &[&Item], output_tokens: Option<u64>) -> Vec<u8> {
        let mut into = Vec::with_capacity(head.len() + 1024);
        into.extend_from_slice(head);
        let mut pictures: Vec<Value> = Vec::new();
        for exchange in Exchange::all_of(items) {
            self.user(&exchange, std::mem::take(&mut pictures), &mut into);
            self.model(&exchange, &mut into);
            pictures = self.answers(&exchange, &mut into);
        }
        // Pictures of the last results have no later message of the user to join.
        if !pictures.is_empty() {
            element(&mut into, &TextMessage { role: "user", content: Content::Parts(pictures) });
        }
        into.push(b']');
        if let (Some(tokens), Some(field)) = (output_tokens, self.0.output_bound) {
            into.extend_from_slice(format!(",\"{field}\":{tokens}").as_bytes());
        }
        into.push(b'}');
        into
    }
}

impl ChatWriter {
    /// Writes the messages of the user as one, after the pictures of the results before it.
    fn user(&self, exchange: &Exchange<'_>, mut parts: Vec<Value>, into: &mut Vec<u8>) {
        let said: Vec<Cow<'_, ItemPart>> = exchange.user.iter().flat_map(|item| user_parts(item)).collect();
        if said.is_empty() && parts.is_empty() {
            return;
        }
        let is_text = |part: &Cow<'_, ItemPart>| matches!(**part, ItemPart::Text { .. });
        let content = if parts.is_empty() && said.iter().all(is_text) {
            let texts = said.iter().filter_map(|part| match &**part {
                ItemPart::Text { text } => Some(text.as_str()),
                ItemPart::Image { .. } => None,
            });
            // Plain text where possible, because some servers do not accept a list of parts.
            Content::Text(texts.collect::<Vec<_>>().join("\n\n").into())
        } else {
            parts.extend(said.iter().map(|part| content_part(part)));
            Content::Parts(parts)
        };
        element(into, &TextMessage { role: "user", content });
    }

    /// Writes the model's reply as one message.
    fn model(&self, exchange: &Exchange<'_>, into: &mut Vec<u8>) {
        if exchange.model.is_empty() {
            return;
        }
        let (mut text, mut tool_calls, mut thinking) = (String::new(), Vec::new(), None);
        for item in &exchange.model {
            match item {
                Item::Message { parts, .. } => {
                    let separator = if text.is_empty() { "" } else { "\n\n" };
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{separator}{}", joined_text(parts));
                }
                Item::Call { id, name, arguments, .. } => tool_calls.push(WrittenCall {
                    id: call_id(id, self.0.id_length),
                    kind: "function",
                    function: WrittenFunction {
                        name: tool_name(name),
                        arguments: json_arguments(arguments)
                            .map_or(Cow::Borrowed(arguments.as_str()), Cow::Owned),
                    },
                }),
                Item::Reasoning { sealed, .. } => thinking = Some(sealed.json.as_str()),
                _ => {}
            }
        }
        // Servers reject a message of the model with neither content nor calls.
        if text.is_empty() && tool_calls.is_empty() {
            return;
        }
        let goes_back = match self.0.thinking_back {
            ThinkingBack::Always => true,
            ThinkingBack::WithCalls => !tool_calls.is_empty(),
            ThinkingBack::Never => false,
        };
        let content = (!text.is_empty()).then_some(Cow::Owned(text));
        element(into, &ModelMessage { role: "assistant", content, tool_calls });
        // Reopens the written message, because the members for the thinking differ between servers.
        if let Some(thinking) = thinking.filter(|_| goes_back) {
            into.pop();
            members(into, thinking);
            into.push(b'}');
        }
    }

    /// Writes the results of the calls. Returns their pictures, which a tool's message cannot contain.
    fn answers(&self, exchange: &Exchange<'_>, into: &mut Vec<u8>) -> Vec<Value> {
        let mut pictures = Vec::new();
        for answer in &exchange.answers {
            let id = call_id(answer.call, self.0.id_length);
            let content = match answer.result {
                None => MISSING_RESULT.to_owned(),
                Some((parts, is_error)) => {
                    let mut images =
                        parts.iter().filter(|part| matches!(part, ItemPart::Image { .. })).peekable();
                    let mut text = joined_text(parts);
                    if images.peek().is_some() {
                        let note = format!("[pictures of the result of call {id}]");
                        pictures.push(json!({ "type": "text", "text": note }));
                        pictures.extend(images.map(content_part));
                        if text.is_empty() {
                            "[the result is a picture, which follows]".clone_into(&mut text);
                        }
                    }
                    // The wire has no field for a failed call.
                    if is_error { format!("Error: {text}") } else { text }
                }
            };
            element(into, &ResultMessage { role: "tool", tool_call_id: id, content });
        }
        pictures
    }
}

fn content_part(part: &ItemPart) -> Value {
    match part {
        ItemPart::Text { text } => json!({ "type": "text", "text": text }),
        ItemPart::Image { media_type, data } => {
            json!({ "type": "image_url", "image_url": { "url": format!("data:{media_type};base64,{data}") } })
        }
    }
}

fn answer_tool(format: &Value) -> Value {
    let schema = format.get("schema").cloned().unwrap_or_default();
    json!({
        "type": "function",
        "function": { "name": ANSWER_TOOL, "description": ANSWER_TOOL_USE, "parameters": schema },
    })
}

/// Converts the format of an answer from the form of the Responses API.
fn schema_format(format: &Value) -> Value {
    let mut schema = format.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("type");
    }
    json!({ "type": "json_schema", "json_schema": schema })
}

#[cfg(test)]
mod tests;
