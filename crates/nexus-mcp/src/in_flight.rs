//! Running requests, so that a client can cancel its wait for one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nexus_core::CancelToken;
use rmcp::model::RequestId;

/// A connection or MCP session, and the id of a request in it.
type RequestKey = (String, RequestId);

/// Requests that clients wait for. The ids serve only for cancellation: of two requests with one id, only the later can be
/// cancelled.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    waiting: Mutex<HashMap<RequestKey, (u64, CancelToken)>>,
    next: AtomicU64,
}

/// A request that a client waits for. Its drop ends the wait.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    all: Arc<InFlight>,
    key: RequestKey,
    number: u64,
    end: CancelToken,
}

impl InFlight {
    /// Registers a request at the start of its wait.
    pub(crate) fn begin(self: &Arc<Self>, session: &str, id: &RequestId) -> InFlightRequest {
        let key = (session.to_owned(), id.clone());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let end = CancelToken::new();
        self.lock().insert(key.clone(), (number, end.clone()));
        InFlightRequest { all: Arc::clone(self), key, number, end }
    }

    /// Ends the wait for a request that its client cancelled.
    pub(crate) fn cancel(&self, session: &str, id: &RequestId) {
        if let Some((_, end)) = self.lock().get(&(session.to_owned(), id.clone())) {
            end.cancel();
        }
    }

    /// Ends all waits of an MCP session.
    pub(crate) fn end(&self, session: &str) {
        let all = self.lock();
        all.iter().filter(|((of, _), _)| of == session).for_each(|(_, (_, end))| end.cancel());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, (u64, CancelToken)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightRequest {
    /// Returns the token that is cancelled once the request is no longer awaited.
    pub(crate) fn end(&self) -> &CancelToken {
        &self.end
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.end.cancel();
        let mut all = self.all.lock();
        // The client may have used the id again. The entry then belongs to the later request.
        if all.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            all.remove(&self.key);
        }
    }
}
