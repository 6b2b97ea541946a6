//! The type of an event, and the handling of unknown types.
//!
//! Tool calls come only from finished items, and so do reports of the tools that a server runs itself. So an unknown
//! event changes the turn's effects only if it contains an item.

use std::{borrow::Cow, mem};

use memchr::memchr2;
use nexus_core::{TurnEvent, turn::Unrecognized};
use serde_json::Value;

use super::{CallEnding, DeltaTarget, LOST_DELTA, ResponseReader, Terminal};
use crate::native::wires::responses::wire::Typed;

/// Number of bytes retained of an unreadable event.
const BROKEN_HEAD_BYTES: usize = 4 << 10;

/// Number of bytes retained of a readable unknown event.
const UNKNOWN_HEAD_BYTES: usize = 1 << 20;

/// Events whose content other events repeat in full.
const NOISE: [&str; 8] = [
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.annotation.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_part.done",
    "response.metadata",
    "keepalive",
    "ping",
];

/// Prefixes of events about the progress of hosted tools. The finished item repeats all of their content.
const NOISY: [&str; 6] = [
    "response.web_search_call.",
    "response.file_search_call.",
    "response.image_generation_call.",
    "response.code_interpreter_call",
    "response.mcp_call",
    "response.mcp_list_tools.",
];

/// Returns true if an event of this type adds no information.
pub(super) fn is_noise(kind: &str) -> bool {
    NOISE.contains(&kind) || NOISY.iter().any(|prefix| kind.starts_with(prefix))
}

/// Result of looking at the first bytes of an event.
pub(super) enum Peeked<'a> {
    /// Type of the event.
    Kind(Cow<'a, str>),
    /// The event is an object without a type.
    Untyped,
    /// The event is not an object. Contains the parse error; `None` for JSON of another kind.
    NoObject(Option<serde_json::Error>),
}

/// Finds the type of an event. Normally it is the first key; then nothing is parsed.
pub(super) fn peek(data: &str) -> Peeked<'_> {
    if let Some(kind) = first_key(data.as_bytes()).and_then(|value| quoted(data, value)) {
        return Peeked::Kind(Cow::Borrowed(kind));
    }
    if !data.trim_start().starts_with('{') {
        return Peeked::NoObject(serde_json::from_str::<serde::de::IgnoredAny>(data).err());
    }
    match super::parse::<Typed<'_>>(data) {
        Ok(typed) if typed.kind.is_empty() => Peeked::Untyped,
        Ok(typed) => Peeked::Kind(typed.kind.0),
        Err(error) => Peeked::NoObject(Some(error)),
    }
}

/// Returns the start of the value, if the first key is `type` and its value is a string.
pub(super) fn first_key(data: &[u8]) -> Option<usize> {
    let rest = blank(data).strip_prefix(b"{")?;
    let rest = blank(rest).strip_prefix(b"\"type\"")?;
    let rest = blank(rest).strip_prefix(b":")?;
    let rest = blank(rest).strip_prefix(b"\"")?;
    Some(data.len() - rest.len())
}

/// Returns the string that begins at `start`, if it ends and has no escapes.
fn quoted(data: &str, start: usize) -> Option<&str> {
    let rest = data.get(start..)?;
    let end = memchr2(b'"', b'\\', rest.as_bytes())?;
    (rest.as_bytes().get(end) == Some(&b'"')).then(|| rest.get(..end)).flatten()
}

/// Returns the rest after leading white space.
fn blank(data: &[u8]) -> &[u8] {
    let start = data.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    data.get(start.unwrap_or(data.len())..).unwrap_or_default()
}

impl ResponseReader {
    /// Handles an object without a type: an error, as some servers send it, or an unreadable event.
    pub(super) fn untyped(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        match serde_json::from_str::<Value>(data) {
            Ok(value) if has_error(&value) => self.fail(&value),
            Ok(value) => {
                self.is_unreadable = true;
                let name = (!name.is_empty()).then(|| name.to_owned());
                events.push(unknown_event(name, value));
            }
            Err(error) => self.broken(None, data, Some(&error), events),
        }
    }

    /// Handles an event of an unknown type, which is passed on unchanged.
    pub(super) fn unknown(&mut self, kind: &str, data: &str, events: &mut Vec<TurnEvent>) {
        if data.len() > UNKNOWN_HEAD_BYTES {
            let head = data.get(..data.floor_char_boundary(UNKNOWN_HEAD_BYTES)).unwrap_or_default();
            let unknown = cut(Some(kind.to_owned()), head, data);
            // An event that is too long to parse may contain an item, which may be a call that a server ran.
            return events.push(match data.contains("\"item\"") {
                true => unknown.into(),
                false => unknown.harmless().into(),
            });
        }
        match serde_json::from_str::<Value>(data) {
            Ok(value) if !kind.starts_with("response.") && has_error(&value) => self.fail(&value),
            Ok(value) => events.push(unknown_event(Some(kind.to_owned()), value)),
            Err(error) => self.broken(Some(kind), data, Some(&error), events),
        }
    }

    /// Handles an unreadable event of a known type. It ends the reply if its type does.
    pub(super) fn lost(
        &mut self,
        kind: &str,
        data: &str,
        error: &serde_json::Error,
        events: &mut Vec<TurnEvent>,
    ) {
        self.broken(Some(kind), data, Some(error), events);
        match Terminal::of(kind) {
            // The type alone proves that the response failed.
            Some(Terminal::Failed) if !error.is_eof() => self.fail(&Value::Null),
            // An unreadable end proves nothing about the answer.
            Some(_) => self.ending = Some(CallEnding::Missing { unreadable: !error.is_eof() }),
            None => {
                let is_delta = DeltaTarget::of(kind.as_bytes())
                    // A lost piece of thinking does not damage the answer.
                    .is_some_and(|target| !matches!(target, DeltaTarget::Summary | DeltaTarget::Thought));
                if is_delta && !mem::replace(&mut self.has_lost_delta, true) {
                    events.push(TurnEvent::warning(LOST_DELTA));
                }
            }
        }
    }

    /// Handles an unreadable event. An event that is only incomplete was cut off by an interrupted stream.
    pub(super) fn broken(
        &mut self,
        kind: Option<&str>,
        data: &str,
        error: Option<&serde_json::Error>,
        events: &mut Vec<TurnEvent>,
    ) {
        if !error.is_some_and(serde_json::Error::is_eof) {
            self.is_unreadable = true;
        }
        events.push(head(kind, data));
    }
}

fn has_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

fn unknown_event(name: Option<String>, value: Value) -> TurnEvent {
    let has_item = value.get("item").is_some();
    let unknown = Unrecognized::new(name, value);
    if has_item { unknown.into() } else { unknown.harmless().into() }
}

/// Returns an event with the raw data, or with the beginning of the data as text.
fn head(kind: Option<&str>, data: &str) -> TurnEvent {
    let kind = kind.map(str::to_owned);
    if data.len() <= BROKEN_HEAD_BYTES {
        let raw = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
        return unknown_event(kind, raw);
    }
    let head = data.get(..data.floor_char_boundary(BROKEN_HEAD_BYTES)).unwrap_or_default();
    cut(kind, head, data).harmless().into()
}

/// Creates an event with only the beginning of its data.
fn cut(kind: Option<String>, head: &str, data: &str) -> Unrecognized {
    Unrecognized::new(kind, Value::String(head.to_owned())).truncated_from(data.len() as u64)
}
