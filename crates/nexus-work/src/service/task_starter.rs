//! Tasks that follow from other work.

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
    /// Knowledge that the agents cannot find out by themselves.
    pub context: Option<String>,
    /// Ids of the workspaces that it belongs to.
    pub linked_workspace_ids: Vec<String>,
}

/// Starts tasks for a service that does not depend on the service of tasks.
#[async_trait]
pub trait TaskStarter: fmt::Debug + Send + Sync {
    /// Creates a task below the configured roots or those of the client, and returns its id. Does not wait for its first tests.
    ///
    /// # Errors
    ///
    /// Those of the service of tasks.
    async fn start_task(
        &self,
        task: FollowUpTask,
        client_roots: &[PathBuf],
    ) -> Result<String, ServiceError<ServiceFault>>;

    /// Stops what runs for tasks in this process. Returns when it has ended.
    async fn shutdown(&self);
}
