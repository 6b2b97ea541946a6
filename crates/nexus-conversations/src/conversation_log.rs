//! The log of a conversation: one append-only file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{
    ResumeHandle,
    item::{Item, ItemList},
};
use nexus_files::JsonLinesLog;
use serde::Serialize;

use crate::{
    conversation::{ConversationMessage, ConversationTurn},
    conversation_error::{ConversationError, ConversationErrorKind},
    log_line::{
        ConversationLine, ITEM_LINE, ItemCounts, LogHeader, LogId, LogPoint, MESSAGE_LINE, TurnEndLine,
        TurnFields,
    },
    log_record::{MAX_RECORD_BYTES, begin, no_check, seal},
    name::ConversationName,
    not_carried::NotCarried,
    now_ms::now_ms,
    turn_file::VERSION,
};

/// Maximum size of a stored handle without its items, in bytes of JSON. A longer one is treated as lost.
const MAX_HANDLE_BYTES: usize = 32 << 20;

/// State of a conversation after its last turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateAfterTurn {
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) stored_at_ms: u64,
    pub(crate) not_carried: NotCarried,
    /// The vendor's handle, if the vendor's conversation equals this one.
    pub(crate) resume: Option<ResumeHandle>,
}

/// File of a log.
#[derive(Debug)]
pub(crate) struct ConversationLog {
    lines: JsonLinesLog<ConversationLine>,
}

impl ConversationLog {
    /// Returns the log with the name `id` in a folder.
    pub(crate) fn of(folder: &Path, id: &LogId) -> Self {
        Self { lines: JsonLinesLog::at(Self::path_of(folder, id), MAX_RECORD_BYTES) }
    }

    pub(crate) fn path_of(folder: &Path, id: &LogId) -> PathBuf {
        folder.join(format!("{id}.jsonl"))
    }

    /// Creates the file with these records, and flushes it to the disk. Returns the size of the file in bytes.
    pub(crate) fn create(&self, records: &[u8]) -> Result<u64, ConversationError> {
        let path = self.lines.path();
        nexus_files::replace(path, records).map_err(ConversationError::at(path))?;
        Ok(records.len() as u64)
    }

    /// Appends a record after the first `end` bytes of the file, and flushes it to the disk. Returns the size of the file in
    /// bytes.
    pub(crate) fn append(&self, end: u64, record: &[u8]) -> Result<u64, ConversationError> {
        self.lines.append_lines_at(end, record).map_err(ConversationError::at(self.lines.path()))
    }
}

impl StateAfterTurn {
    /// Adds a turn, and returns its record. If the handle cannot be stored, the new state has none.
    pub(crate) fn add(
        &mut self,
        turn: ConversationTurn,
        resume: Option<ResumeHandle>,
        path: &Path,
    ) -> Result<Vec<u8>, ConversationError> {
        self.add_within(MAX_RECORD_BYTES, turn, resume, path)
    }

    /// Adds a turn whose record has at most `most_bytes`.
    fn add_within(
        &mut self,
        most_bytes: u64,
        turn: ConversationTurn,
        resume: Option<ResumeHandle>,
        path: &Path,
    ) -> Result<Vec<u8>, ConversationError> {
        let overflow =
            || ConversationError::damaged(path, "its counts of turns and messages are inconsistent");
        let added = turn.messages.len() as u64;
        let turns = self.turns.checked_add(1).ok_or_else(overflow)?;
        let messages = self.messages.checked_add(added).ok_or_else(overflow)?;
        // A fresh turn does not carry the earlier messages, so their omissions no longer count.
        let mut not_carried = match turn.begins_afresh {
            true => NotCarried::default(),
            false => std::mem::take(&mut self.not_carried),
        };
        not_carried.add(&turn.not_stored);
        not_carried.state_of.extend(turn.backend.clone());
        let resume = resume.filter(is_storable);
        let (said, turn) = TurnFields::split(turn);
        let mut state = Self { turns, messages, stored_at_ms: now_ms(), not_carried, resume };
        let mut record = self.record_of(&state, &said, &turn, path)?;
        // The turn was paid for. The items may be a whole long conversation, so only they are dropped.
        if record.len() as u64 > most_bytes && state.resume.take().is_some() {
            record = self.record_of(&state, &said, &turn, path)?;
        }
        seal_within(most_bytes, &mut record, path)?;
        // `record_of` compares with the former state, so replace it only now.
        *self = state;
        Ok(record)
    }

    /// Returns the unsealed record of a turn with the messages `said`, after which the state is `after`.
    fn record_of(
        &self,
        after: &Self,
        said: &[ConversationMessage],
        turn: &TurnFields,
        path: &Path,
    ) -> Result<Vec<u8>, ConversationError> {
        let items = after.resume.as_ref().map(|handle| handle.items().clone()).unwrap_or_default();
        // Store only the items that this turn added; earlier records have the rest.
        let kept = self.resume.as_ref().map_or(0, |former| items.equal_beginning(former.items()));
        let total = items.items().len();
        let mut record = begin();
        for message in said {
            line(&mut record, MESSAGE_LINE, message, path)?;
        }
        for item in items.items().iter().skip(kept) {
            line(&mut record, ITEM_LINE, &**item, path)?;
        }
        let end = TurnEndLine {
            turns: after.turns,
            messages: after.messages,
            added: said.len() as u64,
            stored_at_ms: after.stored_at_ms,
            turn: turn.clone(),
            not_carried: after.not_carried.clone(),
            items: ItemCounts { kept, total },
            resume: after.resume.clone().map(|handle| handle.with_items(ItemList::default())),
            check: no_check(),
        };
        close(&mut record, &ConversationLine::End(Box::new(end)), path)?;
        Ok(record)
    }

