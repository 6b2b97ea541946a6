//! Runs blocking work off the threads that poll futures.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
};

use tokio::task::JoinHandle;

use crate::{cancel::CancelToken, service_error::LostWork};

/// Runs `work` on a blocking thread of the current Tokio runtime. If the system cannot start a thread, runs it on the
/// calling thread, because the runtime would panic.
///
/// # Errors
///
/// The panic payload of `work`, or a message that the runtime is shutting down.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::Result<T> {
    if !has_thread() {
        // Catch a panic here as well, so that both paths return it in the same way.
        return catch_unwind(AssertUnwindSafe(work));
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => error.into_panic(),
        false => Box::new("the runtime is shutting down"),
    })
}

/// Runs fallible `work` as [`run_blocking`] does. The work runs to its end even if the future is dropped.
///
/// # Errors
///
/// Errors of `work`. [`LostWork`] if `work` panics or the runtime shuts down.
pub async fn try_blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<LostWork> + Send + 'static,
{
    run_blocking(work).await.unwrap_or_else(|_| Err(LostWork.into()))
}

/// Runs `work` as [`run_blocking`] does, with a token that dropping the future cancels.
///
/// The drop waits until started work returns, and work that waits for a thread never starts. Thus no work outlives the
/// future.
///
/// # Errors
///
/// Errors of [`run_blocking`].
pub async fn run_cancellable<T: Send + 'static>(
    cancel: CancelToken,
    work: impl FnOnce(CancelToken) -> T + Send + 'static,
) -> thread::Result<T> {
    if !has_thread() {
        // The work ends within this poll, so dropping the future cannot interrupt it and no guard is
        // necessary.
        return catch_unwind(AssertUnwindSafe(|| work(cancel)));
    }
    let (end, ended) = channel();
    let is_settled = Arc::new(AtomicBool::new(false));
    let (is_given_up, cancel_of_work) = (Arc::clone(&is_settled), cancel.clone());
    let handle = tokio::task::spawn_blocking(move || {
        // Own the sender, so that it drops when the work returns or panics.
        let _end = end;
        // Either this swap or the swap in `drop` comes first, and the first decides if the work starts.
        match is_given_up.swap(true, Ordering::AcqRel) {
            true => None,
            false => Some(work(cancel_of_work)),
        }
    });
    // The guard owns the handle during the wait, so dropping this future cancels the work and waits for it.
    let mut task = CancellableTask { handle, is_settled, ended, cancel };
    match (&mut task.handle).await {
        Ok(Some(done)) => Ok(done),
        Err(error) if error.is_panic() => Err(error.into_panic()),
        // Only dropping this future cancels the work, so the runtime has shut down.
        Ok(None) | Err(_) => Err(Box::new("the runtime is shutting down")),
    }
}

/// Work on a blocking thread, cancelled and waited for on drop.
struct CancellableTask<T> {
    handle: JoinHandle<T>,
    /// Set by the work when it starts, or by the drop. Work that finds the flag set does not start.
    is_settled: Arc<AtomicBool>,
    /// The work owns the sender, so this channel closes when the work ends.
    ended: Receiver<()>,
    cancel: CancelToken,
}

impl<T> Drop for CancellableTask<T> {
    fn drop(&mut self) {
        if self.handle.is_finished() {
            return;
        }
        // Tokio's abort stops only work that still waits for a thread. Started work needs the token.
        self.handle.abort();
        self.cancel.cancel();
        if self.is_settled.swap(true, Ordering::AcqRel) {
            // The work never sends anything: `recv` returns when the work drops the sender.
            let _ = self.ended.recv();
        }
    }
}

/// Returns true if the system can start a thread. The runtime panics if it has no blocking thread yet and
/// cannot start one.
pub(crate) fn has_thread() -> bool {
    let trial = thread::Builder::new().name("nexus-trial".to_owned()).stack_size(SMALLEST_BYTES).spawn(|| ());
    if let Err(error) = &trial {
        tracing::debug!(%error, "no thread can be started; the work runs on the calling thread");
    }
    trial.is_ok()
}

/// Stack size of the test thread. Source: `PTHREAD_STACK_MIN` of glibc; other systems round up to their own minimum.
const SMALLEST_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Poll};

    use super::*;

    #[tokio::test]
    async fn work_whose_future_is_dropped_is_cancelled_and_over_when_the_drop_returns() {
        let (begun, has_begun) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        {
            let mut work = pin!(run_cancellable(CancelToken::new(), move |cancel| {
                begun.send(()).unwrap();
                while !cancel.is_cancelled() {
                    thread::yield_now();
                }
                over.store(true, Ordering::Release);
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
    async fn work_returns_its_value_or_its_panic() {
        assert_eq!(run_cancellable(CancelToken::new(), |_| 7).await.unwrap(), 7);
        let panic = run_cancellable(CancelToken::new(), |_| panic!("in the work")).await.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the work"));
    }
}
