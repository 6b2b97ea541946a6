//! Why something of the testbed could not be done.

use std::{io, path::PathBuf};

use nexus_core::LostWork;
use nexus_tasks::{CheckError, TaskError};
use nexus_trees::{TreeError, TreeErrorKind};
use nexus_work::DraftError;

use crate::trap_error::TrapError;

/// Error of the testbed. A reviewer that lets the wrong answer pass is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A trap cannot be used.
    #[error(transparent)]
    Trap(#[from] TrapError),
    /// The tests, a probe or the ground truth of a trap could not be run; without a sandbox, with the command that installs one.
    #[error("{what}")]
    Check {
        /// Program that could not run.
        what: String,
        /// Why it was not.
        #[source]
        source: CheckError,
    },
    /// The files of a trap could not be written.
    #[error("the files of a trap cannot be written")]
    Tree(#[source] TreeError),
    /// The brief or the handoff of a trap is refused, as an agent's would be.
    #[error("{place} is refused")]
    Draft {
        /// Which.
        place: String,
        /// Everything that is wrong with it.
        #[source]
        source: DraftError,
    },
    /// An arm cannot be used.
    #[error("the arm {arm:?}: {problem}")]
    Arm {
        /// Its name.
        arm: String,
        /// Problem of the configuration.
        problem: String,
    },
    /// An experiment cannot be begun, or gone on with.
    #[error("{}: {problem}", path.display())]
    Experiment {
        /// Its folder, or the file in it.
        path: PathBuf,
        /// Problem, with advice.
        problem: String,
    },
    /// A task could not be walked.
    #[error("the task could not be run")]
    Task(#[source] Box<TaskError>),
    /// A file or folder could not be read or written.
    #[error("{} cannot be used", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A run could not be made on this machine, for example because the disk is full. That is not a result of
    /// its arm.
    #[error("the run cannot be started here: {reason}")]
    Run {
        /// Why not.
        reason: String,
    },
    /// The caller cancelled. What was finished before is kept.
    #[error("cancelled")]
    Cancelled,
}

impl TestbedError {
    pub(crate) fn check(what: impl Into<String>, source: CheckError) -> Self {
        match source {
            CheckError::Cancelled => Self::Cancelled,
            source => Self::Check { what: what.into(), source },
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

impl From<TreeError> for TestbedError {
    fn from(error: TreeError) -> Self {
        match error.kind() {
            TreeErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Tree(error),
        }
    }
}

impl From<LostWork> for TestbedError {
    fn from(_: LostWork) -> Self {
        Self::Cancelled
    }
}
