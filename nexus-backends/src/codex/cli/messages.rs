//! Assigns each piece of text to its message.
//!
//! The program's item ids repeat between model calls, so messages get new ids. Thinking that precedes a message belongs
//! to it.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::{
    CallId, MessageId, TurnEvent,
    turn::{MessageEnded, MessageVoided, TextDelta, ThinkingDelta, VoidCause},
};

/// Messages of one conversation: that of the turn's own agent, or of a sub-agent.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Message that has only thinking so far.
    thinking: Option<MessageId>,
    /// Messages that are being streamed, by item id.
    open: BTreeMap<String, MessageId>,
    /// Complete messages of a model call that has not ended.
    ended: Vec<MessageId>,
    /// Current part of the summary of each reasoning item.
    summaries: BTreeMap<String, i64>,
    /// Reasoning items whose text was streamed.
    streamed: BTreeSet<String>,
}

impl Messages {
    /// Adds a piece of thinking. `part` is the number of the summary's part; a blank line separates the parts.
    pub(super) fn think(
        &mut self,
        names: &mut Names,
        parent: Option<&CallId>,
        item: &str,
        part: i64,
        text: &str,
    ) -> TurnEvent {
        self.streamed.insert(item.to_owned());
        let before = self.summaries.insert(item.to_owned(), part);
        let is_next_part = before.is_some_and(|before| before != part);
        let text = if is_next_part { format!("\n\n{text}") } else { text.to_owned() };
        self.thought(names, parent, text)
    }

    /// Completes a reasoning item, and adds its text if it was not streamed.
    pub(super) fn thought_whole(
        &mut self,
        names: &mut Names,
        parent: Option<&CallId>,
        item: &str,
        parts: &[String],
    ) -> Option<TurnEvent> {
        self.summaries.remove(item);
        if self.streamed.remove(item) || parts.iter().all(String::is_empty) {
            return None;
        }
        Some(self.thought(names, parent, parts.join("\n\n")))
    }

    fn thought(&mut self, names: &mut Names, parent: Option<&CallId>, text: String) -> TurnEvent {
        let message = self.thinking.get_or_insert_with(|| names.next()).clone();
        ThinkingDelta::new(message, text).with_parent(parent.cloned()).into()
    }

    /// Starts a message, and returns its id.
    pub(super) fn begin(&mut self, names: &mut Names, item: &str) -> MessageId {
        let thinking = &mut self.thinking;
        let message = || thinking.take().unwrap_or_else(|| names.next());
        self.open.entry(item.to_owned()).or_insert_with(message).clone()
    }

    /// Adds a piece of text to a message.
    pub(super) fn write(
        &mut self,
        names: &mut Names,
        parent: Option<&CallId>,
        item: &str,
        text: String,
    ) -> TurnEvent {
        let message = self.begin(names, item);
        TextDelta::new(message, text).with_parent(parent.cloned()).into()
    }

    /// Completes a message.
    pub(super) fn end(
        &mut self,
        names: &mut Names,
        parent: Option<&CallId>,
        item: &str,
        text: String,
    ) -> TurnEvent {
        let message = self.begin(names, item);
        self.open.remove(item);
        // Still retractable, because a retry of this model call repeats even complete messages.
        self.ended.push(message.clone());
        MessageEnded::new(message, text).with_parent(parent.cloned()).into()
    }

    /// Handles the end of a model call. Thinking without text also becomes a message.
    pub(super) fn call_ended(&mut self, parent: Option<&CallId>) -> Option<TurnEvent> {
        self.stand();
        let message = self.thinking.take()?;
        Some(MessageEnded::new(message, "").with_parent(parent.cloned()).into())
    }

    /// Confirms the complete messages, which a retry then no longer retracts: the model call has ended, or a tool call
    /// has begun.
    pub(super) fn stand(&mut self) {
        self.ended.clear();
    }

    /// Retracts the earlier text of a model call that is repeated. The next response repeats even the complete
    /// messages. Observed with codex 0.169.0.
    pub(super) fn void(&mut self) -> Vec<TurnEvent> {
        self.summaries.clear();
        self.streamed.clear();
        let open = std::mem::take(&mut self.open).into_values();
        let void = self.ended.drain(..).chain(open).chain(self.thinking.take());
        void.map(|message| MessageVoided::new(message, VoidCause::Retry).into()).collect()
    }

    /// Retracts the incomplete text of an interrupted model call, which the program continues. The complete messages
    /// stay. Observed with codex 0.169.0.
    pub(super) fn void_open(&mut self) -> Vec<TurnEvent> {
        self.summaries.clear();
        self.streamed.clear();
        let open = std::mem::take(&mut self.open).into_values().chain(self.thinking.take());
        open.map(|message| MessageVoided::new(message, VoidCause::Retry).into()).collect()
    }
}

/// Generator of message ids.
#[derive(Debug, Default)]
pub(super) struct Names(u64);

impl Names {
    fn next(&mut self) -> MessageId {
        self.0 += 1;
        MessageId::from(format!("m{}", self.0))
    }
}
