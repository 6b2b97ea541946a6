//! Steps to stop a process: politely, by SIGTERM, by SIGKILL.

use std::time::Duration;

use bytes::Bytes;

/// Steps to stop a process: the vendor's polite steps, then SIGTERM to every descendant, then SIGKILL to every
/// descendant until none is left.
///
/// Lines continue to arrive meanwhile, and should be read: some CLIs write their last record after a polite request.
#[derive(Clone, Debug)]
pub struct Stop {
    pub(super) polite: Vec<(Polite, Duration)>,
    pub(super) terminate: Duration,
    pub(super) kill: Duration,
}

/// Polite way to end a CLI. The vendor's folder selects a way that leaves nothing behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Polite {
    /// SIGINT, sent only to the child. A host that ignores SIGINT passes that on to the child, as does a host that a
    /// script started with `&`. Then a program without its own handler does not notice it.
    Interrupt,
    /// Bytes on standard input, such as a control message.
    Write(Bytes),
    /// The end of standard input.
    CloseStdin,
}

impl Stop {
    /// Creates a stop without polite steps. SIGTERM gets half a second to work, and SIGKILL five seconds, because a
    /// killed process takes a while to end on a busy machine.
    #[must_use]
    pub fn new() -> Self {
        Self { polite: Vec::new(), terminate: Duration::from_millis(500), kill: Duration::from_secs(5) }
    }

    /// Adds a polite step, and the time that the child has to end after it.
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

    /// Sets the time limit for killing. Processes that are left afterwards are reported as survivors.
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
