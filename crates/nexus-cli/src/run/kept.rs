//! The conversation in a file of records.

use std::path::Path;

use nexus::{RecordLog, ResumeHandle};

/// Returns the resume handle of the last turn with a stored conversation.
pub(super) fn handle_in(path: &Path) -> Result<ResumeHandle, String> {
    let place = path.display();
    let log = RecordLog::read(path).map_err(|error| format!("{place}: {error}"))?;
    if log.turns.is_empty() && !log.unread.is_empty() {
        return Err(format!("{place}: not a record of turns, as `--keep` writes it"));
    }
    // The last turn with a handle continues the whole conversation.
    let last = log.turns.iter().rev().find_map(|turn| turn.resume());
    last.cloned().ok_or_else(|| match log.turns.iter().any(|turn| turn.is_forgotten) {
        true => format!("{place}: its conversation was forgotten, so it cannot be resumed"),
        false => format!("{place}: it contains no conversation to resume"),
    })
}
