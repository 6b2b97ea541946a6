//! Common settings of the workspaces below one folder.

use std::{sync::Arc, time::Duration};

use nexus_core::{Clock, SystemClock, log_unrecorded};
use nexus_files::Journal;

use super::WorkspaceId;

/// Common settings of the workspaces below one folder.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) patience: Duration,
    /// Journal of the home that contains the workspaces.
    pub(super) journal: Option<Arc<Journal>>,
}

impl Settings {
    /// Records a change that was written to the disk.
    pub(super) fn record(&self, kind: &str, id: &WorkspaceId, what: &str) {
        if let Some(journal) = &self.journal {
            log_unrecorded(journal.record(kind.into(), id.as_str(), what));
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), patience: Duration::from_secs(30), journal: None }
    }
}
