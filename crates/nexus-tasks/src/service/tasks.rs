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
use crate::store::TaskStore;

/// Longest wait of a call for another one that only looks after a task, before that counts as work on it.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// The tasks of one home: creates them, runs them, and shows them. Clones share what runs.
///
/// What is true of a task is what its folder says: any number of these, in any number of processes, may be of one home. A step is
/// run by one of them at a time.
///
/// # Errors
///
/// Every call gives a [`TaskError`](crate::TaskError), whose `instead` says what to do or to call.
#[derive(Clone)]
pub struct Tasks(pub(super) Arc<TasksCore>);

impl Tasks {
    /// The tasks of a home. Nothing is read or made yet.
    pub fn new(router: Router, options: TasksOptions) -> Self {
        Self(TasksCore::new(router, options))
    }

    /// Lines for a person about what runs for a task in this process: the last one now, and each that follows. `None` if nothing
    /// runs here.
    pub fn progress(&self, task_id: &str) -> Option<watch::Receiver<String>> {
        Some(self.0.jobs.of(&task_id.parse().ok()?)?.follow())
    }

    /// The folders of the tasks.
    pub fn store(&self) -> &TaskStore {
        &self.0.store
    }

    /// Stops what runs here, and comes back when all agents are gone. Steps that were stopped are put back, and begin anew with the
    /// next call on them, here or elsewhere.
    pub async fn shutdown(&self) {
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
