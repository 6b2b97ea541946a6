//! Backends that were skipped or failed.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::ErrorKind;
use crate::id::BackendId;

/// Fate of a failed backend's work before the next backend ran.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handover {
    /// The backend did nothing that is known, or no other backend ran.
    #[default]
    Nothing,
    /// The host reverted the work, and the next backend started from the beginning.
    Restored,
    /// The changes stay. The next backend received a record of them and continued.
    Continued,
}

/// A backend that was skipped or that failed, with the reason.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The backend.
    pub backend: BackendId,
    /// Kind of the error, if there was one.
    pub kind: Option<ErrorKind>,
    /// Reason, in the vendor's words if it has any.
    pub reason: String,
    /// End of the backend's suspension, if it is suspended.
    pub until: Option<SystemTime>,
    /// Fate of the backend's work.
    #[serde(default)]
    pub handover: Handover,
}

impl Skipped {
    /// Creates an entry for `backend`.
    pub fn new(backend: BackendId, reason: impl Into<String>) -> Self {
        Self { backend, kind: None, reason: reason.into(), until: None, handover: Handover::Nothing }
    }

    /// Sets the kind of the error.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<ErrorKind>) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the end of the suspension.
    #[must_use]
    pub fn with_until(mut self, until: Option<SystemTime>) -> Self {
        self.until = until;
        self
    }

    /// Sets the fate of the backend's work.
    #[must_use]
    pub fn with_handover(mut self, handover: Handover) -> Self {
        self.handover = handover;
        self
    }
}
