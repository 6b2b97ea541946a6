//! Reads a record file.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use serde_json::Value;

use super::{
    MAX_HANDLE_BYTES, MAX_LINE_BYTES, RecordedOutcome, TurnRecord,
    line::{BEGAN, Began, ENDED, EVENT, Ended, FORGOTTEN, Line},
};
use crate::turn::EventEnvelope;

/// Longest line that is read, in bytes. Every complete line is shorter, even if all letters of its texts are
/// escaped.
const MAX_READ_BYTES: usize = MAX_HANDLE_BYTES + 8 * MAX_LINE_BYTES;

/// Content of a file of records.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordLog {
    /// The turns, in the order in which they began.
    pub turns: Vec<TurnRecord>,
    /// Lines that could not be read, or only in part. The rest of the file is read nevertheless.
    pub unread: Vec<UnreadLine>,
}

/// A line that could not be read.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// Fault of the line.
    pub fault: LineFault,
}

/// Reason why a line could not be read.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// The line is incomplete, because its writer was stopped in the middle.
    #[error("it is incomplete, because its writer was stopped")]
    Torn,
    /// The line is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The line is longer than any line of a record.
    #[error("it has {bytes} bytes; a line of a record has at most {MAX_READ_BYTES}")]
    TooLong {
        /// Length of the line.
        bytes: u64,
    },
    /// The line does not belong to a record.
    #[error("it is not a line of a record: {reason}")]
    NoRecord {
        /// Fault of the line.
        reason: String,
    },
    /// This version does not know the line's kind.
    #[error("it is of the kind {name:?}, which this version does not know")]
    UnknownKind {
        /// The kind of the line, or `event NAME`.
        name: String,
    },
    /// The line belongs to a turn whose first line could not be read.
    #[error("it belongs to turn {turn:?}, whose first line is missing")]
    Orphan {
        /// Id of the turn.
        turn: String,
    },
}

impl RecordLog {
    /// Reads the whole file at `path` into memory.
    ///
    /// # Errors
    ///
    /// Any error of the file system. A faulty line is not an error: see [`RecordLog::unread`].
    pub fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::read_from(BufReader::new(File::open(path)?))
    }

    /// Reads a record file from `reader`.
    ///
    /// # Errors
    ///
    /// Errors of `reader`.
    pub fn read_from(mut reader: impl BufRead) -> io::Result<Self> {
        let mut reading = LogReader::default();
        while let Some(bytes) = next_line(&mut reader)? {
            reading.line(bytes);
        }
        Ok(reading.log)
    }
}

/// Bytes of one line.
enum LineBytes {
    Whole(Vec<u8>),
    /// Last line of the file, without a line end.
    Open(Vec<u8>),
    TooLong(u64),
}

/// Reads the next line. Skips a line that is too long without storing it.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<LineBytes>> {
    let (mut line, mut length, mut has_end) = (Vec::new(), 0_u64, false);
    while !has_end {
        let read = match reader.fill_buf() {
            Ok(read) => read,
            // `fill_buf` leaves the retry after a signal to its caller.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read.is_empty() {
            break;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let piece = &read[..end.unwrap_or(read.len())];
        length += piece.len() as u64;
        if length <= MAX_READ_BYTES as u64 {
            line.extend_from_slice(piece);
        } else {
            // Release the memory, because a line of this length is only counted.
            line = Vec::new();
        }
        has_end = end.is_some();
        let used = piece.len() + usize::from(has_end);
        reader.consume(used);
    }
    Ok(match has_end {
        _ if length > MAX_READ_BYTES as u64 => Some(LineBytes::TooLong(length)),
        true => Some(LineBytes::Whole(line)),
        false if line.is_empty() => None,
        false => Some(LineBytes::Open(line)),
    })
}

/// Reader of a log's lines.
#[derive(Default)]
struct LogReader {
    log: RecordLog,
    /// Index of each turn in the log.
    places: BTreeMap<String, usize>,
    number: u64,
}

