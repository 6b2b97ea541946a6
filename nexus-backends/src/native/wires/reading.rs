//! Parts of a reader that the wires with few kinds of events share: bounds, repairs, failures and message ids.

use std::{borrow::Cow, sync::Arc};

use http::HeaderMap;
use nexus_core::{
    ErrorKind, MessageId, ModelId, TurnEvent, Usage,
    harness::Failure,
    lenient_json::{self, HalfJoiner, Halves, Repaired},
    turn::{Cost, MessageEnded, RepairedLine, TextDelta, ThinkingDelta, Unrecognized},
};
use serde::Deserialize;
use serde_json::Value;

use crate::native::dialect::Dialect;
use crate::native::outcome::{ErrorBody, ErrorReply, error_headers, judge};
use crate::native::reply::{CallEnding, ModelReply, OutputItem};

/// Maximum size of a reply, in bytes of its events: twice the default maximum of one event.
const MAX_REPLY_BYTES: usize = 128 << 20;

/// Number of bytes retained of an unknown or unreadable event.
const MAX_SHOWN_BYTES: usize = 4 << 10;

/// Warning about an answer that lacks a piece, and the reason of its failure.
const LOST_PIECE: &str = "a part of the answer could not be read";

/// State of reading one model call.
pub(super) struct Reading {
    call: u32,
    dialect: Arc<dyn Dialect>,
    read_bytes: usize,
    /// The message of the call, once it was sent to the caller.
    shown: Vec<MessageId>,
    pub(super) usage: Option<Usage>,
    pub(super) cost: Option<Cost>,
    pub(super) model: Option<ModelId>,
    pub(super) ending: Option<CallEnding>,
    is_unreadable: bool,
    has_lost_piece: bool,
    halves: HalfJoiner,
    /// Split characters at the ends of the current event.
    event_halves: Halves,
    error_headers: HeaderMap,
}

impl Reading {
    /// Starts the call with the number `call` within the turn.
    pub(super) fn new(call: u32, dialect: Arc<dyn Dialect>) -> Self {
        Self {
            call,
            dialect,
            read_bytes: 0,
            shown: Vec::new(),
            usage: None,
            cost: None,
            model: None,
            ending: None,
            is_unreadable: false,
            has_lost_piece: false,
            halves: HalfJoiner::default(),
            event_halves: Halves::default(),
            error_headers: HeaderMap::new(),
        }
    }

    /// Stores the response headers that matter to an error in the stream.
    pub(super) fn answer_has(&mut self, headers: &HeaderMap) {
        self.error_headers = error_headers(headers);
    }

    /// Returns the number of the call within the turn.
    pub(super) fn call(&self) -> u32 {
        self.call
    }

    /// Returns the messages sent so far.
    pub(super) fn shown(&self) -> &[MessageId] {
        &self.shown
    }

