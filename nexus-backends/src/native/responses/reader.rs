//! Makes turn events of the events of one model call and, at the end, the reply.
//!
//! An event is parsed once, into the struct of its type, and borrows from the bytes it came in; a delta costs the
//! one allocation of its text. What to do with the reply is left to the loop, what an error means to
//! [`outcome`](super::outcome).
//!
//! Servers that speak only a part of the API are read for what they do say: the last word on an item is its own
//! end (`response.output_item.done`), else the output of the terminal event, else what its deltas add up to.

mod hosted;
mod items;
mod reconcile;
mod reply;
mod slots;
mod stream_decoder;
mod unknown;
mod usage;

use std::{fmt, mem, sync::Arc};

use nexus_core::{
    MessageId, ModelId, TurnEvent, Usage,
    turn::{Cost, MessageEnded, MessageVoided, TextDelta, ThinkingDelta, VoidCause},
};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::reply::{Ending, FunctionCall, ModelReply, OutputItem};
pub use self::stream_decoder::{Decoded, DecodedCall, DecodedEnding, StreamDecoder};
use self::{
    slots::{Slot, SlotKind, Slots},
    unknown::{Peeked, peek},
};
use super::{
    outcome::{ErrorBody, ErrorReply, judge},
    sse::Event,
    wire::{DeltaEvent, ItemEvent, PartEvent, Response, ResponseEvent},
};
use crate::{
    native::dialect::{CustomCalls, Dialect},
    turn::Failure,
};

/// Reads the events of one model call.
pub(crate) struct ResponseReader {
    call: u32,
    dialect: Arc<dyn Dialect>,
    custom_calls: CustomCalls,
    slots: Slots,
    /// Messages named so far.
    named: u32,
    /// Hosted calls named so far.
    hosted: u32,
    thinking: Thinking,
    /// A delta of text came.
    has_text: bool,
    shown: Vec<MessageId>,
    usage: Option<Usage>,
    cost: Option<Cost>,
    model: Option<ModelId>,
    ending: Option<Ending>,
    is_unreadable: bool,
}

/// Thinking belongs to the message that comes after it.
#[derive(Debug, Default)]
struct Thinking {
    /// That message, which has not begun.
    message: Option<MessageId>,
    /// The part that was told last: of which item, which one, and whether it was a summary.
    part: Option<(usize, Option<u64>, bool)>,
    /// The server said that another part begins.
    part_ended: bool,
}

/// How a terminal event calls the end, where the response has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    Completed,
    Incomplete,
    Failed,
}

impl ResponseReader {
    /// `call` counts the model calls of the turn, retries too, and makes message ids unique within it:
    /// `c{call}.{n}`. `custom_calls` says who answers a `custom_tool_call`.
    pub(crate) fn new(call: u32, dialect: Arc<dyn Dialect>, custom_calls: CustomCalls) -> Self {
        Self {
            call,
            dialect,
            custom_calls,
            slots: Slots::default(),
            named: 0,
            hosted: 0,
            thinking: Thinking::default(),
            has_text: false,
            shown: Vec::new(),
            usage: None,
            cost: None,
            model: None,
            ending: None,
            is_unreadable: false,
        }
    }