impl LogReader {
    fn line(&mut self, bytes: LineBytes) {
        self.number += 1;
        let read = match &bytes {
            LineBytes::TooLong(bytes) => Err(LineFault::TooLong { bytes: *bytes }),
            // Two writers may both end a torn line, which leaves an empty one.
            LineBytes::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return,
            LineBytes::Whole(line) | LineBytes::Open(line) => self.read(line),
        };
        let fault = match (read, bytes) {
            (Ok(()), _) => return,
            // The last line has no end, so its writer was stopped while it wrote.
            (Err(LineFault::NoRecord { .. } | LineFault::NotUtf8), LineBytes::Open(_)) => LineFault::Torn,
            (Err(fault), _) => fault,
        };
        self.log.unread.push(UnreadLine { line: self.number, fault });
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), LineFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| LineFault::NotUtf8)?;
        // The next writer ends a torn line before its own, so it may also be in the middle of the file.
        let line: Line = serde_json::from_str(text).map_err(|error| match error.is_eof() {
            true => LineFault::Torn,
            false => no_record(&error),
        })?;
        if line.kind == BEGAN {
            return self.began(line);
        }
        // Lines of concurrent turns interleave in one file, so each line names its turn.
        let place = self.places.get(&line.turn).and_then(|place| self.log.turns.get_mut(*place));
        let Some(turn) = place else { return Err(LineFault::Orphan { turn: line.turn }) };
        turn.cuts.extend(line.cuts);
        match line.kind.as_str() {
            EVENT => turn.events.push(event(line.data)?),
            ENDED => {
                let (outcome, fault) = ended(turn, line.data);
                turn.outcome = Some(outcome);
                return fault.map_or(Ok(()), Err);
            }
            FORGOTTEN => turn.is_forgotten = true,
            _ => return Err(LineFault::UnknownKind { name: line.kind }),
        }
        Ok(())
    }

    fn began(&mut self, line: Line) -> Result<(), LineFault> {
        let Began { version: _, name, time, request } =
            serde_json::from_value(line.data).map_err(|error| no_record(&error))?;
        // Later lines name their turn by the id alone, so an id must begin once.
        if self.places.contains_key(&line.turn) {
            return Err(LineFault::NoRecord { reason: format!("turn {:?} began earlier", line.turn) });
        }
        self.places.insert(line.turn.clone(), self.log.turns.len());
        self.log.turns.push(TurnRecord {
            id: line.turn,
            name,
            began: time,
            request,
            events: Vec::new(),
            outcome: None,
            took: None,
            lost_lines: 0,
            is_forgotten: false,
            cuts: line.cuts,
        });
        Ok(())
    }
}

fn event(data: Value) -> Result<EventEnvelope, LineFault> {
    // Read the name first, because `from_value` consumes the data.
    let name = data.pointer("/event/type").and_then(Value::as_str).map(str::to_owned);
    serde_json::from_value(data).map_err(|error| match name {
        // The event's kind is from a later version, or its format has changed.
        Some(name) => LineFault::UnknownKind { name: format!("event {name}") },
        None => no_record(&error),
    })
}

fn ended(turn: &mut TurnRecord, data: Value) -> (RecordedOutcome, Option<LineFault>) {
    // Clone the data, because an end that cannot be read stays in the record unchanged.
    match serde_json::from_value::<Ended>(data.clone()) {
        Ok(Ended { took, lost_lines, result, error }) => {
            (turn.took, turn.lost_lines) = (Some(took), lost_lines);
            match (result, error) {
                (Some(result), _) => (RecordedOutcome::Result(Box::new(result)), None),
                (None, Some(error)) => (RecordedOutcome::Error(Box::new(error)), None),
                (None, None) => {
                    let fault = LineFault::UnknownKind { name: "an end without result and error".into() };
                    (RecordedOutcome::Unknown(data), Some(fault))
                }
            }
        }
        Err(error) => (RecordedOutcome::Unknown(data), Some(no_record(&error))),
    }
}

fn no_record(error: &serde_json::Error) -> LineFault {
    LineFault::NoRecord { reason: error.to_string() }
}
