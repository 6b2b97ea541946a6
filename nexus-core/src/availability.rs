//! Readiness of a backend to start a turn.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Result of [`ExecutionBackend::probe`](crate::ExecutionBackend::probe), which makes no model call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Availability {
    /// A turn could start.
    Ready {
        /// The version of the program or service, in its own words, if it has one.
        version: Option<String>,
        /// Remarks for its user, such as an untested version.
        notes: Vec<String>,
    },
    /// The program is missing.
    NotInstalled {
        /// Paths that were searched.
        looked_in: Vec<PathBuf>,
        /// Advice about how to install it.
        remedy: String,
    },
    /// The credential is missing or unusable.
    Unauthenticated {
        /// Advice about how to log in.
        remedy: String,
    },
    /// The backend exists but cannot be used for another reason.
    Unusable {
        /// The reason, with advice.
        reason: String,
    },
}

impl Availability {
    /// Creates a ready state with this version.
    pub fn ready(version: Option<String>) -> Self {
        Self::Ready { version, notes: Vec::new() }
    }

    /// Returns true if a turn could start.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}
