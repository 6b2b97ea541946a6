//! Items of an output: their start, their end, and their conversion.

use std::borrow::Cow;

use nexus_core::{
    MessageId, TurnEvent,
    turn::{TextDelta, Unrecognized},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{CallEnding, FunctionCall, ItemSlot, OutputItem, ResponseReader, SlotKind, hosted, parse};
use crate::native::wires::responses::shape::CustomCalls;
use crate::native::wires::responses::wire::{Item, ItemEvent, Parts, Text};

impl ResponseReader {
    /// Handles the start of an item.
    pub(super) fn item_added(&mut self, event: &ItemEvent<'_>) {
        let Some(item) = event.item.0.and_then(|item| parse::<Item<'_>>(item).ok()) else {
            return;
        };
        let kind = SlotKind::of(item.kind());
        let id = item.id.as_str();
        let known = self.slots.find_named(kind, id, "");
        let index = known.unwrap_or_else(|| self.open(kind, event.output_index.0, id));
        let Some(slot) = self.slots.slot_mut(index) else { return };
        item.name_into(slot);
        let preset = if kind == SlotKind::CustomCall { item.input.0 } else { item.arguments.0 };
        // Deltas that precede this event take precedence.
        if slot.text.is_empty() {
            slot.is_preset = !preset.is_empty();
            slot.text = preset.into_owned();
        }
    }

    /// Handles the end of an item. `place` is its position in the output.
    pub(super) fn item_done(&mut self, place: Option<u64>, raw: &RawValue, events: &mut Vec<TurnEvent>) {
        let item: Item<'_> = parse(raw.get()).unwrap_or_default();
        let kind = SlotKind::of(item.kind());
        if self.slots.is_known(kind, raw) {
            return;
        }
        let id = item.id.as_str();
        let named = self.slots.find_named(kind, id, item.call_id.as_str());
        let index = match named.map_or_else(|| self.slots.find_open(kind, place, id), |index| Ok(Some(index)))
        {
            Ok(Some(index)) => index,
            Ok(None) | Err(super::slots::Late) => self.open(kind, place, id),
        };
        self.fill_with(index, &item, raw, events);
    }

    /// Handles the end of the item in a slot.
    pub(super) fn fill(&mut self, index: usize, raw: &RawValue, events: &mut Vec<TurnEvent>) {
        let item: Item<'_> = parse(raw.get()).unwrap_or_default();
        self.fill_with(index, &item, raw, events);
    }

    fn fill_with(&mut self, index: usize, item: &Item<'_>, raw: &RawValue, events: &mut Vec<TurnEvent>) {
        if let Some(slot) = self.slots.slot_mut(index) {
            item.name_into(slot);
        }
        let done = match item.kind() {
            "message" => self.message_done(index, &item.content, raw, events),
            "reasoning" => self.reasoning_done(index, item, raw, events),
            "function_call" => self.call_done(index, item, raw),
            "custom_tool_call" if self.custom_calls == CustomCalls::Client => {
                self.custom_call_done(index, item, raw)
            }
            kind => self.other_done(kind, item, raw, events),
        };
        if let Some(slot) = self.slots.slot_mut(index) {
            slot.item = done;
            slot.text = String::new();
            self.halves.finish(&index.to_string());
        }
    }

    fn message_done(
        &mut self,
        index: usize,
        content: &Parts<'_>,
        raw: &RawValue,
        events: &mut Vec<TurnEvent>,
    ) -> Option<OutputItem> {
        let slot = self.slots.slot_mut(index)?;
        let message = slot.message.clone()?;
        let mut text = String::new();
        let mut refusal = String::new();
        for part in &content.0 {
            text.push_str(part.text.as_str());
            text.push_str(part.refusal.as_str());
            refusal.push_str(part.refusal.as_str());
        }
        if text.is_empty() {
            let has_deltas = !slot.text.is_empty();
            let item = message_of(slot, message);
            return Some(if has_deltas { item } else { with_raw(item, raw) });
        }
        // Emit the remaining text, if the deltas are a prefix of the final text.
        if let Some(untold) = text.strip_prefix(slot.text.as_str())
            && !untold.is_empty()
        {
            events.push(TextDelta::new(message.clone(), untold).into());
            if !std::mem::replace(&mut slot.is_shown, true) {
                self.show(message.clone());
            }
        }
        let refusal = (!refusal.is_empty()).then_some(refusal);
        Some(OutputItem::Message { message, text, refusal, raw: Some(raw.to_owned()) })
    }

    fn reasoning_done(
        &mut self,
        index: usize,
        item: &Item<'_>,
        raw: &RawValue,
        events: &mut Vec<TurnEvent>,
    ) -> Option<OutputItem> {
        if !self.slots.slot_mut(index)?.is_shown {
            let has_summary = item.summary.0.iter().any(|part| !part.text.is_empty());
            let parts = if has_summary { &item.summary } else { &item.content };
            for (number, part) in (0..).zip(&parts.0) {
                self.think((index, Some(number), has_summary), part.text.as_str().to_owned(), events);
            }
        }
        Some(OutputItem::Reasoning { raw: raw.to_owned() })
    }

    fn call_done(&mut self, index: usize, item: &Item<'_>, raw: &RawValue) -> Option<OutputItem> {
        let slot = self.slots.slot_mut(index)?;
        let is_whole = (!item.arguments.0.is_empty() || slot.text.is_empty())
            && has_call_id(raw, &item.call_id)
            && !item.kind.is_empty();
        if !item.arguments.0.is_empty() {
            slot.text = item.arguments.0.clone().into_owned();
        }
        Some(OutputItem::Call(call_of(slot, is_whole.then_some(raw))))
    }

    fn custom_call_done(&mut self, index: usize, item: &Item<'_>, raw: &RawValue) -> Option<OutputItem> {
        let slot = self.slots.slot_mut(index)?;
        let is_whole = (!item.input.is_empty() || slot.text.is_empty()) && has_call_id(raw, &item.call_id);
        if !item.input.is_empty() {
            slot.text = item.input.as_str().to_owned();
        }
        let call = custom_call_of(slot);
        Some(if is_whole { with_raw(call, raw) } else { call })
    }

    fn other_done(
        &mut self,
        kind: &str,
        item: &Item<'_>,
        raw: &RawValue,
        events: &mut Vec<TurnEvent>,
    ) -> Option<OutputItem> {
        let effects = match kind {
            "custom_tool_call" => Some(hosted::custom_effects(item.name.as_str())),
            kind => hosted::effects(kind),
        };
        if let Some(effects) = effects {
            let unnamed = || {
                self.hosted += 1;
                format!("c{}.hosted{}", self.call, self.hosted)
            };
            hosted::tell(kind, effects, raw, unnamed, events);
        } else if !is_silent(kind) {
            let name = (!kind.is_empty()).then(|| kind.to_owned());
            let value =
                serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned()));
            events.push(Unrecognized::new(name, value).into());
        }
        Some(OutputItem::Other { kind: kind.to_owned(), raw: raw.to_owned() })
    }
}

