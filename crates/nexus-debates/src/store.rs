//! The debates of a home.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use nexus_core::Clock;
use nexus_work::{NewWorkspace, WorkListing, WorkspaceId, Workspaces};

use crate::{
    data::DebateData,
    debate::{Debate, DebateSnapshot},
    debate_error::{DebateError, DebateErrorKind},
    state::DebateState,
};

/// The folder of tasks in a home. Debates lie beside tasks: only what lies in one place can be linked.
const FOLDER: &str = "tasks";

/// The debates of one home: folders in `NEXUS_HOME/tasks`, beside those of tasks. Any number of them, in any number of processes, may be of
/// one home.
#[derive(Clone, Debug)]
pub struct DebateStore {
    workspaces: Workspaces<DebateState>,
}

/// The debates of a home, as they were listed.
pub type DebateListing = WorkListing<Debate, DebateSnapshot, DebateErrorKind>;

impl DebateStore {
    /// Those of the home at `home`. Nothing is read or made yet.
    pub fn in_home(home: &Path) -> Self {
        Self { workspaces: Workspaces::below(home.join(FOLDER)) }
    }

    /// Takes the time from another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.workspaces = self.workspaces.with_clock(clock);
        self
    }

    /// Creates the folder of a debate.
    ///
    /// # Errors
    ///
    /// [`UnknownDebate`](DebateErrorKind::UnknownDebate) if its parent is not there; those of the file system, with nothing created.
    pub fn create(
        &self,
        data: &DebateData,
        parent: Option<WorkspaceId>,
        labels: BTreeMap<String, String>,
    ) -> Result<Debate, DebateError> {
        let data = serde_json::to_value(data).map_err(|error| {
            DebateError::new(
                DebateErrorKind::Failed,
                format!("the debate cannot be written: {error}"),
                "report this",
            )
        })?;
        let new = NewWorkspace::new(DebateState::Framing).with_data(data);
        let new = parent.into_iter().fold(new, NewWorkspace::with_parent);
        let new = labels.into_iter().fold(new, |new, (name, value)| new.with_label(name, value));
        Ok(Debate::of(self.workspaces.create(new)?))
    }

    /// The debate that a caller names.
    ///
    /// # Errors
    ///
    /// [`UnknownDebate`](DebateErrorKind::UnknownDebate) if the text is no id, or there is no such debate;
    /// [`Damaged`](DebateErrorKind::Damaged) if its `status.json` is not what was written there.
    pub fn open(&self, debate: &str) -> Result<Debate, DebateError> {
        Ok(Debate::of(self.workspaces.open_named(debate)?))
    }

    /// Every debate, the oldest first. What is wrong with one hides no other.
    ///
    /// # Errors
    ///
    /// Those of the file system, if the folder cannot be read.
    pub fn list(&self) -> Result<DebateListing, DebateError> {
        self.workspaces.list_work(Debate::of)
    }

    /// Removes a debate that no caller knows of yet.
    pub(crate) fn discard(&self, debate: &Debate) {
        // What cannot be removed is listed, and can be cancelled.
        let _ = self.workspaces.remove(debate.id());
    }
}
