//! Calls of a reply, assembled from their pieces.

use std::borrow::Cow;

use super::chunk::{ArgumentsPiece, CallDelta, FunctionDelta};
use crate::native::reply::{FunctionCall, OutputItem};

/// Maximum number of calls of one reply. Source: our own bound.
const MAX_CALLS: usize = 1_024;

/// Calls so far.
#[derive(Debug, Default)]
pub(super) struct CallSlots(Vec<CallSlot>);

#[derive(Debug, Default)]
struct CallSlot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// True if the arguments came as an object, which is complete.
    is_whole: bool,
}

impl CallSlots {
    /// Adds a piece of a call. `join` joins split characters of the text with the given name.
    pub(super) fn add(&mut self, delta: &CallDelta<'_>, join: impl FnOnce(&str, Cow<'_, str>) -> String) {
        let function = delta.function.0.as_ref();
        let name = function.map(|function| function.name.as_str()).unwrap_or_default();
        let place = self.place(delta.index.0, delta.id.as_str(), name);
        let Some(place) = place.or_else(|| self.open()) else { return };
        let Some(slot) = self.0.get_mut(place) else { return };
        slot.index = slot.index.or(delta.index.0);
        if slot.id.is_empty() {
            slot.id.push_str(delta.id.as_str());
        }
        if let Some(function) = function {
            slot.take(function, |text| join(&format!("call {place}"), text));
        }
    }

    /// Adds the single call of the form before `tool_calls`.
    pub(super) fn add_single(
        &mut self,
        function: &FunctionDelta<'_>,
        join: impl FnOnce(&str, Cow<'_, str>) -> String,
    ) {
        if self.0.is_empty() {
            self.open();
        }
        if let Some(slot) = self.0.first_mut() {
            slot.take(function, |text| join("call 0", text));
        }
    }

    /// Returns the call to which a piece belongs; `None` if it begins another one.
    ///
    /// Some servers omit the index or the id. Some give all calls of a reply one index, with an id and a name each.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let is_same_id = |slot: &CallSlot| id.is_empty() || slot.id.is_empty() || slot.id == id;
        if let Some(index) = index {
            let begins = |slot: &CallSlot| !is_same_id(slot) && !name.is_empty();
            let place = self.0.iter().rposition(|slot| slot.index == Some(index))?;
            return (!self.0.get(place).is_some_and(begins)).then_some(place);
        }
        if !id.is_empty() {
            return self.0.iter().rposition(|slot| slot.id == id);
        }
        let last = self.0.last()?;
        (name.is_empty() || last.name.is_empty()).then(|| self.0.len() - 1)
    }

    fn open(&mut self) -> Option<usize> {
        (self.0.len() < MAX_CALLS).then(|| {
            self.0.push(CallSlot::default());
            self.0.len() - 1
        })
    }

    /// Returns the calls. A call without an id gets one from the number `call` of the model call.
    pub(super) fn into_items(self, call: u32) -> Vec<OutputItem> {
        let named = self.0.into_iter().enumerate().filter(|(_, slot)| !slot.name.is_empty());
        let item = |(place, slot): (usize, CallSlot)| {
            let call_id = if slot.id.is_empty() { format!("call_{call}_{place}") } else { slot.id };
            OutputItem::Call(FunctionCall {
                call_id,
                name: slot.name,
                namespace: None,
                arguments: slot.arguments,
                raw: None,
            })
        };
        named.map(item).collect()
    }
}

impl CallSlot {
    fn take(&mut self, function: &FunctionDelta<'_>, join: impl FnOnce(Cow<'_, str>) -> String) {
        let name = function.name.as_str();
        // Some servers repeat the name with every piece of the arguments.
        if self.name.is_empty() || (self.arguments.is_empty() && self.name != name) {
            self.name.push_str(name);
        }
        match &function.arguments {
            ArgumentsPiece::Piece(text) if !self.is_whole => {
                self.arguments.push_str(&join(Cow::Borrowed(text)));
            }
            ArgumentsPiece::Object(raw) => {
                (*raw).clone_into(&mut self.arguments);
                self.is_whole = true;
            }
            ArgumentsPiece::Piece(_) | ArgumentsPiece::Nothing => {}
        }
    }
}
