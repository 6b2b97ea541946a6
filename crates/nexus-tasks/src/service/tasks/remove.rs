//! Removes a task.

use nexus_work::WorkspaceState as _;

use super::{
    super::{answer::TaskRemoved, inner::read, request::TaskRemoveRequest},
    LOOK, Tasks,
};
use crate::{
    store::Task,
    task_error::{TaskError, TaskErrorKind},
};

impl Tasks {
    /// Removes a task that ended: its folder with all contents, and the ref that keeps its base in the repository of the project. Landed
    /// commits stay; all others are lost.
    pub async fn remove(&self, request: TaskRemoveRequest) -> Result<TaskRemoved, TaskError> {
        self.remove_if(request, |_| Ok(true)).await
    }

    /// Removes a task like [`remove`](Self::remove), unless it has changed since a program looked at it: `is_removable` is called while no
    /// process can change it.
    ///
    /// # Errors
    ///
    /// [`WrongStatus`](TaskErrorKind::WrongStatus) also if `is_removable` returns false. Its error is returned.
    pub async fn remove_if(
        &self,
        request: TaskRemoveRequest,
        is_removable: impl FnOnce(&Task) -> Result<bool, TaskError> + Send + 'static,
    ) -> Result<TaskRemoved, TaskError> {
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        let _hold = self.0.jobs.lock(&task, LOOK).await?;
        // Lock the follow-ups as well, because a cartographer reads the files of a task after its end.
        let Some(_follow_ups) = self.0.hold_follow_ups(&task).await? else {
            let message = "an agent is writing the map of the project";
            return Err(TaskError::new(TaskErrorKind::InUse, message, "make the same call again later"));
        };
        let store = self.0.store.clone();
        read(&task, move |task| {
            let (state, data) = task.data()?;
            if !state.is_final() {
                let message = format!("the task is {}", state.status.name());
                return Err(TaskError::wrong_status(message, "first call task_cancel to end it"));
            }
            if !is_removable(task)? {
                return Err(TaskError::wrong_status(
                    "the task changed meanwhile",
                    "look at it again by task_status",
                ));
            }
            store.remove(task)?;
            Ok(TaskRemoved {
                task_id: task.id().to_string(),
                project: data.project.to_string_lossy().into_owned(),
            })
        })
        .await
    }
}
