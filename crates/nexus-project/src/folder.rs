//! The folder `.nexus/` of a project: reading and changing its files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    branch,
    error::{ProjectError, ProjectErrorKind},
    file::{self, FolderLock, Patience},
    state::{
        Cycle, Document, History, Pending, PlanSummary, ProjectPlan, ProjectTasks, TasksSummary, summary_of,
        write_summarized,
    },
    time::Time,
};

/// The folder of a project's plans and knowledge.
pub(crate) const FOLDER: &str = ".nexus";
/// Folder of files for one cycle, which git does not track.
const STATE: &str = "state";
/// Folders of knowledge that is never removed. The history is separate.
pub(crate) const KNOWLEDGE: [&str; 3] = ["memory", "context", "rules"];
/// The line of `.nexus/.gitignore`.
const IGNORED: &str = "state/";
/// File in which earlier versions stored the running agents.
const LEGACY_TRACKER: &str = "agent-tracker.json";

/// A project: the folder with `.nexus/`. Cheap to clone; every call reads the files again.
///
/// Calls read and write files and may wait for other processes: in async code, use the runtime's
/// `spawn_blocking`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFolder {
    root: PathBuf,
    patience: Patience,
}

/// Result of [`ProjectFolder::init`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InitReport {
    /// Created files and folders, relative to the project.
    pub made: Vec<String>,
    /// Removed files of earlier versions, relative to the project.
    pub removed: Vec<String>,
    /// Topic of an unclosed plan, if the project has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_left: Option<String>,
    /// Number of unfinished tasks; missing without tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_left: Option<usize>,
}

/// Summaries of the plan and the tasks of a project, as far as it has any.
#[derive(Debug, Default)]
pub(crate) struct WorkSummary {
    pub(crate) plan: Option<PlanSummary>,
    pub(crate) tasks: Option<TasksSummary>,
}

