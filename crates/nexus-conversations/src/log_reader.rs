//! Reads a conversation's log from its end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::item::Item;
use serde::de::DeserializeOwned;

use crate::{
    conversation::ConversationMessage,
    conversation_error::ConversationError,
    log_line::{ConversationLine, ITEM_LINE, LogHeader, MESSAGE_LINE, TurnEndLine},
    log_record::{
        BEGIN_BYTES, CHECK_BYTES, MAX_RECORD_BYTES, is_whole, length_in_begin, length_in_check, lines,
    },
    turn_file::newer_version,
};

/// Bytes that one read of the file takes at least. Most turns are much shorter.
const WINDOW_BYTES: u64 = 64 << 10;

/// A log that is open for reading.
#[derive(Debug)]
pub(crate) struct ConversationLogReader {
    file: File,
    path: PathBuf,
    length: u64,
    /// Part of the file that was read last, and its offset.
    window: Vec<u8>,
    window_start: u64,
}

/// Record of a log, as far as a reader wants it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a reader has one record at a time")]
pub(crate) enum LogRecord {
    /// The first record.
    Header(LogHeader),
    /// A turn.
    Turn(TurnInLog),
}

/// Turn in a log.
#[derive(Debug)]
pub(crate) struct TurnInLog {
    /// Offset of the turn's record.
    pub(crate) start: u64,
    pub(crate) end: TurnEndLine,
    /// Messages, if the reader wants them.
    pub(crate) messages: Vec<ConversationMessage>,
    /// Items that the turn added, if the reader wants them.
    pub(crate) items: Vec<Arc<Item>>,
}

/// Lines of a turn that a reader needs in addition to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnLines {
    None,
    Messages,
    Items,
}

