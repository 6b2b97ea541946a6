//! Deltas of text, thinking and arguments.

use std::{borrow::Cow, mem};

use nexus_core::{
    MessageId, TurnEvent,
    turn::{TextDelta, ThinkingDelta},
};

use super::ResponseReader;
use super::slots::{Late, SlotKind};
use crate::native::wires::responses::wire::{DeltaEvent, PartEvent};

/// Thinking, which belongs to the next message.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    /// Id of that message, which has not begun.
    pub(super) message: Option<MessageId>,
    /// Part of the last delta: its item, its index, and true for a summary.
    part: Option<(usize, Option<u64>, bool)>,
    /// True if the server has announced another part.
    pub(super) part_ended: bool,
}

/// Text that a delta extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaTarget {
    Text,
    Refusal,
    Summary,
    Thought,
    Arguments,
    Input,
}

impl DeltaTarget {
    /// Returns the target for the type of a delta event.
    pub(super) fn of(kind: &[u8]) -> Option<Self> {
        Some(match kind {
            b"response.output_text.delta" => Self::Text,
            b"response.refusal.delta" => Self::Refusal,
            b"response.reasoning_summary_text.delta" | b"response.reasoning_summary.delta" => Self::Summary,
            b"response.reasoning_text.delta" | b"response.reasoning.delta" => Self::Thought,
            b"response.function_call_arguments.delta" => Self::Arguments,
            b"response.custom_tool_call_input.delta" => Self::Input,
            _ => return None,
        })
    }
}

impl DeltaTarget {
    /// Returns the target for the type of an event that repeats a complete part after its deltas.
    pub(super) fn of_whole(kind: &str) -> Option<Self> {
        Some(match kind {
            "response.output_text.done" => Self::Text,
            "response.refusal.done" => Self::Refusal,
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => Self::Summary,
            "response.reasoning_text.done" | "response.reasoning.done" => Self::Thought,
            _ => return None,
        })
    }

    fn slot_kind(self) -> SlotKind {
        match self {
            Self::Text | Self::Refusal => SlotKind::Message,
            Self::Summary | Self::Thought => SlotKind::Reasoning,
            Self::Arguments => SlotKind::Call,
            Self::Input => SlotKind::CustomCall,
        }
    }
}

impl ResponseReader {
    /// Handles a delta.
    pub(super) fn delta(&mut self, target: DeltaTarget, event: DeltaEvent<'_>, events: &mut Vec<TurnEvent>) {
        match target {
            DeltaTarget::Text => self.text(event, false, events),
            DeltaTarget::Refusal => self.text(event, true, events),
            DeltaTarget::Summary => self.thought(event, true, events),
            DeltaTarget::Thought => self.thought(event, false, events),
            DeltaTarget::Arguments => self.piece(SlotKind::Call, event),
            DeltaTarget::Input => self.piece(SlotKind::CustomCall, event),
        }
    }

    pub(super) fn text(&mut self, event: DeltaEvent<'_>, is_refusal: bool, events: &mut Vec<TurnEvent>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(SlotKind::Message, place, id) else { return };
        let delta = self.joined(index, event.delta.0);
        let Some(slot) = self.slots.slot_mut(index) else { return };
        let Some(message) = slot.message.as_ref().filter(|_| !delta.is_empty()) else { return };
        slot.text.push_str(&delta);
        if is_refusal {
            slot.refusal.push_str(&delta);
        }
        slot.is_in_part = true;
        events.push(TextDelta::new(message.clone(), delta).into());
        if !slot.is_shown {
            slot.is_shown = true;
            let message = message.clone();
            self.show(message);
        }
    }

    fn thought(&mut self, event: DeltaEvent<'_>, is_summary: bool, events: &mut Vec<TurnEvent>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(SlotKind::Reasoning, place, id) else { return };
        // Use no part index for a thought: vLLM increments `content_index` with every token. The last event of a
        // thought marks its end.
        let part = event.summary_index.0.filter(|_| is_summary);
        let delta = self.joined(index, event.delta.0).into_owned();
        self.think((index, part, is_summary), delta, events);
        if let Some(slot) = self.slots.slot_mut(index) {
            slot.is_shown = true;
            slot.is_in_part = true;
        }
    }

