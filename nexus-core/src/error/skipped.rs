//! Backends that were passed over.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::ErrorKind;
use crate::id::BackendId;

/// What became of the work of a backend that tried in vain, before the next one ran.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handover {
    /// It did nothing that is known, or no other backend ran.
    #[default]
    Nothing,
    /// The host put them back, and the next backend began anew.
    Restored,
    /// What it did stands: the next backend was told of it, and went on.
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
    /// Until when it is set aside.
    pub until: Option<SystemTime>,
    /// What became of its changes.
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

    /// States until when it is set aside.
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
