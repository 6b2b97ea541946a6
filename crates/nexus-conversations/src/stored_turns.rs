//! Turns of a stored conversation, newest first, in either version of the files.

use crate::{
    conversation::ConversationTurn, conversation_error::ConversationError, log_turns::LogTurns,
    version_one::TurnFileChain,
};

/// Turns of a conversation, newest first. Ends after the first error.
#[derive(Debug)]
pub(crate) enum StoredTurns {
    /// The conversation has no file, or a file could not be read.
    None,
    /// Version 1.
    Files(TurnFileChain),
    /// Turns in logs.
    Logs(Box<LogTurns>),
}

impl Iterator for StoredTurns {
    type Item = Result<ConversationTurn, ConversationError>;

    fn next(&mut self) -> Option<Self::Item> {
        let turn = match self {
            Self::None => return None,
            Self::Files(turns) => turns.turn(),
            Self::Logs(turns) => turns.turn(),
        };
        if !matches!(turn, Ok(Some(_))) {
            *self = Self::None;
        }
        turn.transpose()
    }
}
