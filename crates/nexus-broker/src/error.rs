//! Errors of messages, documents and triggers.

use nexus_conversations::{ConversationError, ConversationErrorKind};
use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_trees::{TreeErrorKind, TreeServiceErrorKind};

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrokerErrorKind {
    /// An argument is invalid. Nothing was changed.
    Invalid,
    /// The name or id does not exist.
    Unknown,
    /// The scope of the sender does not allow it.
    NotAllowed,
    /// The queue of the target is full. Nothing was stored.
    QueueFull,
    /// The data was changed meanwhile, or the lease has lapsed. Nothing was changed.
    Conflict,
    /// The store cannot be reached. The call may or may not have taken effect; it is safe to repeat it.
    Unavailable,
    /// The stored data is not in the format that this version writes. Nothing was changed.
    Damaged,
    /// The disk, or the server's storage, is full. Nothing was lost.
    NoSpace,
    /// Another failure.
    Failed,
}

/// Failure of a call on the broker.
pub type BrokerError = ServiceError<BrokerErrorKind>;

impl ServiceErrorKind for BrokerErrorKind {
    const RETRY: &'static str = "try again";
    const FIND: &'static str = "name one that exists";
    const RESTORE: &'static str = "restore the file; nothing was changed";

    fn of(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Invalid => Self::Invalid,
            ServiceFault::Unknown => Self::Unknown,
            ServiceFault::WrongStatus | ServiceFault::InUse => Self::Conflict,
            ServiceFault::Damaged => Self::Damaged,
            ServiceFault::NoSpace => Self::NoSpace,
            ServiceFault::PermissionDenied | ServiceFault::Interrupted | ServiceFault::Failed => Self::Failed,
        }
    }
}

impl TreeServiceErrorKind for BrokerErrorKind {
    fn of_tree(_kind: TreeErrorKind) -> Option<(Self, &'static str)> {
        None
    }
}

/// Converts an error of a conversation to an error of the broker.
pub(crate) fn of_conversation(error: ConversationError) -> BrokerError {
    use ConversationErrorKind as Kind;
    let kind = match error.kind {
        Kind::Unknown => BrokerErrorKind::Unknown,
        Kind::NameTaken | Kind::InUse => BrokerErrorKind::Conflict,
        Kind::Damaged | Kind::NewerVersion => BrokerErrorKind::Damaged,
        Kind::NoSpace => BrokerErrorKind::NoSpace,
        Kind::InvalidName | Kind::NoSuchMessage => BrokerErrorKind::Invalid,
        _ => BrokerErrorKind::Failed,
    };
    error.with_kind(kind)
}
