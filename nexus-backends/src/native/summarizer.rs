//! Summary of the items that a compaction drops, by the model that the settings name.
//!
//! A summary is a help, not a condition: without one, the conversation is compacted all the same. Only a cancellation, the
//! deadline and the other limits of the turn end the turn.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use nexus_core::{
    Effort, ErrorKind, EventSink, Limit, MessageId, ModelId, PromptBlock, TurnEvent,
    harness::{Failure, ModelCall},
};

use super::compaction::cut_text;
use super::dialect::ModelPlan;
use super::items::Item;
use super::reply::{CallEnding, ModelReply, OutputItem};
use super::setup::TurnSetup;
use super::sse::Event;
use super::summary::{INSTRUCTIONS, MAX_SUMMARY_BYTES, MIN_SUMMARY_BYTES, is_readable, prompt};
use super::transcript::Transcript;
use super::turn_context::BodyEnd;
use super::turn_loop::TurnLoop;
use super::wire_reader::WireReader;
use super::wires;
use super::wires::shape::WireShape;

/// Longest wait for a summary. Source: our own choice.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum number of output tokens of a summary, reasoning included. Source: our own choice.
const MAX_OUTPUT_TOKENS: u64 = 4_096;

/// Minimum number of output tokens with which a summary is worth a request.
const MIN_OUTPUT_TOKENS: u64 = 256;

/// Part of the remaining output tokens that a summary may use.
const SHARE_OF_OUTPUT: u64 = 4;

/// Part of the request after the compaction that a summary may have.
const SHARE_OF_REQUEST: usize = 4;

/// Maximum length of a streamed summary with all its events, in bytes, at a server that has no limit on output tokens.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// Maximum length of the text of a streamed answer, reasoning included, in bytes. A server that has no limit on output tokens
/// is not read any further. Source: our own choice, twice the length of [`MAX_OUTPUT_TOKENS`].
const MAX_TEXT_BYTES: usize = 32 << 10;

/// Maximum number of bytes of a refusal in a warning.
const MAX_REFUSAL_BYTES: usize = 200;

/// Room for a summary in a request.
pub(super) struct SummaryRoom {
    /// Length of the request after the compaction, in bytes.
    pub(super) request_bytes: usize,
    /// Maximum length of the summary, in bytes. With less than [`MIN_SUMMARY_BYTES`] there is none.
    pub(super) max_bytes: usize,
}

/// Reader of a call whose events the caller does not get.
struct SilentReader {
    reader: Box<dyn WireReader>,
    /// Number of bytes that may still arrive.
    bytes_left: usize,
    /// Number of bytes of text that may still arrive.
    text_left: usize,
}

impl SilentReader {
    fn new(reader: Box<dyn WireReader>) -> Self {
        Self { reader, bytes_left: MAX_STREAM_BYTES, text_left: MAX_TEXT_BYTES }
    }
}

impl WireReader for SilentReader {
    fn answer_has(&mut self, headers: &HeaderMap) {
        self.reader.answer_has(headers);
    }

    fn received(&mut self, bytes: &[u8]) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes.len());
        self.reader.received(bytes);
    }

    fn event(&mut self, event: Event<'_>, _events: &mut Vec<TurnEvent>) {
        let mut events = Vec::new();
        self.reader.event(event, &mut events);
        for event in events {
            let bytes = match event {
                TurnEvent::TextDelta(delta) => delta.text.len(),
                TurnEvent::ThinkingDelta(delta) => delta.text.len(),
                _ => 0,
            };
            self.text_left = self.text_left.saturating_sub(bytes);
        }
    }

    fn whole(&mut self, body: &[u8], _events: &mut Vec<TurnEvent>) {
        self.reader.whole(body, &mut Vec::new());
    }

    fn is_finished(&self) -> bool {
        self.bytes_left == 0 || self.text_left == 0 || self.reader.is_finished()
    }

    fn body_broke(&mut self) {
        self.reader.body_broke();
    }

    fn awaits_rest(&self) -> bool {
        self.reader.awaits_rest()
    }

    fn shown(&self) -> &[MessageId] {
        // The caller gets no events of this call, so nothing must be retracted.
        &[]
    }

    fn into_reply(self: Box<Self>, _events: &mut Vec<TurnEvent>) -> ModelReply {
        self.reader.into_reply(&mut Vec::new())
    }
}

