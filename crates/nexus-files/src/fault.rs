//! Causes of failed file operations, as far as a caller can act on them.

use std::io;

/// Cause of a failed file operation, named for what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFault {
    /// The path does not exist.
    NotFound,
    /// The path exists already.
    AlreadyExists,
    /// The user lacks the permission.
    NotAllowed,
    /// The file system is read-only.
    ReadOnly,
    /// The disk is full.
    DiskFull,
    /// The user's quota or the largest file size is reached.
    QuotaReached,
    /// The file is of another type, larger than its reader accepts, or has other content.
    Unexpected,
    /// Another error of the system.
    Other,
}

impl FileFault {
    /// Classifies an error of the operating system, or of a function of this crate.
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Self::NotFound,
            Kind::AlreadyExists => Self::AlreadyExists,
            Kind::PermissionDenied => Self::NotAllowed,
            Kind::ReadOnlyFilesystem => Self::ReadOnly,
            Kind::StorageFull => Self::DiskFull,
            Kind::QuotaExceeded | Kind::FileTooLarge => Self::QuotaReached,
            Kind::InvalidData => Self::Unexpected,
            _ => Self::Other,
        }
    }

    /// Returns the fault and advice in a few words, to append after a path and the failed action. Empty for
    /// [`Other`](Self::Other).
    pub fn explanation(self) -> &'static str {
        match self {
            Self::NotFound => "it is not there",
            Self::AlreadyExists => "something is there already",
            Self::NotAllowed => "correct its permissions and the permissions of its folder",
            Self::ReadOnly => "its file system is read-only; choose another path",
            Self::DiskFull => "the disk is full; free space on it",
            Self::QuotaReached => "the user's disk quota is used up; free space on the disk",
            Self::Unexpected => "inspect the existing file, and move it away",
            Self::Other => "",
        }
    }
}
