//! Errors of workspaces, named for what the caller can do next.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::FileFault;

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkspaceErrorKind {
    /// Nothing exists at the path. Check the id and the folder.
    NotFound,
    /// Something exists at the path already. Choose another id, or open the existing workspace.
    AlreadyExists,
    /// The folder is not a workspace. Name another folder, or move it away.
    NotAWorkspace,
    /// The workspace belongs to another kind of owner. Open it as that kind, or name another.
    OtherKind,
    /// A newer Nexus wrote the file, in a version that this one does not know. Update Nexus.
    NewerVersion {
        /// The version of the file.
        found: u64,
    },
    /// The content of the file was changed from outside. Correct it, or restore a copy.
    Malformed {
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1, in bytes.
        column: usize,
    },
    /// Another writer did not end in time. Try again.
    InUse,
    /// The new content is too large, or its JSON cannot be parsed again. Nothing was written.
    Unwritable,
    /// The disk, or the user's quota, is full. Free some space. The old content is unchanged.
    NoSpace,
    /// The operating system does not allow the access. Check the permissions of the file and its folder.
    PermissionDenied,
    /// The operating system reported another failure, which is the `source`. The new content may have been written.
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
    /// Creates an error. `reason` continues the sentence after the path: "is not a workspace: ...".
    pub(super) fn new(kind: WorkspaceErrorKind, path: &Path, reason: impl Into<String>) -> Self {
        Self { kind, path: path.to_owned(), reason: reason.into(), source: None }
    }

    /// Creates an error of the operating system. `what` continues the sentence after the path: "cannot be written".
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
            // The caller of this function adds what is at the path.
            FileFault::Unexpected => "",
            fault => fault.explanation(),
        };
        let separator = if explanation.is_empty() { "" } else { ": " };
        let reason = format!("{what}{separator}{explanation}");
        Self { kind, path: path.to_owned(), reason, source: Some(source) }
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> WorkspaceErrorKind {
        self.kind
    }

    /// Returns the file or folder of the failure.
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
