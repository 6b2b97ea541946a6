//! Cancellation of a turn by its caller.

use std::future::Future;

use tokio_util::sync::CancellationToken;

/// Stops the turn that has this token: politely first, then by force.
///
/// Clones share one state. A cancelled token stays cancelled. Dropping a token cancels nothing. Dropping the
/// turn's future stops the turn too, but then its result is lost.
///
/// ```
/// use nexus_core::CancelToken;
///
/// let token = CancelToken::new();
/// let seen_by_the_turn = token.clone();
/// token.cancel();
/// assert!(seen_by_the_turn.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken(CancellationToken);

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a token that is cancelled with this one, and can also be cancelled alone.
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Cancels this token, its clones and its children. Calling it again changes nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns true if [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes once the token is cancelled, immediately if it already is.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        // Own a clone, so that the future borrows nothing.
        let token = self.0.clone();
        async move { token.cancelled().await }
    }
}
