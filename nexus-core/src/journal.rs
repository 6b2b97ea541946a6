//! Failures of the journal of a home.

use std::io;

/// Logs that a change is not in the journal of its home, if there is such a failure, as `nexus_files::Journal::record` returns it.
///
/// A journal that cannot be written fails nothing: readers see the change at their next scan of the state.
pub fn log_unrecorded(failure: Option<io::Error>) {
    if let Some(error) = failure {
        tracing::warn!(%error, "the journal cannot be written");
    }
}