/// Returns true if an item can be sent back unchanged, because its call id equals the text in its output. An output
/// cannot refer to a numeric call id.
fn has_call_id(raw: &RawValue, wanted: &Text<'_>) -> bool {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        call_id: Cow<'a, str>,
    }
    // A text without escapes is borrowed from the item, unlike the spelling of a number.
    let is_borrowed = matches!(wanted.0, Cow::Borrowed(_));
    let is_text =
        || serde_json::from_str::<Named<'_>>(raw.get()).is_ok_and(|named| named.call_id == wanted.0);
    !wanted.is_empty() && (is_borrowed || is_text())
}

/// Returns true for items that are sent back and need no event.
fn is_silent(kind: &str) -> bool {
    matches!(kind, "compaction" | "context_compaction" | "mcp_list_tools")
}

/// Returns the final item of a slot, after the reply. An item without an end event is assembled from its deltas if the
/// reply has a terminal event. A call additionally needs a successful end.
pub(super) fn finished(
    mut slot: ItemSlot,
    ending: &CallEnding,
    next_message: impl FnOnce() -> MessageId,
) -> Option<OutputItem> {
    if let Some(item) = slot.item.take() {
        return Some(item);
    }
    let is_completed = matches!(ending, CallEnding::Completed { .. });
    let is_answer = is_completed || matches!(ending, CallEnding::Incomplete { .. });
    match slot.kind {
        SlotKind::Message if is_answer && !slot.text.is_empty() => {
            let message = slot.message.take().unwrap_or_else(next_message);
            Some(message_of(&mut slot, message))
        }
        SlotKind::Call if is_completed && !slot.name.is_empty() => {
            Some(OutputItem::Call(call_of(&mut slot, None)))
        }
        SlotKind::CustomCall if is_completed && !slot.name.is_empty() => Some(custom_call_of(&mut slot)),
        _ => None,
    }
}

