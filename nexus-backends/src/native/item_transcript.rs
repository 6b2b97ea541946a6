//! Conversation of a wire whose requests are built from the loop's items.

use std::{collections::BTreeSet, fmt, sync::Arc};

use bytes::Bytes;
use nexus_core::{BackendId, PromptBlock, ResumeHandle, ToolResult};

use super::compaction::{
    CompactionDemand, CompactionPlan, ItemFate, ItemOutline, OutlineKind, PICTURE_BYTES,
};
use super::items::{
    Author, Item, ItemPart, Origin, REFUSED_PICTURE, Sealed, adopt, result_hash, result_parts, summaries_of,
};
use super::reply::OutputItem;
use super::stored::items_handle;
use super::transcript::{Transcript, TurnConstants};

/// Writer of the requests of a wire.
pub(crate) trait RequestWriter: fmt::Debug + Send + Sync {
    /// Name of the wire, which is part of an [`Origin`].
    fn wire(&self) -> &'static str;

    /// Returns the beginning of every request of a turn, up to its messages.
    fn head(&self, opening: &TurnConstants<'_>, conversation: &str) -> Vec<u8>;

    /// Returns the body of a request. `output_tokens` limits the answer.
    fn body(&self, head: &[u8], items: &[&Item], output_tokens: Option<u64>) -> Vec<u8>;

    /// Implements [`Transcript::move_pictures`]. Default: false.
    fn move_pictures(&mut self) -> bool {
        false
    }
}

/// Approximate length of an item in a request without its content, in bytes.
const ITEM_FRAME_BYTES: usize = 64;

/// Conversation as items.
#[derive(Debug)]
pub(crate) struct ItemTranscript<W> {
    writer: W,
    id: String,
    origin: Origin,
    head: Vec<u8>,
    items: Vec<Arc<Item>>,
    /// Ids of the calls in the resumed handle.
    calls_before: BTreeSet<String>,
    /// Number of items that can be resumed: every call among them has its result.
    whole: usize,
    /// Number of items that the server has accepted once.
    accepted: usize,
    /// Index of the current turn's first message.
    turn_starts_at: usize,
    /// Ids of the calls whose results a compaction must not drop.
    pinned: BTreeSet<String>,
}

impl<W: RequestWriter> ItemTranscript<W> {
    /// Creates a conversation without messages.
    pub(crate) fn new(writer: W, opening: &TurnConstants<'_>) -> Self {
        Self::with_items(writer, opening, uuid::Uuid::new_v4().to_string(), Vec::new(), BTreeSet::new()).0
    }

    /// Creates a conversation with these items. Returns also the number of sealed items that were left out, because
    /// another wire, server or model created them.
    pub(crate) fn with_items(
        writer: W,
        opening: &TurnConstants<'_>,
        id: String,
        mut items: Vec<Arc<Item>>,
        pinned: BTreeSet<String>,
    ) -> (Self, usize) {
        let origin = opening.origin(writer.wire());
        let before = items.len();
        items.retain_mut(|item| adopt(item, &origin));
        let left_out = before - items.len();
        let calls = items.iter().filter_map(|item| match &**item {
            Item::Call { id, .. } => Some(id.clone()),
            _ => None,
        });
        let calls_before = calls.collect();
        let count = items.len();
        let head = writer.head(opening, &id);
        let transcript = Self {
            writer,
            id,
            origin,
            head,
            items,
            calls_before,
            whole: count,
            accepted: count,
            turn_starts_at: count,
            pinned,
        };
        (transcript, left_out)
    }

    /// Removes items for which `stays` returns false. It gets the index and the item, which it may change.
    fn retain(&mut self, mut stays: impl FnMut(usize, &mut Arc<Item>) -> bool) {
        // Positions in the list: each moves by the number of items that are removed before it.
        let marks = [self.whole, self.accepted, self.turn_starts_at];
        let mut moved = [0; 3];
        let mut index = 0;
        self.items.retain_mut(|item| {
            let stays = stays(index, item);
            for (moved, mark) in moved.iter_mut().zip(marks) {
                *moved += usize::from(stays && index < mark);
            }
            index += 1;
            stays
        });
        [self.whole, self.accepted, self.turn_starts_at] = moved;
    }

    fn say(&mut self, role: Author, parts: Vec<ItemPart>) {
        self.items.push(Arc::new(Item::message(role, parts)));
    }
}

impl<W: RequestWriter> Transcript for ItemTranscript<W> {
    fn id(&self) -> &str {
        &self.id
    }

    fn calls_before(&self) -> &BTreeSet<String> {
        &self.calls_before
    }

    fn user(&mut self, blocks: &[PromptBlock]) {
        self.turn_starts_at = self.items.len();
        self.say(Author::User, blocks.iter().filter_map(ItemPart::of_block).collect());
        self.is_whole();
    }

    fn remark(&mut self, text: &str) {
        self.say(Author::User, vec![ItemPart::text(text)]);
        self.is_whole();
    }

    fn model(&mut self, items: &[OutputItem]) {
        self.accepted = self.items.len();
        for item in items {
            match item {
                OutputItem::Message { text, .. } if text.is_empty() => {}
                OutputItem::Message { text, .. } => self.say(Author::Assistant, vec![ItemPart::text(text)]),
                OutputItem::Reasoning { raw } => {
                    let sealed = Sealed { origin: self.origin.clone(), json: raw.get().to_owned() };
                    self.items.push(Arc::new(Item::reasoning(sealed)));
                }
                OutputItem::Call(call) => {
                    let item = Item::call(&call.call_id, &call.name, &call.arguments);
                    self.items.push(Arc::new(item));
                }
                // No wire of items has such calls, and other items mean nothing to a model.
                OutputItem::CustomCall { .. } | OutputItem::Other { .. } => {}
            }
        }
        if !items.iter().any(OutputItem::is_call) {
            self.is_whole();
        }
    }

