//! What comes of deleting a kept conversation.

use std::{io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{id::BackendId, turn::ResumeHandle};

/// What became of a conversation that was to be forgotten: nothing of it is stored by the backend any more.
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
    /// It is in the handle and nowhere else: whoever drops the handle has forgotten it. Resumed by a copy, it goes on.
    InHandle,
}

/// Why a conversation was not forgotten.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum ForgetError {
    /// The handle names no conversation that this backend kept. Nothing was deleted.
    #[error("{backend}: the handle names no conversation that was kept here, so nothing is deleted")]
    InvalidHandle {
        /// The backend that was asked.
        backend: BackendId,
    },
    /// A turn works in the conversation. Nothing was deleted: ask again when it has ended.
    #[error("{backend}: a turn works in the conversation; forget it when that has ended")]
    InUse {
        /// The backend.
        backend: BackendId,
    },
    /// The backend keeps no conversations, or cannot delete one: see [`Capabilities::forget`](crate::Capabilities::forget).
    #[error("{backend}: conversations cannot be forgotten here")]
    Unsupported {
        /// The backend.
        backend: BackendId,
    },
    /// Nobody here knows the backend that made the handle, such as one that the configuration does not have.
    #[error("{backend}: {reason}; the conversation cannot be forgotten without it")]
    NoBackend {
        /// The backend that made the handle.
        backend: BackendId,
        /// Why it is not there.
        reason: String,
    },
    /// The system refused. A part may be deleted; asked again, the rest is tried.
    #[error("{backend}: {place} cannot be deleted: the conversation is not forgotten, or not all of it", place = place.display())]
    Failed {
        /// The backend.
        backend: BackendId,
        /// What could not be deleted.
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
