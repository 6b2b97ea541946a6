//! Work that waits for files and git, off the threads of the runtime.

use nexus_core::harness::run_blocking;

use crate::error::TestbedError;

/// Runs `work` where it may block. A runtime that shuts down cancels it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TestbedError> + Send + 'static,
) -> Result<T, TestbedError> {
    run_blocking(work).await.unwrap_or(Err(TestbedError::Cancelled))
}
