//! The host's hook between a failed backend and the next one: it restores the earlier state.

use std::{error::Error, fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};

use crate::{error::ErrorKind, id::BackendId, turn::Effects};

/// A backend that failed after it changed something or submitted an answer, and the backend that is about to
/// take over.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The backend that failed.
    pub backend: BackendId,
    /// Why it failed.
    pub kind: ErrorKind,
    /// Why, in the vendor's own words where there are any.
    pub reason: String,
    /// Its possible effects: [`Effects::Wrote`] or [`Effects::Unknown`], or less if it only submitted an
    /// answer.
    pub effects: Effects,
    /// The backend that takes over after the restoration.
    pub next: BackendId,
}

impl FailedAttempt {
    /// A failure of `backend` for this reason, after which `next` is to have the turn.
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

/// Restores the state before a failed attempt, before another backend gets the turn: the host's part of the
/// fallback rule `restore`, set by [`TurnHost::with_before_retry`](crate::TurnHost::with_before_retry).
///
/// It is called once for each attempt that changed something or submitted an answer, and only when the next
/// backend is about to run. The turn's deadline and cancellation apply while it runs: they drop its future,
/// which must tolerate that. An error or a panic in it ends the turn.
#[derive(Clone)]
pub struct BeforeRetry(Arc<Hook>);

type Hook =
    dyn Fn(FailedAttempt) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> + Send + Sync;

impl BeforeRetry {
    /// Puts things back by `hook`.
    pub fn new<H, F, E>(hook: H) -> Self
    where
        H: Fn(FailedAttempt) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        Self(Arc::new(move |attempt| hook(attempt).map_err(Into::into).boxed()))
    }

    /// Lets the host restore the state before this attempt.
    ///
    /// # Errors
    ///
    /// The hook's own: the changes were not restored, or only in part.
    pub async fn call(&self, attempt: FailedAttempt) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)(attempt).await
    }
}

impl fmt::Debug for BeforeRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeRetry").finish_non_exhaustive()
    }
}
