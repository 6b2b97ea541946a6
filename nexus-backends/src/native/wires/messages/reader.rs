//! Converts the events of one model call into turn events and, at the end, the reply.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use http::HeaderMap;
use nexus_core::{ErrorKind, MessageId, ModelId, TurnEvent, Usage, harness::Failure};
use serde_json::{json, value::RawValue};

use super::super::reading::{Reading, parse};
use super::super::writing::ANSWER_TOOL;
use super::event::{Block, Delta, StopDetails, StreamEvent, UsageCounts, WholeMessage};
use crate::native::dialect::Dialect;
use crate::native::reply::{CallEnding, FunctionCall, ModelReply, OutputItem};
use crate::native::sse::Event;
use crate::native::wire_reader::WireReader;

/// Maximum number of blocks of one reply. Source: our own bound.
const MAX_BLOCKS: usize = 65_536;

/// Reader of the events of one model call.
pub(crate) struct MessagesReader {
    reading: Reading,
    has_answer_tool: bool,
    blocks: Blocks,
    counts: Counts,
    /// End that the message states, which counts when the stream ends with its last event.
    finish: Option<CallEnding>,
    refusal: Option<String>,
}

/// Blocks in order. An index means the last block that began with it, because some servers use one index twice.
#[derive(Debug, Default)]
struct Blocks {
    list: Vec<OpenBlock>,
    places: HashMap<u64, usize>,
}

/// Block of the answer so far.
#[derive(Debug)]
struct OpenBlock {
    kind: BlockKind,
    /// Text, thinking, or the arguments of a call.
    text: String,
    signature: String,
    id: String,
    name: String,
    /// The block as received, if it must be sent back unchanged.
    raw: Option<Box<RawValue>>,
    /// Arguments in the start of a call.
    preset: String,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Redacted,
    Call,
    Other,
}

/// Highest counts so far, because each report is cumulative and some are partial.
#[derive(Debug, Default)]
struct Counts {
    input: Option<u64>,
    cache_write: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    fn add(&mut self, report: &UsageCounts) {
        let thinking = report.output_tokens_details.0.as_ref().and_then(|details| details.thinking_tokens.0);
        for (count, reported) in [
            (&mut self.input, report.input_tokens.0),
            (&mut self.cache_write, report.cache_creation_input_tokens.0),
            (&mut self.cache_read, report.cache_read_input_tokens.0),
            (&mut self.output, report.output_tokens.0),
            (&mut self.thinking, thinking),
        ] {
            // `None` is less than any number, so a report without this count changes nothing.
            *count = (*count).max(reported);
        }
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::new();
        usage.input_tokens = self.input;
        usage.cache_write_tokens = self.cache_write;
        usage.cache_read_tokens = self.cache_read;
        usage.reasoning_tokens = self.thinking;
        // The API counts thinking as output, whereas `Usage` has both counts apart.
        usage.output_tokens = self.output.map(|all| all.saturating_sub(self.thinking.unwrap_or(0)));
        usage
    }
}

impl MessagesReader {
    /// Creates a reader. `call` is the number of the model call within the turn. With `has_answer_tool`, a call of the
    /// answer's tool becomes the text of the answer.
    pub(crate) fn new(call: u32, dialect: Arc<dyn Dialect>, has_answer_tool: bool) -> Self {
        Self {
            reading: Reading::new(call, dialect),
            has_answer_tool,
            blocks: Blocks::default(),
            counts: Counts::default(),
            finish: None,
            refusal: None,
        }
    }

