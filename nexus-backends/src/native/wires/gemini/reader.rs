//! Converts the chunks of one model call into turn events and, at the end, the reply.

use std::{borrow::Cow, sync::Arc};

use http::HeaderMap;
use nexus_core::{ErrorKind, MessageId, ModelId, Retry, TurnEvent, Usage, harness::Failure};
use serde_json::{Value, value::RawValue};

use super::super::reading::{Reading, parse};
use super::super::writing::ANSWER_TOOL;
use super::chunk::{
    Candidate, GeneratedChunk, GeneratedPart, PromptFeedback, UsageMetadata, data_kind, first_member,
    parse_part,
};
use super::parts::{AnswerPart, AnswerParts};
use super::stray::StrayJson;
use crate::native::dialect::Dialect;
use crate::native::lenient::List;
use crate::native::reply::{CallEnding, ModelReply, OutputItem};
use crate::native::sse::Event;
use crate::native::wire_reader::WireReader;

/// Names of the texts whose split characters are joined.
const TEXT: &str = "text";
const THINKING: &str = "thinking";

/// Reader of the chunks of one model call.
pub(crate) struct GeminiReader {
    reading: Reading,
    has_answer_tool: bool,
    answer: GeneratedAnswer,
    stray: StrayJson,
    /// True if reading the body failed.
    is_broken: bool,
}

/// Answer so far.
#[derive(Default)]
struct GeneratedAnswer {
    parts: AnswerParts,
    counts: UsageMetadata,
    /// End that the candidate states. The usage may follow it.
    finish: Option<CallEnding>,
    /// True if a chunk with content states an end, as every chunk of some servers does.
    ends_with_content: bool,
    /// True if content followed an end.
    has_false_end: bool,
    has_other_candidates: bool,
}

impl GeminiReader {
    /// Creates a reader. `call` is the number of the model call within the turn. With `has_answer_tool`, a call of the
    /// answer's tool becomes the text of the answer.
    pub(crate) fn new(call: u32, dialect: Arc<dyn Dialect>, has_answer_tool: bool) -> Self {
        Self {
            reading: Reading::new(call, dialect),
            has_answer_tool,
            answer: GeneratedAnswer::default(),
            stray: StrayJson::default(),
            is_broken: false,
        }
    }

    fn data(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        if name == "error" {
            let error = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
            return self.reading.fail(&error);
        }
        self.reading.parsed(data, events, |reading, data, events| {
            let chunk: GeneratedChunk<'_> = parse(data)?;
            let candidate =
                chunk.candidates.as_ref().and_then(|List(list)| list.iter().find(|one| is_first(one)));
            // Parts are parsed here, so that a fault in one is repaired like any other.
            let raw =
                candidate.and_then(|one| one.content.0.as_ref()).map(|content| content.parts.0.as_slice());
            let parts = raw.unwrap_or_default().iter().map(|raw| Ok((*raw, parse_part(raw)?)));
            let parts = parts.collect::<Result<Vec<_>, serde_json::Error>>()?;
            self.answer.chunk(reading, name, data, &chunk, events);
            if reading.ending.is_none() {
                self.answer.candidate(reading, candidate, &parts, events);
            }
            Ok(())
        });
    }

    /// Returns the items of the reply, and the text of its message.
    fn items(&mut self, is_completed: bool, events: &mut Vec<TurnEvent>) -> (Vec<OutputItem>, String) {
        if let Some(half) = self.reading.last_half(TEXT) {
            let half = half.to_string();
            self.answer.parts.text(&half, "");
            self.reading.text(&half, events);
        }
        let (mut items, mut answer, mut submitted) = (Vec::new(), String::new(), None);
        // Only the first of several calls is signed. If that call submits the answer, it is left out, so move its signature to the
        // next call.
        let mut left = String::new();
        for (place, part) in self.answer.parts.take().into_iter().enumerate() {
            match part {
                AnswerPart::Text { text, marks } => {
                    items.extend(AnswerPart::marks(marks));
                    if !text.is_empty() {
                        answer.push_str(&text);
                        items.push(self.reading.message_item(text, None));
                    }
                }
                AnswerPart::Thought { text, signature } => items.extend(AnswerPart::thought(text, signature)),
                AnswerPart::Call { name, arguments, signature, .. }
                    if is_completed && self.has_answer_tool && name == ANSWER_TOOL =>
                {
                    submitted = Some(arguments);
                    if left.is_empty() {
                        left = signature;
                    }
                }
                AnswerPart::Call { id, name, arguments, signature } if is_completed => {
                    let left = std::mem::take(&mut left);
                    let signature = if signature.is_empty() { left } else { signature };
                    items.extend(AnswerPart::call(
                        (id, name, arguments, signature),
                        self.reading.call(),
                        place,
                    ));
                }
                AnswerPart::Call { .. } => {}
            }
        }
        if let Some(submitted) = submitted.filter(|_| !items.iter().any(OutputItem::is_call)) {
            self.reading.text(&submitted, events);
            answer.push_str(&submitted);
            items.push(self.reading.message_item(submitted, None));
        }
        (items, answer)
    }
}

