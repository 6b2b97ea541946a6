//! How a process ended, and what it left.

use std::time::Duration;

use crate::process_tree::LiveProcess;

/// How one process ended. By the time this is known its whole tree is gone, but for the
/// [`survivors`](Self::survivors).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exit {
    /// What the system reported.
    pub status: ExitStatus,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// Whether the child's output was abandoned because something else still held it open when
    /// the grace was over.
    pub output_held_open: bool,
    /// Descendants that were still alive when the child had ended, and were then killed.
    pub left_behind: Vec<LiveProcess>,
    /// Processes of this run that outlived even SIGKILL. Empty unless the system is in trouble.
    pub survivors: Vec<LiveProcess>,
    /// From spawn to the end.
    pub elapsed: Duration,
}

/// What the system reported about the child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It died by this signal.
    Signal(i32),
    /// The system gave no status: the child cannot be killed, or the host lets nobody wait
    /// (`SIGCHLD` ignored).
    Unknown,
}

/// Who ended a process.
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
    /// What watches a program in a [sandbox](crate::sandbox): a limit on what it uses was reached.
    Watch,
    /// The handle was dropped.
    Drop,
}

impl ExitStatus {
    /// Whether it exited with code 0. One witness among several: never a verdict on its own.
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