/// Creates a message from its deltas. Its content is plain text: some servers require an `id` and a `status` beside
/// parts, which only they could have assigned.
fn message_of(slot: &mut ItemSlot, message: MessageId) -> OutputItem {
    let text = std::mem::take(&mut slot.text);
    let refusal = std::mem::take(&mut slot.refusal);
    let raw = json!({ "type": "message", "role": "assistant", "content": text });
    let refusal = (!refusal.is_empty()).then_some(refusal);
    OutputItem::Message { message, text, refusal, raw: Some(written(&raw)) }
}

/// Creates a function call from a slot. Without the raw JSON of its item, that is created from the deltas.
fn call_of(slot: &mut ItemSlot, raw: Option<&RawValue>) -> FunctionCall {
    let call_id = call_id_of(slot);
    let name = std::mem::take(&mut slot.name);
    let arguments = std::mem::take(&mut slot.text);
    let namespace = Some(std::mem::take(&mut slot.namespace)).filter(|namespace| !namespace.is_empty());
    let created = || {
        let mut raw = json!({
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
        });
        if let Some(namespace) = &namespace {
            raw["namespace"] = namespace.as_str().into();
        }
        written(&raw)
    };
    let raw = raw.map_or_else(created, ToOwned::to_owned);
    FunctionCall { call_id, name, namespace, arguments, raw: Some(raw) }
}

/// Creates a custom call from its deltas.
fn custom_call_of(slot: &mut ItemSlot) -> OutputItem {
    let call_id = call_id_of(slot);
    let name = std::mem::take(&mut slot.name);
    let input = std::mem::take(&mut slot.text);
    let raw = json!({ "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input });
    OutputItem::CustomCall { call_id, name, input, raw: Some(written(&raw)) }
}

/// Returns the call id. If the server sent none, it is derived from the item's id or position.
fn call_id_of(slot: &mut ItemSlot) -> String {
    if slot.call_id.is_empty() { slot.unnamed() } else { std::mem::take(&mut slot.call_id) }
}

fn with_raw(mut item: OutputItem, new: &RawValue) -> OutputItem {
    match &mut item {
        OutputItem::Message { raw, .. }
        | OutputItem::CustomCall { raw, .. }
        | OutputItem::Call(FunctionCall { raw, .. }) => *raw = Some(new.to_owned()),
        OutputItem::Reasoning { raw } | OutputItem::Other { raw, .. } => *raw = new.to_owned(),
    }
    item
}

fn written(value: &Value) -> Box<RawValue> {
    // A `Value` always serialises to valid JSON.
    RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl Item<'_> {
    /// Returns the type of the item, or a guess if the server omits it.
    fn kind(&self) -> &str {
        match self.kind.as_str() {
            "" if !self.name.is_empty() && !self.arguments.0.is_empty() => "function_call",
            "" if !self.content.0.is_empty() => "message",
            kind => kind,
        }
    }

    /// Copies the names of the item into a slot.
    fn name_into(&self, slot: &mut ItemSlot) {
        for (from, to) in [
            (&self.call_id, &mut slot.call_id),
            (&self.name, &mut slot.name),
            (&self.namespace, &mut slot.namespace),
        ] {
            if !from.is_empty() {
                from.as_str().clone_into(to);
            }
        }
    }
}
