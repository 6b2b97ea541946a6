//! Logs failures of a home's journal.

use std::io;

/// Logs the failure to record a change in the journal of its home, if `nexus_files::Journal::record` returned one.
///
/// Such a failure fails no other work: readers see the change at their next scan of the state.
pub fn log_unrecorded(failure: Option<io::Error>) {
    if let Some(error) = failure {
        tracing::warn!(%error, "the journal cannot be written");
    }
}
