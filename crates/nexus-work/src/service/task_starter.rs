//! Starting tasks as a result of other work.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;
use nexus_core::{ServiceError, ServiceFault};

/// A task that follows from other work, such as a debate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowUpTask {
    /// Goal of the task.
    pub goal: String,
    /// Absolute path of the project.
    pub project: PathBuf,
    /// Information that the agents cannot find out by themselves.
    pub context: Option<String>,
    /// Ids of the workspaces that the task is linked to.
    pub linked_workspace_ids: Vec<String>,
}

/// Starts tasks for a service that does not depend on the task service.
#[async_trait]
pub trait TaskStarter: fmt::Debug + Send + Sync {
    /// Creates a task below the configured roots or those of the client, and returns its id. Does not wait for its first
    /// tests.
    ///
    /// # Errors
    ///
    /// Errors of the task service.
    async fn start_task(
        &self,
        task: FollowUpTask,
        client_roots: &[PathBuf],
    ) -> Result<String, ServiceError<ServiceFault>>;

    /// Stops the jobs of tasks in this process. Returns when they have ended.
    async fn shutdown(&self);
}
