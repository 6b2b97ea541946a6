//! Why a call on tasks failed, in words that say what to call instead.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a call failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskErrorKind {
    /// There is no task with this id.
    UnknownTask,
    /// An argument is not one of those that are taken.
    InvalidArgument,
    /// The task is in a status in which this cannot be done.
    WrongStatus,
    /// The project is outside of the folders in which tasks may be made.
    OutsideRoots,
    /// The project cannot be worked on: it is no folder, inside of a repository, or not whole.
    NotAProject,
    /// A program that tasks need is missing or too old: git, or the sandbox.
    MissingProgram,
    /// The configuration binds nobody to a part of the work.
    NotConfigured,
    /// The name is taken, reserved, or used by something else.
    NameTaken,
    /// Another process is at work on the task.
    InUse,
    /// A file of the task was changed by hand, or belongs to another version. Nothing was written.
    Damaged,
    /// The disk is full. Nothing is lost.
    NoSpace,
    /// The operating system does not allow it.
    PermissionDenied,
    /// The task was cancelled, or the server ends, while the call waited.
    Interrupted,
    /// Another failure of files, git or the system.
    Failed,
}

/// Why a call failed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskError {
    /// What kind of failure it is.
    pub kind: TaskErrorKind,
    /// What failed, and where.
    pub message: String,
    /// What to do or to call instead.
    pub instead: String,
}

impl TaskError {
    /// A failure of this kind.
    pub fn new(kind: TaskErrorKind, message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { kind, message: message.into(), instead: instead.into() }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.instead)
    }
}

impl std::error::Error for TaskError {}
