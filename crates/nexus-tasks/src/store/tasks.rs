//! The tasks of a home.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::Clock;
use nexus_files::{FileLock, HomeIndex, Journal};
use nexus_mcp::page::cut;
use nexus_trees::{Git, Tree};
use nexus_work::{IndexedList, NewWorkspace, ShownWork, WorkListing, WorkspaceId, Workspaces};
use serde::{Deserialize, Serialize};

use super::{
    data::{QueueEntry, TaskData},
    git::SharedGit,
    task::{LEFT, Task, TaskSnapshot, UNFINISHED},
};
use crate::{
    task_error::{TaskError, TaskErrorKind},
    task_state::{TaskState, TaskStatusWord},
};

/// The folder of tasks in a home.
const FOLDER: &str = "tasks";
/// Longest title in a list, in bytes.
const TITLE_BYTES: usize = 200;

/// The tasks of one home: folders in `NEXUS_HOME/tasks`. Any number of stores, in any number of processes, may share a home.
#[derive(Clone, Debug)]
pub struct TaskStore {
    workspaces: Workspaces<TaskState>,
    index: Arc<HomeIndex>,
    git: SharedGit,
}

/// Details of a task in lists, in addition to its title, cost and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskDetails {
    /// Its status.
    pub(crate) status: TaskStatusWord,
    /// Its project: an absolute path.
    pub(crate) project: PathBuf,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// True while a process works on it, and after that was cut off.
    pub(crate) was_begun: bool,
    /// Entry in the queue of the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queued: Option<QueueEntry>,
}

/// Tasks of a home, as its index has them.
pub(crate) type IndexedTasks = IndexedList<TaskDetails, TaskErrorKind>;

/// Tasks of a home, as read from their folders.
pub type TaskListing = WorkListing<Task, TaskSnapshot, TaskErrorKind>;

impl TaskStore {
    /// Opens the store of the home at `home`. Reads and writes no files yet.
    pub fn in_home(home: &Path) -> Self {
        let journal = Arc::new(Journal::in_home(home));
        let index = Arc::new(HomeIndex::in_home(home, Arc::clone(&journal)));
        let workspaces = Workspaces::below(home.join(FOLDER)).with_journal(journal);
        Self { workspaces, index, git: SharedGit::default() }
    }

    /// Replaces the system's clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.workspaces = self.workspaces.with_clock(clock);
        self
    }

    /// Returns the folder of the tasks.
    pub fn folder(&self) -> PathBuf {
        self.workspaces.path().to_owned()
    }

    /// Finds the git for their repositories.
    ///
    /// # Errors
    ///
    /// [`MissingProgram`](TaskErrorKind::MissingProgram) if git is missing or too old.
    pub fn git(&self) -> Result<Git, TaskError> {
        self.git.find()
    }

    /// Creates the folder of a task.
    ///
    /// # Errors
    ///
    /// [`UnknownTask`](TaskErrorKind::UnknownTask) if its parent or a linked workspace does not exist; errors of the file system. Then
    /// nothing is created.
    pub fn create(
        &self,
        data: &TaskData,
        parent: Option<WorkspaceId>,
        links: BTreeSet<WorkspaceId>,
        labels: BTreeMap<String, String>,
    ) -> Result<Task, TaskError> {
        let data = serde_json::to_value(data).map_err(|error| {
            TaskError::new(
                TaskErrorKind::Failed,
                format!("the task cannot be written: {error}"),
                "report this",
            )
        })?;
        let new = NewWorkspace::new(TaskState::new()).with_data(data);
        let new = parent.into_iter().fold(new, NewWorkspace::with_parent);
        let new = links.into_iter().fold(new, NewWorkspace::with_link);
        let new = labels.into_iter().fold(new, |new, (name, value)| new.with_label(name, value));
        let workspace = self.workspaces.create(new)?;
        Ok(Task::of(workspace, self.git.clone()))
    }

    /// Opens a task by its id.
    ///
    /// # Errors
    ///
    /// [`UnknownTask`](TaskErrorKind::UnknownTask) if the text is not an id, or the task does not exist;
    /// [`Damaged`](TaskErrorKind::Damaged) if the content of its `status.json` is invalid.
    pub fn open(&self, task: &str) -> Result<Task, TaskError> {
        Ok(Task::of(self.workspaces.open_named(task)?, self.git.clone()))
    }

    /// Lists every task, the oldest first. A damaged task does not hide the others.
    ///
    /// # Errors
    ///
    /// Errors of the file system, if the folder of tasks cannot be read.
    pub fn list(&self) -> Result<TaskListing, TaskError> {
        self.workspaces.list_work(|workspace| Task::of(workspace, self.git.clone()))
    }

    /// Lists the details of every task, the oldest first, from the index of the home. Reads only tasks that changed since.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub(crate) fn list_indexed(&self) -> Result<IndexedTasks, TaskError> {
        self.workspaces.list_indexed(&self.index, |snapshot: &TaskSnapshot| {
            let status = snapshot.state.status.word();
            let (project, labels) = (snapshot.data.project.clone(), snapshot.labels.clone());
            let was_begun = snapshot.data.was_begun(&snapshot.state);
            let queued = snapshot.data.queued;
            let details = TaskDetails { status, project, labels, was_begun, queued };
            ShownWork { title: cut(&snapshot.data.goal, TITLE_BYTES), status: status.to_string(), details }
        })
    }

    /// Returns the ids of tasks on which a process works, or on which an interrupted process left work.
    pub(crate) fn unsettled(&self) -> Result<Vec<String>, TaskError> {
        let mut tasks = self.list_indexed()?.entries;
        tasks.retain(|task| {
            let folder = self.workspaces.path().join(&task.id);
            let was_begun = task.details.as_ref().is_none_or(|details| details.was_begun);
            // The index does not know about leftover copies, so look for their folders.
            was_begun || LEFT.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
        });
        Ok(tasks.into_iter().map(|task| task.id).collect())
    }

    /// Removes tasks whose creation was interrupted by the end of the process.
    pub(crate) fn remove_unfinished(&self) {
        let Ok(entries) = fs::read_dir(self.workspaces.path()) else { return };
        for entry in entries.flatten() {
            let mark = entry.path().join(UNFINISHED);
            // The mark of a creation in progress is locked. Never create a mark here: the creator may have removed it just now.
            if let Ok(Some(_mark)) = FileLock::try_lock_existing(&mark)
                && let Some(task) = entry.file_name().to_str().and_then(|id| self.open(id).ok())
            {
                let _ = self.remove(&task);
            }
        }
    }

    /// Removes a task: its folder, and its ref in the repository of the project. The caller ensures that no process works on it.
    pub(crate) fn remove(&self, task: &Task) -> Result<(), TaskError> {
        task.clear_work()?;
        Tree::delete_in(&self.git.find()?, task.folder())?;
        Ok(self.workspaces.remove(task.id())?)
    }
}
