//! Errors of projects, with advice.

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProjectErrorKind {
    /// An argument is invalid.
    InvalidArgument,
    /// The name or number does not exist.
    Unknown,
    /// The present state does not allow the call.
    WrongState,
    /// A file is not in the format of this program, or belongs to a newer version. Nothing was written.
    Damaged,
    /// Another process is writing.
    InUse,
    /// The disk is full. Nothing was lost.
    NoSpace,
    /// The operating system does not allow the access.
    PermissionDenied,
    /// Another failure of files or the system.
    Failed,
}

/// Failure of a call on a project.
pub type ProjectError = ServiceError<ProjectErrorKind>;

impl ServiceErrorKind for ProjectErrorKind {
    const RETRY: &'static str = "make the same call again now";
    const FIND: &'static str = "choose an item that exists in the project";
    const RESTORE: &'static str = "correct the file or move it away; it was not changed";

    fn of(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Invalid => Self::InvalidArgument,
            ServiceFault::Unknown => Self::Unknown,
            ServiceFault::WrongStatus => Self::WrongState,
            ServiceFault::InUse => Self::InUse,
            ServiceFault::Damaged => Self::Damaged,
            ServiceFault::NoSpace => Self::NoSpace,
            ServiceFault::PermissionDenied => Self::PermissionDenied,
            ServiceFault::Interrupted | ServiceFault::Failed => Self::Failed,
        }
    }
}