impl ConversationLogReader {
    /// Opens the log at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, ConversationError> {
        let file = nexus_files::open_regular(path, OpenOptions::new().read(true));
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ConversationError::damaged(path, "it is missing"),
            _ => ConversationError::at(path)(error),
        })?;
        let length = file.metadata().map_err(ConversationError::at(path))?.len();
        Ok(Self { file, path: path.to_owned(), length, window: Vec::new(), window_start: 0 })
    }

    /// Returns the offset of the end of the last whole record. The bytes after it are an incomplete record of a writer that
    /// was killed, or that still writes.
    pub(crate) fn end(&mut self) -> Result<u64, ConversationError> {
        // Usually the file ends with a complete record, so its last line suffices.
        if self.start_of(self.length)?.is_some() {
            return Ok(self.length);
        }
        // Otherwise walk through the records from the beginning, because the last one may be torn.
        let mut end = 0;
        loop {
            let rest = self.length - end;
            let begin = self.bytes(end, self.length.min(end + BEGIN_BYTES as u64))?;
            match length_in_begin(begin) {
                Some(length) if length <= rest => {
                    if self.start_of(end + length)? != Some(end) {
                        return Err(self.damaged("one of its turns is damaged"));
                    }
                    end += length;
                }
                // The writer did not write the whole record, or not even the whole first line.
                Some(_) => break,
                None if rest < BEGIN_BYTES as u64 => break,
                None => return Err(self.damaged("one of its turns is damaged")),
            }
        }
        if end == 0 { Err(self.damaged("it has no beginning")) } else { Ok(end) }
    }

    /// Reads the record that ends at the offset `end`, and checks its bytes.
    pub(crate) fn record_before(
        &mut self,
        end: u64,
        wanted: TurnLines,
    ) -> Result<LogRecord, ConversationError> {
        let Some(start) = self.start_of(end)? else {
            return Err(self.damaged("one of its turns is damaged"));
        };
        let path = self.path.clone();
        let record = self.bytes(start, end)?;
        if !is_whole(record) {
            return Err(ConversationError::damaged(&path, "one of its turns does not match its checksum"));
        }
        let parsed = parse(record, start, wanted);
        parsed.map_err(|error| {
            newer_version(&path, error.version)
                .unwrap_or_else(|| ConversationError::damaged(&path, error.reason))
        })
    }

    /// Reads the first record.
    pub(crate) fn header(&mut self) -> Result<LogHeader, ConversationError> {
        let begin = self.bytes(0, self.length.min(BEGIN_BYTES as u64))?;
        let Some(length) = length_in_begin(begin) else { return Err(self.damaged("it has no beginning")) };
        match self.record_before(length, TurnLines::None)? {
            LogRecord::Header(header) => Ok(header),
            LogRecord::Turn(_) => Err(self.damaged("its first record is a turn")),
        }
    }

    /// Parses the last line of the record that ends at the offset `end` as another type.
    pub(crate) fn closing_line<T: DeserializeOwned>(&mut self, end: u64) -> Result<T, ConversationError> {
        let start = self.start_of(end)?.unwrap_or(end);
        let path = self.path.clone();
        let record = self.bytes(start, end)?;
        let line = if is_whole(record) { lines(record).next_back() } else { None };
        serde_json::from_slice(line.unwrap_or_default())
            .map_err(|error| ConversationError::damaged(&path, error))
    }

    /// Reads the items of the conversation after the turn that ends at the offset `end`.
    pub(crate) fn items(
        &mut self,
        mut end: u64,
        last: &TurnEndLine,
    ) -> Result<Vec<Arc<Item>>, ConversationError> {
        let mut needed = last.items.total;
        // Newest first. A record has only the items that its turn added.
        let mut found = Vec::new();
        while needed > 0 {
            let LogRecord::Turn(turn) = self.record_before(end, TurnLines::Items)? else { break };
            let counts = turn.end.items;
            if counts.kept.checked_add(turn.items.len()) != Some(counts.total) || needed > counts.total {
                return Err(self.damaged("the numbers of its items are wrong"));
            }
            if let Some(wanted) = needed.checked_sub(counts.kept) {
                found.extend(turn.items.into_iter().take(wanted).rev());
                needed = counts.kept;
            }
            end = turn.start;
        }
        if needed > 0 {
            return Err(self.damaged("it lacks items"));
        }
        found.reverse();
        Ok(found)
    }

    pub(crate) fn damaged(&self, reason: &str) -> ConversationError {
        ConversationError::damaged(&self.path, reason)
    }

    /// Returns the start of the record that ends at the offset `end`. `None` if no record ends there.
    fn start_of(&mut self, end: u64) -> Result<Option<u64>, ConversationError> {
        let Some(check_at) = end.checked_sub(CHECK_BYTES as u64).filter(|_| end <= self.length) else {
            return Ok(None);
        };
        let Some(length) = length_in_check(self.bytes(check_at, end)?) else { return Ok(None) };
        let Some(start) = end.checked_sub(length) else { return Ok(None) };
        // No record has such a length, so the text only looks like a checksum.
        if length > MAX_RECORD_BYTES || length < (BEGIN_BYTES + CHECK_BYTES) as u64 {
            return Ok(None);
        }
        // The first line states the same length, so a torn record cannot pass.
        let begin = self.bytes(start, start + BEGIN_BYTES as u64)?;
        Ok((length_in_begin(begin) == Some(length)).then_some(start))
    }

    /// Returns a part of the file. Reads at least [`WINDOW_BYTES`] before its end, because readers go back to the beginning.
    fn bytes(&mut self, start: u64, end: u64) -> Result<&[u8], ConversationError> {
        let window_end = self.window_start + self.window.len() as u64;
        if start < self.window_start || end > window_end {
            // Records are read from the end, so read a whole window before the wanted bytes.
            let read_from = start.min(end.saturating_sub(WINDOW_BYTES));
            let mut window = Vec::new();
            let read = (&self.file)
                .seek(SeekFrom::Start(read_from))
                .and_then(|_| (&self.file).take(end - read_from).read_to_end(&mut window));
            read.map_err(ConversationError::at(&self.path))?;
            (self.window, self.window_start) = (window, read_from);
        }
        let at = |offset: u64| usize::try_from(offset - self.window_start).unwrap_or(usize::MAX);
        let bytes = self.window.get(at(start)..at(end));
        bytes.ok_or_else(|| ConversationError::damaged(&self.path, "it became shorter while it was read"))
    }
}

/// Reason why a record cannot be read.
struct UnreadableRecord {
    version: u64,
    reason: String,
}

fn parse(record: &[u8], start: u64, wanted: TurnLines) -> Result<LogRecord, UnreadableRecord> {
    let unreadable = |reason: String| UnreadableRecord { version: 0, reason };
    let mut lines = lines(record);
    let closing = lines.next_back().unwrap_or_default();
    let (mut messages, mut items) = (Vec::new(), Vec::new());
    let end = match serde_json::from_slice(closing) {
        Ok(ConversationLine::End(end)) => *end,
        Ok(ConversationLine::Conversation(header)) => {
            return match header.version > crate::turn_file::VERSION {
                true => Err(UnreadableRecord { version: header.version, reason: String::new() }),
                false => Ok(LogRecord::Header(header)),
            };
        }
        Ok(_) => return Err(unreadable("a record has no end".to_owned())),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    for line in lines {
        let is_wanted = match wanted {
            TurnLines::None => break,
            TurnLines::Messages => line.starts_with(MESSAGE_LINE),
            TurnLines::Items => line.starts_with(ITEM_LINE),
        };
        if !is_wanted {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(ConversationLine::Message(message)) => messages.push(message),
            Ok(ConversationLine::Item(item)) => items.push(Arc::new(item)),
            Ok(_) => {}
            Err(error) => return Err(unreadable(error.to_string())),
        }
    }
    if wanted == TurnLines::Messages && messages.len() as u64 != end.added {
        return Err(unreadable("the numbers of its messages are wrong".to_owned()));
    }
    Ok(LogRecord::Turn(TurnInLog { start, end, messages, items }))
}
