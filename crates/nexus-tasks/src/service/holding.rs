//! Who may change a task: a step is held by one process at a time.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_files::FileLock;
use nexus_mcp::page::cut;
use tokio::{sync::watch, time::Instant};

use super::{
    inner::{TasksCore, read},
    report::RunningNow,
};
use crate::{
    store::Task,
    task_error::{TaskError, TaskErrorKind},
};

/// How often another process is looked at that has the step.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How long another call may hold a task that only looks after it, before that counts as work on it.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How often a running job looks whether another process wants the task cancelled.
const STOP_PAUSE: Duration = Duration::from_millis(500);

impl TasksCore {
    /// Does `work` with the task's step held, once nobody else has it.
    pub(super) async fn held<F>(
        self: Arc<Self>,
        task: Task,
        cancel: CancelToken,
        said: watch::Sender<String>,
        work: impl FnOnce(Arc<Self>, Task, CancelToken, watch::Sender<String>) -> F + Send + 'static,
    ) -> Result<(), TaskError>
    where
        F: Future<Output = Result<(), TaskError>> + Send,
    {
        let _hold = loop {
            let trying = task.clone();
            if let Some(hold) = try_blocking(move || trying.try_hold_step()).await? {
                break hold;
            }
            said.send_if_modified(|line| {
                let waiting = "another process works on this task; this call waits for it";
                let is_news = line != waiting;
                waiting.clone_into(line);
                is_news
            });
            tokio::select! {
                () = cancel.cancelled() => {
                    let message = "the call was interrupted while another process worked on the task";
                    return Err(TaskError::new(TaskErrorKind::Interrupted, message, "make the same call again"));
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        let (watched, stopping) = (task.clone(), cancel.clone());
        tokio::select! {
            done = work(self, task, cancel, said) => done,
            never = stop_when_asked(&watched, &stopping) => match never {},
        }
    }

    /// Takes the right to change a task, within so long.
    pub(super) async fn hold(&self, task: &Task, patience: Duration) -> Result<FileLock, TaskError> {
        if let Some(job) = self.jobs.of(task.id()) {
            let message = format!("something runs for the task: {}", cut(&job.progress(), 300));
            return Err(TaskError::new(
                TaskErrorKind::InUse,
                message,
                "call task_status with wait_s, which comes back when it ends; or task_cancel, which stops it",
            ));
        }
        let deadline = Instant::now() + patience;
        loop {
            let trying = task.clone();
            if let Some(hold) = try_blocking(move || trying.try_hold_step()).await? {
                return Ok(hold);
            }
            if Instant::now() >= deadline {
                let message = format!("another process works on the task {}", task.id());
                let instead = "call task_status with wait_s, which comes back when it ends";
                return Err(TaskError::new(TaskErrorKind::InUse, message, instead));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What runs for a task: here, or in another process.
    pub(super) async fn running_now(&self, task: &Task) -> Result<RunningNow, TaskError> {
        if let Some(job) = self.jobs.of(task.id()) {
            return Ok(RunningNow { is_running: true, progress: Some(job.progress()) });
        }
        let is_free = read(task, |task| Ok(task.try_hold_step()?.is_some())).await?;
        let progress = (!is_free).then(|| "another process works on this task".to_owned());
        Ok(RunningNow { is_running: !is_free, progress })
    }
}

/// Cancels what runs when another process wants the task cancelled.
async fn stop_when_asked(task: &Task, cancel: &CancelToken) -> Infallible {
    loop {
        tokio::time::sleep(STOP_PAUSE).await;
        let reading = task.clone();
        if try_blocking(move || Ok::<_, TaskError>(reading.data()?.1.stop)).await.unwrap_or(false) {
            cancel.cancel();
        }
    }
}
