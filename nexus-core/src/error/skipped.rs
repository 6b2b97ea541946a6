//! Backends that were passed over.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::ErrorKind;
use crate::id::BackendId;

/// Fate of a failed backend's work before the next backend ran.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handover {
    /// It did nothing that is known, or no other backend ran.
    #[default]
    Nothing,
    /// The host restored the earlier state, and the next backend started from the beginning.
    Restored,
    /// The changes stay: the next backend learned of them, and continued.
    Continued,
}

/// A backend that was passed over, or tried in vain, and why.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The backend.
    pub backend: BackendId,
    /// Why, as a kind, where it was an error.
    pub kind: Option<ErrorKind>,
    /// Why, in the vendor's own words where there are any.
    pub reason: String,
    /// End of its suspension.
    pub until: Option<SystemTime>,
    /// Fate of its changes.
    #[serde(default)]
    pub handover: Handover,
}

impl Skipped {
    /// `backend` was passed over.
    pub fn new(backend: BackendId, reason: impl Into<String>) -> Self {
        Self { backend, kind: None, reason: reason.into(), until: None, handover: Handover::Nothing }
    }

    /// States the kind of the error it ended with.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<ErrorKind>) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the end of its suspension.
    #[must_use]
    pub fn with_until(mut self, until: Option<SystemTime>) -> Self {
        self.until = until;
        self
    }

    /// States what became of its changes.
    #[must_use]
    pub fn with_handover(mut self, handover: Handover) -> Self {
        self.handover = handover;
        self
    }
}