impl WireReader for GeminiReader {
    fn answer_has(&mut self, headers: &HeaderMap) {
        self.reading.answer_has(headers);
    }

    fn received(&mut self, bytes: &[u8]) {
        self.stray.push(bytes);
    }

    fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        if self.is_finished() {
            return;
        }
        let Some(data) = self.reading.take(event.data) else { return };
        // Gateways end the stream as that of another API.
        if !matches!(data.trim(), "" | "[DONE]") {
            self.data(event.name, &data, events);
        }
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        let Some(body) = self.reading.take(body) else { return };
        // A server that ignores `alt=sse` sends its chunks as one list.
        match serde_json::from_str::<Vec<&RawValue>>(&body) {
            Ok(chunks) => {
                for chunk in chunks {
                    if !self.is_finished() {
                        self.data("", chunk.get(), events);
                    }
                }
            }
            Err(_) => self.data("", &body, events),
        }
    }

    fn is_finished(&self) -> bool {
        self.reading.ending.is_some()
    }

    fn body_broke(&mut self) {
        self.is_broken = true;
    }

    /// The usage may follow the end of the answer. A server that states an end with every chunk is read to its end. Such
    /// a server is not yet known after one chunk with content and an end, so silence after it proves nothing.
    fn awaits_rest(&self) -> bool {
        let answer = &self.answer;
        answer.finish.is_some() && !answer.ends_with_content && !answer.has_false_end && !self.is_finished()
    }

    fn shown(&self) -> &[MessageId] {
        self.reading.shown()
    }

    fn into_reply(mut self: Box<Self>, events: &mut Vec<TurnEvent>) -> ModelReply {
        // A server that states an end with every chunk ends an answer only with its body.
        let is_refuted = self.answer.has_false_end && self.is_broken;
        let finish = self.answer.finish.take().filter(|_| !is_refuted);
        if self.reading.ending.is_none()
            && let Some(error) = self.stray.error()
        {
            self.reading.fail(&error);
        }
        self.reading.ending = self.reading.ending.take().or(finish);
        let is_completed = matches!(self.reading.ending, Some(CallEnding::Completed { .. }));
        let (items, text) = self.items(is_completed, events);
        self.reading.into_reply(items, text, events)
    }
}

impl GeneratedAnswer {
    /// Applies everything of a chunk but the candidate's own part.
    fn chunk(
        &mut self,
        reading: &mut Reading,
        name: &str,
        data: &str,
        chunk: &GeneratedChunk<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        if reading.model.is_none() && !chunk.model_version.is_empty() {
            reading.model = Some(ModelId::from(chunk.model_version.as_str()));
        }
        if let Some(report) = &chunk.usage_metadata.0 {
            self.counts.add(report);
            reading.usage = Some(self.counts.usage());
        }
        if chunk.error.is_some_and(|error| error.get() != "null") {
            return reading.fail(&serde_json::from_str(data).unwrap_or_default());
        }
        let feedback = chunk.prompt_feedback.0.as_ref();
        if let Some(blocked) = feedback.and_then(blocked) {
            reading.ending = Some(CallEnding::Failed(blocked));
            return;
        }
        let others = chunk.candidates.as_ref().is_some_and(|List(list)| !list.iter().all(is_first));
        if others && !std::mem::replace(&mut self.has_other_candidates, true) {
            events.push(TurnEvent::warning("the server sends more than one answer; only the first is used"));
        }
        let is_known = chunk.candidates.is_some() || feedback.is_some() || chunk.usage_metadata.0.is_some();
        if !is_known && chunk.model_version.is_empty() {
            reading.unknown(name, data, events);
        }
    }

