//! Work on trees, which blocks, on a thread of its own.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, channel},
};

use nexus_core::{CancelToken, ErrorKind, harness::Failure};
use tokio::task::{JoinHandle, spawn_blocking};

/// Does `work` on a blocking thread of the runtime that polls this. When the future is dropped, the token is cancelled and work that
/// has begun is waited for, so that nothing is at work afterwards; work that has not begun does not begin.
///
/// # Errors
///
/// Those of `work`; [`ErrorKind::Crashed`] if it panicked, or the runtime ends.
pub(crate) async fn off_thread<T: Send + 'static>(
    cancel: CancelToken,
    work: impl FnOnce(CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (end, ended) = channel();
    let is_settled = Arc::new(AtomicBool::new(false));
    let (is_given_up, cancel_of_work) = (Arc::clone(&is_settled), cancel.clone());
    let handle = spawn_blocking(move || {
        let _end = end;
        match is_given_up.swap(true, Ordering::AcqRel) {
            true => Err(Failure::cancelled()),
            false => work(cancel_of_work),
        }
    });
    let mut job = BlockingTask { handle, is_settled, ended, cancel };
    (&mut job.handle).await.unwrap_or_else(|error| {
        Err(Failure::new(ErrorKind::Crashed, format!("the work on the files broke off: {error}")))
    })
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
    use std::{future::poll_fn, pin::pin, task::Poll};

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
                Ok(())
            }));
            poll_fn(|context| {
                assert!(work.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            has_begun.recv().unwrap();
        }
        assert!(is_over.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_a_failure() {
        let failed = off_thread::<()>(CancelToken::new(), |_| panic!("in the work")).await;
        assert_eq!(failed.unwrap_err().kind, ErrorKind::Crashed);
    }
}
