//! Items as messages of a request.

use std::borrow::Cow;

use nexus_core::Effort;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::super::AnswerFormat;
use super::super::writing::{
    ANSWER_TOOL, ANSWER_TOOL_USE, MISSING_BEGINNING, call_id, element, members, separate, tool_name, write,
};
use super::shape::{MessagesShape, ThinkingForm};
use crate::native::arguments::json_arguments;
use crate::native::item_transcript::RequestWriter;
use crate::native::items::{CallAnswer, Exchange, Item, ItemPart, MISSING_RESULT, user_parts};
use crate::native::tools::wire_tool::ToolList;
use crate::native::transcript::TurnConstants;

/// Maximum length of a call's id. Source: our own bound; the API states none.
const MAX_ID_BYTES: usize = 64;

/// Smallest budget for thinking. Source: the API reference.
const LEAST_BUDGET: u64 = 1_024;

/// Writer of requests.
#[derive(Debug)]
pub(crate) struct MessagesWriter {
    pub(crate) shape: MessagesShape,
    /// Budget for thinking, if the effort is sent as one.
    budget: Option<u64>,
}

#[derive(Serialize)]
struct MessagesHead<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    stream: bool,
    #[serde(skip_serializing_if = "ToolList::is_empty")]
    tools: ToolList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

#[derive(Serialize)]
struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
}

#[derive(Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct CallBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    input: Box<RawValue>,
}

#[derive(Serialize)]
struct ResultBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_use_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<Value>,
    #[serde(skip_serializing_if = "is_false")]
    is_error: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl MessagesWriter {
    /// Creates a writer for requests with this effort.
    pub(crate) fn new(shape: MessagesShape, effort: Option<Effort>) -> Self {
        let budget = effort.filter(|_| shape.thinking == ThinkingForm::Budget).map(budget);
        Self { shape, budget }
    }

    /// Returns the tools, with the answer's tool if the schema is sent as one, and the choice among them.
    fn tools<'a>(&self, opening: &TurnConstants<'a>) -> (ToolList<'a>, Option<Value>) {
        let mut tools = ToolList { tools: opening.tools, last: None };
        let Some(format) = opening.output_format.filter(|_| self.shape.answer == AnswerFormat::Tool) else {
            return (tools, None);
        };
        let is_thinking = opening.effort.is_some() && self.shape.thinking != ThinkingForm::Nothing;
        let choice = match (is_thinking, tools.is_empty()) {
            // The API rejects a forced tool together with thinking.
            (true, _) => None,
            (false, true) => Some(json!({ "type": "tool", "name": ANSWER_TOOL })),
            (false, false) => Some(json!({ "type": "any" })),
        };
        let schema = format.get("schema").cloned().unwrap_or_default();
        let answer = json!({ "name": ANSWER_TOOL, "description": ANSWER_TOOL_USE, "input_schema": schema });
        tools.last = Some(answer);
        (tools, choice)
    }
}

impl RequestWriter for MessagesWriter {
    fn wire(&self) -> &'static str {
        "messages"
    }

    fn head(&self, opening: &TurnConstants<'_>, _conversation: &str) -> Vec<u8> {
        let (mut tools, tool_choice) = self.tools(opening);
        let mut system = opening.system.filter(|text| !text.trim().is_empty()).map(|text| {
            let mut block = json!({ "type": "text", "text": text });
            self.mark(&mut block);
            json!([block])
        });
        // The server orders tools before system text and messages. So a mark at the system text also covers the tools.
        if system.is_none() {
            if tools.last.is_none()
                && let Some((last, others)) = tools.tools.split_last()
            {
                tools = ToolList { tools: others, last: Some(last.value()) };
            }
            tools.last.iter_mut().for_each(|last| self.mark(last));
        }
        let is_adaptive = self.shape.thinking == ThinkingForm::Adaptive;
        let effort = opening.effort.filter(|_| is_adaptive);
        let format = opening.output_format.filter(|_| self.shape.answer == AnswerFormat::Native);
        let format = format.map(|format| {
            json!({ "type": "json_schema", "schema": format.get("schema").cloned().unwrap_or_default() })
        });
        let head = MessagesHead {
            model: Some(opening.plan.model.as_str()).filter(|_| !self.shape.omits_model),
            stream: !self.shape.omits_stream,
            tools,
            tool_choice,
            system: system.take(),
            thinking: effort.map(|_| json!({ "type": "adaptive", "display": "summarized" })),
            output_config: (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format }),
        };
        let mut into = Vec::new();
        write(&mut into, &head);
        // Remove the closing brace: every request completes the object with its messages.
        into.pop();
        if let Some(more) = &self.shape.body {
            members(&mut into, more);
        }
        separate(&mut into);
        into.extend_from_slice(b"\"messages\":[");
        into
    }

    fn body(&self, head: &[u8], items: &[&Item], output_tokens: Option<u64>) -> Vec<u8> {
        let mut into = Vec::with_capacity(head.len() + 1024);
        into.extend_from_slice(head);
        let mut exchanges = Exchange::all_of(items).into_iter().peekable();
        let begins_with_model =
            exchanges.peek().is_some_and(|first| first.user.is_empty() && !first.model.is_empty());
        // The API rejects a conversation whose first message is the model's.
        if begins_with_model {
            let text = TextBlock { kind: "text", text: MISSING_BEGINNING.into() };
            message(&mut into, "user", |into| element(into, &text));
        }
        let mut answers = Vec::new();
        while let Some(exchange) = exchanges.next() {
            let is_last = exchanges.peek().is_none() && exchange.model.is_empty();
            user(&mut into, &answers, &exchange.user, is_last && self.shape.cache_marks);
            model(&mut into, &exchange.model);
            answers = exchange.answers;
        }
        user(&mut into, &answers, &[], self.shape.cache_marks);
        into.push(b']');
        // The API requires a limit in each request, and rejects zero.
        let bound = output_tokens.unwrap_or(u64::MAX).min(self.shape.max_tokens).max(1);
        let (bound, thinking) = self.bounds(bound);
        into.extend_from_slice(format!(",\"max_tokens\":{bound}").as_bytes());
        if let Some(budget) = thinking {
            let thinking = format!(",\"thinking\":{{\"type\":\"enabled\",\"budget_tokens\":{budget}}}");
            into.extend_from_slice(thinking.as_bytes());
        }
        into.push(b'}');
        into
    }
}

