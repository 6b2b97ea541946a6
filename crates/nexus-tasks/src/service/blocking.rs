//! Work that waits for files and git, off the threads of the runtime.

use crate::task_error::{TaskError, TaskErrorKind};

/// Runs `work` where it may block. It goes on to its end also if the caller is gone.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = format!("the work ended in a way that it should not: {error}");
        Err(TaskError::new(TaskErrorKind::Failed, message, "make the same call again, and report this"))
    })
}
