//! Splits a body of Amazon Web Services' binary messages (`application/vnd.amazon.eventstream`) into events.
//!
//! A message has a prelude with its lengths, headers, a payload, and two checksums. Source: the Smithy specification,
//! "Amazon Event Stream". The crate `aws-smithy-eventstream` reads the same format. It is not used because it needs the
//! types of the vendor's SDK (27 crates), and copies each payload before its length is bounded.
//!
//! A message of the type `event` with the member `bytes` has an event of the model in it. Other messages are passed on
//! unchanged under their name. An `exception` or `error` becomes an event `error` in the form of the Messages API, which
//! every wire reads.

use std::{fmt, str};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::json;

use super::sse::{Event, EventTooLong};

/// Length of the prelude: two lengths and their checksum, in bytes.
const PRELUDE_BYTES: usize = 12;
/// Length of the message's checksum, in bytes.
const CHECKSUM_BYTES: usize = 4;
/// Maximum length of the headers, in bytes. Source: the specification.
const MAX_HEADER_BYTES: usize = 128 << 10;
/// Buffer capacity retained for the next message, in bytes. Any excess is released.
const KEPT_CAPACITY_BYTES: usize = 64 << 10;

/// Fault of a stream after which no further event can be found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// An event exceeds the maximum size.
    TooLong(EventTooLong),
    /// A message does not match its lengths or its checksums.
    Damaged,
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(error) => error.fmt(f),
            Self::Damaged => {
                f.write_str("the stream is damaged: a message does not match its lengths or its checksum")
            }
        }
    }
}

impl std::error::Error for StreamFault {}

impl From<EventTooLong> for StreamFault {
    fn from(error: EventTooLong) -> Self {
        Self::TooLong(error)
    }
}

/// Cuts a body into the events of its messages.
pub struct FrameSplitter {
    max_event_bytes: usize,
    /// Bytes that were not read yet.
    unread: BytesMut,
    /// Name and data of the event that was returned last.
    name: String,
    data: Vec<u8>,
    fault: Option<StreamFault>,
}

/// Values of the headers that decide the meaning of a message.
#[derive(Debug, Default)]
struct FrameHeaders<'a> {
    message_type: &'a str,
    event_type: &'a str,
    exception_type: &'a str,
    error_code: &'a str,
    error_message: &'a str,
}

/// Payload of an event with a part of the model's answer.
#[derive(Deserialize)]
struct ChunkPayload {
    bytes: String,
}

/// Payload of an exception.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExceptionPayload {
    #[serde(alias = "Message")]
    message: Option<String>,
    original_message: Option<String>,
}

