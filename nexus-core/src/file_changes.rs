//! The host's report on changes of a turn's files since it began.

use std::{error::Error, fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};

/// Describes the changes in a turn's files since it began, for a backend that continues the work of another
/// one: the host's part of the fallback rule `continue`, set by
/// [`TurnHost::with_file_changes`](crate::TurnHost::with_file_changes).
///
/// The router calls it at the start of the turn and before each backend that continues. The turn's deadline
/// and cancellation apply meanwhile. They drop the hook's future, which must tolerate that. An error or a
/// panic of the hook ends the turn.
#[derive(Clone)]
pub struct FileChanges(Arc<ChangesHook>);

type ChangesHook = dyn Fn() -> BoxFuture<'static, Result<String, Box<dyn Error + Send + Sync>>> + Send + Sync;

impl FileChanges {
    /// Creates a report from `hook`, which returns a patch or a similar text. An empty text means that
    /// nothing changed.
    pub fn new<H, F, E>(hook: H) -> Self
    where
        H: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        Self(Arc::new(move || hook().map_err(Into::into).boxed()))
    }

    /// Returns the changes so far.
    ///
    /// # Errors
    ///
    /// The error of the hook. The changes are then unknown.
    pub async fn call(&self) -> Result<String, Box<dyn Error + Send + Sync>> {
        (self.0)().await
    }
}

impl fmt::Debug for FileChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileChanges").finish_non_exhaustive()
    }
}
