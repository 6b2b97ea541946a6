//! Converts the events of one model call into turn events and, at the end, the reply.
//!
//! An event is parsed once, into the struct of its type, and borrows from its bytes; a delta costs only the allocation
//! of its text. The loop decides what to do with the reply, and `outcome` classifies errors.
//!
//! Some servers implement only a part of the API. The final state of an item is its own end event
//! (`response.output_item.done`); without one, the output of the terminal event; without both, the sum of its deltas.

mod deltas;
mod ending;
mod hosted;
mod items;
mod quick;
mod reconcile;
mod slots;
mod template;
mod unknown;

use std::{borrow::Cow, collections::HashMap, fmt, mem, sync::Arc};

use http::HeaderMap;
use memchr::memchr_iter;
use nexus_core::{
    MessageId, ModelId, TurnEvent, Usage,
    lenient_json::{self, HalfJoiner, Halves, Repaired},
    turn::{Cost, MessageEnded, MessageVoided, RepairedLine, TextDelta, VoidCause},
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use self::deltas::{DeltaTarget, Thinking};
use self::ending::Terminal;
use self::slots::{ItemSlot, ItemSlots, SlotKind};
use self::template::Template;
use self::unknown::{Peeked, peek};
use super::shape::CustomCalls;
use super::wire::{ItemEvent, PartEvent, Response, ResponseEvent};
use crate::native::dialect::Dialect;
use crate::native::plain_json::{self, PlainJson};
use crate::native::reply::{CallEnding, FunctionCall, ModelReply, OutputItem};
use crate::native::sse::Event;
use crate::native::wire_reader::WireReader;

/// Maximum size of a reply, in bytes of its events: twice the default maximum of one event. The pieces of a reply are
/// kept until it ends, so a server that never ends would use up all memory.
const MAX_REPLY_BYTES: usize = 128 << 20;

/// Reader of the events of one model call.
pub(crate) struct ResponseReader {
    call: u32,
    dialect: Arc<dyn Dialect>,
    custom_calls: CustomCalls,
    slots: ItemSlots,
    /// Number of messages with an id so far.
    named: u32,
    /// Number of hosted calls with a generated id so far.
    hosted: u32,
    thinking: Thinking,
    template: Option<Box<Template>>,
    /// Total length of the events so far.
    read_bytes: usize,
    shown: Vec<MessageId>,
    usage: Option<Usage>,
    cost: Option<Cost>,
    model: Option<ModelId>,
    ending: Option<CallEnding>,
    is_unreadable: bool,
    halves: HalfJoiner,
    /// Split characters at the ends of the current event.
    event_halves: Halves,
    /// True if a delta of text, arguments or input was unreadable.
    has_lost_delta: bool,
    /// Headers that decide about a retry after an error in the stream.
    error_headers: HeaderMap,
    /// True if the response failed without a reason so far.
    awaits_reason: bool,
}

impl ResponseReader {
    /// Creates a reader. `call` is the number of the model call within the turn, including retries, and makes message
    /// ids unique: `c{call}.{n}`. `custom_calls` decides if the caller or the server runs a `custom_tool_call`.
    pub(crate) fn new(call: u32, dialect: Arc<dyn Dialect>, custom_calls: CustomCalls) -> Self {
        Self {
            call,
            dialect,
            custom_calls,
            slots: ItemSlots::default(),
            named: 0,
            hosted: 0,
            thinking: Thinking::default(),
            template: None,
            read_bytes: 0,
            shown: Vec::new(),
            usage: None,
            cost: None,
            model: None,
            ending: None,
            is_unreadable: false,
            halves: HalfJoiner::default(),
            event_halves: Halves::default(),
            has_lost_delta: false,
            error_headers: HeaderMap::new(),
            awaits_reason: false,
        }
    }

    /// Reads one event of the stream, and appends turn events for the caller to `events`. Ignores everything after the
    /// terminal event.
    pub(crate) fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        if self.is_finished() {
            return;
        }
        self.read_bytes = self.read_bytes.saturating_add(event.data.len());
        if self.read_bytes > MAX_REPLY_BYTES {
            return self.too_long(&format!("{MAX_REPLY_BYTES} bytes"));
        }
        // Take the template out while the delta borrows from it, because `self.delta` needs the reader mutably.
        let mut template = self.template.take().unwrap_or_default();
        if let Some((target, delta)) = template.read(event.data) {
            self.delta(target, delta, events);
            template.was_used();
            self.template = Some(template);
            return;
        }
        // The template covers only a repeated shape. This parser covers plain deltas, and `serde_json` everything else.
        let quick = quick::delta(event.data);
        if let Some((target, delta)) = &quick {
            template.learn(event.data, *target, delta);
        }
        self.template = Some(template);
        if let Some((target, delta)) = quick {
            return self.delta(target, delta, events);
        }
        match std::str::from_utf8(event.data) {
            Ok(data) => self.data(event.name, data, events),
            Err(_) => self.data(event.name, &String::from_utf8_lossy(event.data), events),
        }
    }

    /// Reads a complete response object, from a server that does not stream.
    pub(crate) fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        let repaired = lenient_json::repair(body);
        let body = match &repaired {
            Some(Repaired { text, repairs }) => {
                events.push(RepairedLine::new(body, repairs).into());
                Cow::Borrowed(text.as_str())
            }
            None => String::from_utf8_lossy(body),
        };
        match peek(&body) {
            // A server may also answer with a single event in place of the response object.
            Peeked::Kind(kind) if kind.starts_with("response.") || kind == "error" => {
                return self.data("", &body, events);
            }
            Peeked::Kind(_) | Peeked::Untyped => {}
            Peeked::NoObject(error) => return self.broken(None, &body, error.as_ref(), events),
        }
        match parse::<Response<'_>>(&body) {
            Err(error) => self.broken(None, &body, Some(&error), events),
            Ok(response) if response.is_empty() => self.untyped("", &body, events),
            Ok(response) => self.end(Terminal::Completed, response, events),
        }
    }

    /// Returns true after the terminal event.
    pub(crate) fn is_finished(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the messages sent so far, which must be retracted if the call is repeated.
    pub(crate) fn shown(&self) -> &[MessageId] {
        &self.shown
    }

    /// Ends the reading. Emits [`MessageEnded`] for each complete message in order; the last has the usage and the
    /// finish reason. Without a message, an empty one carries them.
    pub(crate) fn into_reply(mut self, events: &mut Vec<TurnEvent>) -> ModelReply {
        // The stream ended before the event that would give the reason of the failure.
        if self.awaits_reason() {
            self.fail(&Value::Null);
        }
        let mut ending = self.ending.take().unwrap_or(CallEnding::Missing { unreadable: self.is_unreadable });
        let has_open = self.finish_halves(events);
        if self.has_lost_delta && has_open && matches!(ending, CallEnding::Completed { .. }) {
            ending = CallEnding::Incomplete { reason: LOST_DELTA.to_owned() };
        }
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
        let is_answer = matches!(ending, CallEnding::Completed { .. } | CallEnding::Incomplete { .. });
        if is_answer && !calls_tools {
            self.put_answer_last(&mut ended, events);
        }
        if let Some(message) = self.thinking.message.take() {
            if is_answer && !ended.is_empty() && !calls_tools {
                // The last message is the answer, so thinking after it belongs to no message.
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

    /// Ends the texts of items without an end event. Returns true if one of them belongs to the answer.
    fn finish_halves(&mut self, events: &mut Vec<TurnEvent>) -> bool {
        let mut has_open = false;
        for index in 0..self.slots.as_slice().len() {
            let Some(slot) = self.slots.slot_mut(index).filter(|slot| slot.item.is_none()) else { continue };
            has_open |= slot.kind != SlotKind::Reasoning;
            let Some(half) = self.halves.finish(&index.to_string()) else { continue };
            slot.text.push(half);
            if let Some(message) = slot.message.as_ref().filter(|_| slot.is_shown) {
                events.push(TextDelta::new(message.clone(), half).into());
            }
        }
        has_open
    }

    /// Ensures that the answer is the last message: drops later messages without text, and retracts what was sent of
    /// them.
    fn put_answer_last(&self, ended: &mut Vec<MessageEnded>, events: &mut Vec<TurnEvent>) {
        let places: HashMap<&MessageId, usize> = self.shown.iter().zip(0..).collect();
        let place = |end: &MessageEnded| places.get(&end.message).copied();
        let with_text = ended.iter().filter(|end| !end.text.is_empty());
        let Some(answer) = with_text.filter_map(place).max() else { return };
        ended.retain(|end| {
            if !end.text.is_empty() || place(end).is_some_and(|place| place < answer) {
                return true;
            }
            if place(end).is_some() {
                events.push(MessageVoided::new(end.message.clone(), VoidCause::NotInRecord).into());
            }
            false
        });
    }

    fn data(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        let kind = match peek(data) {
            Peeked::Kind(kind) => kind,
            Peeked::Untyped if name.is_empty() || name == "message" => {
                return self.untyped(name, data, events);
            }
            Peeked::Untyped => name.into(),
            Peeked::NoObject(_) if data.trim().is_empty() || data.trim() == "[DONE]" => return,
            Peeked::NoObject(error) => match repaired(data) {
                Some(repaired) if !matches!(peek(&repaired.text), Peeked::NoObject(_)) => {
                    events.push(RepairedLine::new(data.as_bytes(), &repaired.repairs).into());
                    return self.data(name, &repaired.text, events);
                }
                _ => return self.broken(None, data, error.as_ref(), events),
            },
        };
        // `serde_json` does not read the escapes of raw items here, so it rejects none of them.
        let refused = match holds_items(&kind) && has_escaped_units(data) {
            true => None,
            false => match self.read(&kind, data, events) {
                Ok(()) => return,
                Err(error) => Some(error),
            },
        };
        let repaired = repaired(data);
        let text = repaired.as_ref().map_or(data, |repaired| repaired.text.as_str());
        if repaired.is_none()
            && let Some(error) = refused
        {
            return self.lost(&kind, data, &error, events);
        }
        self.event_halves = repaired.as_ref().map(|repaired| repaired.repairs.halves).unwrap_or_default();
        match self.read(&kind, text, events) {
            Err(error) => self.lost(&kind, data, &error, events),
            Ok(()) => events.extend(
                repaired
                    .map(|repaired| TurnEvent::from(RepairedLine::new(data.as_bytes(), &repaired.repairs))),
            ),
        }
        self.event_halves = Halves::default();
    }

    fn read(&mut self, kind: &str, data: &str, events: &mut Vec<TurnEvent>) -> Result<(), serde_json::Error> {
        if let Some(target) = DeltaTarget::of(kind.as_bytes()) {
            self.delta(target, parse(data)?, events);
            return Ok(());
        }
        if let Some(terminal) = Terminal::of(kind) {
            return self.terminal(terminal, data, events);
        }
        if let Some(target) = DeltaTarget::of_whole(kind) {
            self.whole_part(target, parse(data)?, events);
            return Ok(());
        }
        match kind {
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
                if let Some(item) = event.item.0 {
                    self.item_done(event.output_index.0, parse_raw(item)?, events);
                }
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                if self.model.is_none() {
                    let event: ResponseEvent<'_> = parse(data)?;
                    self.model = event.response.0.and_then(|response| response.model());
                }
            }
            "error" | "response.error" => {
                self.fail(&serde_json::from_str(data)?);
            }
            _ if unknown::is_noise(kind) => {}
            _ => match self.dialect.event(kind, data.as_bytes()) {
                Some(arrived) => events.extend(arrived),
                None => self.unknown(kind, data, events),
            },
        }
        Ok(())
    }
}

impl WireReader for ResponseReader {
    fn answer_has(&mut self, headers: &HeaderMap) {
        Self::answer_has(self, headers);
    }

    fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        Self::event(self, event, events);
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        Self::whole(self, body, events);
    }

    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn awaits_rest(&self) -> bool {
        Self::awaits_reason(self)
    }

    fn shown(&self) -> &[MessageId] {
        Self::shown(self)
    }

    fn into_reply(self: Box<Self>, events: &mut Vec<TurnEvent>) -> ModelReply {
        Self::into_reply(*self, events)
    }
}

/// Shows the progress, but no content of the stream.
impl fmt::Debug for ResponseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseReader")
            .field("call", &self.call)
            .field("shown", &self.shown)
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// Reason in the failure of an answer that lacks a piece.
const LOST_DELTA: &str = "a part of the answer could not be read";

fn repaired(data: &str) -> Option<Repaired> {
    lenient_json::repair(data.as_bytes())
}

/// Returns true if events of this type contain items, which are stored as raw text.
fn holds_items(kind: &str) -> bool {
    kind.starts_with("response.output_item.") || Terminal::of(kind).is_some()
}

/// Returns true if a text may have an escaped code unit, such as half of a surrogate pair.
fn has_escaped_units(data: &str) -> bool {
    let data = data.as_bytes();
    memchr_iter(b'\\', data).any(|place| data.get(place + 1) == Some(&b'u'))
}

fn parse<'a, T: PlainJson<'a> + Deserialize<'a>>(data: &'a str) -> Result<T, serde_json::Error> {
    plain_json::read(data)
}

/// Returns a text that is JSON as raw JSON.
fn parse_raw(item: &str) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_str(item)
}

#[cfg(test)]
mod tests;
