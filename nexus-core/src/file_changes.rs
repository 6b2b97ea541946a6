//! What a host says of the files of a turn: what changed in them since it began.

use std::{error::Error, fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};

/// Says what changed in the files of a turn since it began, for a backend that goes on with work which another one began: the host's
/// part of the fallback rule `continue`, set by [`TurnHost::with_file_changes`](crate::TurnHost::with_file_changes).
///
/// It is called before each backend that goes on. The turn's deadline and cancellation hold while it runs: its future is dropped then, and
/// must bear that. An error or a panic of it ends the turn.
#[derive(Clone)]
pub struct FileChanges(Arc<ChangesHook>);

type ChangesHook = dyn Fn() -> BoxFuture<'static, Result<String, Box<dyn Error + Send + Sync>>> + Send + Sync;

impl FileChanges {
    /// Says it by `hook`: a patch, or the like. An empty text says that nothing changed.
    pub fn new<H, F, E>(hook: H) -> Self
    where
        H: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        Self(Arc::new(move || hook().map_err(Into::into).boxed()))
    }

    /// What changed so far.
    ///
    /// # Errors
    ///
    /// The hook's own: it cannot be told.
    pub async fn call(&self) -> Result<String, Box<dyn Error + Send + Sync>> {
        (self.0)().await
    }
}

impl fmt::Debug for FileChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileChanges").finish_non_exhaustive()
    }
}