impl MessagesWriter {
    fn mark(&self, block: &mut Value) {
        if self.shape.cache_marks {
            block["cache_control"] = json!({ "type": "ephemeral" });
        }
    }

    /// Returns the limit of an answer, and the budget for thinking, which must be smaller. A limit that leaves no room
    /// for both has no thinking.
    fn bounds(&self, bound: u64) -> (u64, Option<u64>) {
        let budget = self.budget.map(|budget| budget.min(bound.saturating_sub(LEAST_BUDGET)));
        (bound, budget.filter(|budget| *budget >= LEAST_BUDGET))
    }
}

/// Returns the budget for an effort. Source: our own choice, within the bounds that the API documents.
fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 4_096,
        Effort::Medium => 10_240,
        Effort::High => 24_576,
        _ => 60_000,
    }
}

/// Writes a message, unless its content is empty.
fn message(into: &mut Vec<u8>, role: &str, content: impl FnOnce(&mut Vec<u8>)) {
    let before = into.len();
    separate(into);
    into.extend_from_slice(format!("{{\"role\":\"{role}\",\"content\":[").as_bytes());
    let start = into.len();
    content(into);
    match into.len() == start {
        true => into.truncate(before),
        false => into.extend_from_slice(b"]}"),
    }
}

/// Writes results and messages of the user as one message. With `is_marked`, a prompt cache may end there.
fn user(into: &mut Vec<u8>, answers: &[CallAnswer<'_>], said: &[&Item], is_marked: bool) {
    message(into, "user", |into| {
        let start = into.len();
        for answer in answers {
            element(into, &result_block(answer));
        }
        for part in said.iter().flat_map(|item| user_parts(item)) {
            if let Some(block) = content_block(&part) {
                element(into, &block);
            }
        }
        // The last byte is the closing brace of the last block, which gets another member.
        if is_marked && into.len() > start {
            into.pop();
            into.extend_from_slice(b",\"cache_control\":{\"type\":\"ephemeral\"}}");
        }
    });
}

fn result_block<'a>(answer: &CallAnswer<'a>) -> ResultBlock<'a> {
    let (content, is_error) = match answer.result {
        None => (vec![json!({ "type": "text", "text": MISSING_RESULT })], true),
        Some((parts, is_error)) => (parts.iter().filter_map(content_block).collect(), is_error),
    };
    ResultBlock { kind: "tool_result", tool_use_id: call_id(answer.call, MAX_ID_BYTES), content, is_error }
}

/// Writes the model's reply.
fn model(into: &mut Vec<u8>, items: &[&Item]) {
    message(into, "assistant", |into| {
        for item in items {
            match item {
                Item::Message { parts, .. } => {
                    for part in parts {
                        if let Some(block) = content_block(part) {
                            element(into, &block);
                        }
                    }
                }
                Item::Reasoning { sealed, .. } => {
                    separate(into);
                    into.extend_from_slice(sealed.json.as_bytes());
                }
                Item::Call { id, name, arguments, .. } => {
                    // The request must be valid JSON, although the arguments that a model writes may not be.
                    let text =
                        json_arguments(arguments).map_or(Cow::Borrowed(arguments.as_str()), Cow::Owned);
                    let input = RawValue::from_string(text.into_owned())
                        .unwrap_or_else(|_| RawValue::NULL.to_owned());
                    let id = call_id(id, MAX_ID_BYTES);
                    element(into, &CallBlock { kind: "tool_use", id, name: tool_name(name), input });
                }
                _ => {}
            }
        }
    });
}

/// Converts a part; `None` for a text without visible characters, which the API rejects.
fn content_block(part: &ItemPart) -> Option<Value> {
    match part {
        ItemPart::Text { text } if text.trim().is_empty() => None,
        ItemPart::Text { text } => Some(json!({ "type": "text", "text": text })),
        ItemPart::Image { media_type, data } => Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        })),
    }
}

#[cfg(test)]
mod tests;
