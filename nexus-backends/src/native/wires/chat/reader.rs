//! Converts the chunks of one model call into turn events and, at the end, the reply.

use std::{borrow::Cow, sync::Arc};

use http::HeaderMap;
use nexus_core::{ErrorKind, MessageId, ModelId, TurnEvent, harness::Failure};
use serde_json::{Map, Value, json, value::RawValue};

use super::super::reading::{Reading, parse};
use super::super::writing::ANSWER_TOOL;
use super::chunk::{Choice, Chunk, Content, Delta};
use super::thinking::{ThinkingPiece, ThinkingSplitter};
use super::tool_calls::CallSlots;
use crate::native::dialect::Dialect;
use crate::native::lenient::List;
use crate::native::reply::{CallEnding, ModelReply, OutputItem};
use crate::native::sse::Event;
use crate::native::usage::{UsageReport, cost, usage};
use crate::native::wire_reader::WireReader;

/// Maximum number of details of the thinking of one reply. Source: our own bound.
const MAX_DETAILS: usize = 1_024;

/// Reader of the chunks of one model call.
pub(crate) struct ChatReader {
    reading: Reading,
    has_answer_tool: bool,
    text: String,
    refusal: String,
    splitter: ThinkingSplitter,
    thinking: SentThinking,
    calls: CallSlots,
    /// End of the answer, after which only the usage may follow.
    finish: Option<CallEnding>,
    /// True if a chunk with content states an end, as every chunk of some servers does.
    ends_with_content: bool,
    /// True if content followed an end.
    has_false_end: bool,
    /// True after `[DONE]`, or after everything that a server sends before it.
    is_done: bool,
    has_other_choices: bool,
}

/// Thinking in the fields in which it came, and in which it goes back.
#[derive(Debug, Default)]
struct SentThinking {
    content: String,
    plain: String,
    details: Vec<Map<String, Value>>,
}

impl ChatReader {
    /// Creates a reader. `call` is the number of the model call within the turn. With `has_answer_tool`, a call of the
    /// answer's tool becomes the text of the answer.
    pub(crate) fn new(call: u32, dialect: Arc<dyn Dialect>, has_answer_tool: bool) -> Self {
        Self {
            reading: Reading::new(call, dialect),
            has_answer_tool,
            text: String::new(),
            refusal: String::new(),
            splitter: ThinkingSplitter::default(),
            thinking: SentThinking::default(),
            calls: CallSlots::default(),
            finish: None,
            ends_with_content: false,
            has_false_end: false,
            is_done: false,
            has_other_choices: false,
        }
    }

    fn data(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        if name == "error" {
            let error = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
            return self.reading.fail(&error);
        }
        // Take the reading out, because the chunk is applied to the rest of the reader.
        let mut parts = ChunkParts {
            text: &mut self.text,
            refusal: &mut self.refusal,
            splitter: &mut self.splitter,
            thinking: &mut self.thinking,
            calls: &mut self.calls,
            finish: &mut self.finish,
            ends_with_content: &mut self.ends_with_content,
            has_false_end: &mut self.has_false_end,
            is_done: &mut self.is_done,
            has_other_choices: &mut self.has_other_choices,
        };
        self.reading.parsed(data, events, |reading, data, events| {
            let chunk: Chunk<'_> = parse(data)?;
            parts.chunk(reading, name, data, &chunk, events);
            Ok(())
        });
    }