impl TurnLoop<'_> {
    /// Returns a summary of `items`, which a compaction drops; `None` if the settings name no model for it, and after a
    /// failure, which becomes a warning.
    ///
    /// Fails only if the turn must end.
    pub(super) async fn summary(
        &mut self,
        setup: &mut TurnSetup,
        items: &[Arc<Item>],
        room: SummaryRoom,
        events: &mut dyn EventSink,
    ) -> Result<Option<String>, Failure> {
        let backend = self.backend;
        let is_worth = room.max_bytes >= MIN_SUMMARY_BYTES && is_readable(items);
        let may_ask = is_worth && !self.has_no_summaries;
        let Some(model) = backend.summary_model.as_ref().filter(|_| may_ask) else { return Ok(None) };
        let max_bytes = longest_summary(room.request_bytes).min(room.max_bytes);
        let outcome = match self.room_for_summary(max_bytes) {
            Err(reason) => Err(reason),
            Ok(output_tokens) => {
                let left = self.context.watch.remaining();
                // Half of the remaining time at most, because the turn itself must continue.
                let patience = left.map_or(PATIENCE, |left| PATIENCE.min(left / 2));
                self.context.watch.shorten(patience);
                let requests_before = self.requests;
                let asked = self.request_summary(model, setup, items, max_bytes, output_tokens, events).await;
                self.context.watch.restore_deadline();
                // The limits on silence apply again from the next request of the turn.
                self.context.watch.rest();
                match asked {
                    Ok(outcome) => outcome,
                    Err(failure) if self.is_over() || !is_impatience(failure.kind) => return Err(failure),
                    Err(_) => {
                        // The server may charge for a request whose reply nobody read.
                        if self.requests > requests_before {
                            self.knows_cost(None, Some(model))?;
                        }
                        Err("it did not answer in time".to_owned())
                    }
                }
            }
        };
        self.may_ask()?;
        self.within_limits()?;
        match outcome {
            Ok(summary) => Ok(Some(summary)),
            Err(reason) => {
                self.has_no_summaries = true;
                let text = format!(
                    "{model} wrote no summary of the dropped part of the conversation, so the turn continues without \
                     summaries: {reason}"
                );
                self.context.log.event(TurnEvent::warning(text));
                Ok(None)
            }
        }
    }

    /// Returns the number of bytes by which a request of `request_bytes` bytes may grow because of a summary.
    pub(super) fn reserved_for_summary(&self, request_bytes: usize) -> usize {
        let has_summaries = self.backend.summary_model.is_some() && !self.has_no_summaries;
        if has_summaries { longest_summary(request_bytes) } else { 0 }
    }

    /// Returns true if the turn was cancelled or its deadline has passed.
    fn is_over(&self) -> bool {
        self.context.cancel.is_cancelled()
            || self.context.watch.remaining().is_some_and(|left| left.is_zero())
    }

    /// Returns the number of output tokens for a summary, or the limit that forbids one.
    fn room_for_summary(&self, max_bytes: usize) -> Result<u64, String> {
        if max_bytes < MIN_SUMMARY_BYTES {
            return Err("the model's context has no room for one".to_owned());
        }
        // The turn itself needs at least one more call.
        let made = self.context.log.model_calls;
        if self.request.limits.model_calls.is_some_and(|limit| limit.saturating_sub(made) < 2) {
            return Err("the limit on model calls leaves only one call".to_owned());
        }
        let tokens = self.output_tokens_left().map_or(MAX_OUTPUT_TOKENS, |left| left / SHARE_OF_OUTPUT);
        if tokens < MIN_OUTPUT_TOKENS {
            return Err("the limit on output tokens leaves too few tokens for a summary".to_owned());
        }
        Ok(tokens.min(MAX_OUTPUT_TOKENS))
    }

    /// Requests a summary once. The outer `Err` ends the turn, except for an expired time limit, which may end only the wait
    /// for the summary. The inner one is the reason of a failure.
    async fn request_summary(
        &mut self,
        model: &ModelId,
        setup: &mut TurnSetup,
        items: &[Arc<Item>],
        max_bytes: usize,
        output_tokens: u64,
        events: &mut dyn EventSink,
    ) -> Result<Result<String, String>, Failure> {
        let backend = self.backend;
        self.freshen(&mut setup.borrowed, events).await?;
        let borrowed = setup.borrowed.credential.as_ref();
        let planning = backend.dialect.model(Some(model), &backend.transport, borrowed);
        let plan = match self.context.attend(events, planning).await? {
            Ok(plan) => plan,
            Err(failure) => return Ok(Err(in_words(&failure))),
        };
        if let Err(failure) = self.check_price(&plan.model) {
            return Ok(Err(in_words(&failure)));
        }
        // The setting applies to each model of the server.
        let windows = [backend.context_window, plan.context_window];
        let window = windows.into_iter().flatten().filter(|window| *window > 0).min();
        let Some(prompt) = prompt(items, max_bytes, window) else {
            return Ok(Err("its context has no room for the items".to_owned()));
        };
        let effort = effort(&plan);
        let mut beside = setup.beside(plan, effort);
        let mut conversation = wires::open(&beside.opening_with(Some(INSTRUCTIONS)));
        conversation.user(&[PromptBlock::text(prompt)]);
        self.context.log.model_asked();
        let asked = self.ask_for_summary(&mut beside, &*conversation, output_tokens, events).await;
        // Before the error is returned, because the turn needs its credential in any case.
        setup.borrowed = beside.borrowed;
        let reply = match asked? {
            Ok(reply) => reply,
            Err(failure) => {
                self.context.log.model_failed(failure.kind);
                return Ok(Err(in_words(&failure)));
            }
        };
        let finish = reply.ending.finish(false);
        self.context.log.model_call_ended(&ModelCall::new().with_usage(reply.usage).with_finish(finish));
        Ok(summary_of(&reply, max_bytes))
    }

    /// Sends the request, and counts the usage and cost of its reply.
    async fn ask_for_summary(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &dyn Transcript,
        output_tokens: u64,
        events: &mut dyn EventSink,
    ) -> Result<Result<ModelReply, Failure>, Failure> {
        self.requests += 1;
        let reader = wires::reader(self.requests, &self.backend.dialect, &setup.plan);
        let mut reader = Box::new(SilentReader::new(reader));
        let end = match self.exchange(setup, conversation, Some(output_tokens), &mut *reader, events).await? {
            Ok(end) => end,
            Err(failed) => return Ok(Err(failed.failure)),
        };
        self.context.log.model_calls += 1;
        if !matches!(end, BodyEnd::Over) {
            reader.body_broke();
        }
        let mut reply = reader.into_reply(&mut Vec::new());
        self.add_cost(&mut reply, &setup.plan.model);
        if let Some(usage) = &reply.usage {
            self.context.log.recorder.add_usage(usage);
        }
        self.knows_cost(reply.cost, Some(&setup.plan.model))?;
        Ok(Ok(reply))
    }
}

