//! Why a call on tasks failed, in words that say what to call instead.

use std::{error::Error as _, fmt};

use nexus_mcp::jobs::JobFault;
use nexus_trees::{TreeError, TreeErrorKind};
use nexus_work::{WorkspaceError, WorkspaceErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::CheckError;

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
    /// More of the project is to be read than was allowed without asking.
    NeedsConsent,
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

impl From<WorkspaceError> for TaskError {
    fn from(error: WorkspaceError) -> Self {
        use WorkspaceErrorKind as Kind;
        let (kind, instead) = match error.kind() {
            Kind::NotFound => (TaskErrorKind::UnknownTask, "call task_list, which has the ids of all tasks"),
            Kind::NotAWorkspace | Kind::OtherKind | Kind::Malformed { .. } => (
                TaskErrorKind::Damaged,
                "put the file back as it was, or create the task anew by task_create; nothing was changed",
            ),
            Kind::NewerVersion { .. } => (TaskErrorKind::Damaged, "update this Nexus; nothing was changed"),
            Kind::InUse => (TaskErrorKind::InUse, "make the same call again"),
            Kind::NoSpace => {
                (TaskErrorKind::NoSpace, "free some space on the disk, then make the same call again")
            }
            Kind::PermissionDenied => (
                TaskErrorKind::PermissionDenied,
                "see to the rights of the file, then make the same call again",
            ),
            _ => (TaskErrorKind::Failed, "see to the file, then make the same call again"),
        };
        Self::new(kind, with_cause(&error.to_string(), error.source()), instead)
    }
}

impl From<TreeError> for TaskError {
    fn from(error: TreeError) -> Self {
        use TreeErrorKind as Kind;
        let (kind, instead) = match error.kind() {
            Kind::GitMissing | Kind::GitTooOld => {
                (TaskErrorKind::MissingProgram, "install git 2.32 or newer, then make the same call again")
            }
            Kind::NotAProject => {
                (TaskErrorKind::NotAProject, "name the top of a repository, or a folder that is in none")
            }
            Kind::MissingObject => {
                (TaskErrorKind::NotAProject, "fetch what is missing, then make the same call again")
            }
            Kind::NeedsConsent => {
                (TaskErrorKind::NeedsConsent, "name a smaller folder, ignore what is large, or allow it")
            }
            Kind::TooLarge => (TaskErrorKind::NotAProject, "name a smaller project, or commit less to it"),
            Kind::Malformed => (
                TaskErrorKind::Damaged,
                "put the file back as it was, or create the task anew by task_create; nothing was changed",
            ),
            Kind::InUse | Kind::Changed => (TaskErrorKind::InUse, "make the same call again"),
            Kind::RefMoved => (TaskErrorKind::InUse, "call task_status, and go on from what it says"),
            Kind::Cancelled => (TaskErrorKind::Interrupted, "make the same call again"),
            Kind::NoSpace => {
                (TaskErrorKind::NoSpace, "free some space on the disk, then make the same call again")
            }
            Kind::PermissionDenied => (
                TaskErrorKind::PermissionDenied,
                "see to the rights of the file, then make the same call again",
            ),
            _ => (TaskErrorKind::Failed, "see to it, then make the same call again"),
        };
        Self::new(kind, with_cause(&error.to_string(), error.source()), instead)
    }
}

/// A message with all that is behind it.
fn with_cause(message: &str, mut cause: Option<&(dyn std::error::Error + 'static)>) -> String {
    let mut text = message.to_owned();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl From<JobFault> for TaskError {
    fn from(fault: JobFault) -> Self {
        let (kind, instead) = match &fault {
            JobFault::Closed => (TaskErrorKind::Interrupted, "start it anew, then make the same call again"),
            JobFault::CutOff => (TaskErrorKind::Interrupted, "make the same call again"),
            _ => (TaskErrorKind::Failed, "make the same call again, and report this"),
        };
        Self::new(kind, fault.to_string(), instead)
    }
}

impl From<CheckError> for TaskError {
    fn from(error: CheckError) -> Self {
        let (kind, instead) = match &error {
            CheckError::NoSandbox { .. } => {
                (TaskErrorKind::MissingProgram, "install it, then make the same call again")
            }
            CheckError::Settings { .. } | CheckError::Refused(_) | CheckError::NoTestCommand => (
                TaskErrorKind::InvalidArgument,
                "mend the argument of task_create, or the setting in nexus.yaml",
            ),
            CheckError::NoSuchProbe { .. } => (TaskErrorKind::InvalidArgument, "name one that was run"),
            CheckError::Malformed { .. } => (TaskErrorKind::Damaged, "put the file back as it was"),
            CheckError::NoSpace { .. } => (TaskErrorKind::NoSpace, "then make the same call again"),
            CheckError::Cancelled => (TaskErrorKind::Interrupted, "make the same call again"),
            _ => (TaskErrorKind::Failed, "see to it, then make the same call again"),
        };
        Self::new(kind, error.to_string(), instead)
    }
}
