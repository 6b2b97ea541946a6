//! One task: its folder.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use nexus_core::{CancelToken, RecordFile, RecordLog};
use nexus_files::{FileLock, make_private_folder};
use nexus_process::private_home::remove_tree;
use nexus_trees::{Patch, Project, Tree, TreeOptions};
use nexus_work::{
    EventLog, LockedWork, WorkSnapshot, WorkWatch, Workspace, WorkspaceEvent, WorkspaceId,
    WorkspaceState as _,
};

use super::{
    data::TaskData,
    git::SharedGit,
    log::{TaskLogEvent, is_landing},
};
use crate::{
    checks::ProbeStore,
    problem_brief::ProblemBrief,
    step_record::StepRecord,
    task_error::{TaskError, TaskErrorKind},
    task_state::{TaskState, TaskStatus},
};

/// Largest record of an attempt, in bytes.
const MOST_RECORD_BYTES: u64 = 64 << 20;
/// Folders in which agents, tests and probes work on copies of the project.
const COPIES: [&str; 2] = ["work", "checks"];
/// Folder in which a cartographer reads a copy of the project.
const MAP: &str = "map";
/// Names that an interrupted process may leave in the folder of a task.
pub(super) const LEFT: [&str; 4] = [COPIES[0], COPIES[1], MAP, UNFINISHED];
/// File in the folder of a task that is being created. Its creator has locked it.
pub(super) const UNFINISHED: &str = ".creating";

/// Id of a task: the name of its workspace.
pub type TaskId = WorkspaceId;

/// One task: its folder, with functions for its content. It keeps no files open: any number of `Task` values may share a folder.
///
/// Every call reads or writes files and may wait for a lock: in async code, call it by the runtime's `spawn_blocking`.
#[derive(Clone)]
pub struct Task {
    workspace: Workspace<TaskState>,
    git: SharedGit,
}

/// Content of a task's `status.json` at one moment.
pub type TaskSnapshot = WorkSnapshot<TaskState, TaskData>;

impl Task {
    pub(super) fn of(workspace: Workspace<TaskState>, git: SharedGit) -> Self {
        Self { workspace, git }
    }

    /// Returns the id of the task.
    pub fn id(&self) -> &TaskId {
        self.workspace.id()
    }

    /// Returns the folder of the task.
    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads `status.json`. It waits for no lock.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if its content is invalid.
    pub fn snapshot(&self) -> Result<TaskSnapshot, TaskError> {
        self.workspace.snapshot()
    }

    /// Reads the state and the data of the task.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`].
    pub fn data(&self) -> Result<(TaskState, TaskData), TaskError> {
        let snapshot = self.snapshot()?;
        Ok((snapshot.state, snapshot.data))
    }

