//! Merges the output of the terminal event with the items that were streamed.

use std::collections::{HashMap, VecDeque};

use super::parse;
use super::slots::{ItemSlot, ItemSlots, SlotKind, has_raw};
use crate::native::reply::OutputItem;
use crate::native::wires::responses::wire::{Item, ItemHead};

/// Item of the final output that was not streamed completely.
#[derive(Debug)]
pub(super) struct Unfinished<'a> {
    /// Slot to which it belongs; `None` for a new item.
    pub(super) slot: Option<usize>,
    /// Position in the output.
    pub(super) position: u64,
    /// JSON of the item.
    pub(super) json: &'a str,
}

/// Slots that are not matched with an item of the final output yet.
struct Unmatched<'a> {
    slots: &'a [ItemSlot],
    in_order: Vec<usize>,
    is_taken: Vec<bool>,
    by_name: HashMap<SlotKind, HashMap<&'a str, VecDeque<usize>>>,
    by_kind: HashMap<SlotKind, VecDeque<usize>>,
}

impl ItemSlots {
    /// Returns the unfinished items of `output`, in order.
    ///
    /// Two items are the same if their raw texts, their ids or their call ids are equal. The remaining items of both
    /// sides are paired by kind, in order; a finished call is paired only with an equal call.
    pub(super) fn reconcile<'a>(&self, output: &[&'a str]) -> Vec<Unfinished<'a>> {
        let mut unmatched = Unmatched::new(self.as_slice());
        let mut unfinished = Vec::new();
        let mut left = Vec::new();
        for (position, json) in (0..).zip(output.iter().copied()) {
            if unmatched.take_same(position, json) {
                continue;
            }
            let head: ItemHead<'_> = parse(json).unwrap_or_default();
            let kind = SlotKind::of(head.kind.as_str());
            match unmatched.take_named(kind, &[head.id.as_str(), head.call_id.as_str()]) {
                Some(slot) if unmatched.is_open(slot) => {
                    unfinished.push(Unfinished { slot: Some(slot), position: position as u64, json });
                }
                Some(_) => {}
                None => left.push((kind, position as u64, json)),
            }
        }
        // Pair the rest only now: an earlier pairing by kind could take a slot that a later item names.
        for (kind, position, json) in left {
            match unmatched.first_left(kind) {
                Some(slot) if unmatched.is_open(slot) => {
                    unmatched.take(slot);
                    unfinished.push(Unfinished { slot: Some(slot), position, json });
                }
                Some(slot) if unmatched.is_alike(slot, json) => unmatched.take(slot),
                _ => unfinished.push(Unfinished { slot: None, position, json }),
            }
        }
        // The second loop appended its items out of order.
        unfinished.sort_by_key(|item| item.position);
        unfinished
    }
}

impl<'a> Unmatched<'a> {
    fn new(slots: &'a [ItemSlot]) -> Self {
        let mut in_order: Vec<(u64, usize)> =
            slots.iter().enumerate().map(|(index, slot)| (slot.order, index)).collect();
        // Each pair has another index, so an unstable sort has only one result.
        in_order.sort_unstable();
        let in_order: Vec<usize> = in_order.into_iter().map(|(_, index)| index).collect();
        let mut by_name: HashMap<_, HashMap<_, VecDeque<_>>> = HashMap::new();
        let mut by_kind: HashMap<_, VecDeque<_>> = HashMap::new();
        for &index in &in_order {
            let Some(slot) = slots.get(index) else { continue };
            let names = by_name.entry(slot.kind).or_default();
            for name in [slot.item_id.as_str(), slot.call_id.as_str()] {
                if !name.is_empty() {
                    names.entry(name).or_default().push_back(index);
                }
            }
            by_kind.entry(slot.kind).or_default().push_back(index);
        }
        Self { slots, is_taken: vec![false; slots.len()], in_order, by_name, by_kind }
    }

    /// Matches the finished item at this position, if its raw text is equal. Returns true on success.
    fn take_same(&mut self, position: usize, json: &str) -> bool {
        let Some(&index) = self.in_order.get(position) else { return false };
        let item = self.slots.get(index).and_then(|slot| slot.item.as_ref());
        let is_same = self.is_left(index) && item.is_some_and(|item| has_raw(item, json));
        if is_same {
            self.take(index);
        }
        is_same
    }

    /// Matches the first item with one of these ids.
    fn take_named(&mut self, kind: SlotKind, names: &[&str]) -> Option<usize> {
        for name in names {
            let Some(queue) = self.by_name.get_mut(&kind).and_then(|queues| queues.get_mut(*name)) else {
                continue;
            };
            // A slot may have been taken under another name. Each entry leaves its queue once, so the work is linear.
            while let Some(index) = queue.pop_front() {
                if self.is_taken.get(index) == Some(&false) {
                    self.take(index);
                    return Some(index);
                }
            }
        }
        None
    }

    /// Returns the first unmatched slot of this kind.
    fn first_left(&mut self, kind: SlotKind) -> Option<usize> {
        let queue = self.by_kind.get_mut(&kind)?;
        while let Some(&index) = queue.front() {
            if self.is_taken.get(index) == Some(&false) {
                return Some(index);
            }
            queue.pop_front();
        }
        None
    }

    fn take(&mut self, index: usize) {
        if let Some(is_taken) = self.is_taken.get_mut(index) {
            *is_taken = true;
        }
    }

    fn is_left(&self, index: usize) -> bool {
        self.is_taken.get(index) == Some(&false)
    }

    fn is_open(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.item.is_none())
    }

    /// Returns true if an item without a common id equals this finished one.
    fn is_alike(&self, index: usize, json: &str) -> bool {
        let Some(item) = self.slots.get(index).and_then(|slot| slot.item.as_ref()) else { return false };
        match item {
            OutputItem::Call(call) => {
                let other: Item<'_> = parse(json).unwrap_or_default();
                call.name == other.name.as_str() && call.arguments == *other.arguments.0
            }
            OutputItem::CustomCall { name, input, .. } => {
                let other: Item<'_> = parse(json).unwrap_or_default();
                name == other.name.as_str() && input == other.input.as_str()
            }
            _ => true,
        }
    }
}