    /// Reads one event of the stream. What a caller should see is appended to `events`. Nothing counts that
    /// comes after the terminal event.
    pub(crate) fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        if self.is_finished() {
            return;
        }
        match std::str::from_utf8(event.data) {
            Ok(data) => self.data(event.name, data, events),
            Err(_) => self.data(event.name, &String::from_utf8_lossy(event.data), events),
        }
    }

    /// Reads a whole response object, from a server that does not stream.
    pub(crate) fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        let body = String::from_utf8_lossy(body);
        match peek(&body) {
            Peeked::Kind(kind) if kind.starts_with("response.") || kind == "error" => {
                return self.data("", &body, events);
            }
            Peeked::Kind(_) | Peeked::Untyped => {}
            Peeked::NoObject(error) => return self.broken(None, &body, error.as_ref(), events),
        }
        match serde_json::from_str::<Response<'_>>(&body) {
            Err(error) => self.broken(None, &body, Some(&error), events),
            Ok(response) if response.is_empty() => self.untyped("", &body, events),
            Ok(response) => self.end(Terminal::Completed, response, events),
        }
    }

    /// Whether the terminal event came.
    pub(crate) fn is_finished(&self) -> bool {
        self.ending.is_some()
    }

    /// The messages shown so far, to be taken back if the call is repeated.
    pub(crate) fn shown(&self) -> &[MessageId] {
        &self.shown
    }

    /// Ends the reading: [`MessageEnded`] for each complete message in order, the last with the usage and the finish
    /// reason. If there is no message to carry these, one with an empty text does.
    pub(crate) fn into_reply(mut self, events: &mut Vec<TurnEvent>) -> ModelReply {
        let ending = self.ending.take().unwrap_or(Ending::Missing { unreadable: self.is_unreadable });
        let mut items = Vec::new();
        for slot in mem::take(&mut self.slots).into_ordered() {
            items.extend(items::finished(slot, &ending, || self.next_message()));
        }
        let mut ended: Vec<MessageEnded> = Vec::new();
        for item in &items {
            if let OutputItem::Message { message, text, .. } = item {
                ended.push(MessageEnded::new(message.clone(), text.as_str()));
            }
        }
        let calls_tools = items.iter().any(OutputItem::is_call);
        let is_answer = matches!(ending, Ending::Completed { .. } | Ending::Incomplete { .. });
        if let Some(message) = self.thinking.message.take() {
            if is_answer && !ended.is_empty() && !calls_tools {
                // The last message is the answer; thinking after it belongs to no message that there is.
                events.push(MessageVoided::new(message, VoidCause::NotInRecord).into());
            } else if is_answer {
                ended.push(MessageEnded::new(message, ""));
            }
        }
        if ended.is_empty() && (is_answer || self.usage.is_some()) {
            ended.push(MessageEnded::new(self.next_message(), ""));
        }
        let finish = ending.finish(calls_tools);
        let last = ended.pop().map(|last| last.with_usage(self.usage).with_finish(finish));
        events.extend(ended.into_iter().chain(last).map(TurnEvent::from));
        ModelReply { items, usage: self.usage, cost: self.cost, model: self.model, ending }
    }

    fn data(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        let kind = match peek(data) {
            Peeked::Kind(kind) => kind,
            Peeked::Untyped if name.is_empty() || name == "message" => {
                return self.untyped(name, data, events);
            }
            Peeked::Untyped => name.into(),
            Peeked::NoObject(_) if data.trim().is_empty() || data.trim() == "[DONE]" => return,
            Peeked::NoObject(error) => return self.broken(None, data, error.as_ref(), events),
        };
        if let Err(error) = self.read(&kind, data, events) {
            self.broken(Some(&kind), data, Some(&error), events);
        }
    }

    fn read(&mut self, kind: &str, data: &str, events: &mut Vec<TurnEvent>) -> Result<(), serde_json::Error> {
        match kind {
            "response.output_text.delta" => self.text(parse(data)?, false, events),
            "response.refusal.delta" => self.text(parse(data)?, true, events),
            "response.output_text.done" if !self.has_text => {
                let part: PartEvent<'_> = parse(data)?;
                self.text(part.into_delta(), false, events);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                self.thought(parse(data)?, true, events);
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.thought(parse(data)?, false, events);
            }
            "response.function_call_arguments.delta" => self.piece(SlotKind::Call, &parse(data)?),
            "response.custom_tool_call_input.delta" => self.piece(SlotKind::CustomCall, &parse(data)?),
            "response.function_call_arguments.done" => {
                let part: PartEvent<'_> = parse(data)?;
                self.whole_piece(SlotKind::Call, &part, &part.arguments.0);
            }
            "response.custom_tool_call_input.done" => {
                let part: PartEvent<'_> = parse(data)?;
                self.whole_piece(SlotKind::CustomCall, &part, &part.input.0);
            }
            "response.reasoning_summary_part.added" | "response.reasoning_part.added" => {
                self.thinking.part_ended = true;
            }
            "response.output_item.added" => self.item_added(&parse(data)?),
            "response.output_item.done" => {
                let event: ItemEvent<'_> = parse(data)?;
                if let Some(raw) = event.item {
                    self.item_done(event.output_index.0, raw, events);
                }
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                if self.model.is_none() {
                    let event: ResponseEvent<'_> = parse(data)?;
                    self.model = event.response.0.and_then(|response| response.model());
                }
            }
            "response.completed" | "response.done" => self.terminal(Terminal::Completed, data, events)?,
            "response.incomplete" | "response.cancelled" => {
                self.terminal(Terminal::Incomplete, data, events)?;
            }
            "response.failed" => self.terminal(Terminal::Failed, data, events)?,
            "error" | "response.error" => {
                let value: Value = serde_json::from_str(data)?;
                self.fail(&value);
            }
            _ if unknown::is_noise(kind) => {}
            _ => match self.dialect.event(kind, data.as_bytes()) {
                Some(news) => events.extend(news),
                None => self.unknown(kind, data, events),
            },
        }
        Ok(())
    }

    fn text(&mut self, event: DeltaEvent<'_>, is_refusal: bool, events: &mut Vec<TurnEvent>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(SlotKind::Message, place, id) else { return };
        let Some(slot) = self.slots.slot_mut(index) else { return };
        let delta = event.delta.0;
        let Some(message) = slot.message.as_ref().filter(|_| !delta.is_empty()) else { return };
        slot.text.push_str(&delta);
        if is_refusal {
            slot.refusal.push_str(&delta);
        }
        self.has_text = true;
        events.push(TextDelta::new(message.clone(), delta).into());
        if !slot.is_shown {
            slot.is_shown = true;
            let message = message.clone();
            self.show(message);
        }
    }

    fn thought(&mut self, event: DeltaEvent<'_>, is_summary: bool, events: &mut Vec<TurnEvent>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(SlotKind::Reasoning, place, id) else { return };
        let part = event.summary_index.0.or(event.content_index.0);
        self.think((index, part, is_summary), event.delta.0.into_owned(), events);
        if let Some(slot) = self.slots.slot_mut(index) {
            slot.is_shown = true;
        }
    }

    /// Tells a piece of thinking.
    fn think(&mut self, part: (usize, Option<u64>, bool), mut text: String, events: &mut Vec<TurnEvent>) {
        if text.is_empty() {
            return;
        }
        let message = match &self.thinking.message {
            Some(message) => {
                if self.thinking.part_ended || self.thinking.part != Some(part) {
                    text.insert_str(0, "\n\n");
                }
                message.clone()
            }
            None => {
                let message = self.next_message();
                self.thinking.message = Some(message.clone());
                self.show(message.clone());
                message
            }
        };
        self.thinking.part = Some(part);
        self.thinking.part_ended = false;
        events.push(ThinkingDelta::new(message, text).into());
    }

    /// A piece of arguments or input. It counts if the item never ends by itself.
    fn piece(&mut self, kind: SlotKind, event: &DeltaEvent<'_>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(kind, place, id) else { return };
        let Some(slot) = self.slots.slot_mut(index) else { return };
        if mem::take(&mut slot.is_preset) {
            slot.text.clear();
        }
        slot.text.push_str(event.delta.as_str());
    }

    /// All of the arguments or the input.
    fn whole_piece(&mut self, kind: SlotKind, event: &PartEvent<'_>, text: &str) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(kind, place, id) else { return };
        if let Some(slot) = self.slots.slot_mut(index)
            && !text.is_empty()
            && slot.text != text
        {
            text.clone_into(&mut slot.text);
        }
    }

    /// The item that an event is about. `None`: it is over.
    fn find_or_open(&mut self, kind: SlotKind, place: Option<u64>, id: &str) -> Option<usize> {
        match self.slots.find_open(kind, place, id) {
            Ok(Some(index)) => Some(index),
            Ok(None) => Some(self.open(kind, place, id)),
            Err(slots::Late) => None,
        }
    }

    fn open(&mut self, kind: SlotKind, place: Option<u64>, id: &str) -> usize {
        let index = self.slots.open(kind, place, id);
        if kind == SlotKind::Message {
            let thought_for = self.thinking.message.take();
            let is_shown = thought_for.is_some();
            let message = thought_for.unwrap_or_else(|| self.next_message());
            if let Some(slot) = self.slots.slot_mut(index) {
                slot.message = Some(message);
                slot.is_shown = is_shown;
            }
        }
        index
    }

    fn next_message(&mut self) -> MessageId {
        self.named += 1;
        format!("c{}.{}", self.call, self.named).into()
    }

    fn show(&mut self, message: MessageId) {
        self.shown.push(message);
    }

    fn terminal(
        &mut self,
        terminal: Terminal,
        data: &str,
        events: &mut Vec<TurnEvent>,
    ) -> Result<(), serde_json::Error> {
        let event: ResponseEvent<'_> = parse(data)?;
        self.end(terminal, event.response.0.unwrap_or_default(), events);
        Ok(())
    }

    /// The response is over.
    fn end(&mut self, terminal: Terminal, response: Response<'_>, events: &mut Vec<TurnEvent>) {
        self.model = response.model().or_else(|| self.model.take());
        if let Some(report) = &response.usage.0 {
            self.usage = Some(usage::usage(report));
            self.cost = usage::cost(report);
        }
        for item in self.slots.reconcile(&response.output.0) {
            match item.slot {
                Some(slot) => self.fill(slot, item.raw, events),
                None => self.item_done(Some(item.position), item.raw, events),
            }
        }
        let error = response.error.filter(|error| error.get() != "null");
        let terminal = match response.status.as_str() {
            "completed" => Terminal::Completed,
            "failed" => Terminal::Failed,
            "incomplete" | "cancelled" => Terminal::Incomplete,
            "" if error.is_some() => Terminal::Failed,
            _ => terminal,
        };
        match terminal {
            Terminal::Completed => self.ending = Some(Ending::Completed { end_turn: response.end_turn.0 }),
            Terminal::Incomplete => {
                let reason = response.incomplete_details.0.map(|details| details.reason.0.into_owned());
                let reason = reason.filter(|reason| !reason.is_empty());
                let status = || match response.status.as_str() {
                    "" => "incomplete".to_owned(),
                    status => status.to_owned(),
                };
                self.ending = Some(Ending::Incomplete { reason: reason.unwrap_or_else(status) });
            }
            Terminal::Failed => {
                let error = error.and_then(|error| serde_json::from_str(error.get()).ok());
                self.fail(&error.unwrap_or(Value::Null));
            }
        }
    }

    /// The server told an error.
    fn fail(&mut self, error: &Value) {
        let failure = self.judged(error);
        self.ending = Some(Ending::Failed(failure));
    }

    fn judged(&self, error: &Value) -> Failure {
        let headers = HeaderMap::new();
        let body = ErrorBody::of(error);
        judge(&ErrorReply { status: None, headers: &headers, body: &body }, &*self.dialect)
    }
}

/// Shows how far it is, and no word of the stream.
impl fmt::Debug for ResponseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseReader")
            .field("call", &self.call)
            .field("shown", &self.shown)
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(data)
}

impl<'a> PartEvent<'a> {
    /// The text, as if it were a piece.
    fn into_delta(self) -> DeltaEvent<'a> {
        let (item_id, output_index) = (self.item_id, self.output_index);
        DeltaEvent { item_id, output_index, delta: self.text, ..DeltaEvent::default() }
    }
}

impl Response<'_> {
    fn model(&self) -> Option<ModelId> {
        (!self.model.is_empty()).then(|| self.model.as_str().into())
    }

    /// Whether it says nothing that a response says.
    fn is_empty(&self) -> bool {
        self.status.is_empty() && self.id.is_empty() && self.output.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