    /// Reads `status.json`, changes it and writes it, under its lock. A change that fails writes nothing.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`]; errors of `change`; [`NoSpace`](TaskErrorKind::NoSpace) and the like, with the old status in place.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut TaskState, &mut TaskData) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        self.workspace.update_data(|state: &mut TaskState, data: &mut TaskData| {
            let answer = change(state, data)?;
            // A task leaves the queue with its end, whichever program ends it.
            if state.is_final() && data.queued.is_some() {
                data.set_queued(None);
            }
            Ok(answer)
        })
    }

    /// Watches the task from now on. Requires a Tokio runtime.
    pub fn watch(&self) -> WorkWatch {
        WorkWatch::of(self)
    }

    /// Links the task to another workspace; afterwards both name each other.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn link(&self, other: &TaskId) -> Result<(), TaskError> {
        Ok(self.workspace.link(other)?)
    }

    /// Creates the task's repository and a checkout of its base, unless they exist.
    ///
    /// # Errors
    ///
    /// [`NotAProject`](TaskErrorKind::NotAProject), [`MissingProgram`](TaskErrorKind::MissingProgram), errors of git
    /// and of the file system.
    pub fn make_tree(&self, project: &Project, include_uncommitted: bool) -> Result<Tree, TaskError> {
        let options =
            if include_uncommitted { TreeOptions::new().include_uncommitted() } else { TreeOptions::new() };
        self.make_tree_with(project, &options, &CancelToken::new())
    }

    /// Does the same as [`make_tree`](Self::make_tree), with options, until `cancel` is cancelled.
    pub(crate) fn make_tree_with(
        &self,
        project: &Project,
        options: &TreeOptions,
        cancel: &CancelToken,
    ) -> Result<Tree, TaskError> {
        let git = self.git.find()?.with_cancel(cancel.clone());
        let tree = Tree::create(&git, self.folder(), project, options)?;
        self.base_folder(&tree)?;
        Ok(tree)
    }

    /// Marks the task as being created, until the mark is removed. Returns `None` if another process creates it.
    pub(crate) fn mark_unfinished(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.folder().join(UNFINISHED);
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// Returns true if the task is being created, or its creation was interrupted while files were read or tests ran.
    pub fn is_unfinished(&self) -> bool {
        fs::symlink_metadata(self.folder().join(UNFINISHED)).is_ok()
    }

    /// Opens the task's repository.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::open`].
    pub fn tree(&self) -> Result<Tree, TaskError> {
        Ok(Tree::open(&self.git.find()?, self.folder())?)
    }

    /// Returns the folder with the files with which the task began, restored if it is missing. Agents never work in it.
    ///
    /// # Errors
    ///
    /// Errors of git and of the file system.
    pub fn base_folder(&self, tree: &Tree) -> Result<PathBuf, TaskError> {
        let folder = self.folder().join("base");
        // The folder is created under another name and renamed, so an existing one is complete.
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            return Ok(folder);
        }
        let unfinished = self.folder().join(".base.new");
        make_private_folder(&unfinished).map_err(TaskError::at(&unfinished))?;
        // An interrupted call may have left files in this folder; `restore` removes them.
        tree.restore(&tree.base().commit, &unfinished, &[])?;
        fs::rename(&unfinished, &folder).map_err(TaskError::at(&folder))?;
        Ok(folder)
    }

    /// Returns the brief of the task, checked again on the files with which the task began. `None` before the first
    /// brief.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if the brief is invalid, for example after an edit by hand; errors of git.
    pub fn brief(&self, data: &TaskData) -> Result<Option<ProblemBrief>, TaskError> {
        let Some(draft) = &data.brief else { return Ok(None) };
        let folder = self.folder().join("base");
        let folder = match fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            true => folder,
            false => self.base_folder(&self.tree()?)?,
        };
        let brief = ProblemBrief::accept(draft.clone(), &data.types, &folder)
            .map_err(|error| TaskError::damaged(&self.folder().join("status.json"), error))?;
        // Checking adds a missing review. If an edit removed one from the plan, the numbers of the entries would shift.
        if brief.plan().entries().len() != draft.plan.len() {
            let reason = "the plan contains work without a review";
            return Err(TaskError::damaged(&self.folder().join("status.json"), reason));
        }
        Ok(Some(brief))
    }

    /// Returns all commits, or the changes of one attempt since its step began, as a patch. `None` if they do not exist.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`] and [`Task::step_record`]; errors of git.
    pub fn patch(&self, attempt: Option<u32>) -> Result<Option<Patch>, TaskError> {
        let (from, to) = match attempt {
            None => (None, self.data()?.1.head),
            Some(attempt) => match self.step_record(attempt)? {
                Some(record) => (Some(record.step_base), record.work),
                None => return Ok(None),
            },
        };
        let Some(to) = to else { return Ok(None) };
        let tree = self.tree()?;
        Ok(Some(tree.patch(from.as_ref().unwrap_or(&tree.base().commit), &to)?))
    }

    /// Reads the record of attempt `attempt`, settled or not. `None` if the attempt has no record.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if the content of the file is invalid.
    pub fn step_record(&self, attempt: u32) -> Result<Option<StepRecord>, TaskError> {
        let path = self.step_file(attempt);
        let bytes = nexus_files::read_bounded(&path, MOST_RECORD_BYTES).map_err(TaskError::at(&path))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let record: StepRecord =
            serde_json::from_slice(&bytes).map_err(|error| TaskError::damaged(&path, error))?;
        if record.attempt != attempt {
            return Err(TaskError::damaged(
                &path,
                format_args!("it is the record of attempt {}", record.attempt),
            ));
        }
        Ok(Some(record))
    }

    /// Reads the records of settled attempts, the oldest first. An attempt is settled when the status has moved on from
    /// it. An attempt that the caller cancelled has no record.
    ///
    /// # Errors
    ///
    /// As [`Task::step_record`].
    pub fn step_records(&self, state: &TaskState) -> Result<Vec<StepRecord>, TaskError> {
        let last = match state.status {
            // The attempt of the cursor is not settled yet.
            TaskStatus::Active { cursor } => cursor.attempt.saturating_sub(1),
            // The last attempt was never settled. Its record, if it exists, is about to be removed.
            TaskStatus::Cancelled { entry: Some(_) } => state.attempts.saturating_sub(1),
            _ => state.attempts,
        };
        let numbers = self.record_numbers()?;
        let counted = numbers.into_iter().filter(|number| (1..=last).contains(number));
        counted.filter_map(|number| self.step_record(number).transpose()).collect()
    }

    /// Writes the record of an attempt. The record counts once the status has moved on from the attempt.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn write_step_record(&self, record: &StepRecord) -> Result<(), TaskError> {
        self.own_folder("steps")?;
        let path = self.step_file(record.attempt);
        let bytes = serde_json::to_vec_pretty(record).map_err(|error| TaskError::damaged(&path, error))?;
        // Reading checks the record, so write none that cannot be read back.
        serde_json::from_slice::<StepRecord>(&bytes).map_err(|error| {
            let message = format!("the record of attempt {} would be unreadable: {error}", record.attempt);
            TaskError::new(TaskErrorKind::Failed, message, "nothing was written; report this")
        })?;
        nexus_files::replace(&path, &bytes).map_err(TaskError::at(&path))
    }

    /// Removes the record of an attempt that was never settled.
    pub(crate) fn discard_step_record(&self, attempt: u32) -> Result<(), TaskError> {
        let path = self.step_file(attempt);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TaskError::unusable(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Returns the store of the task's probes.
    pub fn probes(&self) -> ProbeStore {
        ProbeStore::new(self.probes_folder())
    }

    /// Returns the folder of the task's probes.
    pub fn probes_folder(&self) -> PathBuf {
        self.folder().join("probes")
    }

    /// Returns the folder in which the task's tests and probes run. Creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn checks_folder(&self) -> Result<PathBuf, TaskError> {
        self.own_folder("checks")
    }

    /// Returns the folder that contains the working folders of the task's agents. Creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn work_folder(&self) -> Result<PathBuf, TaskError> {
        self.own_folder("work")
    }

    /// Removes the folders in which agents, tests and probes worked, once the task has ended. They are copies of the project; a reopened
    /// task creates them again. The caller owns the step's lock.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub(crate) fn clear_work(&self) -> Result<(), TaskError> {
        for name in COPIES {
            let folder = self.folder().join(name);
            remove_tree(&folder).map_err(TaskError::at(&folder))?;
        }
        Ok(())
    }

    /// Returns true if any folder exists that [`Task::clear_work`] removes.
    pub(crate) fn has_copies(&self) -> bool {
        COPIES.iter().any(|name| fs::symlink_metadata(self.folder().join(name)).is_ok())
    }

    /// Returns the folder in which a cartographer reads a copy of the project. Does not create it.
    pub(crate) fn map_folder(&self) -> PathBuf {
        self.folder().join(MAP)
    }

    /// Removes the cartographer's copy of the project. The caller owns the lock of the follow-ups.
    pub(crate) fn clear_map(&self) -> Result<(), TaskError> {
        let folder = self.map_folder();
        remove_tree(&folder).map_err(TaskError::at(&folder))
    }

    /// Returns true if a cartographer's copy of the project exists.
    pub(crate) fn has_map(&self) -> bool {
        fs::symlink_metadata(self.map_folder()).is_ok()
    }

    fn own_folder(&self, name: &str) -> Result<PathBuf, TaskError> {
        let folder = self.folder().join(name);
        // A link would lead out of the task's folder.
        if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            return Err(TaskError::damaged(&folder, "it is not a folder, as required"));
        }
        make_private_folder(&folder).map_err(TaskError::at(&folder))?;
        Ok(folder)
    }

    /// Returns the log of the turns of the task's agents.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if the file does not contain turns.
    pub fn turns(&self) -> Result<RecordFile, TaskError> {
        self.workspace.turns()
    }

    /// Reads the turns of the task's agents. The log is empty if the file does not exist yet.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if it is not a regular file, which could block the call; errors of the file system.
    pub fn turn_log(&self) -> Result<RecordLog, TaskError> {
        self.workspace.turn_log()
    }

    /// Returns the file with the turns of the task's agents.
    pub fn turns_path(&self) -> PathBuf {
        self.workspace.turns_path()
    }

    /// Returns the path of the task's log.
    pub fn events_path(&self) -> PathBuf {
        self.workspace.events_path()
    }

    /// Appends an event to the task's log.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn log(&self, event: &TaskLogEvent) -> Result<(), TaskError> {
        self.workspace.log(event)
    }

    /// Reads the task's log.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if it has gaps.
    pub fn events(&self) -> Result<EventLog, TaskError> {
        Ok(self.workspace.events()?)
    }

    /// Returns true if a removal of the task would lose work: its last commit was not landed, or an attempt left files with which a reopened
    /// task continues. Also true if the log does not have the landing of that commit.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if the task or its log is; errors of the file system.
    pub fn has_unlanded_work(&self) -> Result<bool, TaskError> {
        let data = self.data()?.1;
        if data.work.is_some() {
            return Ok(true);
        }
        let Some(head) = data.head.filter(|_| !data.commits.is_empty()) else { return Ok(false) };
        let of_head = |event: &WorkspaceEvent| {
            let commit = event.data.get("commit").and_then(|commit| commit.as_str());
            is_landing(event) && commit == Some(head.as_str())
        };
        Ok(!self.events()?.events.iter().any(of_head))
    }

    /// Locks the right to run a step. Returns `None` if another process has it.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn try_hold_step(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.folder().join(Self::LOCK);
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// Locks the follow-ups of the completion. Returns `None` if another process has them. Their owner runs no step.
    pub(crate) fn try_hold_follow_ups(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.follow_ups_lock();
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// Returns the lock file of the follow-ups.
    pub(crate) fn follow_ups_lock(&self) -> PathBuf {
        self.folder().join(".follow-ups")
    }

    fn step_file(&self, attempt: u32) -> PathBuf {
        self.folder().join("steps").join(format!("{attempt}.json"))
    }

    fn record_numbers(&self) -> Result<Vec<u32>, TaskError> {
        let folder = self.folder().join("steps");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(TaskError::at(&folder))?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(TaskError::at(&folder))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json"));
            // Other forms of a number, such as `01`, are not names of our files.
            let number = number.and_then(|text| text.parse::<u32>().ok().filter(|n| n.to_string() == text));
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

impl LockedWork for Task {
    type State = TaskState;
    type ErrorKind = TaskErrorKind;
    const LOCK: &'static str = ".step";

    fn workspace(&self) -> &Workspace<TaskState> {
        &self.workspace
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", self.id()).field("folder", &self.folder()).finish_non_exhaustive()
    }
}
