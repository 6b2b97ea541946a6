//! The debates of a home.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use nexus_core::Clock;
use nexus_files::{HomeIndex, Journal};
use nexus_mcp::page::cut;
use nexus_work::{IndexedList, NewWorkspace, ShownWork, WorkListing, WorkspaceId, Workspaces};
use serde::{Deserialize, Serialize};

use crate::{
    data::DebateData,
    debate::{Debate, DebateSnapshot},
    debate_error::{DebateError, DebateErrorKind},
    state::{DebateState, DebateStatusWord},
};

/// Folder of the tasks in a home. Debates are in the same folder, because only workspaces below one folder can be linked.
const FOLDER: &str = "tasks";
/// Maximum length of a title in a list, in bytes.
const TITLE_BYTES: usize = 200;

/// The debates of one home: folders in `NEXUS_HOME/tasks`, beside the tasks. Any number of these, in any number of
/// processes, may exist for one home.
#[derive(Clone, Debug)]
pub struct DebateStore {
    workspaces: Workspaces<DebateState>,
    index: Arc<HomeIndex>,
}

/// Fields of a debate in lists, in addition to its title, cost and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DebateDetails {
    /// Status of the debate.
    pub(crate) status: DebateStatusWord,
    /// Labels of the debate.
    pub(crate) labels: BTreeMap<String, String>,
}

/// Debates of a home (the folder of Nexus's state), read from the index of the home.
pub(crate) type IndexedDebates = IndexedList<DebateDetails, DebateErrorKind>;

/// The debates of a home at the time of listing.
pub type DebateListing = WorkListing<Debate, DebateSnapshot, DebateErrorKind>;

impl DebateStore {
    /// Creates access to the debates of the home at `home`. Reads and creates nothing yet.
    pub fn in_home(home: &Path) -> Self {
        let journal = Arc::new(Journal::in_home(home));
        let index = Arc::new(HomeIndex::in_home(home, Arc::clone(&journal)));
        Self { workspaces: Workspaces::below(home.join(FOLDER)).with_journal(journal), index }
    }

    /// Sets the clock. The system's clock by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.workspaces = self.workspaces.with_clock(clock);
        self
    }

    /// Creates the folder of a debate.
    ///
    /// # Errors
    ///
    /// [`UnknownDebate`](DebateErrorKind::UnknownDebate) if its parent does not exist; errors of the file system, with
    /// nothing created.
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

    /// Opens the debate of an id.
    ///
    /// # Errors
    ///
    /// [`UnknownDebate`](DebateErrorKind::UnknownDebate) if the text is not an id, or no debate has it;
    /// [`Damaged`](DebateErrorKind::Damaged) if the content of its `status.json` was changed from outside.
    pub fn open(&self, debate: &str) -> Result<Debate, DebateError> {
        Ok(Debate::of(self.workspaces.open_named(debate)?))
    }

    /// Returns every debate, oldest first. An unreadable debate does not hide the others.
    ///
    /// # Errors
    ///
    /// Errors of the file system, if the folder cannot be read.
    pub fn list(&self) -> Result<DebateListing, DebateError> {
        self.workspaces.list_work(Debate::of)
    }

    /// Returns the listed fields of every debate, oldest first, from the index of the home: only changed debates are read.
    ///
    /// # Errors
    ///
    /// Errors of [`list`](Self::list).
    pub(crate) fn list_indexed(&self) -> Result<IndexedDebates, DebateError> {
        self.workspaces.list_indexed(&self.index, |snapshot: &DebateSnapshot| {
            let status = snapshot.state.word();
            let details = DebateDetails { status, labels: snapshot.labels.clone() };
            let title = cut(&snapshot.data.question, TITLE_BYTES);
            ShownWork { title, status: status.to_string(), details }
        })
    }

    /// Removes a debate with its records.
    ///
    /// # Errors
    ///
    /// [`UnknownDebate`](DebateErrorKind::UnknownDebate) if it is gone; errors of the file system.
    pub(crate) fn remove(&self, debate: &Debate) -> Result<(), DebateError> {
        Ok(self.workspaces.remove(debate.id())?)
    }

    /// Removes a debate whose id no caller has received yet.
    pub(crate) fn discard(&self, debate: &Debate) {
        // If the removal fails, the debate is listed and can be cancelled.
        let _ = self.workspaces.remove(debate.id());
    }
}
