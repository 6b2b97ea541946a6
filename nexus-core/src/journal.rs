//! Entries in the journal of a home.

use nexus_files::{Journal, JournalKind};

/// Records a change that is on the disk in the journal of its home.
///
/// A journal that cannot be written fails nothing: the failure is logged once a minute at most, and readers see the change at their next
/// scan of the state.
pub fn journal_change(journal: &Journal, kind: JournalKind, id: &str, what: &str) {
    if let Some(error) = journal.record(kind, id, what) {
        tracing::warn!(%error, "the journal cannot be written");
    }
}
