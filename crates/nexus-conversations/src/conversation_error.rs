//! Why something could not be done with a conversation.

use std::path::Path;

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};

/// Why something could not be done, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConversationErrorKind {
    /// The text is not a valid name of a conversation.
    InvalidName,
    /// The conversation does not exist.
    Unknown,
    /// The name, or the same name in another case, is taken.
    NameTaken,
    /// Another thread or process has the conversation, or writes to the store, and did not let go in time.
    InUse,
    /// The conversation has no message of this number.
    NoSuchMessage,
    /// A file is not what was written there: changed, cut off, missing, or no regular file.
    Damaged,
    /// A later version of Nexus wrote a file.
    NewerVersion,
    /// The disk is full, or a quota is used up. What was stored before is whole.
    NoSpace,
    /// The operating system does not allow it.
    PermissionDenied,
    /// Another failure of files or the system.
    Failed,
}

/// Failure of something that is done with a conversation.
pub type ConversationError = ServiceError<ConversationErrorKind>;

impl ServiceErrorKind for ConversationErrorKind {
    const RETRY: &'static str = "try again";
    const FIND: &'static str = "write the name of an existing one";
    const RESTORE: &'static str = "restore the file from a copy, or continue in another conversation";

    fn of(fault: ServiceFault) -> Self {
        match fault {
            ServiceFault::Invalid => Self::InvalidName,
            ServiceFault::Unknown => Self::Unknown,
            ServiceFault::WrongStatus | ServiceFault::InUse => Self::InUse,
            ServiceFault::Damaged => Self::Damaged,
            ServiceFault::NoSpace => Self::NoSpace,
            ServiceFault::PermissionDenied => Self::PermissionDenied,
            ServiceFault::Interrupted | ServiceFault::Failed => Self::Failed,
        }
    }
}

/// Returns the same failure, of a turn of the conversation whose name is in the file at `path`.
pub(crate) fn in_conversation(mut error: ConversationError, path: &Path) -> ConversationError {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    error.message = format!("the conversation {stem}: {}", error.message);
    let separator = if error.advice.is_empty() { "" } else { ", or " };
    error.advice += &format!("{separator}delete it, or start a turn without the earlier messages (`fresh`)");
    error
}
