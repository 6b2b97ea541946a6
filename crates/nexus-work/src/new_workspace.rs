//! Inputs of a new workspace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::WorkspaceId;

/// Inputs of a new workspace: a state, and by default a random id and nothing else.
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
    /// A workspace of its own in this state, with a random id.
    pub fn new(state: S) -> Self {
        let (links, labels) = (BTreeSet::new(), BTreeMap::new());
        Self { state, id: None, parent: None, links, labels, data: Value::Null }
    }

    /// Gives it an id of the caller's choice.
    #[must_use]
    pub fn with_id(mut self, id: WorkspaceId) -> Self {
        self.id = Some(id);
        self
    }

    /// Makes it a part of another one, which has to be there, and which will name it.
    #[must_use]
    pub fn with_parent(mut self, parent: WorkspaceId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Links it to another one, which has to be there, and which will name it.
    #[must_use]
    pub fn with_link(mut self, other: WorkspaceId) -> Self {
        self.links.insert(other);
        self
    }

    /// Adds a label; one of the same name is replaced.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets what the caller keeps beside the state.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }
}
