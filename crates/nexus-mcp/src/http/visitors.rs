//! The connections to a server. One is a stranger's until a request on it bore the token. A stranger has one request and a time
//! for it, and of strangers above a bound the oldest goes, so that those who say nothing hold up nobody who bears the token.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nexus_core::CancelToken;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most connections that have shown the token. Source: our own bound; each takes one descriptor.
const MAX_KNOWN: usize = 128;
/// Most connections that have not. Source: our own bound.
const MAX_STRANGERS: usize = 64;
/// How long a stranger may take for its request. Source: our own choice: a program needs none.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);

/// All connections to a server.
#[derive(Debug)]
pub(super) struct Visitors {
    strangers: Mutex<VecDeque<Weak<Visitor>>>,
    permits: Arc<Semaphore>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visitor {
    is_known: AtomicBool,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    evicted: CancelToken,
}

impl Visitors {
    pub(super) fn new() -> Self {
        Self { strangers: Mutex::default(), permits: Arc::new(Semaphore::new(MAX_KNOWN)) }
    }

    /// A connection begins, as a stranger's. The oldest stranger goes if there are too many.
    pub(super) fn begin(&self) -> Arc<Visitor> {
        let visitor = Arc::new(Visitor {
            is_known: AtomicBool::new(false),
            permit: Mutex::default(),
            evicted: CancelToken::new(),
        });
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.retain(|stranger| stranger.upgrade().is_some_and(|stranger| !stranger.is_known()));
        if strangers.len() >= MAX_STRANGERS
            && let Some(oldest) = strangers.pop_front().and_then(|stranger| stranger.upgrade())
        {
            oldest.evicted.cancel();
        }
        strangers.push_back(Arc::downgrade(&visitor));
        visitor
    }

    /// A request on a connection bore the token. `false` if there are too many of those.
    pub(super) fn know(&self, visitor: &Visitor) -> bool {
        if visitor.is_known() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return false };
        *visitor.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        visitor.is_known.store(true, Ordering::Release);
        true
    }
}

impl Visitor {
    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// Waits until a stranger has to go; for ever with one that has shown the token.
    pub(super) async fn has_to_go(&self) {
        tokio::select! {
            () = tokio::time::sleep(STRANGER_TIMEOUT) => {}
            () = self.evicted.cancelled() => {}
        }
        if self.is_known() {
            std::future::pending::<()>().await;
        }
    }
}