    /// Counts an event. Returns its text; `None` if the reply is too long, which ends it.
    pub(super) fn take<'d>(&mut self, data: &'d [u8]) -> Option<Cow<'d, str>> {
        self.read_bytes = self.read_bytes.saturating_add(data.len());
        if self.read_bytes > MAX_REPLY_BYTES {
            let failure = Failure::new(
                ErrorKind::Protocol,
                format!("the reply is longer than {MAX_REPLY_BYTES} bytes"),
            );
            self.ending = Some(CallEnding::Failed(failure));
            return None;
        }
        Some(String::from_utf8_lossy(data))
    }

    /// Parses an event, repaired if needed, and passes it to `read` with the readable text. Reports an unreadable one.
    pub(super) fn parsed<T>(
        &mut self,
        data: &str,
        events: &mut Vec<TurnEvent>,
        mut read: impl for<'d> FnMut(&mut Self, &'d str, &mut Vec<TurnEvent>) -> Result<T, serde_json::Error>,
    ) -> Option<T> {
        let error = match read(self, data, events) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        if let Some(Repaired { text, repairs }) = lenient_json::repair(data.as_bytes()) {
            // A repair may leave half a character at the end of a text, which the next event completes.
            self.event_halves = repairs.halves;
            let again = read(self, &text, events);
            self.event_halves = Halves::default();
            if let Ok(value) = again {
                events.push(RepairedLine::new(data.as_bytes(), &repairs).into());
                return Some(value);
            }
        }
        self.broken(data, &error, events);
        None
    }

    /// Handles an unreadable event. One that is only incomplete was cut off by an interrupted stream.
    fn broken(&mut self, data: &str, error: &serde_json::Error, events: &mut Vec<TurnEvent>) {
        if !error.is_eof() {
            self.is_unreadable = true;
            if !std::mem::replace(&mut self.has_lost_piece, true) {
                events.push(TurnEvent::warning(LOST_PIECE));
            }
        }
        events.push(unknown(None, data).harmless().into());
    }

    /// Records an event that the wire does not have. It is harmless, because it is no part of the answer.
    pub(super) fn unknown(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        events.push(unknown(Some(name), data).harmless().into());
    }

    /// Records a part of the answer of an unknown kind. It may be the trace of a tool that the server ran.
    pub(super) fn unknown_part(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        events.push(unknown(Some(name), data).into());
    }

    /// Ends the call with an error of the server.
    pub(super) fn fail(&mut self, error: &Value) {
        let body = ErrorBody::of(error);
        // An error in a stream has no status of its own, because the response began as a success.
        let reply = ErrorReply { status: None, headers: &self.error_headers, body: &body };
        let failure = judge(&reply, self.dialect.failure(&reply));
        self.ending = Some(CallEnding::Failed(failure));
    }

    /// Returns the message of the call, which it shows from now on.
    fn message(&mut self) -> MessageId {
        if self.shown.is_empty() {
            self.shown.push(format!("c{}.1", self.call).into());
        }
        self.shown.first().cloned().unwrap_or_else(|| "c0.1".into())
    }

    /// Joins characters that two deltas of the text `name` split.
    pub(super) fn joined<'d>(&mut self, name: &str, delta: Cow<'d, str>) -> Cow<'d, str> {
        match self.halves.is_idle(self.event_halves) {
            true => delta,
            false => self.halves.delta(name, delta, self.event_halves),
        }
    }

    /// Returns U+FFFD for a half character at the end of the text `name`.
    pub(super) fn last_half(&mut self, name: &str) -> Option<char> {
        self.halves.finish(name)
    }

    /// Emits a piece of the answer.
    pub(super) fn text(&mut self, text: &str, events: &mut Vec<TurnEvent>) {
        if !text.is_empty() {
            events.push(TextDelta::new(self.message(), text).into());
        }
    }

    /// Emits a piece of thinking.
    pub(super) fn thought(&mut self, text: &str, events: &mut Vec<TurnEvent>) {
        if !text.is_empty() {
            events.push(ThinkingDelta::new(self.message(), text).into());
        }
    }

    /// Creates the item of a message.
    pub(super) fn message_item(&self, text: String, refusal: Option<String>) -> OutputItem {
        let message = format!("c{}.1", self.call).into();
        OutputItem::Message { message, text, refusal, raw: None }
    }

    /// Ends the reading: the reply has `items`, and the caller's message has `text`.
    pub(super) fn into_reply(
        mut self,
        items: Vec<OutputItem>,
        text: String,
        events: &mut Vec<TurnEvent>,
    ) -> ModelReply {
        let mut ending = self.ending.take().unwrap_or(CallEnding::Missing { unreadable: self.is_unreadable });
        if self.has_lost_piece && matches!(ending, CallEnding::Completed { .. }) {
            ending = CallEnding::Incomplete { reason: LOST_PIECE.to_owned() };
        }
        let is_answer = matches!(ending, CallEnding::Completed { .. } | CallEnding::Incomplete { .. });
        let items = match is_answer {
            true => items,
            // The output of a failed call must not enter the conversation, because the call may be repeated.
            false => Vec::new(),
        };
        let calls_tools = items.iter().any(OutputItem::is_call);
        let ended = match is_answer {
            true => Some(MessageEnded::new(self.message(), text)),
            // The usage of a failed call also counts. Its message stays open, because its text is incomplete.
            false => self.usage.map(|_| MessageEnded::new(format!("c{}.2", self.call).into(), "")),
        };
        if let Some(ended) = ended {
            let finish = ending.finish(calls_tools);
            events.push(ended.with_usage(self.usage).with_finish(finish).into());
        }
        ModelReply { items, usage: self.usage, cost: self.cost, model: self.model, ending }
    }
}

fn unknown(name: Option<&str>, data: &str) -> Unrecognized {
    let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
    if data.len() <= MAX_SHOWN_BYTES {
        let raw = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
        return Unrecognized::new(name, raw);
    }
    let head = data.get(..data.floor_char_boundary(MAX_SHOWN_BYTES)).unwrap_or_default();
    let event = Unrecognized::new(name, Value::String(head.to_owned()));
    event.truncated_from(data.len() as u64)
}

/// Parses JSON that borrows from its text.
pub(super) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(data)
}
