//! Errors of the testbed.

use std::{io, path::PathBuf};

use nexus_core::LostWork;
use nexus_tasks::{CheckError, TaskError};
use nexus_trees::{TreeError, TreeErrorKind};
use nexus_work::DraftError;

use crate::trap_error::TrapError;

/// Error of the testbed. A reviewer that accepts the wrong answer is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// A trap cannot be used.
    #[error(transparent)]
    Trap(#[from] TrapError),
    /// The tests, a probe or the ground truth of a trap could not run. For a missing sandbox, the error has the command that
    /// installs one.
    #[error("{what}")]
    Check {
        /// Program that could not run.
        what: String,
        /// Reason why it could not run.
        #[source]
        source: CheckError,
    },
    /// The files of a trap could not be written.
    #[error("the files of a trap cannot be written")]
    Tree(#[source] TreeError),
    /// The brief or the handoff of a trap is invalid, by the rules for agents.
    #[error("{place} is refused")]
    Draft {
        /// Name of the draft.
        place: String,
        /// All faults of the draft.
        #[source]
        source: DraftError,
    },
    /// An arm cannot be used.
    #[error("the arm {arm:?}: {problem}")]
    Arm {
        /// Name of the arm.
        arm: String,
        /// Problem of the configuration.
        problem: String,
    },
    /// An experiment cannot begin or continue.
    #[error("{}: {problem}", path.display())]
    Experiment {
        /// Path of the folder, or of the file in it.
        path: PathBuf,
        /// Problem, with advice.
        problem: String,
    },
    /// A task of a whole-task run failed.
    #[error("the task could not be run")]
    Task(#[source] Box<TaskError>),
    /// A file or folder could not be read or written.
    #[error("{} cannot be used", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A run was impossible on this machine, for example because the disk is full. It is not a result of its arm.
    #[error("the run cannot be started here: {reason}")]
    Run {
        /// Reason.
        reason: String,
    },
    /// The caller cancelled. Finished runs are stored.
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
