//! Work that runs after the answer to a caller.

use std::{
    future::Future,
    sync::{Mutex, PoisonError},
};

use nexus_core::CancelToken;
use tokio::task::JoinHandle;

/// Work that runs after the answer to a caller, until it ends or is cancelled.
#[derive(Debug, Default)]
pub(super) struct BackgroundWork {
    /// Cancelled to stop the work.
    pub(super) cancel: CancelToken,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl BackgroundWork {
    /// Starts a piece of work.
    pub(super) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|work| !work.is_finished());
        running.push(tokio::spawn(work));
    }

    /// Waits for the end of all work. The caller must have cancelled it.
    pub(super) async fn ended(&self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for work in running {
            let _ = work.await;
        }
    }
}