    /// Ends the texts, and returns the items of the reply with the text of the message.
    fn items(&mut self, events: &mut Vec<TurnEvent>) -> (Vec<OutputItem>, String) {
        // Half a character at the end of the stream can get no second half any more.
        if let Some(half) = self.reading.last_half("content") {
            let half = half.to_string();
            let pieces = self.splitter.push(&half);
            tell(&mut self.reading, &mut self.text, pieces, events);
        }
        let rest = self.splitter.finish();
        tell(&mut self.reading, &mut self.text, rest, events);
        let mut items = Vec::new();
        if let Some(raw) = self.thinking.sealed() {
            items.push(OutputItem::Reasoning { raw });
        }
        let mut calls = match &self.finish {
            // Arguments may be cut in an incomplete answer, so no call counts there.
            Some(CallEnding::Completed { .. }) => {
                std::mem::take(&mut self.calls).into_items(self.reading.call())
            }
            _ => Vec::new(),
        };
        let mut text = std::mem::take(&mut self.text);
        if self.has_answer_tool
            && let Some(answer) = take_answer(&mut calls)
            // With other calls in the reply, the model has not finished, so its answer is not final.
            && calls.is_empty()
        {
            self.reading.text(&answer, events);
            text.push_str(&answer);
        }
        let refusal = Some(std::mem::take(&mut self.refusal)).filter(|refusal| !refusal.is_empty());
        if !text.is_empty() {
            items.push(self.reading.message_item(text.clone(), refusal));
        }
        items.extend(calls);
        (items, text)
    }
}

impl WireReader for ChatReader {
    fn answer_has(&mut self, headers: &HeaderMap) {
        self.reading.answer_has(headers);
    }

    fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        if self.is_finished() {
            return;
        }
        let Some(data) = self.reading.take(event.data) else { return };
        match data.trim() {
            "" => {}
            "[DONE]" => self.is_done = true,
            _ => self.data(event.name, &data, events),
        }
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        if let Some(body) = self.reading.take(body) {
            self.data("", &body, events);
            self.is_done = true;
        }
    }

    fn is_finished(&self) -> bool {
        self.is_done || self.reading.ending.is_some()
    }

    /// The usage and `[DONE]` may follow the end of the answer. Some servers send neither and leave the connection open.
    /// Others state an end with every chunk, so silence after a chunk with content and an end proves nothing.
    fn awaits_rest(&self) -> bool {
        self.finish.is_some() && !self.ends_with_content && !self.has_false_end && !self.is_finished()
    }

    fn shown(&self) -> &[MessageId] {
        self.reading.shown()
    }

    fn into_reply(mut self: Box<Self>, events: &mut Vec<TurnEvent>) -> ModelReply {
        if self.finish.is_none() && self.is_done {
            // `[DONE]` marks the end, at servers that give no reason for it.
            self.finish = Some(CallEnding::Completed { end_turn: None });
        }
        if self.has_false_end && !self.is_done {
            self.finish = None;
        }
        let (items, text) = self.items(events);
        self.reading.ending = self.reading.ending.take().or(self.finish.take());
        self.reading.into_reply(items, text, events)
    }
}

/// Parts of the reader that a chunk changes.
struct ChunkParts<'r> {
    text: &'r mut String,
    refusal: &'r mut String,
    splitter: &'r mut ThinkingSplitter,
    thinking: &'r mut SentThinking,
    calls: &'r mut CallSlots,
    finish: &'r mut Option<CallEnding>,
    ends_with_content: &'r mut bool,
    has_false_end: &'r mut bool,
    is_done: &'r mut bool,
    has_other_choices: &'r mut bool,
}

