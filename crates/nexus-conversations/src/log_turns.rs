//! Turns of a conversation from its end back to its beginning, through the logs that it was forked from.

use std::path::{Path, PathBuf};

use crate::{
    conversation::ConversationTurn,
    conversation_error::ConversationError,
    conversation_log::ConversationLog,
    log_line::{LogId, LogPoint, TurnEndLine},
    log_reader::{ConversationLogReader, LogRecord, TurnLines},
};

/// Longest chain of forks. A longer one can only be a circle of damaged files.
const MAX_FORKS: usize = 10_000;

/// Turns of a conversation, newest first. Reads no more of the logs than its caller asks for.
#[derive(Debug)]
pub(crate) struct LogTurns {
    folder: PathBuf,
    reader: ConversationLogReader,
    log: LogId,
    offset: u64,
    /// Number of the next turn's messages that belong to the conversation. All by default.
    cut: Option<usize>,
    /// Numbers of turns and messages up to the next turn.
    expected: (u64, u64),
    forks: usize,
    is_at_beginning: bool,
}

/// Turn of a conversation, and its position in a log.
#[derive(Debug)]
pub(crate) struct FoundTurn {
    log: LogId,
    /// Offset of the end of its record.
    offset: u64,
    end: TurnEndLine,
    cut: Option<usize>,
    turn: ConversationTurn,
}

impl LogTurns {
    /// Returns the turns up to the offset `offset` of the log `log`, which has these numbers of turns and messages.
    pub(crate) fn up_to(
        folder: &Path,
        log: &LogId,
        offset: u64,
        expected: (u64, u64),
    ) -> Result<Self, ConversationError> {
        let reader = ConversationLogReader::open(&ConversationLog::path_of(folder, log))?;
        Ok(Self {
            folder: folder.to_owned(),
            reader,
            log: log.clone(),
            offset,
            cut: None,
            expected,
            forks: 0,
            is_at_beginning: false,
        })
    }

    /// Returns the next earlier turn.
    pub(crate) fn turn(&mut self) -> Result<Option<ConversationTurn>, ConversationError> {
        Ok(self.step()?.map(|found| found.turn))
    }

    fn step(&mut self) -> Result<Option<FoundTurn>, ConversationError> {
        while !self.is_at_beginning {
            let header = match self.reader.record_before(self.offset, TurnLines::Messages)? {
                LogRecord::Header(header) => header,
                LogRecord::Turn(turn) => {
                    let end = turn.end;
                    let (earlier, counts) = counts(&end, self.cut)
                        .ok_or_else(|| self.reader.damaged("its numbers of messages are wrong"))?;
                    if counts != self.expected {
                        return Err(self.reader.damaged("its numbers of turns and messages are wrong"));
                    }
                    let offset = std::mem::replace(&mut self.offset, turn.start);
                    self.expected = earlier;
                    let cut = self.cut.take();
                    let mut messages = turn.messages;
                    messages.truncate(cut.unwrap_or(usize::MAX));
                    let turn = end.turn.clone().with(messages);
                    return Ok(Some(FoundTurn { log: self.log.clone(), offset, end, cut, turn }));
                }
            };
            match header.fork {
                Some(fork) => self.follow(fork)?,
                None if self.expected == (0, 0) => self.is_at_beginning = true,
                None => return Err(self.reader.damaged("its numbers of turns and messages are wrong")),
            }
        }
        Ok(None)
    }

    /// Continues in the log from which this one was forked.
    fn follow(&mut self, fork: LogPoint) -> Result<(), ConversationError> {
        // A damaged header could lead back to its own log, so the number of forks is bounded.
        self.forks += 1;
        if (fork.turns, fork.messages) != self.expected || self.forks > MAX_FORKS {
            return Err(self.reader.damaged("its numbers of turns and messages are wrong"));
        }
        self.reader = ConversationLogReader::open(&ConversationLog::path_of(&self.folder, &fork.log))?;
        (self.log, self.offset, self.cut) = (fork.log, fork.offset, fork.cut);
        Ok(())
    }

    /// Returns the position after message `at`. `None` if the message does not exist.
    pub(crate) fn position_of(mut self, at: u64) -> Result<Option<LogPoint>, ConversationError> {
        while let Some(found) = self.step()? {
            let Some(kept) = at.checked_sub(self.expected.1).filter(|kept| *kept > 0) else { continue };
            let all = found.cut.map_or(found.end.added, |cut| cut as u64);
            let kept = kept.min(all);
            return Ok(Some(LogPoint {
                log: found.log,
                offset: found.offset,
                cut: (kept < found.end.added).then(|| usize::try_from(kept).unwrap_or(usize::MAX)),
                turns: self.expected.0 + 1,
                messages: self.expected.1 + kept,
                not_carried: found.end.not_carried,
            }));
        }
        Ok(None)
    }
}

/// Numbers of turns and messages.
type TurnCounts = (u64, u64);

/// Returns the numbers of turns and messages before a turn, and after it if it has only its first `cut` messages.
fn counts(end: &TurnEndLine, cut: Option<usize>) -> Option<(TurnCounts, TurnCounts)> {
    let earlier = (end.turns.checked_sub(1)?, end.messages.checked_sub(end.added)?);
    let messages = match cut {
        Some(cut) => earlier.1.checked_add(cut as u64).filter(|messages| *messages <= end.messages)?,
        None => end.messages,
    };
    Some((earlier, (end.turns, messages)))
}
