//! The calls on tasks.

mod create;
mod end;
mod land;
mod look;
mod orchestrate;
mod remove;
mod result;
mod run_turn;
mod start;

use std::{fmt, sync::Arc, time::Duration};

use nexus_router::Router;
use tokio::sync::watch;

use super::inner::{TasksCore, TasksOptions};
use crate::{settings::SandboxKind, store::TaskStore, task_error::TaskError};

/// Longest wait for a call that holds the lock only briefly. After that the task counts as in use.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The tasks of one home: creates them, runs them, and shows them. Clones share the running jobs.
///
/// The folder of a task is the only truth about it. Any number of `Tasks`, in any number of processes, may share a home. A step is run by
/// one of them at a time.
///
/// # Errors
///
/// Every call returns a [`TaskError`](crate::TaskError), whose `instead` has the advice what to do or to call.
#[derive(Clone)]
pub struct Tasks(pub(super) Arc<TasksCore>);

/// Outcome of a trial of the programs that tasks need.
#[derive(Debug)]
pub struct TaskPrograms {
    /// Version of git, or why it cannot be used.
    pub git: Result<String, TaskError>,
    /// The sandbox, or why it cannot be used.
    pub sandbox: Result<SandboxKind, TaskError>,
}

impl Tasks {
    /// Opens the tasks of a home. Reads and writes no files yet.
    pub fn new(router: Router, options: TasksOptions) -> Self {
        Self(TasksCore::new(router, options))
    }

    /// Lines for a person about the running job of a task in this process: the last one now, then each new one. `None` if no job runs
    /// here.
    pub fn progress(&self, task_id: &str) -> Option<watch::Receiver<String>> {
        Some(self.0.jobs.of(&task_id.parse().ok()?)?.follow())
    }

    /// Tries the programs that tasks need: git, and the sandbox of the default settings.
    pub async fn try_programs(&self) -> TaskPrograms {
        let store = self.0.store.clone();
        let git = nexus_core::harness::try_blocking(move || {
            let [major, minor, patch] = store.git()?.version();
            Ok::<_, TaskError>(format!("{major}.{minor}.{patch}"))
        });
        let admission = &self.0.admission;
        let sandbox = admission.check_sandbox(&admission.settings).await;
        let sandbox = sandbox.map(|()| admission.settings.sandbox.kind);
        TaskPrograms { git: git.await, sandbox }
    }

    /// The folders of the tasks.
    pub fn store(&self) -> &TaskStore {
        &self.0.store
    }

    /// Stops all jobs here, and returns when all agents have ended. The changes of stopped steps are undone; each step begins again with
    /// the next call on it, here or in another process.
    pub async fn shutdown(&self) {
        // Cancel all work before waiting, so that background work and jobs end at the same time.
        self.0.background.cancel.cancel();
        self.0.jobs.close().await;
        self.0.background.ended().await;
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("home", &self.0.home).finish_non_exhaustive()
    }
}
