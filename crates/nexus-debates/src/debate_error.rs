//! Why a call on debates failed, in words that say what to call instead.

use std::{error::Error as _, fmt, io, path::Path};

use nexus_mcp::jobs::JobFault;
use nexus_tasks::TaskError;
use nexus_work::{WorkspaceError, WorkspaceErrorKind};

/// Why a call failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebateErrorKind {
    /// There is no debate with this id.
    UnknownDebate,
    /// An argument is not one of those that are taken.
    InvalidArgument,
    /// The debate is in a status in which this cannot be done.
    WrongStatus,
    /// A source is outside of the folders that may be read.
    OutsideRoots,
    /// The configuration binds nobody to a part of the work.
    NotConfigured,
    /// Agents came to nothing that counts. The same stage can be run again.
    StageFailed,
    /// Another process is at work on the debate.
    InUse,
    /// A file of the debate was changed by hand, or belongs to another version. Nothing was written.
    Damaged,
    /// The disk is full. Stages that were run are not lost.
    NoSpace,
    /// The operating system does not allow it.
    PermissionDenied,
    /// The debate was cancelled, or the server ends, while the call waited.
    Interrupted,
    /// A call on tasks failed; or another failure of files or the system.
    Failed,
}

/// Why a call failed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebateError {
    /// What kind of failure it is.
    pub kind: DebateErrorKind,
    /// What failed, and where.
    pub message: String,
    /// What to do or to call instead.
    pub instead: String,
}

impl DebateError {
    /// A failure of this kind.
    pub fn new(kind: DebateErrorKind, message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { kind, message: message.into(), instead: instead.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::new(DebateErrorKind::InvalidArgument, message, instead)
    }

    /// A file of a debate is not what was written there.
    pub(crate) fn damaged(path: &Path, reason: &str) -> Self {
        let message = format!("{path:?} is not what was written there: {reason}");
        let instead =
            "put the file back as it was, or begin another debate by debate_create; nothing was changed";
        Self::new(DebateErrorKind::Damaged, message, instead)
    }

    /// A file or folder of a debate cannot be used.
    pub(crate) fn unusable(path: &Path, error: &io::Error) -> Self {
        let (kind, instead) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (DebateErrorKind::NoSpace, "free some space on the disk, then make the same call again")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
                DebateErrorKind::PermissionDenied,
                "see to the rights of the file, then make the same call again",
            ),
            io::ErrorKind::InvalidData => return Self::damaged(path, &error.to_string()),
            _ => (DebateErrorKind::Failed, "see to the file, then make the same call again"),
        };
        Self::new(kind, format!("{path:?} cannot be used: {error}"), instead)
    }
}

impl fmt::Display for DebateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.instead)
    }
}

impl std::error::Error for DebateError {}

impl From<JobFault> for DebateError {
    fn from(fault: JobFault) -> Self {
        let (kind, instead) = match &fault {
            JobFault::Closed => {
                (DebateErrorKind::Interrupted, "start it anew, then make the same call again")
            }
            JobFault::CutOff => (DebateErrorKind::Interrupted, "make the same call again"),
            _ => (DebateErrorKind::Failed, "make the same call again, and report this"),
        };
        Self::new(kind, fault.to_string(), instead)
    }
}

impl From<TaskError> for DebateError {
    fn from(error: TaskError) -> Self {
        Self::new(DebateErrorKind::Failed, error.message, error.instead)
    }
}

impl From<WorkspaceError> for DebateError {
    fn from(error: WorkspaceError) -> Self {
        use WorkspaceErrorKind as Kind;
        let (kind, instead) = match error.kind() {
            Kind::NotFound => {
                (DebateErrorKind::UnknownDebate, "call debate_list, which has the ids of all debates")
            }
            Kind::NotAWorkspace | Kind::OtherKind | Kind::Malformed { .. } => (
                DebateErrorKind::Damaged,
                "name a debate of debate_list, or put the file back as it was; nothing was changed",
            ),
            Kind::NewerVersion { .. } => (DebateErrorKind::Damaged, "update this Nexus; nothing was changed"),
            Kind::InUse => (DebateErrorKind::InUse, "make the same call again"),
            Kind::NoSpace => {
                (DebateErrorKind::NoSpace, "free some space on the disk, then make the same call again")
            }
            Kind::PermissionDenied => (
                DebateErrorKind::PermissionDenied,
                "see to the rights of the file, then make the same call again",
            ),
            _ => (DebateErrorKind::Failed, "see to the file, then make the same call again"),
        };
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self::new(kind, message, instead)
    }
}
