//! Work on trees, which blocks, on a thread of its own.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
};

use nexus_core::CancelToken;
use nexus_workspace::tree::{Tree, TreeError};
use tokio::task::{JoinHandle, spawn_blocking};

/// Does `work` on a tree. It ends with [`Cancelled`](nexus_workspace::tree::TreeErrorKind::Cancelled) when `cancel` is cancelled.
/// When the future is dropped, work that has begun is cancelled and waited for, so that nothing is at work afterwards.
pub(super) async fn on_tree<T: Send + 'static>(
    tree: &Tree,
    cancel: &CancelToken,
    work: impl FnOnce(&Tree) -> Result<T, TreeError> + Send + 'static,
) -> Result<T, TreeError> {
    let cancel = cancel.child();
    let tree = tree.clone().with_cancel(cancel.clone());
    let (end, ended) = channel();
    let is_settled = Arc::new(AtomicBool::new(false));
    let is_given_up = Arc::clone(&is_settled);
    let handle = spawn_blocking(move || {
        let _end = end;
        match is_given_up.swap(true, Ordering::AcqRel) {
            true => None,
            false => Some(work(&tree)),
        }
    });
    let mut job = Job { handle, is_settled, ended, cancel };
    match (&mut job.handle).await {
        Ok(Some(done)) => done,
        // Only the drop gives it up, and the runtime aborts it only where it ends itself: nobody reads the answer then.
        Ok(None) => std::future::pending().await,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

struct Job<T> {
    handle: JoinHandle<T>,
    /// Set by the work when it begins, or by the drop, whichever comes first: work that still waits for a thread is not begun.
    is_settled: Arc<AtomicBool>,
    /// Its other end goes with the work.
    ended: Receiver<()>,
    cancel: CancelToken,
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if self.handle.is_finished() {
            return;
        }
        self.handle.abort();
        self.cancel.cancel();
        if self.is_settled.swap(true, Ordering::AcqRel) {
            // Nothing is ever sent: this ends when the other end is dropped.
            let _ = self.ended.recv();
        }
    }
}
