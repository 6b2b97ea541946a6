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
        Self { name, state: StateAfterTurn::default(), position: StoredPosition::Nowhere }
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
        Self { name: named.name.clone(), state, position: StoredPosition::VersionOne(named) }
    }
}
