//! Reads the ends of conversations, and adds turns to them.

use std::{fs, time::Duration};

use nexus_core::ResumeHandle;

use crate::{
    conversation::{Conversation, ConversationTurn},
    conversation_end::{ConversationEnd, StoredPosition},
    conversation_error::{ConversationError, ConversationErrorKind, in_conversation, in_earlier_messages},
    conversation_log::{ConversationLog, StateAfterTurn, header_record},
    log_line::LogId,
    log_reader::{ConversationLogReader, LogRecord, TurnLines},
    log_turns::LogTurns,
    name::ConversationName,
    name_file::{NameFile, NamedLog},
    seed::{Seed, seed_of},
    step,
    store::Conversations,
    stored_turns::StoredTurns,
    version_one::{TurnFileChain, check_counts},
};

/// Reading of a vendor's handle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredHandle {
    Read,
    Skip,
}

impl Conversations {
    /// Reads the end of a conversation with the vendor's handle. `None` if the conversation does not exist.
    pub(crate) fn end_of(
        &self,
        name: &ConversationName,
    ) -> Result<Option<ConversationEnd>, ConversationError> {
        self.read_end(name, StoredHandle::Read)
    }

    /// Like [`Conversations::end_of`], for a process that is about to run a turn.
    pub(crate) fn end_before_turn(
        &self,
        name: &ConversationName,
    ) -> Result<Option<ConversationEnd>, ConversationError> {
        let found = self.end_of(name)?;
        if let Some(end) = &found
            && let StoredPosition::VersionOne(_) = end.position
        {
            // Adding the turn converts all earlier ones. Read them now, because a failure after the turn would waste its cost.
            let unreadable = self.turns_to(end)?.find_map(Result::err);
            unreadable.map_or(Ok(()), |error| Err(in_conversation(error, &self.path_of(name))))?;
        }
        Ok(found)
    }

    /// Reads the end of a conversation without the handle, for readers of its messages. `None` if the conversation does not
    /// exist.
    pub(crate) fn end_without_handle(
        &self,
        name: &ConversationName,
    ) -> Result<Option<ConversationEnd>, ConversationError> {
        self.read_end(name, StoredHandle::Skip)
    }

    fn read_end(
        &self,
        name: &ConversationName,
        handle: StoredHandle,
    ) -> Result<Option<ConversationEnd>, ConversationError> {
        let path = self.path_of(name);
        match NameFile::of(&path, name)? {
            None => Ok(None),
            Some(NameFile::VersionOne(named)) => {
                check_counts(&self.nodes(), &path, &named)?;
                Ok(Some(ConversationEnd::of_version_one(named)))
            }
            Some(NameFile::Log(named)) => {
                let end = self.end_of_log(named, handle).map_err(|error| in_conversation(error, &path))?;
                Ok(Some(end))
            }
        }
    }

    fn end_of_log(
        &self,
        named: NamedLog,
        handle: StoredHandle,
    ) -> Result<ConversationEnd, ConversationError> {
        let mut reader = ConversationLogReader::open(&ConversationLog::path_of(&self.logs(), &named.log))?;
        let offset = reader.end()?;
        let mut unreadable_handle = None;
        let state = match reader.record_before(offset, TurnLines::None)? {
            LogRecord::Header(header) => StateAfterTurn::at_beginning(header),
            LogRecord::Turn(mut turn) => {
                // The items of a handle may be as long as the conversation.
                turn.end.resume = turn.end.resume.filter(|_| handle == StoredHandle::Read);
                let items = match &turn.end.resume {
                    Some(_) => reader.items(offset, &turn.end),
                    None => Ok(Vec::new()),
                };
                let items = items.or_else(|error| match error.kind {
                    // The end is whole, so turns can be added: without the handle, from the messages or without them.
                    ConversationErrorKind::Damaged => {
                        (turn.end.resume, unreadable_handle) = (None, Some(error.message));
                        Ok(Vec::new())
                    }
                    _ => Err(error),
                })?;
                StateAfterTurn::after(turn.end, items)
            }
        };
        let position = StoredPosition::Log { id: named.log, offset };
        Ok(ConversationEnd { unreadable_handle, ..ConversationEnd::at(named.name, state, position) })
    }

    /// Returns the turns up to an end, newest first.
    pub(crate) fn turns_to(&self, end: &ConversationEnd) -> Result<StoredTurns, ConversationError> {
        let counts = (end.state.turns, end.state.messages);
        Ok(match &end.position {
            StoredPosition::Nowhere => StoredTurns::None,
            StoredPosition::VersionOne(named) => StoredTurns::Files(TurnFileChain::of(&self.nodes(), named)),
            StoredPosition::Log { id, offset } => {
                StoredTurns::Logs(Box::new(LogTurns::up_to(&self.logs(), id, *offset, counts)?))
            }
        })
    }

