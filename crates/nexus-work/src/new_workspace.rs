//! Inputs of a new workspace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::WorkspaceId;

/// Inputs of a new workspace: a state. By default, it has a random id, no labels, no links and no data.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWorkspace<S> {
    pub(super) state: S,
    pub(super) id: Option<WorkspaceId>,
    pub(super) parent: Option<WorkspaceId>,
    pub(super) links: BTreeSet<WorkspaceId>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) data: Value,
}

impl<S> NewWorkspace<S> {
    /// Creates the inputs of a workspace in this state, with a random id and no parent.
    pub fn new(state: S) -> Self {
        let (links, labels) = (BTreeSet::new(), BTreeMap::new());
        Self { state, id: None, parent: None, links, labels, data: Value::Null }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: WorkspaceId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the parent, an existing workspace. The parent will name the new one among its links.
    #[must_use]
    pub fn with_parent(mut self, parent: WorkspaceId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Links it to another existing workspace, which will name the new one, too.
    #[must_use]
    pub fn with_link(mut self, other: WorkspaceId) -> Self {
        self.links.insert(other);
        self
    }

    /// Sets a label. It replaces a label of the same name.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the caller's data, in addition to the state.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }
}
