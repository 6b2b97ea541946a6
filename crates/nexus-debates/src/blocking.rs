//! Work that waits for files, off the threads of the runtime.

use crate::debate_error::{DebateError, DebateErrorKind};

/// Runs `work` where it may block. It goes on to its end also if the caller is gone.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DebateError> + Send + 'static,
) -> Result<T, DebateError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = format!("the work ended in a way that it should not: {error}");
        Err(DebateError::new(DebateErrorKind::Failed, message, "make the same call again, and report this"))
    })
}
