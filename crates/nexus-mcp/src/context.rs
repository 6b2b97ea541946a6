//! Context of a call, beside its arguments.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nexus_core::CancelToken;
use tokio::sync::watch;

use super::roots::{ClientRoots, RootsSource};

/// Context of a call, beside its arguments.
#[derive(Clone, Debug)]
pub struct CallContext {
    progress: CallProgress,
    cancel: CancelToken,
    roots: RootsSource,
    is_deferred: Arc<AtomicBool>,
}

impl CallContext {
    /// Context of a call without a waiting client: its progress goes nowhere, and it has no roots.
    pub fn unattended() -> Self {
        Self::new(CallProgress::default(), CancelToken::new(), RootsSource::None)
    }

    pub(crate) fn new(progress: CallProgress, cancel: CancelToken, roots: RootsSource) -> Self {
        Self { progress, cancel, roots, is_deferred: Arc::default() }
    }

    /// Returns the receiver of the call's progress.
    pub fn progress(&self) -> &CallProgress {
        &self.progress
    }

    /// Returns the token that is cancelled once the answer is no longer awaited: the client cancelled the call,
    /// or left, or the server ends. The call itself may continue.
    pub fn cancelled(&self) -> &CancelToken {
        &self.cancel
    }

    /// Returns true if the client got a protocol task and fetches the answer later: the call may then wait as
    /// long as necessary. It can become true while the call runs.
    pub fn is_deferred(&self) -> bool {
        self.is_deferred.load(Ordering::Relaxed)
    }

    pub(crate) fn defer(&self) {
        self.is_deferred.store(true, Ordering::Relaxed);
    }

    /// Asks the client for the folders that it works in. Call it before any change: by the revision 2026-07-28
    /// the client sends the whole call again with the answer, and this call is dropped here.
    pub async fn roots(&self) -> ClientRoots {
        self.roots.ask().await
    }
}

/// Receiver of a call's progress. Clones report for the same call.
#[derive(Clone, Debug)]
pub struct CallProgress(watch::Sender<String>);

impl Default for CallProgress {
    fn default() -> Self {
        Self(watch::Sender::new(String::new()))
    }
}

impl CallProgress {
    /// Says what the call is at, in one line for a person. Only the last line counts: what comes quickly is not all sent.
    pub fn say(&self, line: impl Into<String>) {
        self.0.send_replace(line.into());
    }

    /// Returns the last progress line, and a way to wait for the next.
    pub(crate) fn lines(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }
}
