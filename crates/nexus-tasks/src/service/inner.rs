//! Shared parts of the calls on tasks: the store, the router, and the running jobs.

use std::{
    path::PathBuf,
    sync::{Arc, Once, Weak},
};

use nexus_core::{Clock, SystemClock, harness::try_blocking};
use nexus_router::Router;
use nexus_trees::Tree;
use nexus_work::{WorkJob, WorkJobs};

use super::{
    admission::TaskAdmission,
    background::BackgroundWork,
    follow_up_progress::FollowUpProgress,
    maps::Maps,
    memory::{NoMemory, TaskMemory},
    unsettled::UnsettledRecords,
};
use crate::{
    agent::Prompts,
    checks::Checks,
    settings::TaskSettings,
    store::{Task, TaskData, TaskStore},
    task_error::{TaskError, TaskErrorKind},
};

/// Options of the tasks of a home.
#[derive(Clone, Debug)]
pub struct TasksOptions {
    /// Folder of tasks, maps and registered types: `NEXUS_HOME`.
    pub home: PathBuf,
    /// Absolute paths of folders below which projects may lie.
    pub roots: Vec<PathBuf>,
    /// Settings of a task whose creator sets none.
    pub settings: TaskSettings,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Memory from one task to the next.
    pub memory: Arc<dyn TaskMemory>,
}

impl TasksOptions {
    /// Returns the options of the home at `home`: no roots, default settings, the machine's clock, and no memory.
    pub fn in_home(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            roots: Vec::new(),
            settings: TaskSettings::default(),
            clock: Arc::new(SystemClock),
            memory: Arc::new(NoMemory),
        }
    }
}

/// Kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// The job runs the project's tests before any change.
    Baseline,
    /// The job frames the goal.
    Framing,
    /// The job runs the step that begins with this entry.
    Step { entry: usize },
}

/// Running job of a task.
pub(super) type TaskJob = WorkJob<Task, JobKind>;

/// Data that clones share.
pub(super) struct TasksCore {
    this: Weak<Self>,
    pub(super) router: Router,
    pub(super) store: TaskStore,
    pub(super) home: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) memory: Arc<dyn TaskMemory>,
    pub(super) maps: Maps,
    pub(super) jobs: WorkJobs<Task, JobKind>,
    pub(super) admission: TaskAdmission,
    pub(super) unsettled: UnsettledRecords,
    pub(super) follow_ups: FollowUpProgress,
    pub(super) background: BackgroundWork,
    pub(super) swept: Once,
}

impl TasksCore {
    /// Creates the core. Reads and writes no files yet.
    pub(super) fn new(router: Router, options: TasksOptions) -> Arc<Self> {
        let TasksOptions { home, roots, settings, clock, memory } = options;
        // The path must stay valid if the process changes its working folder.
        let home = std::path::absolute(&home).unwrap_or(home);
        let store = TaskStore::in_home(&home).with_clock(Arc::clone(&clock));
        let maps = Maps::in_home(&home);
        let admission = TaskAdmission { router: router.clone(), store: store.clone(), roots, settings };
        let jobs = WorkJobs::new(router.clone());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            router,
            store,
            home,
            clock,
            memory,
            maps,
            jobs,
            admission,
            unsettled: UnsettledRecords::default(),
            follow_ups: FollowUpProgress::default(),
            background: BackgroundWork::default(),
            swept: Once::new(),
        })
    }

    /// Returns another reference to this core.
    pub(super) fn handle(&self) -> Arc<Self> {
        // `&self` exists only within an `Arc`, so the upgrade cannot fail.
        self.this.upgrade().unwrap_or_else(|| unreachable!("a method takes ownership of its receiver"))
    }

    pub(super) async fn open(&self, task_id: &str) -> Result<Task, TaskError> {
        let (store, id) = (self.store.clone(), task_id.to_owned());
        try_blocking(move || store.open(&id)).await
    }

    /// Reads the system prompts of agents.
    pub(super) async fn prompts(&self) -> Result<Prompts, TaskError> {
        let folder = self.home.join("prompts");
        try_blocking(move || {
            Prompts::with_folder(&folder).map_err(|error| {
                TaskError::new(
                    TaskErrorKind::NotConfigured,
                    error.to_string(),
                    "correct it, then make the same call again",
                )
            })
        })
        .await
    }

    /// Creates the checks that run the tests and probes of a task.
    pub(super) async fn checks(
        &self,
        task: &Task,
        tree: &Tree,
        data: &TaskData,
    ) -> Result<Checks, TaskError> {
        let (project, settings) = (data.project.clone(), data.settings.clone());
        let (task, tree, home) = (task.clone(), tree.clone(), self.home.clone());
        try_blocking(move || {
            let folder = task.checks_folder()?;
            Ok(Checks::new(tree, folder, project, &settings, task.probes()).with_run_registry(&home))
        })
        .await
    }
}

/// Reads or changes the files of a task off the threads of the runtime.
pub(super) async fn read<T: Send + 'static>(
    task: &Task,
    work: impl FnOnce(&Task) -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    let task = task.clone();
    try_blocking(move || work(&task)).await
}
