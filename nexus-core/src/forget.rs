//! Result of deleting a stored conversation.

use std::{io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{id::BackendId, turn::ResumeHandle};

/// State of a conversation after [`forget`](crate::ExecutionBackend::forget): the backend stores nothing of it
/// any more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgotten {
    /// It was deleted.
    Deleted {
        /// Files that it was in.
        files: u64,
        /// Their size together.
        bytes: u64,
    },
    /// It was not there any more.
    WasGone,
    /// Only the handle contains it: dropping the handle forgets it. A copy of the handle can still resume it.
    InHandle,
}

/// Why a conversation was not forgotten.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForgetError {
    /// The handle names no conversation that this backend kept. Nothing was deleted.
    #[error("{backend}: the handle names no conversation that is stored here; nothing was deleted")]
    InvalidHandle {
        /// The backend that got the request.
        backend: BackendId,
    },
    /// A turn works in the conversation. Nothing was deleted: ask again when it has ended.
    #[error("{backend}: a turn is using the conversation; forget it after the turn has ended")]
    InUse {
        /// The backend.
        backend: BackendId,
    },
    /// The backend keeps no conversations, or cannot delete one: see [`Capabilities::forget`](crate::Capabilities::forget).
    #[error("{backend}: this backend cannot forget conversations")]
    Unsupported {
        /// The backend.
        backend: BackendId,
    },
    /// The backend that made the handle is unknown here, for example because the configuration lacks it.
    #[error("{backend}: {reason}; without the backend its conversation cannot be forgotten")]
    NoBackend {
        /// The backend that made the handle.
        backend: BackendId,
        /// Why it is not there.
        reason: String,
    },
    /// The system refused. A part may be deleted; asked again, the rest is tried.
    #[error("{backend}: {place} cannot be deleted: parts of the conversation remain", place = place.display())]
    Failed {
        /// The backend.
        backend: BackendId,
        /// Path that could not be deleted.
        place: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
}

impl ForgetError {
    /// The first thing that a backend asks of a handle: whether it made it.
    ///
    /// # Errors
    ///
    /// [`ForgetError::InvalidHandle`], if another one did.
    pub fn unless_of(backend: &BackendId, handle: &ResumeHandle) -> Result<(), Self> {
        match handle.backend() == backend {
            true => Ok(()),
            false => Err(Self::InvalidHandle { backend: backend.clone() }),
        }
    }
}