    /// Returns the conversation up to an end.
    pub(crate) fn load_to(&self, end: &ConversationEnd) -> Result<Conversation, ConversationError> {
        let turns = self.turns_to(end).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut turns = turns.map_err(|error| self.in_messages_to(end, error))?;
        turns.reverse();
        Ok(Conversation { turns })
    }

    /// Returns the record of the messages up to an end, for a model that has not seen them. Reads no more of the logs than
    /// the record has room for.
    pub(crate) fn seed_to(
        &self,
        end: &ConversationEnd,
        takes_pictures: bool,
        most_bytes: usize,
    ) -> Result<Seed, ConversationError> {
        let StoredPosition::Log { .. } = &end.position else {
            return Ok(self.load_to(end)?.seed(takes_pictures, most_bytes));
        };
        let not_carried = end.state.not_carried.clone();
        let seed = self
            .turns_to(end)
            .and_then(|turns| seed_of(turns, end.state.messages, not_carried, takes_pictures, most_bytes));
        seed.map_err(|error| self.in_messages_to(end, error))
    }

    fn in_messages_to(&self, end: &ConversationEnd, error: ConversationError) -> ConversationError {
        let is_log = matches!(end.position, StoredPosition::Log { .. });
        in_earlier_messages(error, &self.path_of(&end.name), is_log)
    }

    /// Adds a turn at the end of a conversation that this process has locked. Waits for a sweep without limit, because the
    /// turn was already paid for.
    pub(crate) fn add(
        &self,
        mut end: ConversationEnd,
        turn: ConversationTurn,
        mut resume: Option<ResumeHandle>,
    ) -> Result<ConversationEnd, ConversationError> {
        // A shared lock: several turns may end at once, but no sweep runs meanwhile.
        let store = self.share_store(Duration::MAX)?;
        if !self.is_current(&end)? {
            let found = self.end_of(&end.name)?.unwrap_or_else(|| ConversationEnd::new(end.name.clone()));
            // Only an earlier write with an unknown result can have moved the end. Its turn stays. The vendor of the new
            // turn has not seen that turn, so drop the handle.
            if found.position != end.position {
                (end, resume) = (found, None);
            }
        }
        step::passed();
        let name_path = self.path_of(&end.name);
        let is_new = matches!(end.position, StoredPosition::Nowhere);
        let position = match &end.position {
            StoredPosition::Log { id, offset } => {
                let record = end.state.add(turn, resume, &name_path)?;
                let offset = ConversationLog::of(&self.logs(), id).append(*offset, &record)?;
                step::passed();
                StoredPosition::Log { id: id.clone(), offset }
            }
            // A conversation of the old format is converted as a whole at its next turn.
            StoredPosition::Nowhere | StoredPosition::VersionOne(_) => {
                let id = LogId::new(&end.name);
                let mut records = header_record(&end.name, None, &name_path)?;
                let (mut state, mut unknown) = (StateAfterTurn::default(), serde_json::Map::new());
                if let StoredPosition::VersionOne(named) = &end.position {
                    unknown = named.unknown.clone();
                    for earlier in self.load_to(&end)?.turns {
                        records.append(&mut state.add(earlier, None, &name_path)?);
                    }
                }
                records.append(&mut state.add(turn, resume, &name_path)?);
                end.state = state;
                let offset = ConversationLog::of(&self.logs(), &id).create(&records)?;
                step::passed();
                // From here on the conversation has the turn. If this fails, a sweep removes the log, because no name refers to it.
                NamedLog::new(end.name.clone(), id.clone(), unknown).write(&name_path)?;
                StoredPosition::Log { id, offset }
            }
        };
        end = ConversationEnd::at(end.name, end.state, position);
        step::passed();
        // Release the store before the journal takes a lock of its own.
        drop(store);
        self.record(&end.name, if is_new { "created" } else { "changed" });
        Ok(end)
    }

    /// Returns true if a conversation on the disk ends where `end` says. Reads no turn.
    fn is_current(&self, end: &ConversationEnd) -> Result<bool, ConversationError> {
        let found = NameFile::of(&self.path_of(&end.name), &end.name)?;
        Ok(match (&end.position, found) {
            (StoredPosition::Nowhere, found) => found.is_none(),
            (StoredPosition::Log { id, offset }, Some(NameFile::Log(named))) => {
                // A longer log has a torn or newer record after this end.
                let length = fs::symlink_metadata(ConversationLog::path_of(&self.logs(), id));
                named.log == *id && length.is_ok_and(|found| found.is_file() && found.len() == *offset)
            }
            _ => false,
        })
    }
}
