//! What runs for tasks in this process: at most one job a task, which callers join.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::CancelToken;
use tokio::sync::watch;

use crate::{
    store::TaskId,
    task_error::{TaskError, TaskErrorKind},
};

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

/// Something that runs for a task, or that failed and nobody was told yet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: JobKind,
    pub(super) cancel: CancelToken,
    said: watch::Sender<String>,
    ended: watch::Receiver<Option<Result<(), TaskError>>>,
}

/// The jobs of a process.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    jobs: HashMap<TaskId, Arc<Job>>,
    is_closed: bool,
}

impl Job {
    /// What it said last.
    pub(super) fn progress(&self) -> String {
        self.said.borrow().clone()
    }

    /// What it says from now on.
    pub(super) fn follow(&self) -> watch::Receiver<String> {
        self.said.subscribe()
    }

    /// How it ended, if it did.
    pub(super) fn outcome(&self) -> Option<Result<(), TaskError>> {
        self.ended.borrow().clone()
    }

    /// Waits until it ends.
    pub(super) async fn ended(&self) -> Result<(), TaskError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_) => Err(TaskError::new(
                TaskErrorKind::Interrupted,
                "the work was cut off with the program that ran it",
                "make the same call again",
            )),
        }
    }

    /// Waits until it ends, at most so long. `None` if it still runs.
    pub(super) async fn ended_within(&self, time: Duration) -> Option<Result<(), TaskError>> {
        tokio::time::timeout(time, self.ended()).await.ok()
    }
}

impl Jobs {
    /// What runs for a task.
    pub(super) fn of(&self, task: &TaskId) -> Option<Arc<Job>> {
        self.lock().jobs.get(task).filter(|job| job.outcome().is_none()).cloned()
    }

    /// A failure of the last job that no caller was told.
    pub(super) fn take_failure(&self, task: &TaskId) -> Option<TaskError> {
        let mut running = self.lock();
        let failed = running.jobs.get(task)?.outcome()?;
        running.jobs.remove(task);
        failed.err()
    }

    /// Starts a job, unless one runs for the task: then that. `work` is given what stops it and where it says what it does.
    pub(super) fn start<F>(
        self: &Arc<Self>,
        task: &TaskId,
        kind: JobKind,
        first: &str,
        work: impl FnOnce(CancelToken, watch::Sender<String>) -> F,
    ) -> Result<Arc<Job>, TaskError>
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let mut running = self.lock();
        if running.is_closed {
            return Err(TaskError::new(
                TaskErrorKind::Interrupted,
                "the server ends",
                "start it anew, then make the same call again",
            ));
        }
        if let Some(job) = running.jobs.get(task).filter(|job| job.outcome().is_none()) {
            return Ok(Arc::clone(job));
        }
        let (said, _) = watch::channel(first.to_owned());
        let (end, ended) = watch::channel(None);
        let cancel = CancelToken::new();
        let job = Arc::new(Job { kind, cancel: cancel.clone(), said: said.clone(), ended });
        running.jobs.insert(task.clone(), Arc::clone(&job));
        drop(running);
        let work = tokio::spawn(work(cancel, said));
        let (jobs, task) = (Arc::clone(self), task.clone());
        tokio::spawn(async move {
            let outcome = work.await.unwrap_or_else(|error| {
                let message = format!("the work on the task ended in a way that it should not: {error}");
                Err(TaskError::new(
                    TaskErrorKind::Failed,
                    message,
                    "make the same call again, and report this",
                ))
            });
            let is_good = outcome.is_ok();
            end.send_replace(Some(outcome));
            if is_good {
                jobs.forget(&task);
            }
        });
        Ok(job)
    }

    /// Starts no job any more, and stops those that run. Comes back when all of them have ended.
    pub(super) async fn close(&self) {
        let jobs: Vec<Arc<Job>> = {
            let mut running = self.lock();
            running.is_closed = true;
            running.jobs.values().cloned().collect()
        };
        for job in &jobs {
            job.cancel.cancel();
        }
        for job in &jobs {
            // How it ended is for its callers.
            let _ = job.ended().await;
        }
    }

    /// Forgets a job that ended well.
    fn forget(&self, task: &TaskId) {
        let mut running = self.lock();
        if running.jobs.get(task).is_some_and(|job| matches!(job.outcome(), Some(Ok(())))) {
            running.jobs.remove(task);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