    /// Applies the parts and the end of the first candidate.
    fn candidate(
        &mut self,
        reading: &mut Reading,
        candidate: Option<&Candidate<'_>>,
        parts: &[(&RawValue, GeneratedPart<'_>)],
        events: &mut Vec<TurnEvent>,
    ) {
        let mut has_content = false;
        for (raw, part) in parts {
            has_content |= part.has_data();
            if self.parts.is_full() {
                let failure = Failure::new(ErrorKind::Protocol, "the reply has too many parts");
                reading.ending = Some(CallEnding::Failed(failure));
                return;
            }
            self.part(reading, raw, part, events);
        }
        let Some(candidate) = candidate else { return };
        let reason = candidate.finish_reason.as_str();
        // The unspecified reason is the default value of the field, and unused.
        if !matches!(reason, "" | "FINISH_REASON_UNSPECIFIED") {
            self.finish = Some(ending(reason, candidate.finish_message.as_str(), events));
            self.ends_with_content |= has_content;
        }
    }

    fn part(
        &mut self,
        reading: &mut Reading,
        raw: &RawValue,
        part: &GeneratedPart<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        let call = part.function_call.0.as_ref().filter(|call| !call.name.is_empty());
        let text = part.text.as_ref().map(|text| text.as_str()).unwrap_or_default();
        if part.has_data() {
            self.has_false_end |= self.finish.take().is_some();
        }
        // A signature belongs to the whole part, of which a call is the last member.
        let signature = part.thought_signature.as_str();
        // A signature cannot go back without the data of its part, such as a picture.
        let is_unknown =
            call.is_none() && part.text.is_none() && (signature.is_empty() || data_kind(raw).is_some());
        let of_text = if call.is_some() || is_unknown { "" } else { signature };
        if part.thought.0 == Some(true) {
            let text = reading.joined(THINKING, Cow::Borrowed(text)).into_owned();
            self.parts.thought(&text, of_text);
            reading.thought(&text, events);
        } else if part.text.is_some() || !of_text.is_empty() {
            let text = reading.joined(TEXT, Cow::Borrowed(text)).into_owned();
            self.parts.text(&text, of_text);
            reading.text(&text, events);
        }
        if let Some(call) = call {
            self.parts.call(call, signature);
        } else if is_unknown {
            let kind = data_kind(raw).or_else(|| first_member(raw)).unwrap_or_default();
            reading.unknown_part(&kind, raw.get(), events);
        }
    }
}

impl UsageMetadata {
    /// Takes the counts of a report. Each report replaces the one before it, but may lack some counts.
    fn add(&mut self, report: &Self) {
        for (count, reported) in [
            (&mut self.prompt_token_count, report.prompt_token_count),
            (&mut self.cached_content_token_count, report.cached_content_token_count),
            (&mut self.candidates_token_count, report.candidates_token_count),
            (&mut self.thoughts_token_count, report.thoughts_token_count),
            (&mut self.tool_use_prompt_token_count, report.tool_use_prompt_token_count),
        ] {
            count.0 = reported.0.or(count.0);
        }
    }

    /// Returns the counts in categories that share no token.
    fn usage(&self) -> Usage {
        let mut usage = Usage::new();
        usage.cache_read_tokens = self.cached_content_token_count.0;
        usage.reasoning_tokens = self.thoughts_token_count.0;
        usage.output_tokens = self.candidates_token_count.0;
        usage.input_tokens = self.prompt_token_count.0.map(|prompt| {
            let of_tools = self.tool_use_prompt_token_count.0.unwrap_or(0);
            prompt.saturating_add(of_tools).saturating_sub(self.cached_content_token_count.0.unwrap_or(0))
        });
        usage
    }
}

fn is_first(candidate: &Candidate<'_>) -> bool {
    candidate.index.0.unwrap_or(0) == 0
}

/// Returns the failure of a prompt that a filter blocked.
fn blocked(feedback: &PromptFeedback<'_>) -> Option<Failure> {
    let reason = feedback.block_reason.as_str();
    if matches!(reason, "" | "BLOCK_REASON_UNSPECIFIED") {
        return None;
    }
    let words = with_message(
        format!("the server's filter blocked the prompt: {reason}"),
        feedback.block_reason_message.as_str(),
    );
    Some(Failure::new(ErrorKind::Refused, words))
}

fn with_message(mut words: String, message: &str) -> String {
    if !message.trim().is_empty() {
        words.push_str(": ");
        words.push_str(message.trim());
    }
    words
}

/// Returns the end for a finish reason. An unknown reason is not a proof of a complete answer.
fn ending(reason: &str, message: &str, events: &mut Vec<TurnEvent>) -> CallEnding {
    let failed = |kind, words: &str| Failure::new(kind, with_message(format!("{words} ({reason})"), message));
    match reason {
        // Source: the API reference; aimock 1.43.0 states `FUNCTION_CALL` after whole calls.
        "STOP" | "FUNCTION_CALL" => CallEnding::Completed { end_turn: None },
        "MAX_TOKENS" => CallEnding::Incomplete { reason: "max_output_tokens".to_owned() },
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => {
            let words = format!("the server's filter ended the answer: {reason}");
            events.push(TurnEvent::warning(with_message(words, message)));
            CallEnding::Incomplete { reason: "content_filter".to_owned() }
        }
        // The model wrote a call that the server cannot use. The next attempt usually succeeds, and nothing was called.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            let failure =
                failed(ErrorKind::VendorFailure, "the server could not read a call that the model wrote");
            CallEnding::Failed(failure.with_retry(Retry::Guessed(Retry::SERVER_GUESS)))
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            let words = "the server misses a signature of earlier thinking";
            CallEnding::Failed(failed(ErrorKind::InvalidRequest, words))
        }
        _ => CallEnding::Incomplete { reason: reason.to_owned() },
    }
}

#[cfg(test)]
mod tests;
