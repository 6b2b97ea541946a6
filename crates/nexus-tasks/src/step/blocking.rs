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
use nexus_trees::{Tree, TreeError};
use tokio::task::{JoinHandle, spawn_blocking};

/// Does `work` on a tree. It ends with [`Cancelled`](nexus_trees::TreeErrorKind::Cancelled) when `cancel` is cancelled.
/// When the future is dropped, work that has begun is cancelled and waited for, so that nothing is at work afterwards.
pub(super) async fn on_tree<T: Send + 'static>(
    tree: &Tree,
    cancel: &CancelToken,
    work: impl FnOnce(&Tree) -> Result<T, TreeError> + Send + 'static,
) -> Result<T, TreeError> {
    let tree = tree.clone();
    off_thread(cancel.child(), |cancel| work(&tree.with_cancel(cancel))).await
}

/// Does `work` on a thread of its own, with the token that a drop of the future cancels.
async fn off_thread<T: Send + 'static>(
    cancel: CancelToken,
    work: impl FnOnce(CancelToken) -> T + Send + 'static,
) -> T {
    let (end, ended) = channel();
    let is_settled = Arc::new(AtomicBool::new(false));
    let (is_given_up, cancel_of_work) = (Arc::clone(&is_settled), cancel.clone());
    let handle = spawn_blocking(move || {
        let _end = end;
        match is_given_up.swap(true, Ordering::AcqRel) {
            true => None,
            false => Some(work(cancel_of_work)),
        }
    });
    let mut job = BlockingTask { handle, is_settled, ended, cancel };
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

/// Task on a blocking thread.
struct BlockingTask<T> {
    handle: JoinHandle<T>,
    /// Set by the work when it begins, or by the drop, whichever comes first: work that still waits for a thread is not begun.
    is_settled: Arc<AtomicBool>,
    /// Its other end goes with the work.
    ended: Receiver<()>,
    cancel: CancelToken,
}

impl<T> Drop for BlockingTask<T> {
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn work_that_is_given_up_is_cancelled_and_over_when_the_drop_returns() {
        let (begun, has_begun) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        {
            let mut work = pin!(off_thread(CancelToken::new(), move |cancel| {
                begun.send(()).unwrap();
                while !cancel.is_cancelled() {
                    std::thread::yield_now();
                }
                over.store(true, Ordering::Release);
            }));
            poll_fn(|context| {
                assert!(work.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            has_begun.recv().unwrap();
        }
        assert!(is_over.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn work_that_is_not_given_up_gives_its_answer_or_its_panic() {
        assert_eq!(off_thread(CancelToken::new(), |_| 7).await, 7);
        let panicked = tokio::spawn(off_thread(CancelToken::new(), |_| panic!("in the work"))).await;
        assert!(panicked.unwrap_err().is_panic());
    }
}
