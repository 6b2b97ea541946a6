//! `events.jsonl`: one event per line.
//!
//! The file is a [`JsonLinesLog`]: the bytes of an interrupted write stay, and the next event begins on a new line.

use std::{io, path::Path};

use nexus_files::JsonLinesLog;
pub use nexus_files::TornLine;

use super::{
    WorkspaceEvent,
    error::{WorkspaceError, WorkspaceErrorKind},
    file,
};

/// The name of the file.
pub(super) const NAME: &str = "events.jsonl";
/// Maximum length of a line, in bytes. Larger data belongs into a file that the event names.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Content of `events.jsonl`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventLog {
    /// The events, numbered from 1 without a gap.
    pub events: Vec<WorkspaceEvent>,
    /// Lines without an event, each left by an interrupted write.
    pub torn: Vec<TornLine>,
}

impl EventLog {
    /// Returns the torn line at the end, if the last write was interrupted.
    pub fn torn_tail(&self) -> Option<&TornLine> {
        self.torn.last().filter(|line| line.is_tail)
    }
}

fn log_in(folder: &Path) -> JsonLinesLog<WorkspaceEvent> {
    JsonLinesLog::at(folder.join(NAME), MAX_LINE_BYTES)
}

/// Reads the log in `folder`.
pub(super) fn read(folder: &Path) -> Result<EventLog, WorkspaceError> {
    let log = log_in(folder);
    let path = log.path();
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData if path.is_file() && !path.is_symlink() => {
            malformed(path, 1, format!("cannot be read: {error}"))
        }
        _ => file::failed(path, "cannot be read", error),
    };
    // Each workspace is created with a log, so a missing one is damage.
    path.symlink_metadata().map_err(|error| file::failed(path, "cannot be opened", error))?;
    let lines = log.read().map_err(unread)?;
    let mut events = Vec::with_capacity(lines.values.len());
    for (line, event) in lines.values {
        let due = events.len() as u64 + 1;
        // A gap means that a line was removed or edited by hand.
        if event.sequence != due {
            let reason = format!("has event {} in line {line}, but {due} is expected", event.sequence);
            return Err(malformed(path, line, reason));
        }
        events.push(event);
    }
    Ok(EventLog { events, torn: lines.torn })
}

/// Appends an event. `build` creates it from its number. The caller must own the lock.
pub(super) fn append(
    folder: &Path,
    build: impl FnOnce(u64) -> WorkspaceEvent,
) -> Result<WorkspaceEvent, WorkspaceError> {
    let log = log_in(folder);
    let path = log.path();
    // The caller has locked the workspace, so no other writer takes the same number.
    let last = log.last().map_err(|error| file::failed(path, "cannot be read", error))?;
    let sequence = last.map_or(0, |event| event.sequence).checked_add(1).ok_or_else(|| {
        malformed(path, 1, "has an event with the highest possible number, so none can follow".to_owned())
    })?;
    let event = build(sequence);
    log.append(&event).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            let reason = format!("cannot store the event: {error}; store large data in a file");
            WorkspaceError::new(WorkspaceErrorKind::Unwritable, path, reason)
        }
        _ => file::failed(path, "cannot be appended to", error),
    })?;
    Ok(event)
}

fn malformed(path: &Path, line: u64, reason: String) -> WorkspaceError {
    let line = usize::try_from(line).unwrap_or(usize::MAX);
    WorkspaceError::new(WorkspaceErrorKind::Malformed { line, column: 1 }, path, reason)
}
