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
    data::TaskData,
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

/// The tasks of one home: folders in `NEXUS_HOME/tasks`. Any number of them, in any number of processes, may be of one home.
#[derive(Clone, Debug)]
pub struct TaskStore {
    workspaces: Workspaces<TaskState>,
    index: Arc<HomeIndex>,
    git: SharedGit,
}

/// What lists show of a task beside its title, cost and times.
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
}

/// Tasks of a home as its index has them.
pub(crate) type IndexedTasks = IndexedList<TaskDetails, TaskErrorKind>;

/// The tasks of a home, as they were listed.
pub type TaskListing = WorkListing<Task, TaskSnapshot, TaskErrorKind>;

impl TaskStore {
    /// Those of the home at `home`. Nothing is read or made yet.
    pub fn in_home(home: &Path) -> Self {
        let journal = Arc::new(Journal::in_home(home));
        let index = Arc::new(HomeIndex::in_home(home, Arc::clone(&journal)));
        let workspaces = Workspaces::below(home.join(FOLDER)).with_journal(journal);
        Self { workspaces, index, git: SharedGit::default() }
    }

    /// Takes the time from another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.workspaces = self.workspaces.with_clock(clock);
        self
    }

    /// The folder that they are in.
    pub fn folder(&self) -> PathBuf {
        self.workspaces.path().to_owned()
    }

    /// The git by which their repositories are worked on.
    ///
    /// # Errors
    ///
    /// [`MissingProgram`](TaskErrorKind::MissingProgram) if there is none, or one that is too old.
    pub fn git(&self) -> Result<Git, TaskError> {
        self.git.find()
    }

    /// Creates the folder of a task.
    ///
    /// # Errors
    ///
    /// [`UnknownTask`](TaskErrorKind::UnknownTask) if its parent, or one that it is linked to, is not there; those of the file
    /// system, with nothing created.
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

    /// The task that a caller names.
    ///
    /// # Errors
    ///
    /// [`UnknownTask`](TaskErrorKind::UnknownTask) if the text is no id, or there is no such task;
    /// [`Damaged`](TaskErrorKind::Damaged) if its `status.json` is not what was written there.
    pub fn open(&self, task: &str) -> Result<Task, TaskError> {
        Ok(Task::of(self.workspaces.open_named(task)?, self.git.clone()))
    }

    /// Every task, the oldest first. What is wrong with one hides no other.
    ///
    /// # Errors
    ///
    /// Those of the file system, if the folder of tasks cannot be read.
    pub fn list(&self) -> Result<TaskListing, TaskError> {
        self.workspaces.list_work(|workspace| Task::of(workspace, self.git.clone()))
    }

    /// What lists show of every task, the oldest first, from the index of the home: only tasks that changed since are read.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub(crate) fn list_indexed(&self) -> Result<IndexedTasks, TaskError> {
        self.workspaces.list_indexed(&self.index, |snapshot: &TaskSnapshot| {
            let status = snapshot.state.status.word();
            let (project, labels) = (snapshot.data.project.clone(), snapshot.labels.clone());
            let was_begun = snapshot.data.was_begun(&snapshot.state);
            let details = TaskDetails { status, project, labels, was_begun };
            ShownWork { title: cut(&snapshot.data.goal, TITLE_BYTES), status: status.to_string(), details }
        })
    }

    /// Ids of the tasks that a process works on, or of which a process that was cut off left something.
    pub(crate) fn unsettled(&self) -> Result<Vec<String>, TaskError> {
        let mut tasks = self.list_indexed()?.entries;
        tasks.retain(|task| {
            let folder = self.workspaces.path().join(&task.id);
            let was_begun = task.details.as_ref().is_none_or(|details| details.was_begun);
            was_begun || LEFT.iter().any(|name| fs::symlink_metadata(folder.join(name)).is_ok())
        });
        Ok(tasks.into_iter().map(|task| task.id).collect())
    }

    /// Removes tasks whose creation was cut off: the process that created them is gone.
    pub(crate) fn remove_unfinished(&self) {
        let Ok(entries) = fs::read_dir(self.workspaces.path()) else { return };
        for entry in entries.flatten() {
            let mark = entry.path().join(UNFINISHED);
            // One that is being created is locked. No mark is made here: its creator may have removed it just now.
            if let Ok(Some(_mark)) = FileLock::try_lock_existing(&mark)
                && let Some(task) = entry.file_name().to_str().and_then(|id| self.open(id).ok())
            {
                let _ = self.remove(&task);
            }
        }
    }

    /// Removes a task: its folder, and its ref in the repository of the project. The caller sees to it that nobody works on it.
    pub(crate) fn remove(&self, task: &Task) -> Result<(), TaskError> {
        task.clear_work()?;
        Tree::delete_in(&self.git.find()?, task.folder())?;
        Ok(self.workspaces.remove(task.id())?)
    }
}
