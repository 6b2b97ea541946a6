//! The steps by which a process is stopped: politely, by SIGTERM, by SIGKILL.

use std::time::Duration;

use bytes::Bytes;

/// Steps to stop a process: the vendor's polite steps, then SIGTERM to every descendant, then SIGKILL to every
/// descendant until none is left.
///
/// Lines continue to arrive meanwhile, and are worth reading: some CLIs write their last record after a polite
/// request.
#[derive(Clone, Debug)]
pub struct Stop {
    pub(super) polite: Vec<(Polite, Duration)>,
    pub(super) terminate: Duration,
    pub(super) kill: Duration,
}

/// One polite way to ask a CLI to end. Which one leaves nothing behind is the vendor's matter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Polite {
    /// SIGINT to the child, and to the child alone. A host that ignores it, as one does that a script began with `&`, passes that on: a
    /// program that sets no handler of its own does not notice.
    Interrupt,
    /// Bytes on its standard input, such as a control message.
    Write(Bytes),
    /// The end of its standard input.
    CloseStdin,
}

impl Stop {
    /// No polite step; half a second for SIGTERM to work, and five for SIGKILL: on a busy machine a killed process takes
    /// a while to be gone.
    #[must_use]
    pub fn new() -> Self {
        Self { polite: Vec::new(), terminate: Duration::from_millis(500), kill: Duration::from_secs(5) }
    }

    /// Adds a polite step, and how long the child may take to end after it.
    #[must_use]
    pub fn politely(mut self, step: Polite, grace: Duration) -> Self {
        self.polite.push((step, grace));
        self
    }

    /// Sets the time that the descendants have to end after SIGTERM. Zero sends SIGKILL at once.
    #[must_use]
    pub fn terminate_grace(mut self, grace: Duration) -> Self {
        self.terminate = grace;
        self
    }

    /// Sets the time for killing. Processes that are left afterwards are reported as survivors.
    #[must_use]
    pub fn kill_grace(mut self, grace: Duration) -> Self {
        self.kill = grace;
        self
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