    /// Handles the end of a part. Its text is used only if no delta contained it.
    pub(super) fn whole_part(
        &mut self,
        target: DeltaTarget,
        part: PartEvent<'_>,
        events: &mut Vec<TurnEvent>,
    ) {
        if part.text.is_empty() && part.refusal.is_empty() {
            return;
        }
        let number = part.summary_index.0.or(part.content_index.0);
        let (place, id) = (part.output_index.0, part.item_id.as_str());
        // Some servers repeat an ended item after the next one.
        if self.slots.is_over(target.slot_kind(), id) {
            return;
        }
        let Some(index) = self.find_or_open(target.slot_kind(), place, id) else { return };
        let is_known =
            self.slots.slot_mut(index).is_some_and(|slot| slot.is_in_part || slot.ended_part == Some(number));
        if !is_known {
            self.delta(target, part.into_delta(), events);
        }
        if let Some(slot) = self.slots.slot_mut(index) {
            slot.is_in_part = false;
            slot.ended_part = Some(number);
        }
        if target.slot_kind() == SlotKind::Reasoning {
            self.thinking.part_ended = true;
        }
    }

    /// Joins characters that two deltas of an item split.
    fn joined<'d>(&mut self, index: usize, delta: Cow<'d, str>) -> Cow<'d, str> {
        match self.halves.is_idle(self.event_halves) {
            true => delta,
            false => self.halves.delta(&index.to_string(), delta, self.event_halves),
        }
    }

    /// Emits a piece of thinking.
    pub(super) fn think(
        &mut self,
        part: (usize, Option<u64>, bool),
        mut text: String,
        events: &mut Vec<TurnEvent>,
    ) {
        if text.is_empty() {
            return;
        }
        let message = match &self.thinking.message {
            Some(message) => {
                // A blank line separates the parts of a thought.
                if self.thinking.part_ended || self.thinking.part != Some(part) {
                    text.insert_str(0, "\n\n");
                }
                message.clone()
            }
            None => {
                let message = self.next_message();
                self.thinking.message = Some(message.clone());
                self.show(message.clone());
                message
            }
        };
        self.thinking.part = Some(part);
        self.thinking.part_ended = false;
        events.push(ThinkingDelta::new(message, text).into());
    }

    /// Adds a piece of arguments or input. It is used only if the item has no end event.
    fn piece(&mut self, kind: SlotKind, event: DeltaEvent<'_>) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(kind, place, id) else { return };
        let delta = self.joined(index, event.delta.0);
        let Some(slot) = self.slots.slot_mut(index) else { return };
        // Deltas repeat the arguments that the item's first event may contain.
        if mem::take(&mut slot.is_preset) {
            slot.text.clear();
        }
        slot.text.push_str(&delta);
    }

    /// Sets the complete arguments or input.
    pub(super) fn whole_piece(&mut self, kind: SlotKind, event: &PartEvent<'_>, text: &str) {
        let (place, id) = (event.output_index.0, event.item_id.as_str());
        let Some(index) = self.find_or_open(kind, place, id) else { return };
        if let Some(slot) = self.slots.slot_mut(index)
            // An empty text must not erase the deltas.
            && !text.is_empty()
            && slot.text != text
        {
            text.clone_into(&mut slot.text);
        }
    }

    /// Returns the item of an event, and opens one if needed. `None` if the item has ended.
    pub(super) fn find_or_open(&mut self, kind: SlotKind, place: Option<u64>, id: &str) -> Option<usize> {
        match self.slots.find_open(kind, place, id) {
            Ok(Some(index)) => Some(index),
            Ok(None) => Some(self.open(kind, place, id)),
            Err(Late) => None,
        }
    }

    pub(super) fn open(&mut self, kind: SlotKind, place: Option<u64>, id: &str) -> usize {
        let index = self.slots.open(kind, place, id);
        if kind == SlotKind::Message {
            let thought_for = self.thinking.message.take();
            let is_shown = thought_for.is_some();
            let message = thought_for.unwrap_or_else(|| self.next_message());
            if let Some(slot) = self.slots.slot_mut(index) {
                slot.message = Some(message);
                slot.is_shown = is_shown;
            }
        }
        index
    }

    pub(super) fn next_message(&mut self) -> MessageId {
        self.named += 1;
        format!("c{}.{}", self.call, self.named).into()
    }

    pub(super) fn show(&mut self, message: MessageId) {
        self.shown.push(message);
    }
}

impl<'a> PartEvent<'a> {
    /// Converts the text of a part into a delta.
    pub(super) fn into_delta(self) -> DeltaEvent<'a> {
        let Self { item_id, output_index, summary_index, text, refusal, .. } = self;
        let delta = if text.is_empty() { refusal } else { text };
        DeltaEvent { item_id, output_index, summary_index, delta }
    }
}
