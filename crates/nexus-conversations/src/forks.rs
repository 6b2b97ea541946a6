//! Forks: conversations that begin as a reference to a log and an offset in it.

use std::time::Duration;

use crate::{
    conversation_end::{ConversationEnd, StoredPosition},
    conversation_error::{ConversationError, ConversationErrorKind},
    conversation_log::{ConversationLog, header_record},
    log_line::{LogId, LogPoint},
    log_turns::LogTurns,
    name::ConversationName,
    name_file::{NameFile, NamedLog, NamedPlace},
    store::{ConversationSummary, Conversations, STORE_PATIENCE},
    version_one::TurnFileChain,
};

impl Conversations {
    /// Forks the conversation `from` under the new name `to`, up to and including the message `at`. `None`: all messages.
    /// Messages are counted from 1. Nothing is copied. The fork has no vendor's handle: its first turn shows the messages to
    /// the model.
    ///
    /// # Errors
    ///
    /// [`NameTaken`](ConversationErrorKind::NameTaken), [`NoSuchMessage`](ConversationErrorKind::NoSuchMessage),
    /// [`Unknown`](ConversationErrorKind::Unknown), [`InUse`](ConversationErrorKind::InUse); errors of reading and writing.
    pub fn fork(
        &self,
        from: &ConversationName,
        to: &ConversationName,
        at: Option<u64>,
    ) -> Result<ConversationSummary, ConversationError> {
        // Check this first, so that an unknown name creates no folder.
        self.known(from)?;
        // Lock the name before the store, in the same order as a turn does.
        let hold = self.lock_name(to, Duration::ZERO)?;
        let outcome = (|| {
            let _store = self.lock_store(STORE_PATIENCE)?;
            // Read again under the lock, because the conversation may have changed or gone meanwhile.
            let source = self.known(from)?;
            if NameFile::of(&self.path_of(to), to)?.is_some() {
                return Err(ConversationError::new(
                    ConversationErrorKind::NameTaken,
                    format!("the conversation {to} already exists"),
                    "choose another name, or delete that conversation",
                ));
            }
            self.write_fork(&source, to, at)?;
            self.summary(to)
        })();
        self.let_go(to, hold);
        if outcome.is_ok() {
            self.record(to, "created");
        }
        outcome
    }

    /// Writes the files of a fork.
    fn write_fork(
        &self,
        source: &ConversationEnd,
        to: &ConversationName,
        at: Option<u64>,
    ) -> Result<(), ConversationError> {
        let (turns, messages) = (source.state.turns, source.state.messages);
        if let Some(at) = at
            && (at == 0 || at > messages)
        {
            let message = format!("{} has no message {at}: it has {messages}, counted from 1", source.name);
            return Err(ConversationError::new(ConversationErrorKind::NoSuchMessage, message, ""));
        }
        let path = self.path_of(to);
        let lacks =
            || ConversationError::damaged(&self.path_of(&source.name), "it counts more messages than exist");
        let (id, offset) = match &source.position {
            StoredPosition::Log { id, offset } => (id, *offset),
            StoredPosition::Nowhere => return Err(self.unknown(&source.name)),
            // A fork shares the files of turns. Each of both conversations is converted at its own next turn.
            StoredPosition::VersionOne(named) => {
                let (turns, messages, place) = match at {
                    None => (turns, messages, named.place.clone()),
                    Some(at) => {
                        let found =
                            TurnFileChain::of(&self.nodes(), named).position_of(at)?.ok_or_else(lacks)?;
                        (found.0, found.1, Some(found.2))
                    }
                };
                return NamedPlace::fork(to.clone(), turns, messages, place).write(&path);
            }
        };
        let point = match at {
            None => {
                let not_carried = source.state.not_carried.clone();
                LogPoint { log: id.clone(), offset, cut: None, turns, messages, not_carried }
            }
            Some(at) => {
                let turns = LogTurns::up_to(&self.logs(), id, offset, (turns, messages))?;
                turns.position_of(at)?.ok_or_else(lacks)?
            }
        };
        // Write the log before the name: a sweep removes a log without a name, but a name without a log is damage.
        let log = LogId::new(to);
        let header = header_record(to, Some(point), &path)?;
        ConversationLog::of(&self.logs(), &log).create(&header)?;
        NamedLog::new(to.clone(), log, serde_json::Map::new()).write(&path)
    }
}