impl FrameSplitter {
    /// Creates a splitter for messages of up to `max_event_bytes` bytes.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self { max_event_bytes, unread: BytesMut::new(), name: String::new(), data: Vec::new(), fault: None }
    }

    /// Adds the next chunk of the body. [`next`](Self::next) must have returned `None` before.
    pub fn push(&mut self, chunk: &[u8]) {
        self.unread.extend_from_slice(chunk);
    }

    /// Returns the next complete event; `None` if more input is needed.
    ///
    /// # Errors
    ///
    /// A [`StreamFault`], for this and every further call.
    #[expect(
        clippy::should_implement_trait,
        reason = "the event borrows the splitter, which an Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, StreamFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.take() {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(Event { name: &self.name, data: &self.data })),
            Err(fault) => {
                self.fault = Some(fault);
                self.unread = BytesMut::new();
                Err(fault)
            }
        }
    }

    /// Takes the next message. Returns false if it is not complete yet.
    fn take(&mut self) -> Result<bool, StreamFault> {
        let Some(mut prelude) = self.unread.get(..PRELUDE_BYTES) else { return Ok(false) };
        let checked = crc32fast::hash(prelude.get(..8).unwrap_or_default());
        let (total, header_bytes) = (prelude.get_u32() as usize, prelude.get_u32() as usize);
        // Check the lengths before waiting for that many bytes.
        let Some(payload_end) = total.checked_sub(CHECKSUM_BYTES) else { return Err(StreamFault::Damaged) };
        let header_end = PRELUDE_BYTES + header_bytes;
        if prelude.get_u32() != checked || header_bytes > MAX_HEADER_BYTES || header_end > payload_end {
            return Err(StreamFault::Damaged);
        }
        if total > self.max_event_bytes {
            return Err(EventTooLong { max_event_bytes: self.max_event_bytes }.into());
        }
        if self.unread.len() < total {
            return Ok(false);
        }
        let message = self.unread.split_to(total).freeze();
        if self.unread.is_empty() && self.unread.capacity() > KEPT_CAPACITY_BYTES {
            self.unread = BytesMut::new();
        }
        let (checked, mut checksum) = message.split_at(payload_end);
        if checksum.get_u32() != crc32fast::hash(checked) {
            return Err(StreamFault::Damaged);
        }
        let headers = message.slice(PRELUDE_BYTES..header_end);
        let headers = FrameHeaders::read(&headers).ok_or(StreamFault::Damaged)?;
        self.read(&headers, &message.slice(header_end..payload_end));
        Ok(true)
    }

    /// Stores the name and the data of a message's event.
    fn read(&mut self, headers: &FrameHeaders<'_>, payload: &Bytes) {
        self.name.clear();
        self.data.clear();
        if self.data.capacity() > KEPT_CAPACITY_BYTES {
            self.data = Vec::new();
        }
        match headers.message_type {
            "exception" | "error" => {
                let kind = match headers.exception_type {
                    "" => headers.error_code,
                    kind => kind,
                };
                let told: ExceptionPayload = serde_json::from_slice(payload).unwrap_or_default();
                let words = told.message.or(told.original_message);
                let words = words.unwrap_or_else(|| match headers.error_message {
                    "" => String::from_utf8_lossy(payload).into_owned(),
                    words => words.to_owned(),
                });
                self.name.push_str("error");
                let error = json!({ "type": "error", "error": { "type": kind, "message": words } });
                self.data.extend_from_slice(error.to_string().as_bytes());
            }
            // The payload wraps an event of the model, which states its own type.
            _ if chunk(payload, &mut self.data) => {}
            _ => {
                self.name.push_str(headers.event_type);
                self.data.extend_from_slice(payload);
            }
        }
    }
}

/// Decodes the model's event in a payload. Returns false if the payload has none.
fn chunk(payload: &[u8], into: &mut Vec<u8>) -> bool {
    let Ok(ChunkPayload { bytes }) = serde_json::from_slice(payload) else { return false };
    let is_decoded = STANDARD.decode_vec(bytes, into).is_ok();
    if !is_decoded {
        into.clear();
    }
    is_decoded
}

impl<'a> FrameHeaders<'a> {
    /// Reads the headers; `None` if they do not match their lengths.
    fn read(mut rest: &'a [u8]) -> Option<Self> {
        let mut headers = Self::default();
        while !rest.is_empty() {
            let name_bytes = usize::from(rest.try_get_u8().ok()?);
            let name = rest.split_off(..name_bytes)?;
            let value_bytes = match rest.try_get_u8().ok()? {
                0 | 1 => 0,
                2 => 1,
                3 => 2,
                4 => 4,
                5 | 8 => 8,
                // A byte string, and a text.
                6 | 7 => usize::from(rest.try_get_u16().ok()?),
                9 => 16,
                _ => return None,
            };
            let value = str::from_utf8(rest.split_off(..value_bytes)?).unwrap_or_default();
            match name {
                b":message-type" => headers.message_type = value,
                b":event-type" => headers.event_type = value,
                b":exception-type" => headers.exception_type = value,
                b":error-code" => headers.error_code = value,
                b":error-message" => headers.error_message = value,
                _ => {}
            }
        }
        Some(headers)
    }
}

/// Shows no byte of the stream.
impl fmt::Debug for FrameSplitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSplitter")
            .field("max_event_bytes", &self.max_event_bytes)
            .field("unread_bytes", &self.unread.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
