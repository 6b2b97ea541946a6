//! How far the work in a workspace is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far the work in a workspace is. Which state may follow which is for those to say who run the work.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceState {
    /// It was not begun.
    #[default]
    Created,
    /// Somebody is at it.
    Running,
    /// It was done.
    Succeeded,
    /// It could not be done; [`WorkspaceStatus::reason`](super::WorkspaceStatus::reason) says why.
    Failed,
    /// It was called off.
    Cancelled,
}

impl WorkspaceState {
    /// Whether nothing more is going to happen by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for WorkspaceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}
