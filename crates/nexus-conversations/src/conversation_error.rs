//! Errors of conversations.

use std::path::Path;

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};

/// Kind of a failure, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConversationErrorKind {
    /// The text is not a valid name of a conversation.
    InvalidName,
    /// The conversation does not exist.
    Unknown,
    /// The name, or the same name in another case, is taken.
    NameTaken,
    /// Another thread or process uses the conversation, or writes to the store, and did not end in time.
    InUse,
    /// The conversation has no message of this number.
    NoSuchMessage,
    /// A file was changed, cut off or removed from outside, or is not a regular file.
    Damaged,
    /// A later version of Nexus wrote a file.
    NewerVersion,
    /// The disk is full, or a quota is used up. Data that was stored before is intact.
    NoSpace,
    /// The operating system does not allow the access.
    PermissionDenied,
    /// Another failure of files or the system.
    Failed,
}

/// Failure of an operation on a conversation.
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

/// Adds the name of the conversation to an error. The file at `path` has that name.
pub(crate) fn in_conversation(mut error: ConversationError, path: &Path) -> ConversationError {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    error.message = format!("the conversation {stem}: {}", error.message);
    let separator = if error.advice.is_empty() { "" } else { ", or " };
    error.advice += &format!("{separator}delete it");
    error
}

/// Adds the name of the conversation to an error of reading its earlier messages. If the conversation is a log, its end is
/// readable, so a turn without these messages can still be added.
pub(crate) fn in_earlier_messages(error: ConversationError, path: &Path, is_log: bool) -> ConversationError {
    let mut error = in_conversation(error, path);
    if is_log {
        error.advice += ", or start a turn without the earlier messages (`fresh`)";
    }
    error
}
