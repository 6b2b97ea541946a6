//! Assigns each piece of text to its message.
//!
//! The program's item names repeat between model calls, so messages get names of their own. Thinking that comes
//! before a message belongs to it.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::{
    CallId, MessageId, TurnEvent,
    turn::{MessageEnded, MessageVoided, TextDelta, ThinkingDelta, VoidCause},
};

/// The messages of one conversation: the turn's own, or a sub-agent's.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// A message of which only the thinking is known.
    thinking: Option<MessageId>,
    /// Messages that are being written, by item.
    open: BTreeMap<String, MessageId>,
    /// Messages that are complete, of a model call that is not over.
    ended: Vec<MessageId>,
    /// The part of its summary that each reasoning item is at.
    summaries: BTreeMap<String, i64>,
    /// Reasoning items whose words came as deltas.
    streamed: BTreeSet<String>,
}

impl Messages {
    /// A piece of thinking; `part` counts the parts of a summary, which are set apart by a blank line.
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

    /// A reasoning item is complete; its words, if no delta brought them.
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

    /// A message begins.
    pub(super) fn begin(&mut self, names: &mut Names, item: &str) -> MessageId {
        let thinking = &mut self.thinking;
        let message = || thinking.take().unwrap_or_else(|| names.next());
        self.open.entry(item.to_owned()).or_insert_with(message).clone()
    }

    /// A piece of a message.
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

    /// A message is complete.
    pub(super) fn end(
        &mut self,
        names: &mut Names,
        parent: Option<&CallId>,
        item: &str,
        text: String,
    ) -> TurnEvent {
        let message = self.begin(names, item);
        self.open.remove(item);
        self.ended.push(message.clone());
        MessageEnded::new(message, text).with_parent(parent.cloned()).into()
    }

    /// A model call is over: thinking without a word is a message as well.
    pub(super) fn call_ended(&mut self, parent: Option<&CallId>) -> Option<TurnEvent> {
        self.stand();
        let message = self.thinking.take()?;
        Some(MessageEnded::new(message, "").with_parent(parent.cloned()).into())
    }

    /// Confirms complete text, independently of the model call's further course: it is over, or a call of the
    /// model has begun.
    pub(super) fn stand(&mut self) {
        self.ended.clear();
    }

    /// Handles a repeated model call, which makes its earlier text void. The program has reported a complete
    /// message, and the next answer repeats it. Observed with codex 0.169.0.
    pub(super) fn void(&mut self) -> Vec<TurnEvent> {
        self.summaries.clear();
        self.streamed.clear();
        let open = std::mem::take(&mut self.open).into_values();
        let void = self.ended.drain(..).chain(open).chain(self.thinking.take());
        void.map(|message| MessageVoided::new(message, VoidCause::Retry).into()).collect()
    }

    /// Handles an interrupted model call, which begins again. Its complete text stands. Observed with codex
    /// 0.169.0.
    pub(super) fn void_open(&mut self) -> Vec<TurnEvent> {
        self.summaries.clear();
        self.streamed.clear();
        let open = std::mem::take(&mut self.open).into_values().chain(self.thinking.take());
        open.map(|message| MessageVoided::new(message, VoidCause::Retry).into()).collect()
    }
}

/// Gives messages their names.
#[derive(Debug, Default)]
pub(super) struct Names(u64);

impl Names {
    fn next(&mut self) -> MessageId {
        self.0 += 1;
        MessageId::from(format!("m{}", self.0))
    }
}
