//! Starting a task that follows from other work.

use std::path::PathBuf;

use async_trait::async_trait;
use nexus_core::{ServiceError, ServiceFault};
use nexus_work::{FollowUpTask, TaskStarter};

use super::{super::request::TaskCreateRequest, Tasks};

#[async_trait]
impl TaskStarter for Tasks {
    async fn start_task(
        &self,
        task: FollowUpTask,
        client_roots: &[PathBuf],
    ) -> Result<String, ServiceError<ServiceFault>> {
        let FollowUpTask { goal, project, context, linked_workspace_ids } = task;
        let request = TaskCreateRequest {
            goal,
            project,
            context,
            linked_workspace_ids,
            // Return the id at once; the tests on the base continue in the background.
            wait_s: Some(0),
            ..TaskCreateRequest::default()
        };
        let created = self.create_below(request, client_roots).await;
        created.map(|created| created.task_id).map_err(|error| error.with_kind(ServiceFault::Failed))
    }

    async fn shutdown(&self) {
        Tasks::shutdown(self).await;
    }
}
