//! Changes of the items of a conversation: reasoning, images and older parts are left out or replaced.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::super::{convert, parts};
use super::{ResponsesTranscript, write};
use crate::native::compaction::{
    CompactionDemand, CompactionPlan, ItemFate, ItemOutline, OutlineKind, PICTURE_BYTES,
};
use crate::native::items::{Item, note_of, summaries_of};
use crate::native::lenient::Text;

/// Change of an item of the conversation.
enum Rewritten {
    Unchanged,
    LeftOut,
    Changed(Map<String, Value>),
}

/// State of an item before a change of the conversation.
struct OldItem {
    /// True if the server has accepted the item.
    was_accepted: bool,
}

/// Fields of an item that determine its outline.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemHead<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    call_id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    content: Value,
}

impl ItemHead<'_> {
    fn outline(&self) -> OutlineKind<'_> {
        let call = self.call_id.as_str();
        match self.kind.as_str() {
            "message" if self.role.as_str() == "assistant" => OutlineKind::Model,
            "message" => match self.texts().and_then(|texts| note_of(&texts)) {
                Some(Item::Compacted { dropped, .. }) => OutlineKind::Note(dropped),
                _ => OutlineKind::User,
            },
            "function_call" | "custom_tool_call" => OutlineKind::Call { id: call, name: self.name.as_str() },
            // The outputs of hosted tools are objects of their own, so no text may replace them.
            "function_call_output" | "custom_tool_call_output" => OutlineKind::Result { call },
            kind if kind.ends_with("compaction") => OutlineKind::Fixed,
            _ => OutlineKind::Model,
        }
    }

    /// Returns the texts of a message that has nothing else.
    fn texts(&self) -> Option<Vec<&str>> {
        match &self.content {
            Value::String(text) => Some(vec![text]),
            Value::Array(parts) => {
                parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            _ => None,
        }
    }
}

impl ResponsesTranscript {
    /// Removes the model's reasoning from the conversation. Returns true if there was any. Some servers cannot read the
    /// reasoning of another account or model.
    ///
    /// The remaining items lose their ids, because a server that knows an id requires the reasoning that belongs to it.
    /// Source: "'function_call' was provided without its required 'reasoning' item".
    pub(crate) fn drop_reasoning(&mut self) -> bool {
        self.has_reasoning && self.forget_items()
    }

    /// Removes reasoning and the ids of items, which refer to items stored at the server. Returns true if there were
    /// any. Source: "Item with id 'rs_…' not found. Items are not persisted when `store` is set to false."
    pub(crate) fn forget_items(&mut self) -> bool {
        self.has_reasoning = false;
        self.rewrite(None, |_, mut fields| {
            if fields.get("type").is_some_and(|kind| kind == "reasoning") {
                return Rewritten::LeftOut;
            }
            match fields.remove("id") {
                Some(_) => Rewritten::Changed(fields),
                None => Rewritten::Unchanged,
            }
        })
    }

    /// Replaces images by text: first those in items that the server has not accepted yet, otherwise all. Returns true
    /// if it replaced any.
    pub(crate) fn drop_pictures(&mut self) -> bool {
        let without = |mut fields: Map<String, Value>| match parts::replace_pictures(&mut fields) {
            true => Rewritten::Changed(fields),
            false => Rewritten::Unchanged,
        };
        memchr::memmem::find(&self.items, b"\"input_image\"").is_some()
            && (self.rewrite(None, |item, fields| match item.was_accepted {
                true => Rewritten::Unchanged,
                false => without(fields),
            }) || self.rewrite(None, |_, fields| without(fields)))
    }

    /// Plans which older parts of the conversation are dropped.
    pub(crate) fn plan_compaction(&self, demand: CompactionDemand) -> CompactionPlan {
        let list = self.list();
        let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(&list) else {
            return CompactionPlan::default();
        };
        let heads: Vec<ItemHead<'_>> =
            items.iter().map(|item| serde_json::from_str(item.get()).unwrap_or_default()).collect();
        let outlines: Vec<_> = heads
            .iter()
            .zip(&items)
            .map(|(head, item)| ItemOutline {
                kind: head.outline(),
                bytes: text_bytes(item.get().as_bytes()),
            })
            .collect();
        CompactionPlan::new(&outlines, self.items_before_turn, &self.pinned, demand)
    }

