//! End of a process, and the descendants that it left.

use std::time::Duration;

use crate::process_tree::LiveProcess;

/// End of one process. By the time it is known, the whole tree has ended, except the [`survivors`](Self::survivors).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// Status that the system reported.
    pub status: ExitStatus,
    /// Cause of its end.
    pub ended_by: EndedBy,
    /// True if another process still had the child's output open at the end of the grace time, so reading was
    /// abandoned.
    pub output_held_open: bool,
    /// Descendants that were still alive when the child had ended, and were then killed.
    pub left_behind: Vec<LiveProcess>,
    /// Processes of this run that outlived even SIGKILL. Empty unless the system is in trouble.
    pub survivors: Vec<LiveProcess>,
    /// Time from spawn to the end.
    pub elapsed: Duration,
}

/// The system's report on the child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The child exited with this code.
    Code(i32),
    /// This signal killed the child.
    Signal(i32),
    /// The system gave no status: the child cannot be killed, or the host ignores `SIGCHLD` and so cannot wait for
    /// children.
    Unknown,
}

/// Cause of a process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// The child itself, or a signal from another program.
    Itself,
    /// A call of [`Process::stop`](super::Process::stop).
    Stop,
    /// The time limit of the invocation.
    TimeLimit,
    /// The limit on the output of a program in a [sandbox](crate::sandbox).
    OutputLimit,
    /// The watchdog of a [sandbox](crate::sandbox), because a resource limit was reached.
    Watch,
    /// The drop of the handle.
    Drop,
}

impl ExitStatus {
    /// Returns true if the child exited with code 0. This alone does not prove success.
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
