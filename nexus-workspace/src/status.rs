//! What `status.json` says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, value::RawValue};

use super::{WorkspaceId, WorkspaceState, time};

/// The version of `status.json` that is written here.
pub(super) const VERSION: u64 = 1;

/// What `status.json` says: the single truth about a workspace.
///
/// What the caller changes in [`Workspace::update`](super::Workspace::update) are the public fields. Fields of the file
/// that this version of Nexus does not know are kept as they are written there.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceStatus {
    pub(super) id: WorkspaceId,
    pub(super) generation: u64,
    pub(super) created_at: SystemTime,
    pub(super) updated_at: SystemTime,
    pub(super) parent: Option<WorkspaceId>,
    /// How far the work is.
    pub state: WorkspaceState,
    /// Why it is so, for people to read.
    pub reason: Option<String>,
    /// Other workspaces that belong to this one, other than as its children.
    pub linked_workspace_ids: BTreeSet<WorkspaceId>,
    /// What the caller finds the workspace by.
    pub labels: BTreeMap<String, String>,
    /// What else the caller keeps here: any JSON.
    pub data: Value,
    pub(super) unknown: Vec<(String, String)>,
}

impl WorkspaceStatus {
    /// The workspace.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// How often the status was written: 1 when it is created, and one more with each change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When the workspace was created.
    pub fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// When the status was last written.
    pub fn updated_at(&self) -> SystemTime {
        self.updated_at
    }

    /// The workspace that this one is a part of. It never changes.
    pub fn parent_workspace_id(&self) -> Option<&WorkspaceId> {
        self.parent.as_ref()
    }

    /// Goes into a state for which there is nothing to explain.
    pub fn enter(&mut self, state: WorkspaceState) {
        self.state = state;
        self.reason = None;
    }

    /// Goes into a state, and says why.
    pub fn enter_because(&mut self, state: WorkspaceState, reason: impl Into<String>) {
        self.state = state;
        self.reason = Some(reason.into());
    }
}

/// As the file has it.
impl Serialize for WorkspaceStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Time(SystemTime);
        impl Serialize for Time {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                time::serialize(&self.0, serializer)
            }
        }

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("generation", &self.generation)?;
        map.serialize_entry("state", &self.state)?;
        map.serialize_entry("reason", &self.reason)?;
        map.serialize_entry("parent_workspace_id", &self.parent)?;
        map.serialize_entry("linked_workspace_ids", &self.linked_workspace_ids)?;
        map.serialize_entry("labels", &self.labels)?;
        map.serialize_entry("created_at", &Time(self.created_at))?;
        map.serialize_entry("updated_at", &Time(self.updated_at))?;
        map.serialize_entry("data", &self.data)?;
        for (name, text) in &self.unknown {
            let value: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
