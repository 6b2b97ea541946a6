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
    // The runtime panics where it has no blocking thread yet and gets none.
    match thread::Builder::new().name("nexus-trial".to_owned()).stack_size(SMALLEST_BYTES).spawn(|| ()) {
        Ok(_) => tokio::task::spawn_blocking(work).await.map_err(|error| match error.is_panic() {
            true => error.into_panic(),
            false => Box::new("the runtime is shutting down"),
        }),
        Err(error) => {
            tracing::debug!(%error, "no thread can be started; the work is done in place");
            catch_unwind(AssertUnwindSafe(work))
        }
    }
}

/// Stack of the thread that tells whether there are threads. Source: glibc, `PTHREAD_STACK_MIN`, which others round up to.
const SMALLEST_BYTES: usize = 16 << 10;
