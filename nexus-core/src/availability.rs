//! Whether a turn could start now.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What [`ExecutionBackend::probe`](crate::ExecutionBackend::probe) found, without a model call.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Availability {
    /// A turn could start.
    Ready {
        /// The version of the program or service, in its own words, where there is one.
        version: Option<String>,
        /// What is worth knowing before it is used, such as an untested version. Empty when nothing is.
        notes: Vec<String>,
    },
    /// The program is not there.
    NotInstalled {
        /// Where it was looked for.
        looked_in: Vec<PathBuf>,
        /// What to do about it.
        remedy: String,
    },
    /// There is no credential, or it cannot be used.
    Unauthenticated {
        /// What to do about it.
        remedy: String,
    },
    /// It is there, and cannot be used for another reason.
    Unusable {
        /// The reason, and the way out.
        reason: String,
    },
}

impl Availability {
    /// A turn could start, on this version.
    pub fn ready(version: Option<String>) -> Self {
        Self::Ready { version, notes: Vec::new() }
    }

    /// Whether a turn could start.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}
