//! Result of a program in a sandbox: exit and output.

use std::time::Duration;

use super::limits::{LimitedBy, SandboxLimit};
use crate::containment::Containment;
use crate::process_tree::LiveProcess;
use crate::spawn::{ExitStatus, KeptOutput};

/// Result of one program. By the time it is known, all descendants of the program are gone, except the
/// [`survivors`](Self::survivors).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SandboxOutcome {
    /// Reason of the end.
    pub end: SandboxEnd,
    /// Exit code or signal of the program. A code of 128 and more may denote a signal of a process that a shell had
    /// started. [`ExitStatus::Signal`] of 9 if Nexus ended the program.
    pub status: ExitStatus,
    /// Standard output: [`SandboxLimits::kept_bytes`](super::SandboxLimits::kept_bytes), from its beginning and its
    /// end.
    pub stdout: KeptOutput,
    /// Standard error, stored in the same way.
    pub stderr: KeptOutput,
    /// Time from the start of the sandbox to the end of its last process.
    pub elapsed: Duration,
    /// Containment of the processes around the sandbox's own namespace.
    pub containment: Containment,
    /// Mechanism that enforced the limits on processes, memory and processor time.
    pub limited_by: LimitedBy,
    /// Processes that outlived even SIGKILL. Empty unless the system is in trouble.
    pub survivors: Vec<LiveProcess>,
}

impl SandboxOutcome {
    /// Returns true if the program ended on its own with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.end == SandboxEnd::Exited && self.status.is_success()
    }
}

/// Reason why a program in a sandbox ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxEnd {
    /// The program exited, or a process inside sent it a signal.
    Exited,
    /// The program reached a limit.
    Limit(SandboxLimit),
    /// The command's token was cancelled.
    Cancelled,
}
