//! `events.jsonl`: what happened, one event on a line.
//!
//! An event is appended by one write, which is flushed before the call returns. Stopped in the middle of it, a process
//! leaves a line that does not end, or does not say anything. Such bytes stay where they are; the next event begins on a
//! line of its own.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use super::{
    WorkspaceEvent,
    error::{WorkspaceError, WorkspaceErrorKind},
    file,
};

/// The name of the file.
pub(super) const NAME: &str = "events.jsonl";
/// Longest line, in bytes. What is larger belongs into a file that the event names.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// How much of the end of the log is looked at first, to find the last event.
const TAIL_BYTES: u64 = 8 << 10;

/// What `events.jsonl` says.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLog {
    /// The events, numbered from 1 without a gap.
    pub events: Vec<WorkspaceEvent>,
    /// Lines that are no event, each left by a writer that was stopped in the middle.
    pub torn: Vec<TornLine>,
}

impl EventLog {
    /// The torn line at the end, if the last writer was stopped in the middle.
    pub fn torn_tail(&self) -> Option<&TornLine> {
        self.torn.last().filter(|line| line.is_tail)
    }
}

/// A line that is no event.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornLine {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// What stands there, without the end of the line.
    pub bytes: Vec<u8>,
    /// Whether it is the end of the file.
    pub is_tail: bool,
}

/// Reads the log in `folder`.
pub(super) fn read(folder: &Path) -> Result<EventLog, WorkspaceError> {
    let path = folder.join(NAME);
    let mut reader = BufReader::new(file::open(&path, OpenOptions::new().read(true))?);
    let mut log = EventLog::default();
    let (mut line, mut offset) = (0, 0);
    loop {
        let mut bytes = Vec::new();
        let length = reader
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| WorkspaceError::from_io(&path, "cannot be read", error))?;
        if length == 0 {
            return Ok(log);
        }
        line += 1;
        let ends = bytes.pop_if(|last| *last == b'\n').is_some();
        if !ends && length as u64 == MAX_LINE_BYTES {
            let reason = format!("has more than {MAX_LINE_BYTES} bytes in line {line}, which no event has");
            return Err(malformed(&path, line, reason));
        }
        match serde_json::from_slice::<WorkspaceEvent>(&bytes) {
            Ok(event) => {
                let due = log.events.len() as u64 + 1;
                if event.sequence != due {
                    let reason = format!("has event {} in line {line}, where {due} is due", event.sequence);
                    return Err(malformed(&path, line, reason));
                }
                log.events.push(event);
            }
            Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) => log.torn.push(TornLine { line, offset, bytes, is_tail: !ends }),
        }
        if !ends {
            // What comes behind it by now is the rest of the line, from a writer who is at it.
            return Ok(log);
        }
        offset += length as u64;
    }
}

/// Appends an event that `build` makes from its number. The caller holds the lock.
pub(super) fn append(
    folder: &Path,
    build: impl FnOnce(u64) -> WorkspaceEvent,
) -> Result<WorkspaceEvent, WorkspaceError> {
    let path = folder.join(NAME);
    let mut options = OpenOptions::new();
    let (mut file, is_new) = file::open_or_create(&path, options.read(true).append(true))?;
    let end =
        End::find(&mut file).map_err(|error| WorkspaceError::from_io(&path, "cannot be read", error))?;
    let sequence = end.last_sequence.checked_add(1).ok_or_else(|| {
        malformed(&path, 1, "has an event of the highest number there is, so none can follow".to_owned())
    })?;
    let event = build(sequence);
    let line = written(&event, end.is_open)
        .map_err(|reason| WorkspaceError::new(WorkspaceErrorKind::Unwritable, &path, reason))?;
    if let Err(error) = file.write_all(&line).and_then(|()| file.sync_data()) {
        // An event that the caller is told did not get there should not be there either.
        let _ = file.set_len(end.length).and_then(|()| file.sync_data());
        return Err(WorkspaceError::from_io(&path, "cannot be appended to", error));
    }
    if is_new {
        file::sync_folder(folder)?;
    }
    Ok(event)
}

/// The line of an event, behind the end of a torn line if need be.
fn written(event: &WorkspaceEvent, is_behind_torn: bool) -> Result<Vec<u8>, String> {
    let mut line = if is_behind_torn { vec![b'\n'] } else { Vec::new() };
    serde_json::to_writer(&mut line, event).map_err(|error| format!("cannot take the event: {error}"))?;
    // Data that is nested too deeply can be written and would never be read again.
    serde_json::from_slice::<WorkspaceEvent>(&line)
        .map_err(|error| format!("cannot take the event, which could not be read back: {error}"))?;
    line.push(b'\n');
    if line.len() as u64 >= MAX_LINE_BYTES {
        let bytes = line.len();
        return Err(format!(
            "cannot take an event of {bytes} bytes, {MAX_LINE_BYTES} or more: keep large data in a file"
        ));
    }
    Ok(line)
}

/// The end of the log.
struct End {
    length: u64,
    /// Zero if there is no event.
    last_sequence: u64,
    /// Whether the last line does not end.
    is_open: bool,
}

impl End {
    /// Looks at more and more of the end of the file, until there is an event in it.
    fn find(file: &mut File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut window = TAIL_BYTES.min(length);
        loop {
            let start = length - window;
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(window).read_to_end(&mut bytes)?;
            let is_open = bytes.last().is_some_and(|last| *last != b'\n');
            // The first line has lost its beginning, unless it is the first of the file.
            let whole = match start {
                0 => Some(bytes.as_slice()),
                _ => bytes.iter().position(|byte| *byte == b'\n').and_then(|at| bytes.get(at + 1..)),
            };
            let event = |line: &[u8]| serde_json::from_slice::<WorkspaceEvent>(line).ok();
            let last = whole.and_then(|lines| lines.rsplit(|byte| *byte == b'\n').find_map(event));
            match last {
                Some(last) => return Ok(Self { length, last_sequence: last.sequence, is_open }),
                None if start == 0 => return Ok(Self { length, last_sequence: 0, is_open }),
                None => window = window.saturating_mul(2).min(length),
            }
        }
    }
}

fn malformed(path: &Path, line: u64, reason: String) -> WorkspaceError {
    let line = usize::try_from(line).unwrap_or(usize::MAX);
    WorkspaceError::new(WorkspaceErrorKind::Malformed { line, column: 1 }, path, reason)
}
