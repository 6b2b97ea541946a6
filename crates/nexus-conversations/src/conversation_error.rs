//! Why something could not be done with a conversation.

use std::{fmt, io, path::Path};

/// How much of the reason why a file is damaged is told, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// Why something could not be done, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConversationErrorKind {
    /// The text is no name of a conversation.
    InvalidName,
    /// There is no conversation of this name.
    Unknown,
    /// The name is taken, or one that differs from it in case only.
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

/// Why something could not be done with a conversation, where, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationError {
    kind: ConversationErrorKind,
    message: String,
}

impl ConversationError {
    pub(crate) fn new(kind: ConversationErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The file at `path` is not what was written there.
    pub(crate) fn damaged(path: &Path, reason: impl fmt::Display) -> Self {
        // A reason may quote the file, at any length.
        let reason = reason.to_string();
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
        let message = format!(
            "{}: it is not what was written there: {reason}; put the file back from a copy, or go on in another conversation",
            path.display()
        );
        Self::new(ConversationErrorKind::Damaged, message)
    }

    /// The file at `path` cannot be used.
    pub(crate) fn unusable(path: &Path, error: &io::Error) -> Self {
        let (kind, instead) = match error.kind() {
            io::ErrorKind::InvalidData => return Self::damaged(path, error),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                (ConversationErrorKind::NoSpace, "free some space; what was stored before is whole")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                (ConversationErrorKind::PermissionDenied, "see to the rights of the file and its folder")
            }
            _ => (ConversationErrorKind::Failed, "see to the file and its folder"),
        };
        Self::new(kind, format!("{}: {error}; {instead}", path.display()))
    }

    /// The same, of a turn of the conversation whose name is in the file at `path`.
    pub(crate) fn of_conversation(mut self, path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        self.message = format!(
            "the conversation {stem}: {}, or delete it, or have a turn begin afresh (`fresh`)",
            self.message
        );
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ConversationErrorKind {
        self.kind
    }
}

impl fmt::Display for ConversationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConversationError {}
