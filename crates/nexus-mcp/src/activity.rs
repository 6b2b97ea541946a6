//! Activity of the programs that call the tools of a session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Activity at a [`SessionServer`](crate::SessionServer): the part that the session itself does not record.
#[derive(Debug, Default)]
pub struct CallActivity {
    calls: Mutex<CallCounts>,
    change: Notify,
}

/// Counts of one program's calls, and a flag for its request of the list of tools.
#[derive(Debug, Default)]
struct CallCounts {
    decided: u64,
    pending: u32,
    is_listed: bool,
}

impl CallActivity {
    /// Records that a program listed the tools.
    pub(crate) fn listed(&self) {
        self.calls().is_listed = true;
    }

    /// Records a decision on a call.
    pub(crate) fn decided(&self) {
        self.calls().decided += 1;
        self.change.notify_one();
    }

    /// Records a running tool, until the guard is dropped.
    pub(crate) fn running(&self) -> CallGuard<'_> {
        self.calls().pending += 1;
        self.change.notify_one();
        CallGuard(self)
    }

    fn calls(&self) -> MutexGuard<'_, CallCounts> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of one running tool.
pub(crate) struct CallGuard<'r>(&'r CallActivity);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls().pending -= 1;
        self.0.change.notify_one();
    }
}

impl CallActivity {
    /// Returns true if a client program has listed the tools.
    pub fn is_listed(&self) -> bool {
        self.calls().is_listed
    }

    /// Returns true if the session has decided on a call.
    pub fn were_decided(&self) -> bool {
        self.calls().decided > 0
    }

    /// Returns true while a tool runs.
    pub fn is_busy(&self) -> bool {
        self.calls().pending > 0
    }

    /// Waits until the session has decided on a call, or a call has ended. Only one caller may wait at a
    /// time.
    pub async fn changed(&self) {
        self.change.notified().await;
    }
}
