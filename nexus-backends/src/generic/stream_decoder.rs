//! Decoder for a recorded stream, outside of any turn: for tests, fuzzing and tools that read recordings.

use std::{fmt, mem, sync::Arc};

use bytes::Bytes;
use nexus_core::{ErrorKind, ModelId, TurnEvent, Usage, turn::Cost};

use super::native::Generic;
use crate::native::reply::{CallEnding, ModelReply, OutputItem};
use crate::native::sse::{DEFAULT_MAX_EVENT_BYTES, EventSplitter};
use crate::native::wires::responses::reader::ResponseReader;
use crate::native::wires::responses::shape::CustomCalls;

/// Decodes the recorded stream of one model call, as the generic dialect reads it.
///
/// ```
/// use nexus_backends::generic::{DecodedEnding, StreamDecoder};
///
/// let mut decoder = StreamDecoder::new();
/// decoder.push(r#"data: {"type":"response.output_text.delta","delta":"Hel"}"#.into());
/// let events = decoder.push("\n\n".into());
/// assert_eq!(events.len(), 1);
/// let (_, decoded) = decoder.finish();
/// assert_eq!(decoded.ending, DecodedEnding::Missing); // nothing said that this was all
/// ```
pub struct StreamDecoder {
    splitter: EventSplitter,
    reader: ResponseReader,
    is_too_long: bool,
}

/// Content of a recorded stream.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Texts of the messages, in order.
    pub messages: Vec<String>,
    /// Calls that a client must answer, in order.
    pub calls: Vec<DecodedCall>,
    /// Types of all items, in order.
    pub items: Vec<String>,
    /// True if the model refused.
    pub refused: bool,
    /// Token counts.
    pub usage: Option<Usage>,
    /// Cost that the server reported.
    pub cost: Option<Cost>,
    /// Model that the server reported.
    pub model: Option<ModelId>,
    /// End of the stream.
    pub ending: DecodedEnding,
}

/// Call that a client must answer.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedCall {
    /// Id that pairs the call with its output.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, or the input of a custom tool, as the model wrote them.
    pub arguments: String,
}

/// End of a recorded stream.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedEnding {
    /// The answer is complete.
    Completed,
    /// The model requests another call.
    Paused,
    /// The answer is incomplete, for this reason of the vendor.
    Incomplete(String),
    /// The server reported an error.
    Failed(ErrorKind),
    /// The stream has no terminal event.
    Missing,
    /// The stream has no terminal event, and an unreadable event.
    Unreadable,
    /// An event exceeds the maximum size.
    EventTooLong,
}

impl StreamDecoder {
    /// Creates a decoder for the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::with(CustomCalls::Client)
    }

    /// Creates a decoder for a server that answers custom tool calls itself.
    #[must_use]
    pub fn with_hosted_custom_calls() -> Self {
        Self::with(CustomCalls::Server)
    }

    fn with(custom_calls: CustomCalls) -> Self {
        Self {
            splitter: EventSplitter::new(DEFAULT_MAX_EVENT_BYTES),
            reader: ResponseReader::new(1, Arc::new(Generic::default()), custom_calls),
            is_too_long: false,
        }
    }

    /// Decodes the next chunk.
    pub fn push(&mut self, chunk: Bytes) -> Vec<TurnEvent> {
        let mut events = Vec::new();
        self.push_into(chunk, &mut events);
        events
    }

    /// Decodes the next chunk, and appends its turn events to `events`.
    pub fn push_into(&mut self, chunk: Bytes, events: &mut Vec<TurnEvent>) {
        self.splitter.push(chunk);
        loop {
            match self.splitter.next() {
                Ok(Some(event)) => self.reader.event(event, events),
                Ok(None) => break,
                Err(_) => {
                    self.is_too_long = true;
                    break;
                }
            }
        }
    }

    /// Ends the stream, and returns the remaining events and the decoded content.
    #[must_use]
    pub fn finish(mut self) -> (Vec<TurnEvent>, Decoded) {
        let mut events = Vec::new();
        if let Ok(Some(event)) = self.splitter.finish() {
            self.reader.event(event, &mut events);
        }
        let is_torn = self.is_too_long && !self.reader.is_finished();
        let mut reply = self.reader.into_reply(&mut events);
        let ending = mem::replace(&mut reply.ending, CallEnding::Missing { unreadable: false });
        let ending = if is_torn { DecodedEnding::EventTooLong } else { ending.into() };
        (events, Decoded::of(reply, ending))
    }
}

impl Default for StreamDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDecoder").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl Decoded {
    fn of(reply: ModelReply, ending: DecodedEnding) -> Self {
        let mut decoded = Self {
            messages: Vec::new(),
            calls: Vec::new(),
            items: Vec::new(),
            refused: false,
            usage: reply.usage,
            cost: reply.cost,
            model: reply.model,
            ending,
        };
        for item in reply.items {
            let kind = match item {
                OutputItem::Message { text, refusal, .. } => {
                    decoded.messages.push(text);
                    decoded.refused |= refusal.is_some();
                    "message".to_owned()
                }
                OutputItem::Reasoning { .. } => "reasoning".to_owned(),
                OutputItem::Call(call) => {
                    let (call_id, name, arguments) = (call.call_id, call.name, call.arguments);
                    decoded.calls.push(DecodedCall { call_id, name, arguments });
                    "function_call".to_owned()
                }
                OutputItem::CustomCall { call_id, name, input, .. } => {
                    decoded.calls.push(DecodedCall { call_id, name, arguments: input });
                    "custom_tool_call".to_owned()
                }
                OutputItem::Other { kind, .. } => kind,
            };
            decoded.items.push(kind);
        }
        decoded
    }
}

impl From<CallEnding> for DecodedEnding {
    fn from(ending: CallEnding) -> Self {
        match ending {
            CallEnding::Completed { end_turn: Some(false) } => Self::Paused,
            CallEnding::Completed { .. } => Self::Completed,
            CallEnding::Incomplete { reason } => Self::Incomplete(reason),
            CallEnding::Failed(failure) => Self::Failed(failure.kind),
            CallEnding::Missing { unreadable: true } => Self::Unreadable,
            CallEnding::Missing { unreadable: false } => Self::Missing,
        }
    }
}
