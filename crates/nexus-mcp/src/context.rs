//! What a call is told beside its arguments.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nexus_core::CancelToken;
use tokio::sync::watch;

use super::roots::{ClientRoots, RootsSource};

/// What a call is told beside its arguments.
#[derive(Clone, Debug)]
pub struct CallContext {
    progress: CallProgress,
    cancel: CancelToken,
    roots: RootsSource,
    is_deferred: Arc<AtomicBool>,
}

impl CallContext {
    /// Of a call that no client waits for: nobody is told of its progress, and it has no roots.
    pub fn unattended() -> Self {
        Self::new(CallProgress::default(), CancelToken::new(), RootsSource::None)
    }

    pub(crate) fn new(progress: CallProgress, cancel: CancelToken, roots: RootsSource) -> Self {
        Self { progress, cancel, roots, is_deferred: Arc::default() }
    }

    /// Where to say what the call is at.
    pub fn progress(&self) -> &CallProgress {
        &self.progress
    }

    /// Cancelled once nobody waits for the answer any more: the client cancelled the call, or left, or the server ends. What
    /// the call began may go on.
    pub fn cancelled(&self) -> &CancelToken {
        &self.cancel
    }

    /// Whether the client has been answered with a protocol task and fetches the answer later: a call that waits for something
    /// may then wait for as long as it takes. It can become true while the call runs.
    pub fn is_deferred(&self) -> bool {
        self.is_deferred.load(Ordering::Relaxed)
    }

    pub(crate) fn defer(&self) {
        self.is_deferred.store(true, Ordering::Relaxed);
    }

    /// The folders that the client works in, asked of it now. Ask before anything is changed: by the revision 2026-07-28 the
    /// client sends the whole call again with the answer, and this call is dropped here.
    pub async fn roots(&self) -> ClientRoots {
        self.roots.ask().await
    }
}

/// Where a call says what it is at. Clones say it for the same call.
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

    /// The last line that was said, and a way to wait for the next.
    pub(crate) fn lines(&self) -> watch::Receiver<String> {
        self.0.subscribe()
    }
}
