//! What goes on at a door, for the turn that it belongs to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The calls of one turn, as far as they are not in its session.
#[derive(Debug, Default)]
pub(crate) struct CallRecord {
    calls: Mutex<Calls>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    decided: u64,
    under_way: u32,
}

impl CallRecord {
    /// A call was decided on.
    pub(super) fn decided(&self) {
        self.calls().decided += 1;
        self.news.notify_one();
    }

    /// A tool runs, until what comes back is dropped.
    pub(super) fn running(&self) -> Running<'_> {
        self.calls().under_way += 1;
        self.news.notify_one();
        Running(self)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One tool that runs.
pub(super) struct Running<'r>(&'r CallRecord);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.calls().under_way -= 1;
        self.0.news.notify_one();
    }
}

#[cfg(feature = "cli")]
impl CallRecord {
    /// Whether a call was decided on.
    pub(crate) fn were_decided(&self) -> bool {
        self.calls().decided > 0
    }

    /// Whether a tool runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls().under_way > 0
    }

    /// Waits until a call was decided on, or has ended. One waits at a time.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}
