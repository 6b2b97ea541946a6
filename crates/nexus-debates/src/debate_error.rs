//! Why a call on debates failed, in words that say what to call instead.

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};

/// Why a call failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebateErrorKind {
    /// No debate has this id.
    UnknownDebate,
    /// An argument has a value that is not accepted.
    InvalidArgument,
    /// The debate is in a status in which this cannot be done.
    WrongStatus,
    /// A source is outside of the folders that may be read.
    OutsideRoots,
    /// The configuration binds no backend to a part of the work.
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
