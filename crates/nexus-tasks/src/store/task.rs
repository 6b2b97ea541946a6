//! One task: its folder.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use nexus_core::{CancelToken, RecordFile, RecordLog};
use nexus_files::{FileLock, make_private_folder};
use nexus_process::private_home::remove_tree;
use nexus_trees::{Patch, Project, Tree, TreeOptions};
use nexus_work::{EventLog, LockedWork, WorkSnapshot, WorkWatch, Workspace, WorkspaceId};

use super::{data::TaskData, git::SharedGit, log::TaskLogEvent};
use crate::{
    checks::ProbeStore,
    problem_brief::ProblemBrief,
    step_record::StepRecord,
    task_error::{TaskError, TaskErrorKind},
    task_state::{TaskState, TaskStatus},
};

/// The largest record of an attempt, in bytes.
const MOST_RECORD_BYTES: u64 = 64 << 20;
/// The folders in which agents, tests and probes work on copies of the project.
const COPIES: [&str; 2] = ["work", "checks"];
/// The folder in which a cartographer reads a copy of the project.
const MAP: &str = "map";
/// What a process that was cut off may leave in the folder of a task.
pub(super) const LEFT: [&str; 4] = [COPIES[0], COPIES[1], MAP, UNFINISHED];
/// The file in the folder of a task that is being created. Its creator has the lock on it.
pub(super) const UNFINISHED: &str = ".creating";

/// Names a task: the name of its workspace.
pub type TaskId = WorkspaceId;

/// One task: its folder, and what is in it. It keeps nothing open: any number of them may be of one task.
///
/// Every call reads or writes files and may wait for a lock: in async code, call it by the runtime's `spawn_blocking`.
#[derive(Clone)]
pub struct Task {
    workspace: Workspace<TaskState>,
    git: SharedGit,
}

/// What `status.json` said of a task when it was read.
pub type TaskSnapshot = WorkSnapshot<TaskState, TaskData>;

impl Task {
    pub(super) fn of(workspace: Workspace<TaskState>, git: SharedGit) -> Self {
        Self { workspace, git }
    }

    /// Its id.
    pub fn id(&self) -> &TaskId {
        self.workspace.id()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads `status.json`. It waits for nobody.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if it is not what was written there.
    pub fn snapshot(&self) -> Result<TaskSnapshot, TaskError> {
        self.workspace.snapshot()
    }

    /// Where it is, and what else is known of it.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`].
    pub fn data(&self) -> Result<(TaskState, TaskData), TaskError> {
        let snapshot = self.snapshot()?;
        Ok((snapshot.state, snapshot.data))
    }

    /// Reads `status.json`, changes it and writes it, while nobody else writes. A change that fails writes nothing.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`]; those of `change`; [`NoSpace`](TaskErrorKind::NoSpace) and the like, with the old status in place.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut TaskState, &mut TaskData) -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        self.workspace.update_data(change)
    }

    /// Watches it from now on. Runs in a Tokio runtime.
    pub fn watch(&self) -> WorkWatch {
        WorkWatch::of(self)
    }

