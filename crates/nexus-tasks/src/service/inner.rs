//! What the calls on tasks share: where tasks lie, who runs their turns, and what runs just now.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak, atomic::AtomicBool},
};

use nexus_core::{CancelToken, Clock, SystemClock, harness::try_blocking};
use nexus_router::Router;
use nexus_trees::Tree;
use nexus_work::{WorkJob, WorkJobs};

use super::{
    maps::Maps,
    memory::{NoMemory, TaskMemory},
};
use crate::{
    agent::Prompts,
    checks::Checks,
    settings::TaskSettings,
    step_record::StepRecord,
    store::{FollowUp, Task, TaskData, TaskId, TaskStore},
    task_error::{TaskError, TaskErrorKind},
};

/// What the tasks of a home are run with.
#[derive(Clone, Debug)]
pub struct TasksOptions {
    /// The folder that tasks, maps and registered types are kept in: `NEXUS_HOME`.
    pub home: PathBuf,
    /// Absolute paths of folders below which projects may lie.
    pub roots: Vec<PathBuf>,
    /// What holds for a task whose creator says nothing else.
    pub settings: TaskSettings,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What is remembered from one task to the next.
    pub memory: Arc<dyn TaskMemory>,
}

impl TasksOptions {
    /// Those of the home at `home`, with no root, the usual settings, the machine's clock, and no memory.
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

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// It runs the project's tests before anything is changed.
    Baseline,
    /// It frames the goal.
    Framing,
    /// It runs the step that begins with this entry.
    Step { entry: usize },
}

/// Something that runs for a task.
pub(super) type TaskJob = WorkJob<Task, JobKind>;

/// Data that clones share.
pub(super) struct TasksCore {
    this: Weak<Self>,
    pub(super) router: Router,
    pub(super) store: TaskStore,
    pub(super) home: PathBuf,
    pub(super) roots: Vec<PathBuf>,
    pub(super) settings: TaskSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) memory: Arc<dyn TaskMemory>,
    pub(super) maps: Maps,
    pub(super) jobs: WorkJobs<Task, JobKind>,
    /// Records of attempts that could not be settled, as the disk was full.
    pub(super) unsettled: Mutex<HashMap<TaskId, StepRecord>>,
    /// What was done after completions and could not be noted in the status, by task and last settled attempt.
    pub(super) followed: Mutex<HashSet<(TaskId, u32, FollowUp)>>,
    pub(super) background: Background,
    pub(super) swept: Once,
    /// Whether a call here ran agents, so that what follows completions is done here.
    pub(super) follows_up: AtomicBool,
}

/// What runs after the answer to a caller.
#[derive(Debug, Default)]
pub(super) struct Background {
    pub(super) cancel: CancelToken,
    pub(super) running: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl TasksCore {
    /// Nothing is read or made yet.
    pub(super) fn new(router: Router, options: TasksOptions) -> Arc<Self> {
        let TasksOptions { home, roots, settings, clock, memory } = options;
        let home = std::path::absolute(&home).unwrap_or(home);
        let store = TaskStore::in_home(&home).with_clock(Arc::clone(&clock));
        let maps = Maps::in_home(&home);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            router,
            store,
            home,
            roots,
            settings,
            clock,
            memory,
            maps,
            jobs: WorkJobs::default(),
            unsettled: Mutex::default(),
            followed: Mutex::default(),
            background: Background::default(),
            swept: Once::new(),
            follows_up: AtomicBool::new(false),
        })
    }

    /// Another owner of this.
    pub(super) fn handle(&self) -> Arc<Self> {
        // Whoever calls has one.
        self.this.upgrade().unwrap_or_else(|| unreachable!("a method runs on something that is owned"))
    }

    pub(super) async fn open(&self, task_id: &str) -> Result<Task, TaskError> {
        let (store, id) = (self.store.clone(), task_id.to_owned());
        try_blocking(move || store.open(&id)).await
    }

    /// What agents are told.
    pub(super) async fn prompts(&self) -> Result<Prompts, TaskError> {
        let folder = self.home.join("prompts");
        try_blocking(move || {
            Prompts::with_folder(&folder).map_err(|error| {
                TaskError::new(
                    TaskErrorKind::NotConfigured,
                    error.to_string(),
                    "then make the same call again",
                )
            })
        })
        .await
    }

    /// What runs the tests and probes of a task.
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

    pub(super) fn unsettled(&self, task: &Task, attempt: u32) -> Option<StepRecord> {
        lock(&self.unsettled).get(task.id()).filter(|record| record.attempt == attempt).cloned()
    }

    pub(super) fn keep_unsettled(&self, task: &Task, record: StepRecord) {
        lock(&self.unsettled).insert(task.id().clone(), record);
    }

    pub(super) fn forget_unsettled(&self, task: &Task) {
        lock(&self.unsettled).remove(task.id());
    }

    pub(super) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.background.running);
        running.retain(|task| !task.is_finished());
        running.push(tokio::spawn(work));
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
