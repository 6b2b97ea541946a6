//! Items of an output while it is streamed.
//!
//! Deltas refer to their item by id, by index, by both, or not at all, and some servers change the id within a
//! response. [`ItemSlots`] finds the item in each of these cases.

use crate::native::reply::OutputItem;
use nexus_core::MessageId;
use serde_json::value::RawValue;

/// Number of the newest items that are searched for the target of a delta.
const SEARCHED: usize = 1024;

/// Kind of an item, as far as deltas distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlotKind {
    Message,
    Reasoning,
    Call,
    CustomCall,
    Other,
}

impl SlotKind {
    /// Returns the kind for a value of `type`.
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            "custom_tool_call" => Self::CustomCall,
            _ => Self::Other,
        }
    }
}

/// State of one item, from its first event to its end.
#[derive(Debug)]
pub(super) struct ItemSlot {
    pub(super) kind: SlotKind,
    /// Index that the server sent.
    output_index: Option<u64>,
    /// Position in the output.
    pub(super) order: u64,
    pub(super) item_id: String,
    /// Id of a message within the turn.
    pub(super) message: Option<MessageId>,
    /// Text, arguments or input so far.
    pub(super) text: String,
    /// True if the text is from the item's first event. The first delta replaces it.
    pub(super) is_preset: bool,
    /// Part of `text` that is a refusal.
    pub(super) refusal: String,
    /// True if a part of the item was sent to the caller.
    pub(super) is_shown: bool,
    /// True after a delta of a part, until the end of the part.
    pub(super) is_in_part: bool,
    /// Number of the part that ended last; the inner `None` if the server sends no numbers.
    pub(super) ended_part: Option<Option<u64>>,
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) namespace: String,
    /// The finished item; `None` while it streams.
    pub(super) item: Option<OutputItem>,
}

impl ItemSlot {
    /// Returns a call id for an item without one: the item's id or, without that, an id from its position.
    pub(super) fn unnamed(&self) -> String {
        if self.item_id.is_empty() { format!("call_{}", self.order) } else { self.item_id.clone() }
    }
}

/// Slots of the items of one output.
#[derive(Debug, Default)]
pub(super) struct ItemSlots {
    slots: Vec<ItemSlot>,
    /// Index of the last delta's target.
    current: usize,
}

impl ItemSlots {
    pub(super) fn slot_mut(&mut self, index: usize) -> Option<&mut ItemSlot> {
        self.slots.get_mut(index)
    }

    /// Returns all slots in the order of their arrival.
    pub(super) fn as_slice(&self) -> &[ItemSlot] {
        &self.slots
    }

    /// Returns all slots in the order of the output.
    pub(super) fn into_ordered(mut self) -> Vec<ItemSlot> {
        // A stable sort, because a server may use one index twice.
        self.slots.sort_by_key(|slot| slot.order);
        self.slots
    }

    /// Returns the unfinished item to which an event refers, if it exists.
    ///
    /// # Errors
    ///
    /// [`Late`] if the item is finished.
    pub(super) fn find_open(
        &mut self,
        kind: SlotKind,
        output_index: Option<u64>,
        item_id: &str,
    ) -> Result<Option<usize>, Late> {
        // Nearly every delta continues the item of the previous one, so try it before the search.
        if let Some(slot) = self.slots.get(self.current)
            && slot.kind == kind
            && slot.item.is_none()
            && slot.output_index == output_index
            && slot.item_id == item_id
        {
            return Ok(Some(self.current));
        }
        let found = self.search(kind, output_index, item_id)?;
        if let Some(index) = found {
            self.current = index;
        }
        Ok(found)
    }

    /// Returns the unfinished item with this id, otherwise with this call id.
    pub(super) fn find_named(&self, kind: SlotKind, item_id: &str, call_id: &str) -> Option<usize> {
        let newest = || {
            let newest = self.slots.iter().enumerate().rev().take(SEARCHED);
            newest.filter(|(_, slot)| slot.kind == kind && slot.item.is_none())
        };
        let by_id = newest().find(|(_, slot)| !item_id.is_empty() && slot.item_id == item_id);
        let by_call = || newest().find(|(_, slot)| !call_id.is_empty() && slot.call_id == call_id);
        by_id.or_else(by_call).map(|(index, _)| index)
    }

    fn search(
        &self,
        kind: SlotKind,
        output_index: Option<u64>,
        item_id: &str,
    ) -> Result<Option<usize>, Late> {
        let newest =
            || self.slots.iter().enumerate().rev().take(SEARCHED).filter(|(_, slot)| slot.kind == kind);
        let open = || newest().filter(|(_, slot)| slot.item.is_none());
        let has_id = |slot: &ItemSlot| !item_id.is_empty() && slot.item_id == item_id;
        let by_id = || open().find(|(_, slot)| has_id(slot));
        let by_place =
            || open().find(|(_, slot)| output_index.is_some() && slot.output_index == output_index);
        // Without ids and indexes to compare, the newest open item of the kind is the best match.
        let by_turn = || {
            open().find(|(_, slot)| {
                (item_id.is_empty() || slot.item_id.is_empty())
                    && (output_index.is_none() || slot.output_index.is_none())
            })
        };
        if let Some((index, _)) = by_id().or_else(by_place).or_else(by_turn) {
            return Ok(Some(index));
        }
        // The item has ended. Another slot would repeat its text.
        if newest().any(|(_, slot)| has_id(slot)) { Err(Late) } else { Ok(None) }
    }

    /// Returns true if an item with this id is finished.
    pub(super) fn is_over(&self, kind: SlotKind, item_id: &str) -> bool {
        let mut newest = self.slots.iter().rev().take(SEARCHED).filter(|slot| slot.kind == kind);
        newest.any(|slot| !item_id.is_empty() && slot.item_id == item_id && slot.item.is_some())
    }

    /// Returns true if this finished item is reported a second time.
    pub(super) fn is_known(&self, kind: SlotKind, raw: &RawValue) -> bool {
        let mut newest = self.slots.iter().rev().take(SEARCHED).filter(|slot| slot.kind == kind);
        newest.any(|slot| {
            !slot.item_id.is_empty() && slot.item.as_ref().is_some_and(|item| has_raw(item, raw.get()))
        })
    }

    /// Adds a slot for a new item.
    pub(super) fn open(&mut self, kind: SlotKind, output_index: Option<u64>, item_id: &str) -> usize {
        let order = output_index.unwrap_or(self.slots.len() as u64);
        if self.slots.is_empty() {
            // Most answers consist of one item.
            self.slots.reserve_exact(1);
        }
        self.slots.push(ItemSlot {
            kind,
            output_index,
            order,
            item_id: item_id.to_owned(),
            message: None,
            text: String::new(),
            is_preset: false,
            refusal: String::new(),
            is_shown: false,
            is_in_part: false,
            ended_part: None,
            call_id: String::new(),
            name: String::new(),
            namespace: String::new(),
            item: None,
        });
        self.current = self.slots.len() - 1;
        self.current
    }
}

/// Error for a delta of a finished item.
#[derive(Debug)]
pub(super) struct Late;

/// Returns true if the raw JSON of an item is `json`.
pub(super) fn has_raw(item: &OutputItem, json: &str) -> bool {
    item.raw().is_some_and(|own| own.get() == json)
}
