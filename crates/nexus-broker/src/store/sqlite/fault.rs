//! Converts errors of SQLite to errors of the broker.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};

use crate::error::{BrokerError, BrokerErrorKind};

/// Reason why an operation on the file failed.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Broker(BrokerError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<BrokerError> for Fault {
    fn from(error: BrokerError) -> Self {
        Self::Broker(error)
    }
}

impl Fault {
    pub(super) fn is_busy(&self) -> bool {
        let code = match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Broker(_) => None,
        };
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    pub(super) fn at(self, path: &Path) -> BrokerError {
        match self {
            Self::Broker(error) => error,
            Self::Sqlite(error) => sqlite(path, &error),
        }
    }
}

fn sqlite(path: &Path, error: &rusqlite::Error) -> BrokerError {
    let path = path.display();
    let (kind, what, instead) = match error.sqlite_error() {
        Some(failure) => match failure.code {
            ErrorCode::DiskFull => (
                BrokerErrorKind::NoSpace,
                "the disk is full",
                "free some disk space: no stored message is lost",
            ),
            // SQLite extends the shared memory file when it opens it, so a failure here means a full disk.
            ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => (
                BrokerErrorKind::NoSpace,
                "the disk is full",
                "free some disk space: no stored message is lost",
            ),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => (
                BrokerErrorKind::Damaged,
                "the file is damaged",
                "move it away to start with an empty store, or restore a copy of it",
            ),
            ErrorCode::ReadOnly => (
                BrokerErrorKind::Failed,
                "the file cannot be written",
                "give this user write permission, or name another file",
            ),
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => (
                BrokerErrorKind::Failed,
                "the file cannot be opened",
                "give this user write permission, or name another file",
            ),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
                BrokerErrorKind::Unavailable,
                "another process has locked the file for too long",
                "try again",
            ),
            _ => (BrokerErrorKind::Failed, "the file could not be used", ""),
        },
        // SQLite reported no error: a stored value has another type than this version writes.
        None => (
            BrokerErrorKind::Damaged,
            "the content of the file does not belong to this version",
            "use the version of Nexus that wrote it",
        ),
    };
    BrokerError::new(kind, format!("{path}: {what} ({error})"), instead)
}
