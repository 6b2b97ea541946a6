//! Errors of calls on debates, with advice.

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebateErrorKind {
    /// No debate has this id.
    UnknownDebate,
    /// An argument is invalid.
    InvalidArgument,
    /// The status of the debate does not allow the call.
    WrongStatus,
    /// A source is outside of the allowed folders.
    OutsideRoots,
    /// The configuration binds no backend to a part of the work.
    NotConfigured,
    /// The agents of a stage failed. The stage can be run again.
    StageFailed,
    /// Another process works on the debate.
    InUse,
    /// A file of the debate was changed from outside, or belongs to another version. Nothing was written.
    Damaged,
    /// The disk is full. The records of finished stages are intact.
    NoSpace,
    /// The operating system does not allow the access.
    PermissionDenied,
    /// The debate was cancelled, or the server ended, during the call.
    Interrupted,
    /// A call on tasks failed; or another failure of files or the system.
    Failed,
}

/// Failure of a call on debates.
pub type DebateError = ServiceError<DebateErrorKind>;

impl ServiceErrorKind for DebateErrorKind {
    const FIND: &'static str = "call debate_list to find the id of the debate";
    const RESTORE: &'static str =
        "restore the file, or create another debate with debate_create; nothing was changed";

    fn of(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Invalid => Self::InvalidArgument,
            ServiceFault::Unknown => Self::UnknownDebate,
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
