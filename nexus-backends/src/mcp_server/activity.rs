//! Which calls are in flight at a server, for the turn that it belongs to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The calls of one turn, as far as its session does not know them.
#[derive(Debug, Default)]
pub(crate) struct CallActivity {
    calls: Mutex<CallCounts>,
    change: Notify,
}

/// Counts of one program's calls, and whether it has the list of tools.
#[derive(Debug, Default)]
struct CallCounts {
    decided: u64,
    pending: u32,
    is_listed: bool,
}

impl CallActivity {
    /// A program was told which tools there are.
    pub(super) fn listed(&self) {
        self.calls().is_listed = true;
    }

    /// A call was decided on.
    pub(super) fn decided(&self) {
        self.calls().decided += 1;
        self.change.notify_one();
    }

    /// A tool runs, until what comes back is dropped.
    pub(super) fn running(&self) -> CallGuard<'_> {
        self.calls().pending += 1;
        self.change.notify_one();
        CallGuard(self)
    }

    fn calls(&self) -> MutexGuard<'_, CallCounts> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of one running tool.
pub(super) struct CallGuard<'r>(&'r CallActivity);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls().pending -= 1;
        self.0.change.notify_one();
    }
}

#[cfg(feature = "cli")]
impl CallActivity {
    /// Whether a program was told which tools there are.
    pub(crate) fn is_listed(&self) -> bool {
        self.calls().is_listed
    }

    /// Whether a call was decided on.
    pub(crate) fn were_decided(&self) -> bool {
        self.calls().decided > 0
    }

    /// Whether a tool runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls().pending > 0
    }

    /// Waits until a call was decided on, or has ended. One waits at a time.
    pub(crate) async fn changed(&self) {
        self.change.notified().await;
    }
}