    /// Carries out a plan for the present items.
    pub(crate) fn compact(&mut self, plan: CompactionPlan, summary: Option<String>) {
        let summary = summary.or_else(|| summaries_of(&plan.dropped_of(&self.said)));
        let note = plan.note.map(|(index, dropped)| (index, Item::Compacted { dropped, summary }));
        let mut fates = plan.fates.into_iter();
        self.rewrite(note, |_, mut fields| match fates.next() {
            Some(ItemFate::Dropped) => Rewritten::LeftOut,
            Some(ItemFate::Shortened(text)) => {
                fields.insert("output".to_owned(), text.into());
                Rewritten::Changed(fields)
            }
            Some(ItemFate::Stays) | None => Rewritten::Unchanged,
        });
    }

    /// Returns the items as a JSON list.
    fn list(&self) -> Vec<u8> {
        [b"[", self.items.as_slice(), b"]"].concat()
    }

    /// Rewrites the conversation. Inserts `note` before the item with its index. Returns true after a change.
    fn rewrite(
        &mut self,
        mut note: Option<(usize, Item)>,
        mut rewritten: impl FnMut(OldItem, Map<String, Value>) -> Rewritten,
    ) -> bool {
        let list = self.list();
        let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(&list) else { return false };
        let (whole_bytes, accepted_bytes) = (self.whole_bytes, self.accepted_bytes);
        let items_before_turn = self.items_before_turn;
        self.items.clear();
        let said = std::mem::take(&mut self.said);
        (self.whole_bytes, self.accepted_bytes) = (0, 0);
        (self.whole, self.items_before_turn) = (0, 0);
        let mut read_bytes = 0;
        let mut has_changed = note.is_some();
        for (index, item) in items.iter().enumerate() {
            if let Some((_, note)) = note.take_if(|(before, _)| *before == index)
                && let Some(json) = convert::of_item(&note, self.shape.text)
            {
                self.push(false, Some(Arc::new(note)), |into| write(into, &json));
            }
            read_bytes += item.get().len() + usize::from(read_bytes > 0);
            let fields: Map<String, Value> = serde_json::from_str(item.get()).unwrap_or_default();
            let new = rewritten(OldItem { was_accepted: read_bytes <= accepted_bytes }, fields);
            has_changed |= !matches!(new, Rewritten::Unchanged);
            match new {
                Rewritten::Unchanged => {
                    let same = said.get(index).cloned();
                    self.push(false, same, |into| into.extend_from_slice(item.get().as_bytes()));
                }
                Rewritten::Changed(fields) => self.push(false, None, |into| write(into, &fields)),
                Rewritten::LeftOut => {}
            }
            if read_bytes <= whole_bytes {
                self.is_whole();
            }
            if read_bytes <= accepted_bytes {
                self.accepted_bytes = self.items.len();
            }
            if index < items_before_turn {
                self.items_before_turn = self.said.len();
            }
        }
        has_changed
    }
}

/// Returns the length of JSON with pictures, each of which counts as [`PICTURE_BYTES`] of text.
pub(super) fn text_bytes(json: &[u8]) -> usize {
    const PICTURE_START: &[u8] = b";base64,";
    let (mut bytes, mut rest) = (json.len(), json);
    while let Some(start) = memchr::memmem::find(rest, PICTURE_START) {
        let picture = rest.get(start + PICTURE_START.len()..).unwrap_or_default();
        let length = memchr::memchr(b'"', picture).unwrap_or(picture.len());
        bytes -= length.saturating_sub(PICTURE_BYTES);
        // The search goes on behind the picture, so that no byte is subtracted twice.
        rest = picture.get(length..).unwrap_or_default();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_weight_and_no_text_counts_twice() {
        let picture = format!("{{\"image_url\":\"data:image/png;base64,{}\"}}", "A".repeat(100_000));
        assert_eq!(text_bytes(picture.as_bytes()), picture.len() - 100_000 + PICTURE_BYTES);
        let two = format!("[{picture},{picture}]");
        assert_eq!(text_bytes(two.as_bytes()), two.len() - 2 * (100_000 - PICTURE_BYTES));
        // A tool's text that repeats the words, and one without an end.
        let text = format!("\"{}\"", ";base64,".repeat(20_000));
        assert_eq!(text_bytes(text.as_bytes()), 2 + 8 + PICTURE_BYTES);
        assert_eq!(text_bytes(b";base64,"), 8);
        assert_eq!(text_bytes(b""), 0);
    }
}
