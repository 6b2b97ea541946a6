//! Conversation in a resume handle.
//!
//! Version 3 has items ([`nexus_core::item`]) and a small state. Handles of earlier versions are read: version 1 has items in
//! the form of the Responses wire, version 2 has those of version 3. Both have them as JSON in a string of the state.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use nexus_core::{BackendId, ResumeHandle, item::ItemList};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::items::{Item, Origin};

/// Version with items of the Responses wire in the state.
const OF_RESPONSES: u32 = 1;

/// Version with items in the state.
const OF_ITEMS: u32 = 2;

/// Version with items beside the state.
const OF_SHARED_ITEMS: u32 = 3;

/// State of a resume handle.
#[derive(Debug, Serialize, Deserialize)]
struct Handle<'a> {
    version: u32,
    conversation: Cow<'a, str>,
    /// Items of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items: Option<Cow<'a, str>>,
    /// Ids of the calls whose results a compaction must not drop.
    #[serde(default, skip_serializing_if = "has_none")]
    pinned: Cow<'a, BTreeSet<String>>,
    /// Origin of items of the Responses wire. Reasoning and ids in them mean nothing to another server or model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Cow<'a, Origin>>,
}

fn has_none(pinned: &BTreeSet<String>) -> bool {
    pinned.is_empty()
}

/// Items of a stored conversation.
#[derive(Debug)]
pub(crate) enum StoredItems {
    /// JSON list in the form of the Responses wire, and its origin, if it is known.
    Responses(String, Option<Origin>),
    /// Items of the loop.
    Items(Vec<Arc<Item>>),
}

/// Stored conversation.
#[derive(Debug)]
pub(crate) struct StoredConversation {
    /// Id of the conversation, which is a UUID.
    pub(crate) id: String,
    /// Items of the conversation.
    pub(crate) items: StoredItems,
    /// Ids of the calls whose results a compaction must not drop.
    pub(crate) pinned: BTreeSet<String>,
}

impl StoredConversation {
    /// Returns true if a handle has a conversation of a known version. Reads none of its items.
    pub(crate) fn is_in(handle: &ResumeHandle) -> bool {
        Handle::deserialize(handle.state()).is_ok_and(|handle| {
            let is_known = match handle.items {
                Some(_) => matches!(handle.version, OF_RESPONSES | OF_ITEMS),
                None => handle.version == OF_SHARED_ITEMS,
            };
            is_known && uuid::Uuid::parse_str(&handle.conversation).is_ok()
        })
    }

    /// Reads a handle; `None` if it has no conversation of a known version.
    pub(crate) fn of(resume: &ResumeHandle) -> Option<Self> {
        let handle = Handle::deserialize(resume.state()).ok()?;
        uuid::Uuid::parse_str(&handle.conversation).ok()?;
        let items = match handle.version {
            OF_RESPONSES => {
                let list = handle.items?;
                let items: Vec<&RawValue> = serde_json::from_str(&list).ok()?;
                // A conversation contains only objects. The server decides if it accepts them.
                items.iter().all(|item| item.get().starts_with('{')).then_some(())?;
                StoredItems::Responses(list.into_owned(), handle.origin.map(Cow::into_owned))
            }
            OF_ITEMS => {
                StoredItems::Items(serde_json::from_str::<ItemList>(&handle.items?).ok()?.items().to_vec())
            }
            OF_SHARED_ITEMS if handle.items.is_none() => StoredItems::Items(resume.items().items().to_vec()),
            _ => return None,
        };
        Some(Self { id: handle.conversation.into_owned(), items, pinned: handle.pinned.into_owned() })
    }
}

/// Returns the handle of a conversation with these items.
pub(crate) fn items_handle(
    backend: &BackendId,
    conversation: &str,
    items: ItemList,
    pinned: &BTreeSet<String>,
) -> ResumeHandle {
    let state = Handle {
        version: OF_SHARED_ITEMS,
        conversation: conversation.into(),
        items: None,
        pinned: Cow::Borrowed(pinned),
        origin: None,
    };
    // Writing cannot fail: all keys are strings.
    let state = serde_json::to_value(state).unwrap_or_default();
    ResumeHandle::new(backend.clone(), state).with_items(items)
}
