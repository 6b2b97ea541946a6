//! The tasks of a home.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::Clock;
use nexus_files::FileLock;
use nexus_trees::{Git, Tree};
use nexus_work::{NewWorkspace, WorkListing, WorkspaceId, Workspaces};

use super::{
    data::TaskData,
    git::SharedGit,
    task::{Task, TaskSnapshot, UNFINISHED},
};
use crate::{
    task_error::{TaskError, TaskErrorKind},
    task_state::TaskState,
};

/// The folder of tasks in a home.
const FOLDER: &str = "tasks";

/// The tasks of one home: folders in `NEXUS_HOME/tasks`. Any number of them, in any number of processes, may be of one home.
#[derive(Clone, Debug)]
pub struct TaskStore {
    workspaces: Workspaces<TaskState>,
    git: SharedGit,
}

/// The tasks of a home, as they were listed.
pub type TaskListing = WorkListing<Task, TaskSnapshot, TaskErrorKind>;

impl TaskStore {
    /// Those of the home at `home`. Nothing is read or made yet.
    pub fn in_home(home: &Path) -> Self {
        Self { workspaces: Workspaces::below(home.join(FOLDER)), git: SharedGit::default() }
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

    /// Removes tasks whose creation was cut off: the process that created them is gone.
    pub(crate) fn remove_unfinished(&self) {
        let Ok(entries) = std::fs::read_dir(self.workspaces.path()) else { return };
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