    fn data(&mut self, name: &str, data: &str, events: &mut Vec<TurnEvent>) {
        let mut parts = EventParts {
            blocks: &mut self.blocks,
            counts: &mut self.counts,
            finish: &mut self.finish,
            refusal: &mut self.refusal,
        };
        self.reading.parsed(data, events, |reading, data, events| {
            let event: StreamEvent<'_> = parse(data)?;
            // A block is parsed here, so that a fault in it is repaired like any other.
            let block = event.content_block.map(|raw| parse::<Block<'_>>(raw.get())).transpose()?;
            parts.event(reading, name, data, &event, block, events);
            Ok(())
        });
    }

    /// Returns the items of the reply, and the text of its message.
    fn items(&mut self, events: &mut Vec<TurnEvent>) -> (Vec<OutputItem>, String) {
        let is_completed = matches!(self.finish, Some(CallEnding::Completed { .. }));
        let (mut items, mut answer) = (Vec::new(), String::new());
        let mut submitted = None;
        for (index, mut block) in std::mem::take(&mut self.blocks).list.into_iter().enumerate() {
            if let Some(half) = self.reading.last_half(&index.to_string()) {
                block.text.push(half);
                if block.kind == BlockKind::Text {
                    self.reading.text(&half.to_string(), events);
                }
            }
            match block.kind {
                BlockKind::Text if !block.text.is_empty() => {
                    answer.push_str(&block.text);
                    items.push(self.reading.message_item(block.text, None));
                }
                // A cut block lacks its signature, and the API rejects thinking without a valid one.
                BlockKind::Thinking if block.is_closed => items.extend(block.thinking()),
                BlockKind::Redacted => items.extend(block.raw.map(|raw| OutputItem::Reasoning { raw })),
                // The arguments of a call may be cut in an incomplete answer, so no call counts there.
                BlockKind::Call if is_completed && self.has_answer_tool && block.name == ANSWER_TOOL => {
                    submitted = Some(block.arguments());
                }
                BlockKind::Call if is_completed && !block.name.is_empty() => {
                    items.push(block.into_call(self.reading.call(), index));
                }
                _ => {}
            }
        }
        // With other calls in the reply, the model has not finished, so its answer is not final.
        if let Some(submitted) = submitted.filter(|_| !items.iter().any(OutputItem::is_call)) {
            self.reading.text(&submitted, events);
            answer.push_str(&submitted);
            items.push(self.reading.message_item(submitted, None));
        }
        if let Some(refusal) = self.refusal.take() {
            items.push(self.reading.message_item(String::new(), Some(refusal)));
        }
        (items, answer)
    }
}

impl OpenBlock {
    fn arguments(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        match text.is_empty() {
            true => std::mem::take(&mut self.preset),
            false => text,
        }
    }

    fn into_call(mut self, call: u32, index: usize) -> OutputItem {
        let arguments = self.arguments();
        // Some servers omit the id, but the result of the call must name one.
        let call_id = if self.id.is_empty() { format!("call_{call}_{index}") } else { self.id };
        OutputItem::Call(FunctionCall { call_id, name: self.name, namespace: None, arguments, raw: None })
    }

    /// Returns thinking in the form in which later requests send it back.
    fn thinking(self) -> Option<OutputItem> {
        let block = json!({ "type": "thinking", "thinking": self.text, "signature": self.signature });
        let raw = RawValue::from_string(block.to_string()).ok()?;
        Some(OutputItem::Reasoning { raw })
    }
}

impl WireReader for MessagesReader {
    fn answer_has(&mut self, headers: &HeaderMap) {
        self.reading.answer_has(headers);
    }

    fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>) {
        if self.is_finished() {
            return;
        }
        let Some(data) = self.reading.take(event.data) else { return };
        if !matches!(data.trim(), "" | "[DONE]") {
            self.data(event.name, &data, events);
        }
    }

    fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>) {
        let Some(body) = self.reading.take(body) else { return };
        let mut parts = EventParts {
            blocks: &mut self.blocks,
            counts: &mut self.counts,
            finish: &mut self.finish,
            refusal: &mut self.refusal,
        };
        self.reading.parsed(&body, events, |reading, body, events| {
            let message: WholeMessage<'_> = parse(body)?;
            let blocks = message.content.0.iter().map(|raw| Ok((*raw, parse::<Block<'_>>(raw.get())?)));
            let blocks = blocks.collect::<Result<Vec<_>, serde_json::Error>>()?;
            parts.whole(reading, &message, blocks, events);
            Ok(())
        });
        // A failure in the body takes precedence over its stop reason.
        if self.reading.ending.is_none() {
            self.reading.ending = self.finish.take();
        }
        self.finish = Some(CallEnding::Completed { end_turn: None });
    }

    fn is_finished(&self) -> bool {
        self.reading.ending.is_some()
    }

    fn awaits_rest(&self) -> bool {
        false
    }

    fn shown(&self) -> &[MessageId] {
        self.reading.shown()
    }

    fn into_reply(mut self: Box<Self>, events: &mut Vec<TurnEvent>) -> ModelReply {
        self.finish = match &self.reading.ending {
            Some(CallEnding::Completed { end_turn }) => Some(CallEnding::Completed { end_turn: *end_turn }),
            _ => None,
        };
        let (items, text) = self.items(events);
        self.reading.into_reply(items, text, events)
    }
}

/// Parts of the reader that an event changes.
struct EventParts<'r> {
    blocks: &'r mut Blocks,
    counts: &'r mut Counts,
    finish: &'r mut Option<CallEnding>,
    refusal: &'r mut Option<String>,
}

impl EventParts<'_> {
    fn event(
        &mut self,
        reading: &mut Reading,
        name: &str,
        data: &str,
        event: &StreamEvent<'_>,
        block: Option<Block<'_>>,
        events: &mut Vec<TurnEvent>,
    ) {
        // The API names an event twice, and other servers may omit either name.
        let kind = if event.kind.is_empty() { name } else { event.kind.as_str() };
        if let Some(report) = &event.usage.0 {
            self.count(reading, report);
        }
        match kind {
            "message_start" => {
                if let Some(message) = &event.message.0 {
                    self.message(reading, message);
                }
            }
            "content_block_start" => {
                if let (Some(raw), Some(block)) = (event.content_block, block) {
                    self.open(reading, event.index.0, raw, &block, events);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &event.delta.0 {
                    self.delta(reading, event.index.0, delta, events);
                }
            }
            "content_block_stop" => {
                if let Some(block) =
                    self.place(event.index.0).and_then(|place| self.blocks.list.get_mut(place))
                {
                    block.is_closed = true;
                }
            }
            "message_delta" => {
                if let Some(delta) = &event.delta.0 {
                    self.stop(delta.stop_reason.as_str(), delta.stop_details.0.as_ref());
                }
            }
            "message_stop" => {
                let finish = self.finish.take();
                reading.ending = Some(finish.unwrap_or(CallEnding::Completed { end_turn: None }));
            }
            "ping" => {}
            "error" => reading.fail(&serde_json::from_str(data).unwrap_or_default()),
            // Some gateways report an error in an object of another type.
            _ if event.error.is_some_and(|error| error.get() != "null") => {
                reading.fail(&serde_json::from_str(data).unwrap_or_default());
            }
            _ => reading.unknown(kind, data, events),
        }
    }

    /// Returns the place of the block with an index; without an index, that of the last block.
    fn place(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(index) => self.blocks.places.get(&index).copied(),
            None => self.blocks.list.len().checked_sub(1),
        }
    }

    fn message(&mut self, reading: &mut Reading, message: &WholeMessage<'_>) {
        if !message.model.is_empty() {
            reading.model = Some(ModelId::from(message.model.as_str()));
        }
        if let Some(report) = &message.usage.0 {
            self.count(reading, report);
        }
    }

    fn count(&mut self, reading: &mut Reading, report: &UsageCounts) {
        self.counts.add(report);
        reading.usage = Some(self.counts.usage());
    }

    fn open(
        &mut self,
        reading: &mut Reading,
        index: Option<u64>,
        raw: &RawValue,
        block: &Block<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        if self.blocks.list.len() >= MAX_BLOCKS {
            let failure =
                Failure::new(ErrorKind::Protocol, format!("the reply has more than {MAX_BLOCKS} blocks"));
            reading.ending = Some(CallEnding::Failed(failure));
            return;
        }
        let kind = match block.kind.as_str() {
            "text" => BlockKind::Text,
            "thinking" => BlockKind::Thinking,
            "redacted_thinking" => BlockKind::Redacted,
            "tool_use" => BlockKind::Call,
            other => {
                reading.unknown_part(other, raw.get(), events);
                BlockKind::Other
            }
        };
        let opened = OpenBlock {
            kind,
            text: String::new(),
            signature: block.signature.as_str().to_owned(),
            id: block.id.as_str().to_owned(),
            name: block.name.as_str().to_owned(),
            // Only the server can read such a block, so it must return byte for byte.
            raw: (kind == BlockKind::Redacted).then(|| raw.to_owned()),
            preset: block.input.map(RawValue::get).unwrap_or("{}").to_owned(),
            is_closed: false,
        };
        let place = self.blocks.list.len();
        self.blocks.list.push(opened);
        // A repeated index replaces the earlier one, so that deltas reach the block that began last.
        self.blocks.places.insert(index.unwrap_or(place as u64), place);
        self.piece(reading, place, block.text.as_str(), block.thinking.as_str(), "", events);
    }

    fn delta(
        &mut self,
        reading: &mut Reading,
        index: Option<u64>,
        delta: &Delta<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        let Some(place) = self.place(index) else { return };
        let (text, thinking) = (delta.text.as_str(), delta.thinking.as_str());
        self.piece(reading, place, text, thinking, delta.partial_json.as_str(), events);
        if let Some(block) = self.blocks.list.get_mut(place) {
            block.signature.push_str(delta.signature.as_str());
        }
    }

    /// Adds a piece to the block at `place`, in the text that its kind has.
    fn piece(
        &mut self,
        reading: &mut Reading,
        place: usize,
        text: &str,
        thinking: &str,
        arguments: &str,
        events: &mut Vec<TurnEvent>,
    ) {
        let Some(block) = self.blocks.list.get_mut(place) else { return };
        let piece = match block.kind {
            BlockKind::Text => text,
            BlockKind::Thinking => thinking,
            BlockKind::Call => arguments,
            BlockKind::Redacted | BlockKind::Other => "",
        };
        if piece.is_empty() {
            return;
        }
        let piece = reading.joined(&place.to_string(), Cow::Borrowed(piece));
        block.text.push_str(&piece);
        match block.kind {
            BlockKind::Text => reading.text(&piece, events),
            BlockKind::Thinking => reading.thought(&piece, events),
            _ => {}
        }
    }

    fn stop(&mut self, reason: &str, details: Option<&StopDetails<'_>>) {
        if reason.is_empty() {
            return;
        }
        if reason == "refusal" {
            let explanation = details.map(|details| details.explanation.as_str()).unwrap_or_default();
            *self.refusal = Some(match explanation.is_empty() {
                true => "the model declined the request".to_owned(),
                false => explanation.to_owned(),
            });
        }
        *self.finish = Some(ending(reason));
    }

    fn whole(
        &mut self,
        reading: &mut Reading,
        message: &WholeMessage<'_>,
        blocks: Vec<(&RawValue, Block<'_>)>,
        events: &mut Vec<TurnEvent>,
    ) {
        self.message(reading, message);
        for (raw, block) in blocks {
            self.open(reading, None, raw, &block, events);
            if let Some(block) = self.blocks.list.last_mut() {
                block.is_closed = true;
            }
        }
        // A whole body without a reason is complete: its JSON has an end.
        let reason = match message.stop_reason.is_empty() {
            true => "end_turn",
            false => message.stop_reason.as_str(),
        };
        self.stop(reason, message.stop_details.0.as_ref());
    }
}

/// Returns the end for a stop reason. An unknown reason is not a proof of a complete answer.
fn ending(reason: &str) -> CallEnding {
    match reason {
        "end_turn" | "tool_use" | "stop_sequence" | "refusal" => CallEnding::Completed { end_turn: None },
        "pause_turn" => CallEnding::Completed { end_turn: Some(false) },
        "max_tokens" => CallEnding::Incomplete { reason: "max_output_tokens".to_owned() },
        "model_context_window_exceeded" => {
            let words = "the answer reached the end of the model's context window";
            CallEnding::Failed(Failure::new(ErrorKind::ContextExceeded, words))
        }
        _ => CallEnding::Incomplete { reason: reason.to_owned() },
    }
}

#[cfg(test)]
mod tests;
