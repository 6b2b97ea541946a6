//! The state of the workspaces that are tested.

use nexus_work::WorkspaceState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    Created,
    Running,
    Failed(String),
}

impl WorkspaceState for Work {
    const KIND: &'static str = "work";

    fn is_final(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}
