//! Work that blocks, off the threads that run futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Runs `work` on a blocking thread of the Tokio runtime that polls this, or right here if the system has no thread to
/// give: the runtime would panic then.
///
/// # Errors
///
/// What `work` panicked with, or a word that the runtime is shutting down.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::Result<T> {
    if !has_thread() {
        return catch_unwind(AssertUnwindSafe(work));
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => error.into_panic(),
        false => Box::new("the runtime is shutting down"),
    })
}

/// Whether the system has a thread to give. The runtime panics where it has no blocking thread yet and gets none.
pub(crate) fn has_thread() -> bool {
    let trial = thread::Builder::new().name("nexus-trial".to_owned()).stack_size(SMALLEST_BYTES).spawn(|| ());
    if let Err(error) = &trial {
        tracing::debug!(%error, "no thread can be started; the work is done in place");
    }
    trial.is_ok()
}

/// Stack of the thread that tells whether there are threads. Source: glibc, `PTHREAD_STACK_MIN`, which others round up to.
const SMALLEST_BYTES: usize = 16 << 10;