    fn tool_output(&mut self, call: &str, _is_custom: bool, result: &ToolResult) -> u64 {
        let parts = result_parts(result);
        let hash = result_hash(&parts, result.is_error);
        if result.is_pinned {
            self.pinned.insert(call.to_owned());
        }
        self.items.push(Arc::new(Item::result(call, parts, result.is_error)));
        hash
    }

    fn is_whole(&mut self) {
        self.whole = self.items.len();
    }

    fn drop_reasoning(&mut self) -> bool {
        let before = self.items.len();
        self.retain(|_, item| !matches!(**item, Item::Reasoning { .. }));
        self.items.len() != before
    }

    fn forget_items(&mut self) -> bool {
        false
    }

    fn drop_pictures(&mut self) -> bool {
        let accepted = self.accepted.min(self.items.len());
        let (before, new) = self.items.split_at_mut(accepted);
        // The server has accepted the earlier images once, so the new ones are the likely cause.
        replace_pictures(new) || replace_pictures(before)
    }

    fn items(&self) -> &[Arc<Item>] {
        &self.items
    }

    fn plan_compaction(&self, demand: CompactionDemand) -> CompactionPlan {
        let outlines: Vec<_> = self.items.iter().map(|item| outline(item)).collect();
        CompactionPlan::new(&outlines, self.turn_starts_at, &self.pinned, demand)
    }

    fn compact(&mut self, plan: CompactionPlan, summary: Option<String>) {
        let summary = summary.or_else(|| summaries_of(&plan.dropped_of(&self.items)));
        // The index of the note counts items that are gone after the next step.
        let note = plan.note.map(|(index, dropped)| {
            let before = plan.fates.iter().take(index);
            (before.filter(|fate| **fate != ItemFate::Dropped).count(), dropped)
        });
        let mut fates = plan.fates.into_iter();
        self.retain(|_, item| match fates.next() {
            Some(ItemFate::Dropped) => false,
            Some(ItemFate::Shortened(text)) => {
                if let Item::Result { parts, .. } = Arc::make_mut(item) {
                    *parts = vec![ItemPart::text(text)];
                }
                true
            }
            Some(ItemFate::Stays) | None => true,
        });
        if let Some((index, dropped)) = note {
            self.items.insert(index.min(self.items.len()), Arc::new(Item::Compacted { dropped, summary }));
            for mark in [&mut self.whole, &mut self.accepted, &mut self.turn_starts_at] {
                // The note is at the end of the conversation's first messages, which every mark includes or begins with.
                *mark += usize::from(*mark >= index);
            }
        }
    }

    fn move_pictures(&mut self) -> bool {
        self.writer.move_pictures()
    }

    fn reopen(&mut self, opening: &TurnConstants<'_>) {
        self.head = self.writer.head(opening, &self.id);
    }

    fn request(&self, output_tokens: Option<u64>) -> Bytes {
        let items: Vec<&Item> = self.items.iter().map(|item| &**item).collect();
        self.writer.body(&self.head, &items, output_tokens).into()
    }

    fn request_bytes(&self) -> usize {
        self.head.len() + self.items.iter().map(|item| outline(item).bytes + ITEM_FRAME_BYTES).sum::<usize>()
    }

    fn keep(&self, backend: &BackendId) -> ResumeHandle {
        let items = self.items.get(..self.whole).unwrap_or_default();
        items_handle(backend, &self.id, items.to_vec().into(), &self.pinned)
    }
}

/// Returns the outline of an item. Its size is that of its content, because the rest of an item is small.
fn outline(item: &Item) -> ItemOutline<'_> {
    let of_parts = |parts: &[ItemPart]| {
        let sizes = parts.iter().map(|part| match part {
            ItemPart::Text { text } => text.len(),
            ItemPart::Image { data, .. } => data.len().min(PICTURE_BYTES),
        });
        sizes.sum::<usize>()
    };
    let (kind, bytes) = match item {
        Item::Message { role: Author::User, parts, .. } => (OutlineKind::User, of_parts(parts)),
        Item::Message { role: Author::Assistant, parts, .. } => (OutlineKind::Model, of_parts(parts)),
        Item::Reasoning { sealed, .. } => (OutlineKind::Model, sealed.json.len()),
        Item::Call { id, name, arguments, .. } => {
            (OutlineKind::Call { id, name }, name.len() + arguments.len())
        }
        Item::Result { call, parts, .. } => (OutlineKind::Result { call }, of_parts(parts)),
        Item::Compacted { dropped, summary } => {
            (OutlineKind::Note(*dropped), summary.as_ref().map_or(0, String::len))
        }
        _ => (OutlineKind::Model, 0),
    };
    ItemOutline { kind, bytes }
}

/// Replaces images by text. Returns true if there were any.
fn replace_pictures(items: &mut [Arc<Item>]) -> bool {
    let is_picture = |part: &ItemPart| matches!(part, ItemPart::Image { .. });
    let mut has_pictures = false;
    for item in items {
        // Items without pictures stay shared with the handle of the turn before.
        let (Item::Message { parts, .. } | Item::Result { parts, .. }) = &**item else { continue };
        if !parts.iter().any(is_picture) {
            continue;
        }
        let item = Arc::make_mut(item);
        // The sealed form would still contain the image.
        item.set_sealed(None);
        let (Item::Message { parts, .. } | Item::Result { parts, .. }) = item else { continue };
        for part in parts {
            if is_picture(part) {
                *part = ItemPart::text(REFUSED_PICTURE);
                has_pictures = true;
            }
        }
    }
    has_pictures
}
