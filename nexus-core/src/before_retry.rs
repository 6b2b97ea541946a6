//! The host's hook that restores the state between a failed backend and the next one.

use std::{error::Error, fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};

use crate::{error::ErrorKind, id::BackendId, turn::Effects};

/// A backend that failed after it changed something or submitted an answer, with the backend that is about to
/// take over.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The backend that failed.
    pub backend: BackendId,
    /// Kind of its failure.
    pub kind: ErrorKind,
    /// Reason for the failure, in the vendor's words if it has any.
    pub reason: String,
    /// Possible effects of the attempt: [`Effects::Wrote`] or [`Effects::Unknown`], or less if the attempt
    /// only submitted an answer.
    pub effects: Effects,
    /// The backend that takes over afterwards.
    pub next: BackendId,
}

impl FailedAttempt {
    /// Creates a failure of `backend` for this reason, after which `next` takes over.
    pub fn new(
        backend: BackendId,
        kind: ErrorKind,
        reason: impl Into<String>,
        effects: Effects,
        next: BackendId,
    ) -> Self {
        Self { backend, kind, reason: reason.into(), effects, next }
    }
}

/// Restores the state from before a failed attempt, so that another backend can take over. It is the host's part of the
/// fallback rule `restore`, set by [`TurnHost::with_before_retry`](crate::TurnHost::with_before_retry).
///
/// The router calls the hook once for each attempt that changed something or submitted an answer, and only
/// when the next backend is about to run. The turn's deadline and cancellation apply meanwhile. They drop the
/// hook's future, which must tolerate that. An error or a panic of the hook ends the turn.
#[derive(Clone)]
pub struct BeforeRetry(Arc<Hook>);

type Hook =
    dyn Fn(FailedAttempt) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> + Send + Sync;

impl BeforeRetry {
    /// Creates a hook that restores the state with `hook`.
    pub fn new<H, F, E>(hook: H) -> Self
    where
        H: Fn(FailedAttempt) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        Self(Arc::new(move |attempt| hook(attempt).map_err(Into::into).boxed()))
    }

    /// Restores the state before this attempt.
    ///
    /// # Errors
    ///
    /// The error of the hook: the changes were not reverted, or only in part.
    pub async fn call(&self, attempt: FailedAttempt) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)(attempt).await
    }
}

impl fmt::Debug for BeforeRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeRetry").finish_non_exhaustive()
    }
}
