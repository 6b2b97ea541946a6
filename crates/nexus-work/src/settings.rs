//! What the workspaces of one place have in common.

use std::{sync::Arc, time::Duration};

use nexus_core::{Clock, SystemClock};

/// What workspaces of one place have in common.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), patience: Duration::from_secs(30) }
    }
}
