//! Creates a conversation's turn from its request and its result.

use std::collections::HashMap;

use nexus_core::{
    CallId, Message, MessageId, PromptBlock, ToolCallRecord, ToolContent, TurnError, TurnEvent, TurnRequest,
    TurnResult, redact::Redactor,
};
use serde_json::Value;

use crate::{
    conversation::{ConversationMessage, ConversationTurn},
    not_carried::NotCarried,
    now_ms::now_ms,
};

/// Maximum total size of one turn's texts, and of its pictures, in bytes. Source: our own bound.
const MAX_BYTES: usize = 16 << 20;

/// Order in which messages and calls began, by the events of the turn, because its result has separate lists. It also has
/// the steering input, which the result lacks.
#[derive(Clone, Debug, Default)]
pub struct TurnOrder {
    messages: HashMap<MessageId, usize>,
    calls: HashMap<CallId, usize>,
    inputs: Vec<(usize, String)>,
}

impl TurnOrder {
    /// Records the next event of the turn.
    pub fn observe(&mut self, event: &TurnEvent) {
        let place = self.messages.len() + self.calls.len() + self.inputs.len();
        let message = match event {
            TurnEvent::TextDelta(delta) => &delta.message,
            TurnEvent::ThinkingDelta(delta) => &delta.message,
            TurnEvent::MessageEnded(ended) => &ended.message,
            TurnEvent::ToolCallStarted(started) => {
                self.calls.entry(started.call.clone()).or_insert(place);
                return;
            }
            TurnEvent::InputReceived(input) => {
                self.inputs.push((place, input.text.clone()));
                return;
            }
            _ => return,
        };
        self.messages.entry(message.clone()).or_insert(place);
    }
}

impl ConversationTurn {
    /// Creates the turn of `request` from its result, or from the partial result of its error. `None` if it failed before
    /// any message or call. Removes the secrets that `redactor` knows from every text.
    ///
    /// Messages and calls that are missing in `order` keep the order of the result: calls before the last message.
    pub fn of(
        request: &TurnRequest,
        outcome: &Result<TurnResult, TurnError>,
        order: &TurnOrder,
        redactor: &Redactor,
    ) -> Option<Self> {
        let (messages, calls, provenance, failure) = match outcome {
            Ok(result) => (&result.messages, &result.tool_calls, Some(&result.provenance), None),
            Err(error) => {
                let partial = error.partial();
                (&partial.messages, &partial.tool_calls, partial.provenance.as_ref(), Some(error.kind()))
            }
        };
        // A failed turn without any message adds nothing to the conversation.
        if failure.is_some() && messages.is_empty() && calls.is_empty() {
            return None;
        }
        let mut making =
            Making { redactor, texts: MAX_BYTES, pictures: MAX_BYTES, not: NotCarried::default() };
        let content = request.prompt.iter().filter_map(|block| making.block(block)).collect();
        let mut said = vec![ConversationMessage::User { content }];
        said.extend(making.said(messages, calls, order));
        // Add an answer that is in no message: some vendors report a structured answer separately, and some backends report
        // no messages.
        if let Ok(result) = outcome
            && !says_answer(messages, result)
        {
            let text = match &result.output {
                Some(output) => making.value(output),
                None => making.text(&result.text),
            };
            said.push(ConversationMessage::Assistant { text, complete: true });
        }
        Some(Self {
            ended_at_ms: now_ms(),
            backend: provenance
                .map(|provenance| provenance.backend.clone())
                .or_else(|| outcome.as_ref().err().map(|error| error.backend().clone())),
            model: provenance.and_then(|provenance| provenance.model.clone()),
            failure,
            begins_afresh: false,
            messages: said,
            not_stored: making.not,
        })
    }
}

