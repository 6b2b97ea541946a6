//! A turn in version 1 of the files: a file that never changes, named by the hash of its bytes.

use std::path::Path;

use nexus_core::name_type;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    conversation::ConversationTurn,
    conversation_error::{ConversationError, ConversationErrorKind},
};

/// Format version of the files that this program writes.
pub(crate) const VERSION: u64 = 2;
/// Format version without logs.
pub(crate) const VERSION_ONE: u64 = 1;
/// Maximum size of a turn's file, in bytes. Every valid turn is smaller, even with every letter of its texts escaped.
const MAX_BYTES: u64 = 256 << 20;

name_type! {
    /// Name of a turn's file: the SHA-256 of its bytes, in hexadecimal digits.
    pub(crate) struct NodeId: check_hash => &'static str;
}

impl NodeId {
    fn of(bytes: &[u8]) -> Self {
        Self(nexus_files::hex(Sha256::digest(bytes)).into())
    }
}

fn check_hash(text: &str) -> Result<(), &'static str> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hash { Ok(()) } else { Err("it names a turn with a text that is not a hash") }
}

/// Position in a conversation: after a turn, or after one of its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConversationPoint {
    pub(crate) node: NodeId,
    /// Number of the turn's messages before the position. All by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) messages: Option<usize>,
}

/// Content of a turn's file. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Node {
    /// Position that the turn continues.
    pub(crate) parent: Option<ConversationPoint>,
    /// Numbers of earlier turns and messages.
    pub(crate) earlier_turns: u64,
    pub(crate) earlier_messages: u64,
    pub(crate) turn: ConversationTurn,
}

/// The version of a file whose other content is unknown.
#[derive(Deserialize)]
pub(crate) struct Versioned {
    pub(crate) version: u64,
}

/// Returns the error about a file of a later version. `None` for a known version.
pub(crate) fn newer_version(path: &Path, version: u64) -> Option<ConversationError> {
    (version > VERSION).then(|| {
        let message = format!("{}: a newer version of Nexus wrote it (version {version})", path.display());
        let advice = format!("update Nexus; this version supports version {VERSION}");
        ConversationError::new(ConversationErrorKind::NewerVersion, message, advice)
    })
}

/// Parses JSON. Fails for malformed JSON, and for a later version.
pub(crate) fn parse<T: for<'de> Deserialize<'de>>(path: &Path, bytes: &[u8]) -> Result<T, ConversationError> {
    // Read the version alone first, because a newer version may have other fields.
    let Versioned { version } =
        serde_json::from_slice(bytes).map_err(|error| ConversationError::damaged(path, error))?;
    if let Some(error) = newer_version(path, version) {
        return Err(error);
    }
    serde_json::from_slice(bytes).map_err(|error| ConversationError::damaged(path, error))
}

impl Node {
    /// Returns the numbers of turns and messages up to a position in it. `None` if the position does not exist.
    pub(crate) fn counts(&self, place: &ConversationPoint) -> Option<(u64, u64)> {
        let all = self.turn.messages.len();
        let kept = place.messages.unwrap_or(all);
        let messages = self.earlier_messages.checked_add(kept as u64)?;
        (kept <= all).then_some((self.earlier_turns.checked_add(1)?, messages))
    }

    /// Reads a node from the folder.
    pub(crate) fn read(folder: &Path, id: &NodeId) -> Result<Self, ConversationError> {
        read_as(folder, id)
    }

    /// Reads the parent position of a node from the folder.
    pub(crate) fn read_parent(
        folder: &Path,
        id: &NodeId,
    ) -> Result<Option<ConversationPoint>, ConversationError> {
        #[derive(Deserialize)]
        struct Child {
            parent: Option<ConversationPoint>,
        }
        read_as(folder, id).map(|Child { parent }| parent)
    }
}

/// Reads a file of the folder, and checks its bytes against the hash in its name.
fn read_as<T: for<'de> Deserialize<'de>>(folder: &Path, id: &NodeId) -> Result<T, ConversationError> {
    let path = folder.join(format!("{id}.json"));
    let bytes = nexus_files::read_bounded(&path, MAX_BYTES)
        .map_err(ConversationError::at(&path))?
        .ok_or_else(|| ConversationError::damaged(&path, "it is missing"))?;
    if NodeId::of(&bytes) != *id {
        return Err(ConversationError::damaged(&path, "its content does not match the hash in its name"));
    }
    parse(&path, &bytes)
}
