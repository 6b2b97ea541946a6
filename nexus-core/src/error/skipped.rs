//! Backends that were passed over.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::ErrorKind;
use crate::id::BackendId;

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
    /// Until when it is set aside.
    pub until: Option<SystemTime>,
    /// Whether what it had changed was put back before the next one ran.
    #[serde(default)]
    pub is_restored: bool,
}

impl Skipped {
    /// `backend` was passed over.
    pub fn new(backend: BackendId, reason: impl Into<String>) -> Self {
        Self { backend, kind: None, reason: reason.into(), until: None, is_restored: false }
    }

    /// States the kind of the error it ended with.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<ErrorKind>) -> Self {
        self.kind = kind;
        self
    }

    /// States until when it is set aside.
    #[must_use]
    pub fn with_until(mut self, until: Option<SystemTime>) -> Self {
        self.until = until;
        self
    }

    /// States whether what it had changed was put back.
    #[must_use]
    pub fn with_restored(mut self, is_restored: bool) -> Self {
        self.is_restored = is_restored;
        self
    }
}