/// Returns the maximum length of a summary in a request of `request_bytes` bytes without it.
fn longest_summary(request_bytes: usize) -> usize {
    MAX_SUMMARY_BYTES.min(request_bytes / SHARE_OF_REQUEST)
}

/// Returns the summary in a reply, or the reason why the reply lacks one.
fn summary_of(reply: &ModelReply, max_bytes: usize) -> Result<String, String> {
    match &reply.ending {
        CallEnding::Completed { .. } => {}
        // The beginning of a summary is useful too.
        CallEnding::Incomplete { reason } if reason.starts_with("max_") => {}
        CallEnding::Incomplete { reason } => return Err(format!("the answer is incomplete: {reason}")),
        CallEnding::Failed(failure) => return Err(in_words(failure)),
        CallEnding::Missing { .. } => {
            return Err("the answer ended before it was complete, or is too long".to_owned());
        }
    }
    let mut texts = Vec::new();
    for item in &reply.items {
        match item {
            OutputItem::Message { refusal: Some(refusal), .. } => {
                let words = &refusal[..refusal.floor_char_boundary(MAX_REFUSAL_BYTES)];
                return Err(format!("it refused: {words}"));
            }
            OutputItem::Message { text, .. } if !text.trim().is_empty() => texts.push(text.trim()),
            _ => {}
        }
    }
    match texts.is_empty() {
        true => Err("the answer has no text".to_owned()),
        false => Ok(cut_text(&texts.join("\n\n"), max_bytes)),
    }
}

/// Returns little effort, if the model supports it.
fn effort(plan: &ModelPlan) -> Option<Effort> {
    // On this wire a request without an effort has no reasoning at all.
    if matches!(plan.shape, WireShape::Messages(_)) {
        return None;
    }
    Effort::Low.clamp_to(&plan.efforts).map(|effort| effort.applied).filter(|effort| *effort <= Effort::Low)
}

/// Returns true if a time limit has expired, which may be the limit on the wait for a summary.
fn is_impatience(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::LimitReached(Limit::Deadline) | ErrorKind::Starved(_))
}

fn in_words(failure: &Failure) -> String {
    failure.message.clone().unwrap_or_else(|| "no reason is given".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_named_and_its_text_is_short() {
        let refusal = Some("é".repeat(5_000));
        let item = OutputItem::Message { message: "m".into(), text: String::new(), refusal, raw: None };
        let ending = CallEnding::Completed { end_turn: None };
        let reply = ModelReply { items: vec![item], usage: None, cost: None, model: None, ending };
        let reason = summary_of(&reply, 800).unwrap_err();
        assert!(reason.starts_with("it refused: é") && reason.len() <= 220, "{reason}");
    }
}
