//! One connection: its admission and its end.

use std::sync::{Arc, OnceLock};

use nexus_core::CancelToken;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

/// One connection to a [`BoundedServer`](crate::BoundedServer). It counts as a stranger until the handler admits it.
#[derive(Debug)]
pub struct HttpConnection {
    pub(crate) since: Instant,
    permits: Arc<Semaphore>,
    admitted: OnceLock<OwnedSemaphorePermit>,
    evicted: Notify,
    ended: CancelToken,
}

impl HttpConnection {
    pub(crate) fn new(permits: Arc<Semaphore>) -> Self {
        Self {
            since: Instant::now(),
            permits,
            admitted: OnceLock::new(),
            evicted: Notify::new(),
            ended: CancelToken::new(),
        }
    }

    /// Admits the connection, because a request on it has proved that its client is authorised. Returns false if the maximum number
    /// of connections is already admitted.
    pub fn admit(&self) -> bool {
        if self.is_admitted() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return false };
        // No race is possible: requests of one connection are handled one after the other.
        self.admitted.set(permit).is_ok()
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.get().is_some()
    }

    /// Waits until the connection has ended.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) fn evict(&self) {
        // Unlike `notify_waiters`, this also wakes a connection that does not wait yet.
        self.evicted.notify_one();
    }

    /// Waits until a stranger must be closed, because it was evicted or its time is over. Never returns for an admitted connection.
    pub(crate) async fn has_to_go(&self, deadline: Instant) {
        tokio::select! {
            () = sleep_until(deadline) => {}
            () = self.evicted.notified() => {}
        }
        // Admitted meanwhile, so neither the deadline nor the eviction applies any more.
        if self.is_admitted() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns a guard that marks the connection as ended when it is dropped.
    pub(crate) fn end_on_drop(self: &Arc<Self>) -> ConnectionEnd {
        ConnectionEnd(Arc::clone(self))
    }
}

/// Guard that marks a connection as ended.
pub(crate) struct ConnectionEnd(Arc<HttpConnection>);

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.0.ended.cancel();
    }
}
