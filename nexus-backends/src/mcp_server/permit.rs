//! Whether one connection has shown the session's token, and with it has a permit to stay.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Most connections that have shown the token. Source: our own bound; one call under way takes one.
pub(super) const MAX_AUTHENTICATED: usize = 128;

/// How long a stranger may take for its request. Source: our own choice: a program on this machine needs none.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// What is known of one connection.
pub(super) struct ConnectionPermit {
    pub(super) since: Instant,
    authenticated: OnceLock<OwnedSemaphorePermit>,
    pub(super) end: Notify,
}

impl ConnectionPermit {
    /// A connection that begins now, without a permit.
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), authenticated: OnceLock::new(), end: Notify::new() }
    }

    /// Whether a request on it has borne the token.
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated.get().is_some()
    }

    /// A request on it bears the token: from now on it has one of `seats`. `false` if none is left.
    pub(super) fn take(&self, permits: &Arc<Semaphore>) -> bool {
        if self.is_authenticated() {
            return true;
        }
        let Ok(permit) = Arc::clone(permits).try_acquire_owned() else { return false };
        // Requests of one connection come one after the other.
        self.authenticated.set(permit).is_ok()
    }

    /// Waits until a stranger has had its time.
    pub(super) async fn timed_out(&self) {
        tokio::select! {
            () = tokio::time::sleep_until(self.since + AUTHENTICATION_TIMEOUT) => {}
            () = self.end.notified() => {}
        }
        if self.is_authenticated() {
            std::future::pending::<()>().await;
        }
    }
}