impl ChunkParts<'_> {
    fn chunk(
        &mut self,
        reading: &mut Reading,
        name: &str,
        data: &str,
        chunk: &Chunk<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        if reading.model.is_none() && !chunk.model.is_empty() {
            reading.model = Some(ModelId::from(chunk.model.as_str()));
        }
        let extension = chunk.x_groq.0.as_ref().and_then(|extension| extension.usage.0.as_ref());
        // Groq reports the usage of a stream in its own member `x_groq`.
        let has_usage = count(reading, chunk.usage.0.as_ref().or(extension));
        let is_error =
            chunk.error.is_some_and(|error| error.get() != "null") || chunk.object.as_str() == "error";
        if is_error {
            return reading.fail(&serde_json::from_str(data).unwrap_or_default());
        }
        let Some(List(choices)) = &chunk.choices else {
            if !has_usage {
                not_a_chunk(reading, name, data, events);
            }
            return;
        };
        for choice in choices {
            if choice.index.0.unwrap_or(0) != 0 {
                if !std::mem::replace(self.has_other_choices, true) {
                    let text = "the server sends more than one answer; only the first is used";
                    events.push(TurnEvent::warning(text));
                }
                continue;
            }
            self.choice(reading, choice, events);
        }
        // With `stream_options`, the usage comes last, in a chunk without choices. Not every server sends `[DONE]`
        // after it.
        if has_usage && choices.is_empty() && self.finish.is_some() {
            *self.is_done = true;
        }
    }

    fn choice(&mut self, reading: &mut Reading, choice: &Choice<'_>, events: &mut Vec<TurnEvent>) {
        count(reading, choice.usage.0.as_ref());
        // A body that is not streamed has a `message` in place of the `delta`.
        let delta = choice.delta.0.as_ref().or(choice.message.0.as_ref());
        if let Some(delta) = delta {
            self.delta(reading, delta, events);
        }
        if let Some(error) = choice.error.filter(|error| error.get() != "null") {
            return reading.fail(&serde_json::from_str(error.get()).unwrap_or_default());
        }
        if !choice.finish_reason.is_empty() {
            *self.finish = Some(ending(choice.finish_reason.as_str()));
            *self.ends_with_content |= delta.is_some_and(Delta::has_content);
        }
    }

    fn delta(&mut self, reading: &mut Reading, delta: &Delta<'_>, events: &mut Vec<TurnEvent>) {
        if delta.has_content() {
            // Some servers state an end with every chunk. Such an end says nothing, so only `[DONE]` counts then.
            *self.has_false_end |= self.finish.take().is_some();
        }
        self.thought(reading, delta, events);
        match &delta.content {
            Content::Nothing => {}
            Content::Text(text) => self.content(reading, Cow::Borrowed(text), events),
            Content::Parts(List(parts)) => {
                for part in parts {
                    for thought in &part.thinking.0 {
                        reading.thought(thought.text.as_str(), events);
                    }
                    self.content(reading, Cow::Borrowed(part.text.as_str()), events);
                    self.refused(reading, part.refusal.as_str(), events);
                }
            }
        }
        self.refused(reading, delta.refusal.as_str(), events);
        for call in &delta.tool_calls.0 {
            self.calls.add(call, |name, text| reading.joined(name, text).into_owned());
        }
        if let Some(function) = &delta.function_call.0 {
            self.calls.add_single(function, |name, text| reading.joined(name, text).into_owned());
        }
    }

    fn content(&mut self, reading: &mut Reading, text: Cow<'_, str>, events: &mut Vec<TurnEvent>) {
        if text.is_empty() {
            return;
        }
        let text = reading.joined("content", text).into_owned();
        let pieces = self.splitter.push(&text);
        tell(reading, self.text, pieces, events);
    }

    fn refused(&mut self, reading: &mut Reading, text: &str, events: &mut Vec<TurnEvent>) {
        if !text.is_empty() {
            let text = reading.joined("refusal", Cow::Borrowed(text)).into_owned();
            self.refusal.push_str(&text);
            self.text.push_str(&text);
            reading.text(&text, events);
        }
    }

    /// Reads thinking. A server that sends it in two fields sends the same text in both.
    fn thought(&mut self, reading: &mut Reading, delta: &Delta<'_>, events: &mut Vec<TurnEvent>) {
        if let Some(details) = delta.reasoning_details {
            self.thinking.add_details(details);
        }
        let (content, plain) = (delta.reasoning_content.as_str(), delta.reasoning.as_str());
        let text = if content.is_empty() { plain } else { content };
        if text.is_empty() {
            return;
        }
        let text = reading.joined("thinking", Cow::Borrowed(text)).into_owned();
        match content.is_empty() {
            true => self.thinking.plain.push_str(&text),
            false => self.thinking.content.push_str(&text),
        }
        reading.thought(&text, events);
    }
}