    /// Returns the state after a turn that was read from a log.
    pub(crate) fn after(end: TurnEndLine, items: Vec<Arc<Item>>) -> Self {
        let resume = end.resume.map(|handle| handle.with_items(items.into()));
        Self {
            turns: end.turns,
            messages: end.messages,
            stored_at_ms: end.stored_at_ms,
            not_carried: end.not_carried,
            resume,
        }
    }

    /// Returns the state of a log without turns.
    pub(crate) fn at_beginning(header: LogHeader) -> Self {
        let state = Self { stored_at_ms: header.created_at_ms, ..Self::default() };
        match header.fork {
            None => state,
            Some(fork) => {
                Self { turns: fork.turns, messages: fork.messages, not_carried: fork.not_carried, ..state }
            }
        }
    }
}

/// Returns the first record of a log.
pub(crate) fn header_record(
    name: &ConversationName,
    fork: Option<LogPoint>,
    path: &Path,
) -> Result<Vec<u8>, ConversationError> {
    let (name, created_at_ms) = (name.clone(), now_ms());
    let header = LogHeader { version: VERSION, name, created_at_ms, fork, check: no_check() };
    let mut record = begin();
    close(&mut record, &ConversationLine::Conversation(header), path)?;
    seal_within(MAX_RECORD_BYTES, &mut record, path)?;
    Ok(record)
}

/// Returns true if a handle's state can be parsed again and is not too long. Deeply nested JSON can only be written.
fn is_storable(handle: &ResumeHandle) -> bool {
    // Most vendors' states are a few identifiers, so this costs little. Items contain only texts.
    serde_json::to_vec(handle.state()).is_ok_and(|state| {
        state.len() <= MAX_HANDLE_BYTES
            && serde_json::from_slice::<serde_json::Value>(&nested(&state)).is_ok()
    })
}

/// Returns a state as deeply nested as a log has it.
fn nested(state: &[u8]) -> Vec<u8> {
    [b"[[[", state, b"]]]"].concat()
}

fn line(
    record: &mut Vec<u8>,
    begin: &[u8],
    value: &impl Serialize,
    path: &Path,
) -> Result<(), ConversationError> {
    record.extend_from_slice(begin);
    write(record, value, path)?;
    record.extend_from_slice(b"}\n");
    Ok(())
}

fn close(record: &mut Vec<u8>, closing: &ConversationLine, path: &Path) -> Result<(), ConversationError> {
    write(record, closing, path)?;
    record.push(b'\n');
    Ok(())
}

fn seal_within(most_bytes: u64, record: &mut [u8], path: &Path) -> Result<(), ConversationError> {
    if record.len() as u64 > most_bytes {
        let message =
            format!("{}: a turn of {} bytes is too large to be stored", path.display(), record.len());
        return Err(ConversationError::new(ConversationErrorKind::Failed, message, ""));
    }
    seal(record);
    Ok(())
}

fn write(record: &mut Vec<u8>, value: &impl Serialize, path: &Path) -> Result<(), ConversationError> {
    serde_json::to_writer(record, value).map_err(|error| ConversationError::unusable(path, &error.into()))
}

#[cfg(test)]
mod tests {
    use nexus_core::item::{Author, ItemPart};
    use serde_json::json;

    use super::*;
    use crate::log_record::is_whole;

    #[test]
    fn a_turn_whose_items_are_too_large_is_stored_without_its_handle() {
        let said = |text: &str| ConversationTurn {
            ended_at_ms: 1,
            backend: None,
            model: None,
            failure: None,
            begins_afresh: false,
            messages: vec![ConversationMessage::Assistant { text: text.to_owned(), complete: true }],
            not_stored: NotCarried::default(),
        };
        let item = Arc::new(Item::message(Author::User, vec![ItemPart::text("x".repeat(5_000))]));
        let handle = |items: usize| {
            let items = vec![Arc::clone(&item); items];
            Some(ResumeHandle::new("alpha".into(), json!({})).with_items(items.into()))
        };
        let (mut state, path) = (StateAfterTurn::default(), Path::new("a.json"));
        let mut add = |text: &str, items| state.add_within(9_000, said(text), handle(items), path);
        // Only new items count.
        for items in 1..=3 {
            assert!(is_whole(&add("words", items).unwrap()));
        }
        let record = add("words", 5).unwrap();
        assert!(is_whole(&record) && record.len() < 1_000);
        let error = add(&"x".repeat(9_000), 0).unwrap_err();
        assert!(error.to_string().contains("too large to be stored"), "{error}");
        assert_eq!((state.turns, state.messages, state.resume), (4, 4, None));
    }
}
