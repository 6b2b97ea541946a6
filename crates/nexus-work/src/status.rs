//! Content of `status.json`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use nexus_files::rfc3339;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, value::RawValue};

use super::{WorkspaceId, WorkspaceState};

/// Version of `status.json` that this program writes.
pub(super) const VERSION: u64 = 1;

/// Content of `status.json`: the only authority on a workspace.
///
/// A caller may change the public fields in [`Workspace::update`](super::Workspace::update). Fields of the file that this
/// version of Nexus does not know are written back unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceStatus<S> {
    pub(super) id: WorkspaceId,
    pub(super) kind: String,
    pub(super) generation: u64,
    pub(super) created_at: SystemTime,
    pub(super) updated_at: SystemTime,
    pub(super) parent: Option<WorkspaceId>,
    /// Progress of the work.
    pub state: S,
    pub(super) linked_workspace_ids: BTreeSet<WorkspaceId>,
    /// Workspaces of links that are not complete yet.
    pub(super) pending_link_ids: BTreeSet<WorkspaceId>,
    /// Labels by which the caller finds the workspace.
    pub labels: BTreeMap<String, String>,
    /// The caller's data in addition to the state: any JSON.
    pub data: Value,
    pub(super) unknown: Vec<(String, String)>,
}

impl<S> WorkspaceStatus<S> {
    /// Returns the id of the workspace.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// Returns the number of writes of the status: 1 after the creation, and one more with each change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the creation time.
    pub fn created_at(&self) -> SystemTime {
        self.created_at
    }

    /// Returns the time of the last write.
    pub fn updated_at(&self) -> SystemTime {
        self.updated_at
    }

    /// Returns the linked workspaces: the children of this one, and those of [`Workspace::link`](super::Workspace::link).
    /// Each of them names this one.
    pub fn linked_workspace_ids(&self) -> &BTreeSet<WorkspaceId> {
        &self.linked_workspace_ids
    }

    /// Returns the workspace of which this one is a part. The parent has this one among its links. The parent never changes.
    pub fn parent_workspace_id(&self) -> Option<&WorkspaceId> {
        self.parent.as_ref()
    }
}

impl<S: WorkspaceState> WorkspaceStatus<S> {
    /// Returns true if the work does not continue by itself: see [`WorkspaceState::is_final`].
    pub fn is_final(&self) -> bool {
        self.state.is_final()
    }
}

/// Serializes the status in the form of the file.
impl<W: Serialize> Serialize for WorkspaceStatus<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("generation", &self.generation)?;
        map.serialize_entry("state", &self.state)?;
        map.serialize_entry("parent_workspace_id", &self.parent)?;
        map.serialize_entry("linked_workspace_ids", &self.linked_workspace_ids)?;
        if !self.pending_link_ids.is_empty() {
            map.serialize_entry("pending_link_ids", &self.pending_link_ids)?;
        }
        map.serialize_entry("labels", &self.labels)?;
        map.serialize_entry("created_at", &rfc3339::micros(self.created_at))?;
        map.serialize_entry("updated_at", &rfc3339::micros(self.updated_at))?;
        map.serialize_entry("data", &self.data)?;
        for (name, text) in &self.unknown {
            let value: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
