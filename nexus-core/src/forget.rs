//! Result of deleting a stored conversation.

use std::{io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{id::BackendId, turn::ResumeHandle};

/// Outcome of [`forget`](crate::ExecutionBackend::forget). In each case the backend stores no part of the conversation
/// any more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgotten {
    /// The conversation was deleted.
    Deleted {
        /// Number of deleted files.
        files: u64,
        /// Total size of the deleted files.
        bytes: u64,
    },
    /// The conversation no longer existed.
    WasGone,
    /// Only the handle contains the conversation, and dropping the handle forgets it. A copy of the handle can still resume
    /// it.
    InHandle,
}

/// Reason why a conversation was not deleted.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForgetError {
    /// The handle belongs to no conversation that this backend stored. Nothing was deleted.
    #[error("{backend}: the handle names no conversation that is stored here; nothing was deleted")]
    InvalidHandle {
        /// Backend that got the request.
        backend: BackendId,
    },
    /// A turn uses the conversation. Nothing was deleted. Try again when the turn has ended.
    #[error("{backend}: a turn is using the conversation; forget it after the turn has ended")]
    InUse {
        /// The backend.
        backend: BackendId,
    },
    /// The backend stores no conversations, or cannot delete one: see
    /// [`Capabilities::forget`](crate::Capabilities::forget).
    #[error("{backend}: this backend cannot forget conversations")]
    Unsupported {
        /// The backend.
        backend: BackendId,
    },
    /// The backend that created the handle is unknown here, for example because the configuration lacks it.
    #[error("{backend}: {reason}; without the backend its conversation cannot be forgotten")]
    NoBackend {
        /// Backend that created the handle.
        backend: BackendId,
        /// Reason why the backend is unknown.
        reason: String,
    },
    /// The system refused the deletion. A part may be deleted; another call tries the rest.
    #[error("{backend}: {place} cannot be deleted: parts of the conversation remain", place = place.display())]
    Failed {
        /// The backend.
        backend: BackendId,
        /// Path that could not be deleted.
        place: PathBuf,
        /// Error of the system.
        #[source]
        source: Arc<io::Error>,
    },
}

impl ForgetError {
    /// Checks that `backend` created the handle. A backend calls this first.
    ///
    /// # Errors
    ///
    /// [`ForgetError::InvalidHandle`], if another backend created it.
    pub fn unless_of(backend: &BackendId, handle: &ResumeHandle) -> Result<(), Self> {
        match handle.backend() == backend {
            true => Ok(()),
            false => Err(Self::InvalidHandle { backend: backend.clone() }),
        }
    }
}