impl ProjectFolder {
    /// Names the project in this folder. Reads and creates nothing.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), patience: Patience::default() }
    }

    /// Returns the same project with another longest wait for its locks.
    pub(crate) fn with_patience(&self, patience: Patience) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Finds the project of a folder: the nearest folder, from this one upwards, with `.nexus/state/`, but not above the top
    /// of a git repository. Without one, it is the top of the repository. Outside of a repository, it is the folder itself.
    pub fn find(folder: &Path) -> Self {
        for above in folder.ancestors() {
            if above.join(FOLDER).join(STATE).is_dir() || above.join(".git").exists() {
                return Self::at(above);
            }
        }
        Self::at(folder)
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a path below `.nexus/`.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(FOLDER).join(below)
    }

    /// Returns a path below `.nexus/state/`.
    pub(crate) fn state_path(&self, below: &str) -> PathBuf {
        self.root.join(FOLDER).join(STATE).join(below)
    }

    /// Creates the missing parts of `.nexus/`, and reports the plan and tasks of an earlier session, which stay. Calling it
    /// again changes nothing.
    ///
    /// # Errors
    ///
    /// [`ProjectErrorKind::Damaged`](crate::ProjectErrorKind::Damaged) for a plan or tasks that cannot be read; errors of
    /// the file system.
    pub fn init(&self) -> Result<InitReport, ProjectError> {
        self.init_and_read().map(|(report, _)| report)
    }

    /// Like [`init`](Self::init), and returns the summaries that it has read.
    pub(crate) fn init_and_read(&self) -> Result<(InitReport, WorkSummary), ProjectError> {
        let mut report = InitReport::default();
        // This fails for a link, which would redirect all files to another folder.
        file::make_folder(&self.root.join(FOLDER))?;
        for folder in [STATE, "state/artifacts"].into_iter().chain(KNOWLEDGE) {
            if file::make_folder(&self.path(folder))? {
                report.made.push(format!("{FOLDER}/{folder}"));
            }
        }
        let _lock = self.lock()?;
        if file::ignore(&self.path(""), &[IGNORED])? {
            report.made.push(format!("{FOLDER}/.gitignore"));
        }
        let legacy = self.state_path(LEGACY_TRACKER);
        if file::read(&legacy)?.is_some() {
            file::remove(&legacy)?;
            report.removed.push(format!("{FOLDER}/{STATE}/{LEGACY_TRACKER}"));
        }
        for folder in ["", STATE].into_iter().chain(KNOWLEDGE) {
            nexus_files::remove_unfinished(&self.path(folder));
        }
        self.finish()?;
        let work = self.read_work_summary()?;
        report.plan_left = work.plan.as_ref().map(|plan| plan.topic.clone());
        report.tasks_left = work.tasks.as_ref().map(|tasks| tasks.total);
        Ok((report, work))
    }

    /// Reads the summaries of the plan and the tasks under the lock.
    pub(crate) fn work_summary(&self) -> Result<WorkSummary, ProjectError> {
        self.looked(|| self.read_work_summary())
    }

    /// Reads the summaries of the plan and the tasks. The caller has the lock.
    pub(crate) fn read_work_summary(&self) -> Result<WorkSummary, ProjectError> {
        let state = self.state_path("");
        Ok(WorkSummary {
            plan: summary_of::<ProjectPlan>(&state)?,
            tasks: summary_of::<ProjectTasks>(&state)?,
        })
    }

    /// Returns true if the project has tasks. Reads their summary alone if it is valid.
    ///
    /// # Errors
    ///
    /// Errors of [`Document::read`].
    pub(crate) fn has_valid_tasks(&self) -> Result<bool, ProjectError> {
        Ok(summary_of::<ProjectTasks>(&self.state_path(""))?.is_some())
    }

    /// Returns the plan, if the project has one.
    ///
    /// # Errors
    ///
    /// Errors of [`Document::read`].
    pub fn plan(&self) -> Result<Option<ProjectPlan>, ProjectError> {
        ProjectPlan::read(&self.state_path(ProjectPlan::NAME))
    }

    /// Returns the tasks, if the project has any. They have the files of the agents that ended.
    ///
    /// # Errors
    ///
    /// Errors of [`Document::read`].
    pub fn tasks(&self) -> Result<Option<ProjectTasks>, ProjectError> {
        let Some(mut tasks) = ProjectTasks::read(&self.state_path(ProjectTasks::NAME))? else {
            return Ok(None);
        };
        self.add_agent_files(&mut tasks);
        Ok(Some(tasks))
    }

    /// Returns the cycles that ended.
    ///
    /// # Errors
    ///
    /// Errors of [`Document::read`].
    pub fn history(&self) -> Result<History, ProjectError> {
        Ok(History::read(&self.path(History::NAME))?.unwrap_or_default())
    }

    pub(crate) fn write_plan(&self, plan: &ProjectPlan) -> Result<(), ProjectError> {
        write_summarized(&self.state_path(""), plan)
    }

    /// Replaces the tasks. They must come from [`Self::tasks`], under the same lock.
    pub(crate) fn write_tasks(&self, tasks: &ProjectTasks) -> Result<(), ProjectError> {
        write_summarized(&self.state_path(""), tasks)?;
        // The tasks are written, so the call has succeeded. Lines that remain are added again, without effect.
        if let Err(error) = self.forget_ended_agents() {
            tracing::warn!(%error, "the files of agents that ended remain in their log");
        }
        Ok(())
    }

    /// Runs a change under the lock of the project. First completes a change that a dead process began. Creates `.nexus/` if
    /// it is missing.
    pub(crate) fn locked<T>(
        &self,
        call: impl FnOnce() -> Result<T, ProjectError>,
    ) -> Result<T, ProjectError> {
        let _lock = self.enter()?;
        call()
    }

    /// Runs a read of files like [`Self::locked`], but creates no folder. If this user may not write, files are read without
    /// a lock, unless a dead process left an incomplete change. A hook reads without a lock, too, if another writer owns the
    /// lock.
    pub(crate) fn looked<T>(
        &self,
        call: impl FnOnce() -> Result<T, ProjectError>,
    ) -> Result<T, ProjectError> {
        // Without the folder of the state, no change can be incomplete.
        if self.state_folders().any(|found| found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
        {
            return call();
        }
        let _lock = match self.enter() {
            Err(error)
                if error.kind == ProjectErrorKind::PermissionDenied
                    && !self.state_path(Pending::NAME).exists() =>
            {
                None
            }
            // Each file is replaced in one step, so it is consistent by itself even without the lock.
            Err(error)
                if error.kind == ProjectErrorKind::InUse && matches!(self.patience, Patience::OfAHook(_)) =>
            {
                None
            }
            entered => Some(entered?),
        };
        call()
    }

    /// Returns the metadata of `.nexus/` and `.nexus/state/`.
    fn state_folders(&self) -> impl Iterator<Item = io::Result<fs::Metadata>> {
        let folder = self.root.join(FOLDER);
        [folder.join(STATE), folder].into_iter().map(fs::symlink_metadata)
    }

    fn enter(&self) -> Result<FolderLock, ProjectError> {
        if !self.state_folders().all(|found| found.is_ok_and(|found| found.is_dir())) {
            self.init()?;
        }
        let lock = self.lock()?;
        self.finish()?;
        Ok(lock)
    }

    fn lock(&self) -> Result<FolderLock, ProjectError> {
        FolderLock::take(&self.state_path(".lock"), self.patience)
    }

    /// Moves the plan, and the tasks if given, to the history as a cycle, and starts `next_plan` if it is given. Does all
    /// of it, or nothing.
    pub(crate) fn archive(
        &self,
        plan: Option<ProjectPlan>,
        tasks: Option<ProjectTasks>,
        next_plan: Option<ProjectPlan>,
    ) -> Result<Cycle, ProjectError> {
        let branch = branch::of(&self.root);
        let cycle = Cycle { id: new_id()?, closed_at: Time::now(), branch, plan, tasks };
        // Check the history before any write: if it is unreadable, or would become unreadable, nothing changes.
        let mut history = self.history()?;
        history.cycles.push(cycle.clone());
        history.text(&self.path(History::NAME))?;
        // From this write on the change counts. A killed process leaves the rest to the next one.
        Pending::new(cycle.clone(), next_plan).write(&self.state_path(Pending::NAME))?;
        self.finish()?;
        Ok(cycle)
    }

    /// Completes a change that [`Self::archive`] began. A repeated step has no further effect.
    fn finish(&self) -> Result<(), ProjectError> {
        let path = self.state_path(Pending::NAME);
        let Some(Pending { cycle, next_plan, .. }) = Pending::read(&path)? else { return Ok(()) };
        let mut history = self.history()?;
        // A killed process may have written the history already.
        if !history.cycles.iter().any(|known| known.id == cycle.id) {
            history.cycles.push(cycle.clone());
            history.write(&self.path(History::NAME))?;
        }
        // Remove the plan only after the history has it, so that a crash loses nothing.
        match (&next_plan, &cycle.plan) {
            (Some(plan), _) => self.write_plan(plan)?,
            (None, Some(_)) => file::remove(&self.state_path(ProjectPlan::NAME))?,
            (None, None) => {}
        }
        if cycle.tasks.is_some() {
            file::remove(&self.state_path(ProjectTasks::NAME))?;
        }
        if next_plan.is_none() {
            // The cycle is closed even if this removal fails.
            let _ = self.end_session_files();
        }
        file::remove(&path)
    }
}

/// Creates a unique id: 32 hexadecimal digits.
pub(crate) fn new_id() -> Result<String, ProjectError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = format!("the system gives no random numbers: {error}");
        ProjectError::new(ProjectErrorKind::Failed, message, "make the same call again now")
    })?;
    Ok(nexus_files::hex(bytes))
}