    /// Links it to other workspaces, on both sides.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn link(&self, other: &TaskId) -> Result<(), TaskError> {
        Ok(self.workspace.link(other)?)
    }

    /// Makes its repository, with the base checked out beside it, unless they are there.
    ///
    /// # Errors
    ///
    /// [`NotAProject`](TaskErrorKind::NotAProject), [`MissingProgram`](TaskErrorKind::MissingProgram), those of git and of the
    /// file system.
    pub fn make_tree(&self, project: &Project, include_uncommitted: bool) -> Result<Tree, TaskError> {
        let options =
            if include_uncommitted { TreeOptions::new().include_uncommitted() } else { TreeOptions::new() };
        self.make_tree_with(project, &options, &CancelToken::new())
    }

    /// As [`make_tree`](Self::make_tree), with options, until `cancel` is cancelled.
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

    /// Marks the task as one that is being created, until the mark is removed. `None`: another process creates it.
    pub(crate) fn mark_unfinished(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.folder().join(UNFINISHED);
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// Whether the task is being created, or its creation was cut off while files were read or tests ran.
    pub fn is_unfinished(&self) -> bool {
        fs::symlink_metadata(self.folder().join(UNFINISHED)).is_ok()
    }

    /// Its repository.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::open`].
    pub fn tree(&self) -> Result<Tree, TaskError> {
        Ok(Tree::open(&self.git.find()?, self.folder())?)
    }

    /// The folder with the files with which it began: laid out again if it is not there. Nobody works in it.
    ///
    /// # Errors
    ///
    /// Those of git and of the file system.
    pub fn base_folder(&self, tree: &Tree) -> Result<PathBuf, TaskError> {
        let folder = self.folder().join("base");
        // Laid out under another name first: one that is there is whole.
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            return Ok(folder);
        }
        let unfinished = self.folder().join(".base.new");
        make_private_folder(&unfinished).map_err(TaskError::at(&unfinished))?;
        tree.restore(&tree.base().commit, &unfinished, &[])?;
        fs::rename(&unfinished, &folder).map_err(TaskError::at(&folder))?;
        Ok(folder)
    }

    /// Its brief, checked anew on the files with which it began. `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if it does not hold, as somebody changed it by hand; those of git.
    pub fn brief(&self, data: &TaskData) -> Result<Option<ProblemBrief>, TaskError> {
        let Some(draft) = &data.brief else { return Ok(None) };
        let folder = self.folder().join("base");
        let folder = match fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
            true => folder,
            false => self.base_folder(&self.tree()?)?,
        };
        let brief = ProblemBrief::accept(draft.clone(), &data.types, &folder)
            .map_err(|error| TaskError::damaged(&self.folder().join("status.json"), error))?;
        // A review that was taken out of the plan by hand would be put back, and the entries be counted otherwise.
        if brief.plan().entries().len() != draft.plan.len() {
            let reason = "the plan has work without a review";
            return Err(TaskError::damaged(&self.folder().join("status.json"), reason));
        }
        Ok(Some(brief))
    }

    /// All that was committed, or what one attempt changed since its step began, as a patch. `None` if there is nothing of that.
    ///
    /// # Errors
    ///
    /// As [`Task::snapshot`] and [`Task::step_record`]; those of git.
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

    /// What attempt `attempt` came to, whether it counts or not. `None` if nothing was written down.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if the file is not what was written there.
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

    /// What was settled, the oldest first: the records of attempts that the status has left. Attempts of which there is none
    /// were cut off by the caller.
    ///
    /// # Errors
    ///
    /// As [`Task::step_record`].
    pub fn step_records(&self, state: &TaskState) -> Result<Vec<StepRecord>, TaskError> {
        let last = match state.status {
            TaskStatus::Active { cursor } => cursor.attempt.saturating_sub(1),
            // The last one was never settled: its record is about to be removed.
            TaskStatus::Cancelled { entry: Some(_) } => state.attempts.saturating_sub(1),
            _ => state.attempts,
        };
        let numbers = self.record_numbers()?;
        let counted = numbers.into_iter().filter(|number| (1..=last).contains(number));
        counted.filter_map(|number| self.step_record(number).transpose()).collect()
    }

    /// Writes down what an attempt came to; it counts when the status leaves the attempt.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write_step_record(&self, record: &StepRecord) -> Result<(), TaskError> {
        self.own_folder("steps")?;
        let path = self.step_file(record.attempt);
        let bytes = serde_json::to_vec_pretty(record).map_err(|error| TaskError::damaged(&path, error))?;
        // Whoever reads it checks it: what could not be read back is not written.
        serde_json::from_slice::<StepRecord>(&bytes).map_err(|error| {
            let message = format!("the record of attempt {} would not be readable: {error}", record.attempt);
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

    /// Where its probes are kept.
    pub fn probes(&self) -> ProbeStore {
        ProbeStore::new(self.probes_folder())
    }

    /// The folder in which its probes are kept.
    pub fn probes_folder(&self) -> PathBuf {
        self.folder().join("probes")
    }

    /// The folder in which its tests and probes are run.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn checks_folder(&self) -> Result<PathBuf, TaskError> {
        self.own_folder("checks")
    }

    /// The folder in which its agents' folders are made.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn work_folder(&self) -> Result<PathBuf, TaskError> {
        self.own_folder("work")
    }

    /// Removes the folders in which agents, tests and probes worked, once the task has ended: copies of the project, which are made
    /// again where it is reopened. The caller holds the step.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(crate) fn clear_work(&self) -> Result<(), TaskError> {
        for name in COPIES {
            let folder = self.folder().join(name);
            remove_tree(&folder).map_err(TaskError::at(&folder))?;
        }
        Ok(())
    }

    /// Whether there is anything that [`Task::clear_work`] removes.
    pub(crate) fn has_copies(&self) -> bool {
        COPIES.iter().any(|name| fs::symlink_metadata(self.folder().join(name)).is_ok())
    }

    /// The folder in which a cartographer reads a copy of the project. It is not made here.
    pub(crate) fn map_folder(&self) -> PathBuf {
        self.folder().join(MAP)
    }

    /// Removes the cartographer's copy of the project. The caller holds the follow-ups.
    pub(crate) fn clear_map(&self) -> Result<(), TaskError> {
        let folder = self.map_folder();
        remove_tree(&folder).map_err(TaskError::at(&folder))
    }

    /// Whether a cartographer's copy of the project is there.
    pub(crate) fn has_map(&self) -> bool {
        fs::symlink_metadata(self.map_folder()).is_ok()
    }

    fn own_folder(&self, name: &str) -> Result<PathBuf, TaskError> {
        let folder = self.folder().join(name);
        // By a link it would lie elsewhere.
        if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            return Err(TaskError::damaged(&folder, "it is no folder"));
        }
        make_private_folder(&folder).map_err(TaskError::at(&folder))?;
        Ok(folder)
    }

    /// Where the turns of its agents are written down.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if what is there is no record of turns.
    pub fn turns(&self) -> Result<RecordFile, TaskError> {
        self.workspace.turns()
    }

    /// The turns of its agents, as they were written down. None if there is no such file yet.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if what is there is no regular file, which could hold the call up; those of the file
    /// system.
    pub fn turn_log(&self) -> Result<RecordLog, TaskError> {
        self.workspace.turn_log()
    }

    /// The file of the turns of its agents.
    pub fn turns_path(&self) -> PathBuf {
        self.workspace.turns_path()
    }

    /// Appends to its log.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn log(&self, event: &TaskLogEvent) -> Result<(), TaskError> {
        self.workspace.log(event)
    }

    /// Reads its log.
    ///
    /// # Errors
    ///
    /// [`Damaged`](TaskErrorKind::Damaged) if it has gaps.
    pub fn events(&self) -> Result<EventLog, TaskError> {
        Ok(self.workspace.events()?)
    }

    /// Takes the right to run a step, if nobody has it.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn try_hold_step(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.folder().join(Self::LOCK);
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// Takes the right to do what follows the completion, if nobody has it. Whoever has it runs no step.
    pub(crate) fn try_hold_follow_ups(&self) -> Result<Option<FileLock>, TaskError> {
        let path = self.follow_ups_lock();
        FileLock::try_lock(&path).map_err(TaskError::at(&path))
    }

    /// The file whose lock is the right to do what follows the completion.
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
            // Written in another way, as `01`, it is none of ours.
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
