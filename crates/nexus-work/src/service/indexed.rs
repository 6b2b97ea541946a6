//! Lists of work from the index of a home.

use nexus_core::{ServiceError, ServiceErrorKind};
use nexus_files::{HomeIndex, IndexEntry, IndexedWork, JournalKind, WorkFiles};
use serde::{Serialize, de::DeserializeOwned};

use super::{WorkData, WorkSnapshot};
use crate::{
    Workspace, WorkspaceErrorKind, WorkspaceId, WorkspaceState, Workspaces, event_log, state::AnyState,
    status_file,
};

/// Result of [`Workspaces::list_indexed`].
pub type IndexedList<T, K> = IndexedWork<T, ServiceError<K>>;

impl<S: WorkspaceState> Workspaces<S> {
    /// Lists all work of this kind from the index of the home, oldest first. An unreadable workspace does not hide the
    /// others. `show` creates the entry of work that the index lacks or has in an old state; times, cost and kind are filled
    /// in.
    ///
    /// # Errors
    ///
    /// Errors of the file system, if the folder cannot be read.
    pub fn list_indexed<D, K, T>(
        &self,
        index: &HomeIndex,
        show: impl Fn(&WorkSnapshot<S, D>) -> ShownWork<T>,
    ) -> Result<IndexedList<T, K>, ServiceError<K>>
    where
        D: WorkData<S>,
        K: ServiceErrorKind,
        T: Serialize + DeserializeOwned,
    {
        let names = self.ids()?.into_iter().map(|id| id.to_string());
        let files = |name: String| {
            let folder = self.path().join(&name);
            WorkFiles {
                files: [status_file::NAME, event_log::NAME].map(|file| folder.join(file)).into(),
                name,
            }
        };
        let found: Vec<_> = names.map(files).collect();
        let folder = self.path().file_name().unwrap_or_default().to_string_lossy();
        let read = |work: &WorkFiles| self.entry(&work.name, &show);
        let mut list = index.refresh(&folder, &JournalKind::from(S::KIND), &found, read);
        list.entries.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        Ok(list)
    }

    fn entry<D: WorkData<S>, K: ServiceErrorKind, T>(
        &self,
        name: &str,
        show: impl Fn(&WorkSnapshot<S, D>) -> ShownWork<T>,
    ) -> Result<Option<IndexEntry<T>>, ServiceError<K>> {
        let Ok(id) = name.parse::<WorkspaceId>() else { return Ok(None) };
        let workspace = self.unread(id);
        // Read with any state first, because the folder may belong to another kind of work.
        let found = status_file::read_of::<AnyState>(workspace.id(), workspace.path(), None);
        match found {
            Err(error) if error.kind() == WorkspaceErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
            Ok(status) if status.kind != S::KIND => {
                Ok(Some(IndexEntry::new(status.kind.as_str().into(), name, "", status.updated_at)))
            }
            Ok(_) => {
                let snapshot = workspace.snapshot()?;
                let shown = show(&snapshot);
                let mut entry = IndexEntry::new(S::KIND.into(), name, shown.title, snapshot.updated_at);
                entry.status = shown.status;
                entry.cost_usd = logged_cost(&workspace);
                entry.created_at = Some(snapshot.created_at);
                entry.details = Some(shown.details);
                Ok(Some(entry))
            }
        }
    }
}

/// Fields of an entry that the service determines.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownWork<T> {
    /// Title of the work.
    pub title: String,
    /// Status in one word.
    pub status: String,
    /// Further fields.
    pub details: T,
}

/// Returns the known cost of the logged turns. `None` for an unreadable log.
fn logged_cost<S: WorkspaceState>(workspace: &Workspace<S>) -> Option<f64> {
    let log = event_log::read(workspace.path()).ok()?;
    let turns = log.events.iter().filter(|event| event.kind == "turn_ended");
    let costs = turns.filter_map(|turn| turn.data.get("cost")?.get("usd")?.as_f64());
    // Skip impossible values: a person may have edited the log.
    costs.filter(|usd| usd.is_finite() && *usd > 0.0).reduce(|one, other| one + other)
}
