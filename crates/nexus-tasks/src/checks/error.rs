//! Reasons why tests or probes did not run, or were not stored.

use std::{
    io,
    path::{Path, PathBuf},
};

use nexus_core::LostWork;
use nexus_trees::{TreeError, TreeErrorKind};
use nexus_work::DraftError;

use crate::task_error::{TaskError, TaskErrorKind};

/// Reason why tests or a probe did not run, or why its record was not stored. A program that ran and failed is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// This machine or this user has no sandbox.
    #[error(
        "no sandbox is available for the tests: {reason}; or set `sandbox: {{ kind: none }}` to run them \
        without a sandbox"
    )]
    NoSandbox {
        /// The missing part, and the command that installs it.
        reason: String,
    },
    /// The task has no test command.
    #[error("the task has no test command: name one as `test_command` when the task is created")]
    NoTestCommand,
    /// A submission breaks rules; the error lists every fault.
    #[error(transparent)]
    Refused(#[from] DraftError),
    /// A setting of the task is invalid.
    #[error("`{setting}` of the task's settings: {reason}")]
    Settings {
        /// Path of the setting: `sandbox.keep[0]`.
        setting: String,
        /// The fault, and the advice.
        reason: String,
    },
    /// No probe has this number.
    #[error("probe {number} does not exist")]
    NoSuchProbe {
        /// The number.
        number: u32,
    },
    /// The file of a stored probe was changed or damaged.
    #[error("{path:?} is not the record of a probe: {reason}; move it away")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Fault in the record.
        reason: String,
    },
    /// A tree could not be checked out or created.
    #[error("a tree for the run cannot be created: {0}")]
    Tree(#[source] TreeError),
    /// A file or folder of the task could not be read or written.
    #[error(transparent)]
    File(TaskError),
    /// The sandbox failed, or the launcher of programs without a sandbox.
    #[error("a program could not be run: {reason}")]
    Runner {
        /// Message of the failed part.
        reason: String,
        /// True if the machine lacked a resource, so that a later attempt may work.
        is_scarcity: bool,
    },
    /// The caller cancelled the call. None of its programs runs any more.
    #[error("cancelled")]
    Cancelled,
}

impl From<TreeError> for CheckError {
    fn from(error: TreeError) -> Self {
        match error.kind() {
            TreeErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Tree(error),
        }
    }
}

impl CheckError {
    /// Builds the error from a failure of the file system.
    #[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
    pub(super) fn from_io(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::File(TaskError::unusable(path.as_ref(), &source))
    }
}

impl From<LostWork> for CheckError {
    fn from(_: LostWork) -> Self {
        Self::Cancelled
    }
}

impl From<CheckError> for TaskError {
    fn from(error: CheckError) -> Self {
        let (kind, advice) = match error {
            CheckError::File(error) => return error,
            CheckError::NoSandbox { .. } => {
                (TaskErrorKind::MissingProgram, "install it, then make the same call again")
            }
            CheckError::Settings { .. } | CheckError::Refused(_) | CheckError::NoTestCommand => (
                TaskErrorKind::InvalidArgument,
                "correct the argument of task_create, or the setting in nexus.yaml",
            ),
            CheckError::NoSuchProbe { .. } => (
                TaskErrorKind::InvalidArgument,
                "write the number of a probe \
                that was run",
            ),
            CheckError::Malformed { .. } => {
                (TaskErrorKind::Damaged, "restore the file to its earlier content")
            }
            CheckError::Cancelled => (TaskErrorKind::Interrupted, "make the same call again"),
            _ => (TaskErrorKind::Failed, "correct the cause, then make the same call again"),
        };
        Self::new(kind, error.to_string(), advice)
    }
}
