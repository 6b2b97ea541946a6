//! Conversation of a wire whose requests are built from the loop's items.

use std::{collections::BTreeSet, fmt};

use bytes::Bytes;
use nexus_core::{PromptBlock, ToolResult};
use serde_json::Value;

use super::items::{Author, Item, ItemPart, Origin, REFUSED_PICTURE, Sealed, result_hash, result_parts};
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
    fn body(&self, head: &[u8], items: &[Item], output_tokens: Option<u64>) -> Vec<u8>;

    /// Implements [`Transcript::move_pictures`]. Default: false.
    fn move_pictures(&mut self) -> bool {
        false
    }
}

/// Conversation as items.
#[derive(Debug)]
pub(crate) struct ItemTranscript<W> {
    writer: W,
    id: String,
    origin: Origin,
    head: Vec<u8>,
    items: Vec<Item>,
    /// Ids of the calls in the resumed handle.
    calls_before: BTreeSet<String>,
    /// Number of items that can be resumed: every call among them has its result.
    whole: usize,
    /// Number of items that the server has accepted once.
    accepted: usize,
}

impl<W: RequestWriter> ItemTranscript<W> {
    /// Creates a conversation without messages.
    pub(crate) fn new(writer: W, opening: &TurnConstants<'_>) -> Self {
        Self::with_items(writer, opening, uuid::Uuid::new_v4().to_string(), Vec::new()).0
    }

    /// Creates a conversation with these items. Returns also the number of sealed items that were left out, because
    /// another wire, server or model created them.
    pub(crate) fn with_items(
        writer: W,
        opening: &TurnConstants<'_>,
        id: String,
        mut items: Vec<Item>,
    ) -> (Self, usize) {
        let origin = Origin {
            wire: writer.wire().to_owned(),
            server: opening.server.to_owned(),
            model: opening.plan.model.as_str().to_owned(),
        };
        let before = items.len();
        items.retain(|item| match item {
            Item::Reasoning { sealed } => sealed.origin == origin,
            _ => true,
        });
        let left_out = before - items.len();
        let calls = items.iter().filter_map(|item| match item {
            Item::Call { id, .. } => Some(id.clone()),
            _ => None,
        });
        let calls_before = calls.collect();
        let count = items.len();
        let head = writer.head(opening, &id);
        let transcript =
            Self { writer, id, origin, head, items, calls_before, whole: count, accepted: count };
        (transcript, left_out)
    }

    fn say(&mut self, role: Author, parts: Vec<ItemPart>) {
        self.items.push(Item::Message { role, parts });
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
                    self.items.push(Item::Reasoning { sealed });
                }
                OutputItem::Call(call) => self.items.push(Item::Call {
                    id: call.call_id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                }),
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
        self.items.push(Item::Result { call: call.to_owned(), parts, is_error: result.is_error });
        hash
    }

    fn is_whole(&mut self) {
        self.whole = self.items.len();
    }

    fn drop_reasoning(&mut self) -> bool {
        let before = self.items.len();
        let (mut place, mut whole, mut accepted) = (0, 0, 0);
        let (was_whole, was_accepted) = (self.whole, self.accepted);
        self.items.retain(|item| {
            let stays = !matches!(item, Item::Reasoning { .. });
            whole += usize::from(stays && place < was_whole);
            accepted += usize::from(stays && place < was_accepted);
            place += 1;
            stays
        });
        (self.whole, self.accepted) = (whole, accepted);
        self.items.len() != before
    }

    fn forget_items(&mut self) -> bool {
        false
    }

    fn drop_pictures(&mut self) -> bool {
        let accepted = self.accepted.min(self.items.len());
        let (before, new) = self.items.split_at_mut(accepted);
        replace_pictures(new) || replace_pictures(before)
    }

    fn move_pictures(&mut self) -> bool {
        self.writer.move_pictures()
    }

    fn reopen(&mut self, opening: &TurnConstants<'_>) {
        self.head = self.writer.head(opening, &self.id);
    }

    fn request(&self, output_tokens: Option<u64>) -> Bytes {
        self.writer.body(&self.head, &self.items, output_tokens).into()
    }

    fn keep(&self) -> Value {
        items_handle(&self.id, self.items.get(..self.whole).unwrap_or_default())
    }
}

/// Replaces images by text. Returns true if there were any.
fn replace_pictures(items: &mut [Item]) -> bool {
    let mut has_pictures = false;
    for item in items {
        let (Item::Message { parts, .. } | Item::Result { parts, .. }) = item else { continue };
        for part in parts {
            if matches!(part, ItemPart::Image { .. }) {
                *part = ItemPart::text(REFUSED_PICTURE);
                has_pictures = true;
            }
        }
    }
    has_pictures
}
