//! Conversation in a resume handle.
//!
//! Version 1 has items in the form of the Responses wire, version 2 has [`Item`]s. Both have the items as JSON in a
//! string, so that arguments and reasoning stay byte for byte.

use std::{borrow::Cow, collections::BTreeSet};

use nexus_core::ResumeHandle;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::items::{Item, Origin};

/// Version with items of the Responses wire.
const OF_RESPONSES: u32 = 1;

/// Version with items of the loop.
const OF_ITEMS: u32 = 2;

/// Content of a resume handle.
#[derive(Debug, Serialize, Deserialize)]
struct Handle<'a> {
    version: u32,
    conversation: Cow<'a, str>,
    items: Cow<'a, str>,
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
    Items(Vec<Item>),
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
            matches!(handle.version, OF_RESPONSES | OF_ITEMS)
                && uuid::Uuid::parse_str(&handle.conversation).is_ok()
        })
    }

    /// Reads a handle; `None` if it has no conversation of a known version.
    pub(crate) fn of(handle: &ResumeHandle) -> Option<Self> {
        let handle = Handle::deserialize(handle.state()).ok()?;
        uuid::Uuid::parse_str(&handle.conversation).ok()?;
        let items = match handle.version {
            OF_RESPONSES => {
                let items: Vec<&RawValue> = serde_json::from_str(&handle.items).ok()?;
                // A conversation contains only objects. The server decides if it accepts them.
                items.iter().all(|item| item.get().starts_with('{')).then_some(())?;
                StoredItems::Responses(handle.items.into_owned(), handle.origin.map(Cow::into_owned))
            }
            OF_ITEMS => StoredItems::Items(serde_json::from_str(&handle.items).ok()?),
            _ => return None,
        };
        Some(Self { id: handle.conversation.into_owned(), items, pinned: handle.pinned.into_owned() })
    }
}

/// Returns the content of a handle with items of the Responses wire.
pub(crate) fn responses_handle(
    conversation: &str,
    items: String,
    pinned: &BTreeSet<String>,
    origin: &Origin,
) -> Value {
    handle(OF_RESPONSES, conversation, items, pinned, Some(origin))
}

/// Returns the content of a handle with items of the loop.
pub(crate) fn items_handle(conversation: &str, items: &[Item], pinned: &BTreeSet<String>) -> Value {
    // Writing cannot fail: all keys are strings.
    let items = serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned());
    handle(OF_ITEMS, conversation, items, pinned, None)
}

fn handle(
    version: u32,
    conversation: &str,
    items: String,
    pinned: &BTreeSet<String>,
    origin: Option<&Origin>,
) -> Value {
    let handle = Handle {
        version,
        conversation: conversation.into(),
        items: items.into(),
        pinned: Cow::Borrowed(pinned),
        origin: origin.map(Cow::Borrowed),
    };
    serde_json::to_value(handle).unwrap_or_default()
}