impl SentThinking {
    /// Adds pieces of details. Pieces of one detail have its index and its type.
    fn add_details(&mut self, raw: &RawValue) {
        let Ok(pieces) = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) else { return };
        for piece in pieces {
            let is_same = |known: &&mut Map<String, Value>| {
                piece.contains_key("index")
                    && known.get("index") == piece.get("index")
                    && known.get("type") == piece.get("type")
            };
            // Pieces of one detail follow each other, so the search from the end finds it at once.
            let Some(known) = self.details.iter_mut().rev().find(is_same) else {
                if self.details.len() < MAX_DETAILS {
                    self.details.push(piece);
                }
                continue;
            };
            for (key, value) in piece {
                match (known.get_mut(&key), value) {
                    (Some(Value::String(known)), Value::String(more)) if is_text(&key) => {
                        known.push_str(&more);
                    }
                    (Some(_), Value::Null) => {}
                    (_, value) => drop(known.insert(key, value)),
                }
            }
        }
    }

    /// Returns the members of a message that contain the thinking, as a JSON object.
    fn sealed(&mut self) -> Option<Box<RawValue>> {
        let mut members = Map::new();
        for (name, text) in [("reasoning_content", &self.content), ("reasoning", &self.plain)] {
            if !text.is_empty() {
                members.insert(name.to_owned(), json!(text));
            }
        }
        if !self.details.is_empty() {
            members.insert("reasoning_details".to_owned(), json!(self.details));
        }
        (!members.is_empty()).then(|| RawValue::from_string(json!(members).to_string()).ok()).flatten()
    }
}

/// Returns true for the fields of a detail whose pieces are joined.
fn is_text(key: &str) -> bool {
    matches!(key, "text" | "summary" | "data")
}

/// Emits pieces of an answer.
fn tell<'p>(
    reading: &mut Reading,
    answer: &mut String,
    pieces: impl IntoIterator<Item = ThinkingPiece<'p>>,
    events: &mut Vec<TurnEvent>,
) {
    for piece in pieces {
        match piece {
            ThinkingPiece::Thinking(text) => reading.thought(&text, events),
            ThinkingPiece::Answer(text) => {
                answer.push_str(&text);
                reading.text(&text, events);
            }
        }
    }
}

/// Stores a reported usage. Returns true if there is one.
fn count(reading: &mut Reading, report: Option<&UsageReport>) -> bool {
    if let Some(report) = report {
        reading.usage = Some(usage(report));
        reading.cost = cost(report).or(reading.cost.take());
    }
    report.is_some()
}

/// Handles an object without choices: an error as some servers send it, or an unknown event.
fn not_a_chunk(reading: &mut Reading, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let is_error =
        // Other objects may have such members too, but objects of the API have an `id`, which errors lack.
        ["detail", "message", "code"].iter().any(|key| value.get(key).is_some_and(|value| !value.is_null()));
    match is_error && value.get("id").is_none() {
        true => reading.fail(&value),
        false => reading.unknown(name, data, events),
    }
}

/// Removes the calls of the answer's tool. Returns the arguments of the last one.
fn take_answer(calls: &mut Vec<OutputItem>) -> Option<String> {
    let mut answer = None;
    calls.retain_mut(|item| match item {
        OutputItem::Call(call) if call.name == ANSWER_TOOL => {
            answer = Some(std::mem::take(&mut call.arguments));
            false
        }
        _ => true,
    });
    answer
}

/// Returns the end for a `finish_reason`. An unknown reason is not a proof of a complete answer.
///
/// Source: the public API reference; Text Generation Inference (`eos_token`, `stop_sequence`), Mistral
/// (`model_length`), DeepSeek (`insufficient_system_resource`) and Z.ai (`sensitive`, `network_error`).
fn ending(reason: &str) -> CallEnding {
    let failed = |kind, words: &str| CallEnding::Failed(Failure::new(kind, words));
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" | "end_turn" | "eos" | "eos_token" | "stop_sequence"
        | "complete" | "completed" | "tool_use" => CallEnding::Completed { end_turn: None },
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => {
            CallEnding::Incomplete { reason: "max_output_tokens".to_owned() }
        }
        "content_filter" | "sensitive" | "safety" => {
            CallEnding::Incomplete { reason: "content_filter".to_owned() }
        }
        "insufficient_system_resource" => {
            failed(ErrorKind::Overloaded, "the server interrupted the answer: it is out of capacity")
        }
        "error" | "network_error" => {
            failed(ErrorKind::VendorFailure, "the server interrupted the answer without a reason")
        }
        _ => CallEnding::Incomplete { reason: reason.to_owned() },
    }
}

#[cfg(test)]
mod tests;
