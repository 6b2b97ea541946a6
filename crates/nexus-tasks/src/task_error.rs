//! Errors of calls on tasks, with the advice what to call next.

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_trees::{TreeErrorKind, TreeServiceErrorKind};
use serde::{Deserialize, Serialize};

/// Kind of a failed call, named for the caller's next action.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskErrorKind {
    /// No task has this id.
    UnknownTask,
    /// An argument is invalid.
    InvalidArgument,
    /// The status of the task does not allow this call.
    WrongStatus,
    /// The project is outside of the folders in which tasks may be created.
    OutsideRoots,
    /// The project cannot be worked on: it is not a folder, lies inside a repository, or is incomplete.
    NotAProject,
    /// The project is larger than may be read without asking the person.
    NeedsConsent,
    /// A program that tasks need is missing or too old: git, or the sandbox.
    MissingProgram,
    /// The configuration binds no backend to a part of the work.
    NotConfigured,
    /// The name is taken, reserved, or used by another type or tier.
    NameTaken,
    /// Another process works on the task.
    InUse,
    /// A file of the task was changed by hand, or belongs to another version. Nothing was written.
    Damaged,
    /// The disk is full. Nothing is lost.
    NoSpace,
    /// The operating system does not allow it.
    PermissionDenied,
    /// The task was cancelled, or the server stopped, while the call waited.
    Interrupted,
    /// Another failure of files, git or the system.
    Failed,
}

/// Failure of a call on tasks.
pub type TaskError = ServiceError<TaskErrorKind>;

impl ServiceErrorKind for TaskErrorKind {
    const FIND: &'static str = "call task_list to find the id of the task";
    const RESTORE: &'static str =
        "restore the file, or create a new task with task_create; nothing was changed";

    fn of(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Invalid => Self::InvalidArgument,
            ServiceFault::Unknown => Self::UnknownTask,
            ServiceFault::WrongStatus => Self::WrongStatus,
            ServiceFault::InUse => Self::InUse,
            ServiceFault::Damaged => Self::Damaged,
            ServiceFault::NoSpace => Self::NoSpace,
            ServiceFault::PermissionDenied => Self::PermissionDenied,
            ServiceFault::Interrupted => Self::Interrupted,
            ServiceFault::Failed => Self::Failed,
        }
    }
}

impl TreeServiceErrorKind for TaskErrorKind {
    fn of_tree(kind: TreeErrorKind) -> Option<(Self, &'static str)> {
        use TreeErrorKind as Kind;
        Some(match kind {
            Kind::GitMissing | Kind::GitTooOld => {
                (Self::MissingProgram, "install git 2.32 or newer, then make the same call again")
            }
            Kind::NotAProject => {
                (Self::NotAProject, "name the top folder of a repository, or a folder outside any repository")
            }
            Kind::MissingObject => {
                (Self::NotAProject, "fetch what is missing, then make the same call again")
            }
            Kind::NeedsConsent => (
                Self::NeedsConsent,
                "name a smaller folder, ignore large files, or ask the person and set `allow_large`",
            ),
            Kind::TooLarge => (Self::NotAProject, "name a smaller project, or commit less to it"),
            Kind::RefMoved => (Self::InUse, "call task_status, and continue with its answer"),
            _ => return None,
        })
    }
}
