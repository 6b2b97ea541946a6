//! The end of a conversation, at which its next turn is added.

use crate::{
    conversation_log::StateAfterTurn, log_line::LogId, name::ConversationName, name_file::NamedPlace,
};

/// State of a conversation, and its position on the disk.
#[derive(Clone, Debug)]
pub(crate) struct ConversationEnd {
    pub(crate) name: ConversationName,
    pub(crate) state: StateAfterTurn,
    pub(crate) position: StoredPosition,
    /// Reason why the stored handle of the vendor cannot be read, if it cannot.
    pub(crate) unreadable_handle: Option<String>,
}

/// Position of a conversation's end on the disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredPosition {
    /// The conversation has no file yet.
    Nowhere,
    /// Position in version 1, without the handle.
    VersionOne(Box<NamedPlace>),
    /// End of the last whole record of a log.
    Log { id: LogId, offset: u64 },
}

impl ConversationEnd {
    /// Returns the end of a conversation without turns.
    pub(crate) fn new(name: ConversationName) -> Self {
        Self::at(name, StateAfterTurn::default(), StoredPosition::Nowhere)
    }

    /// Returns the end of a conversation in version 1.
    pub(crate) fn of_version_one(mut named: Box<NamedPlace>) -> Self {
        let state = StateAfterTurn {
            turns: named.turns,
            messages: named.messages,
            stored_at_ms: named.updated_at_ms,
            resume: named.resume.take(),
            ..StateAfterTurn::default()
        };
        Self::at(named.name.clone(), state, StoredPosition::VersionOne(named))
    }

    /// Returns an end whose handle, if it has one, is readable.
    pub(crate) fn at(name: ConversationName, state: StateAfterTurn, position: StoredPosition) -> Self {
        Self { name, state, position, unreadable_handle: None }
    }
}
