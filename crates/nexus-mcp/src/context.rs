//! Context of a call: progress, cancellation and roots.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nexus_core::CancelToken;
use tokio::sync::watch;

use super::roots::{ClientRoots, RootsSource};

/// Context of a call: progress, cancellation and roots.
#[derive(Clone, Debug)]
pub struct CallContext {
    progress: CallProgress,
    cancel: CancelToken,
    roots: RootsSource,
    is_deferred: Arc<AtomicBool>,
}

impl CallContext {
    /// Creates the context of a call without a waiting client. It discards progress and has no roots.
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

    /// Returns the token that is cancelled once the client no longer awaits the answer: it cancelled the call, or left,
    /// or the server ends. The call itself may continue.
    pub fn cancelled(&self) -> &CancelToken {
        &self.cancel
    }

    /// Returns true if the client got a protocol task and fetches the answer later. The call may then wait as long as
    /// necessary. The value can become true while the call runs.
    pub fn is_deferred(&self) -> bool {
        self.is_deferred.load(Ordering::Relaxed)
    }

    pub(crate) fn defer(&self) {
        self.is_deferred.store(true, Ordering::Relaxed);
    }

    /// Requests the folders that the client works in. Call it before any change. In the revision 2026-07-28 the client
    /// sends the whole call again with the roots, and this call is dropped here.
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
    /// Reports the present step of the call, in one line for a person. Of lines in quick succession only the last one is
    /// sent.
    pub fn say(&self, line: impl Into<String>) {
        self.0.send_replace(line.into());
    }

    /// Returns the last progress line, and a way to wait for the next.
    pub(crate) fn lines(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }
}
