//! End of a process, and the processes that it left.

use std::time::Duration;

use crate::process_tree::LiveProcess;

/// End of one process. By the time it is known, its whole tree is gone, except the
/// [`survivors`](Self::survivors).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// Status that the system reported.
    pub status: ExitStatus,
    /// Cause of its end.
    pub ended_by: EndedBy,
    /// True if another process still had the child's output open when the grace time was over, so that it was
    /// abandoned.
    pub output_held_open: bool,
    /// Descendants that were still alive when the child had ended, and were then killed.
    pub left_behind: Vec<LiveProcess>,
    /// Processes of this run that outlived even SIGKILL. Empty unless the system is in trouble.
    pub survivors: Vec<LiveProcess>,
    /// From spawn to the end.
    pub elapsed: Duration,
}

/// The system's report on the child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It died by this signal.
    Signal(i32),
    /// The system gave no status: the child cannot be killed, or the host ignores `SIGCHLD`, so that it cannot
    /// wait for children.
    Unknown,
}

/// Cause of a process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// The child, or a stranger's signal.
    Itself,
    /// [`Process::stop`](super::Process::stop).
    Stop,
    /// The invocation's time limit.
    TimeLimit,
    /// The bound on what a program in a [sandbox](crate::sandbox) may write.
    OutputLimit,
    /// The watchdog of a [sandbox](crate::sandbox): a resource limit was reached.
    Watch,
    /// The handle was dropped.
    Drop,
}

impl ExitStatus {
    /// Returns true if it exited with code 0: evidence of success, never a verdict on its own.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<std::process::ExitStatus> for ExitStatus {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}
