//! Why a workspace could not be used, named for what the caller can do next.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::FileFault;

/// Why a workspace could not be used, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkspaceErrorKind {
    /// There is nothing at the path. Check the id and the place.
    NotFound,
    /// There is something at the path already. Take another id, or open what is there.
    AlreadyExists,
    /// The folder is not a workspace. Name another folder, or move it away.
    NotAWorkspace,
    /// It is a workspace of another owner's kind. Open it as what it is, or name another.
    OtherKind,
    /// A newer Nexus wrote it, in a version that this one does not know. Update this one.
    NewerVersion {
        /// The version of the file.
        found: u64,
    },
    /// The content of the file was changed. Correct it there, or restore a copy.
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in bytes.
        column: usize,
    },
    /// Another writer did not end in time. Try again.
    InUse,
    /// The new content is too large, or could not be read back. Nothing was written.
    Unwritable,
    /// The disk, or the share of it that the user has, is full. Free some space. What was there is unchanged.
    NoSpace,
    /// The operating system does not allow it. See to the rights of the file and of its folder.
    PermissionDenied,
    /// The operating system reports another failure, which is the source. What was to be written may be there.
    Io,
}

/// A workspace that could not be used: kind of failure, file, and advice.
#[derive(Debug)]
pub struct WorkspaceError {
    kind: WorkspaceErrorKind,
    path: PathBuf,
    reason: String,
    source: Option<io::Error>,
}

impl WorkspaceError {
    /// `reason` goes on after the path: "is not a workspace: ...".
    pub(super) fn new(kind: WorkspaceErrorKind, path: &Path, reason: impl Into<String>) -> Self {
        Self { kind, path: path.to_owned(), reason: reason.into(), source: None }
    }

    /// Error of the operating system. `what` continues the path: "cannot be written".
    pub(super) fn from_io(path: &Path, what: &str, source: io::Error) -> Self {
        let fault = FileFault::of(&source);
        let kind = match fault {
            FileFault::NotFound => WorkspaceErrorKind::NotFound,
            FileFault::AlreadyExists => WorkspaceErrorKind::AlreadyExists,
            FileFault::NotAllowed | FileFault::ReadOnly => WorkspaceErrorKind::PermissionDenied,
            FileFault::DiskFull | FileFault::QuotaReached => WorkspaceErrorKind::NoSpace,
            FileFault::Unexpected | FileFault::Other => WorkspaceErrorKind::Io,
        };
        let explanation = match fault {
            // The caller says what else is at the path.
            FileFault::Unexpected => "",
            fault => fault.explanation(),
        };
        let separator = if explanation.is_empty() { "" } else { ": " };
        let reason = format!("{what}{separator}{explanation}");
        Self { kind, path: path.to_owned(), reason, source: Some(source) }
    }

    /// Kind of the failure.
    pub fn kind(&self) -> WorkspaceErrorKind {
        self.kind
    }

    /// The file or the folder in question.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.reason)
    }
}

impl Error for WorkspaceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl<K: ServiceErrorKind> From<WorkspaceError> for ServiceError<K> {
    fn from(error: WorkspaceError) -> Self {
        use WorkspaceErrorKind as Kind;
        let fault = match error.kind {
            Kind::NotFound => ServiceFault::Unknown,
            Kind::NotAWorkspace | Kind::OtherKind | Kind::Malformed { .. } | Kind::NewerVersion { .. } => {
                ServiceFault::Damaged
            }
            Kind::InUse => ServiceFault::InUse,
            Kind::NoSpace => ServiceFault::NoSpace,
            Kind::PermissionDenied => ServiceFault::PermissionDenied,
            Kind::AlreadyExists | Kind::Unwritable | Kind::Io => ServiceFault::Failed,
        };
        let mut failure = Self::with_causes(fault, &error);
        if let Kind::NewerVersion { .. } = error.kind {
            "update this Nexus; nothing was changed".clone_into(&mut failure.advice);
        }
        failure
    }
}