/// Returns true if a message of the turn's own agent contains its answer, or the answer is empty.
fn says_answer(messages: &[Message], result: &TurnResult) -> bool {
    let mut own = messages.iter().filter(|message| message.parent.is_none());
    match &result.output {
        Some(output) => {
            own.any(|message| serde_json::from_str(&message.text).is_ok_and(|said: Value| said == *output))
        }
        None => result.text.is_empty() || own.any(|message| message.text.contains(&result.text)),
    }
}

/// Stored parts of a turn, within the limits.
struct Making<'r> {
    redactor: &'r Redactor,
    /// Bytes of texts and of pictures that may still be stored.
    texts: usize,
    pictures: usize,
    not: NotCarried,
}

impl Making<'_> {
    fn said(
        &mut self,
        messages: &[Message],
        calls: &[ToolCallRecord],
        order: &TurnOrder,
    ) -> Vec<ConversationMessage> {
        let last = messages.len().saturating_sub(1);
        let mut said = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            if message.parent.is_some() {
                self.not.of_sub_agents += 1;
                continue;
            }
            self.not.thinking_bytes += message.thinking.len() as u64;
            if message.text.is_empty() {
                continue;
            }
            // A message without an event has no place: the last one is the answer, and the others come first.
            let unknown = (if index == last { usize::MAX } else { 0 }, index);
            let place = order.messages.get(&message.id).map_or(unknown, |place| (*place, 0));
            let text = self.text(&message.text);
            said.push((place, ConversationMessage::Assistant { text, complete: message.complete }));
        }
        for (index, call) in calls.iter().enumerate() {
            if call.parent.is_some() {
                self.not.of_sub_agents += 1;
            } else if call.is_undone {
                self.not.undone_calls += 1;
            } else {
                let place = order.calls.get(&call.call).map_or((usize::MAX - 1, index), |place| (*place, 0));
                said.push((place, self.call(call)));
            }
        }
        for (place, input) in &order.inputs {
            let content = vec![PromptBlock::text(self.text(input))];
            said.push(((*place, 0), ConversationMessage::User { content }));
        }
        said.sort_by_key(|(place, _)| *place);
        said.into_iter().map(|(_, message)| message).collect()
    }

    fn call(&mut self, call: &ToolCallRecord) -> ConversationMessage {
        let output = call.output.iter().filter_map(|content| match content {
            ToolContent::Text { text } => self.block(&PromptBlock::text(text.clone())),
            ToolContent::Json { value } => Some(PromptBlock::text(self.value(value))),
            ToolContent::Image { media_type, data } => {
                self.block(&PromptBlock::Image { media_type: media_type.clone(), data: data.clone() })
            }
            _ => None,
        });
        let output = output.collect();
        ConversationMessage::ToolCall {
            tool: self.text(&call.name),
            origin: call.origin,
            arguments: call.arguments.as_ref().map(|arguments| self.value(arguments)),
            status: call.status,
            output,
        }
    }

    fn block(&mut self, block: &PromptBlock) -> Option<PromptBlock> {
        match block {
            PromptBlock::Text { text } => Some(PromptBlock::text(self.text(text))),
            PromptBlock::Image { media_type, data } if data.len() <= self.pictures => {
                self.pictures -= data.len();
                Some(PromptBlock::Image { media_type: self.text(media_type), data: data.clone() })
            }
            _ => {
                self.not.pictures += 1;
                None
            }
        }
    }

    /// Returns a value as text. Removes secrets from its strings before they are escaped, and from the whole text.
    fn value(&mut self, value: &Value) -> String {
        let clean = self.redactor.value_without_secrets(value);
        self.text(&clean.as_ref().unwrap_or(value).to_string())
    }

    fn text(&mut self, text: &str) -> String {
        let clean = self.redactor.without_secrets(text);
        let text = clean.as_deref().unwrap_or(text);
        let kept = text.floor_char_boundary(self.texts);
        self.not.cut_bytes += (text.len() - kept) as u64;
        self.texts -= kept;
        text[..kept].to_owned()
    }
}
