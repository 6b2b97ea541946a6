//! Decoder for a recorded stream, outside of any turn: for tests, fuzzing and tools that read recordings.

use std::{fmt, mem, sync::Arc};

use bytes::Bytes;
use nexus_core::{ErrorKind, ModelId, TurnEvent, Usage, turn::Cost};

use super::chat::ChatServer;
use super::gemini::GeminiServer;
use super::messages::MessagesServer;
use super::native::Generic;
use crate::native::reply::{CallEnding, ModelReply, OutputItem};
use crate::native::sse::{DEFAULT_MAX_EVENT_BYTES, EventSplitter};
use crate::native::wire_reader::WireReader;
use crate::native::wires::chat::reader::ChatReader;
use crate::native::wires::gemini::reader::GeminiReader;
use crate::native::wires::messages::reader::MessagesReader;
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
    reader: Box<dyn WireReader>,
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
    /// Creates a decoder for the start of a stream of the Responses API.
    #[must_use]
    pub fn new() -> Self {
        Self::of_responses(CustomCalls::Client)
    }

    /// Creates a decoder for the start of a stream of Chat Completions.
    #[must_use]
    pub fn chat() -> Self {
        Self::with(ChatReader::new(1, Arc::new(ChatServer::default()), false))
    }

    /// Creates a decoder for the start of a stream of the Messages API.
    #[must_use]
    pub fn messages() -> Self {
        Self::with(MessagesReader::new(1, Arc::new(MessagesServer::default()), false))
    }

    /// Creates a decoder for the start of a stream of the Gemini API.
    #[must_use]
    pub fn gemini() -> Self {
        Self::with(GeminiReader::new(1, Arc::new(GeminiServer::default()), false))
    }

    /// Creates a decoder for a server that answers custom tool calls itself.
    #[must_use]
    pub fn with_hosted_custom_calls() -> Self {
        Self::of_responses(CustomCalls::Server)
    }

    fn of_responses(custom_calls: CustomCalls) -> Self {
        Self::with(ResponseReader::new(1, Arc::new(Generic::default()), custom_calls))
    }

    fn with(reader: impl WireReader + 'static) -> Self {
        Self {
            splitter: EventSplitter::new(DEFAULT_MAX_EVENT_BYTES),
            reader: Box::new(reader),
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
        self.reader.received(&chunk);
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
        // An oversized event after the terminal one does not affect the answer.
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
        f.debug_struct("StreamDecoder")
            .field("is_finished", &self.reader.is_finished())
            .finish_non_exhaustive()
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
        let mut last = None;
        for item in reply.items {
            let kind = match item {
                OutputItem::Message { message, text, refusal, .. } => {
                    // A message of several blocks is several items.
                    match decoded.messages.last_mut().filter(|_| last.as_ref() == Some(&message)) {
                        Some(before) => before.push_str(&text),
                        None => decoded.messages.push(text),
                    }
                    last = Some(message);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHAT: &str = concat!(
        ": keep-alive\n\n",
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"<think>Hm\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"</think>a\\ud83d\"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ude00\",\"reasoning\":\"b\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"x\",\"arguments\":\"{\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n",
    );

    const MESSAGES: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"thinking\":\"Hm\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n: comment\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"text\":\"a\\ud83d\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"text\":\"\\ude00\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"x\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"partial_json\":\"{}\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":3}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );

    const GEMINI: &str = concat!(
        ": comment\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hm\",\"thought\":true}],\"role\":\"model\"},\"index\":0}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\\ud83d\"}]}}],\"modelVersion\":\"m\"}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\\ude00\"},{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"x\",\"args\":{}},\"thoughtSignature\":\"c2ln\"}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\"},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1}}\n\n",
    );

    /// A decoder, a valid stream, and the words of which one is in a stream that ends well.
    type WireCase = (fn() -> StreamDecoder, &'static str, &'static [&'static str]);

    const WIRES: [WireCase; 3] = [
        (StreamDecoder::chat, CHAT, &["finish_reason", "[DONE]"]),
        (StreamDecoder::messages, MESSAGES, &["message_stop"]),
        (StreamDecoder::gemini, GEMINI, &["finishReason"]),
    ];

    fn decoded(mut decoder: StreamDecoder, bytes: &[u8], cuts: &[usize]) -> (Vec<TurnEvent>, Decoded) {
        let mut events = Vec::new();
        let mut rest = bytes;
        for cut in cuts.iter().chain([&bytes.len()]) {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            decoder.push_into(piece.to_vec().into(), &mut events);
            rest = after;
        }
        let (last, decoded) = decoder.finish();
        events.extend(last);
        (events, decoded)
    }

    #[test]
    fn a_valid_stream_of_each_wire_has_all_its_parts() {
        for (new, stream, _) in WIRES {
            let (events, decoded) = decoded(new(), stream.as_bytes(), &[]);
            assert_eq!(decoded.messages, ["a😀"]);
            assert_eq!((decoded.calls.len(), decoded.calls[0].arguments.as_str()), (1, "{}"));
            assert_eq!(decoded.ending, DecodedEnding::Completed);
            assert!(events.iter().any(|event| matches!(event, TurnEvent::ThinkingDelta(_))));
        }
    }

    proptest! {
        #[test]
        fn a_mutated_stream_is_read_alike_in_any_pieces_and_ends_well_only_with_an_end_mark(
            wire in 0_usize..3,
            mutations in proptest::collection::vec((0_usize..1_200, 0_u8..4, any::<u8>()), 0..6),
            cuts in proptest::collection::vec(0_usize..150, 0..10),
        ) {
            let (new, stream, end_marks) = WIRES[wire];
            let mut bytes = stream.as_bytes().to_vec();
            for (place, change, byte) in mutations {
                let place = place.min(bytes.len());
                match change {
                    0 => bytes.truncate(place),
                    1 => bytes.insert(place, byte),
                    2 if place < bytes.len() => bytes[place] = byte,
                    _ if place < bytes.len() => drop(bytes.drain(place..(place + usize::from(byte)).min(bytes.len()))),
                    _ => {}
                }
            }
            let whole = decoded(new(), &bytes, &[]);
            prop_assert_eq!(&decoded(new(), &bytes, &cuts), &whole);
            prop_assert_eq!(&decoded(new(), &bytes, &vec![1; bytes.len()]), &whole);
            let text = String::from_utf8_lossy(&bytes);
            let has_mark = text.contains("\\u00") || end_marks.iter().any(|mark| text.contains(mark));
            let is_complete = matches!(whole.1.ending, DecodedEnding::Completed | DecodedEnding::Paused);
            prop_assert!(has_mark || !is_complete, "complete without an end mark: {:?}", whole.1);
            // What the caller saw is what the reply has.
            let ended: Vec<&String> = whole.0.iter().filter_map(|event| match event {
                TurnEvent::MessageEnded(ended) if !ended.text.is_empty() => Some(&ended.text),
                _ => None,
            }).collect();
            let replied: Vec<&String> = whole.1.messages.iter().filter(|text| !text.is_empty()).collect();
            prop_assert_eq!(ended, replied);
        }
    }
}
