//! Why something of a project could not be read or changed, in words that say what to do instead.

use std::{fmt, io, path::Path};

/// Why a call failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProjectErrorKind {
    /// An argument is not one of those that are taken.
    InvalidArgument,
    /// There is nothing by this name or number.
    Unknown,
    /// What is there does not allow this now.
    WrongState,
    /// A file is not what this program writes there, or belongs to a newer version. Nothing was written.
    Damaged,
    /// Another process is writing.
    InUse,
    /// The disk is full. Nothing was lost.
    NoSpace,
    /// The operating system does not allow it.
    PermissionDenied,
    /// Another failure of files or the system.
    Failed,
}

/// Why a call failed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectError {
    /// What kind of failure it is.
    pub kind: ProjectErrorKind,
    /// What failed, and where.
    pub message: String,
    /// What to do or to call instead.
    pub instead: String,
}

impl ProjectError {
    /// A failure of this kind.
    pub fn new(kind: ProjectErrorKind, message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { kind, message: message.into(), instead: instead.into() }
    }

    /// An argument is not accepted.
    pub fn invalid(message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::new(ProjectErrorKind::InvalidArgument, message, instead)
    }

    /// There is nothing by this name or number.
    pub fn unknown(message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::new(ProjectErrorKind::Unknown, message, instead)
    }

    /// The present state does not allow the call.
    pub fn wrong_state(message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::new(ProjectErrorKind::WrongState, message, instead)
    }

    /// A file is not what this program writes there.
    pub fn damaged(path: &Path, reason: impl fmt::Display) -> Self {
        let message = format!("{path:?} cannot be used: {reason}");
        let instead = "mend the file or move it away; it was not changed";
        Self::new(ProjectErrorKind::Damaged, message, instead)
    }

    /// The file system refuses something about a file or folder.
    pub fn unusable(path: &Path, error: &io::Error) -> Self {
        let (kind, instead) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                (ProjectErrorKind::NoSpace, "free some space on the disk, then do the same again")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                (ProjectErrorKind::PermissionDenied, "see to the rights of the file, then do the same again")
            }
            io::ErrorKind::InvalidData => return Self::damaged(path, error),
            _ => (ProjectErrorKind::Failed, "see to the file, then do the same again"),
        };
        Self::new(kind, format!("{path:?} cannot be used: {error}"), instead)
    }
}

impl fmt::Display for ProjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.instead)
    }
}

impl std::error::Error for ProjectError {}
