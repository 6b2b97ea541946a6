//! Follow-up work after a settled step.

use std::sync::atomic::Ordering;

use nexus_core::harness::{run_blocking, try_blocking};
use nexus_files::FileLock;
use nexus_router::WorkKind;
use nexus_work::lock_file;

use super::{
    admission::ORCHESTRATOR,
    inner::{TasksCore, read},
    memory::CompletedTask,
    recovery::clear_copies,
    report::outcome,
    tasks::LOOK,
};
use crate::{
    store::{FollowUp, Task, TaskData, TaskLogEvent},
    task_error::TaskError,
    task_state::TaskStatus,
};

impl TasksCore {
    /// Does the follow-up work of a settled step: removes the copies of a task that has ended, and starts the follow-ups of its completion.
    pub(super) async fn after_step(&self, task: &Task) {
        let clearing = task.clone();
        // A copy that cannot be removed only takes disk space.
        let _ = run_blocking(move || clear_copies(&clearing)).await;
        self.follow_up(task);
    }

    /// Starts the follow-ups of a completed task in the background, after the answer to its caller, unless another process does them.
    pub(super) fn follow_up(&self, task: &Task) {
        if !self.can_follow_up() {
            return;
        }
        let (inner, task) = (self.handle(), task.clone());
        self.background.start(async move {
            // Calls on the task report its errors. A follow-up that failed stays in the status and is tried again.
            let _ = inner.do_follow_ups(&task).await;
        });
    }

    /// Starts the follow-ups that earlier servers left, once, in the background of the first call that runs agents.
    pub(super) fn follow_up_all(&self) {
        if !self.can_follow_up() {
            return;
        }
        // Set before the tasks are listed: from now on, recovery starts the follow-ups of a task that it completes.
        if self.follow_ups.has_begun.swap(true, Ordering::SeqCst) {
            return;
        }
        let inner = self.handle();
        self.background.start(async move {
            let listing = {
                let inner = inner.handle();
                try_blocking(move || inner.store.list()).await
            };
            for (task, snapshot) in listing.map(|listing| listing.entries).unwrap_or_default() {
                if inner.background.cancel.is_cancelled() {
                    return;
                }
                if !snapshot.data.follow_ups.is_empty() {
                    let _ = inner.do_follow_ups(&task).await;
                }
            }
        });
    }

    /// Starts the follow-ups of a task that recovery may just have completed, if [`TasksCore::follow_up_all`] has begun here: it may have
    /// listed the tasks earlier. Otherwise the first call that runs agents does them, since this server only looked at tasks so far.
    pub(super) fn follow_up_recovered(&self, task: &Task) {
        if self.follow_ups.has_begun.load(Ordering::SeqCst) {
            self.follow_up(task);
        }
    }

    /// Returns true if this process runs agents. Without a configuration it only looks at tasks.
    fn can_follow_up(&self) -> bool {
        self.router.binding(WorkKind::from(ORCHESTRATOR)).is_ok()
    }

    /// Locks the follow-ups of a task. Returns `None` if another process has the lock, and does not release it within a short wait.
    pub(super) async fn hold_follow_ups(&self, task: &Task) -> Result<Option<FileLock>, TaskError> {
        let path = task.follow_ups_lock();
        lock_file(&path, Some(LOOK)).await.map_err(TaskError::at(&path))
    }

    async fn do_follow_ups(&self, task: &Task) -> Result<(), TaskError> {
        let Some(_hold) = self.hold_follow_ups(task).await? else { return Ok(()) };
        // Remove the copy of a server that was killed while it drew the map.
        let _ = read(task, Task::clear_map).await;
        loop {
            let (state, data) = read(task, Task::data).await?;
            let (TaskStatus::Complete { .. }, Some(next)) = (&state.status, data.follow_ups.first().copied())
            else {
                return Ok(());
            };
            let settled = data.settled;
            let this = (task.id().clone(), settled, next);
            // If the follow-up ran earlier but the status could not be written, as on a full disk, only write the
            // status.
            let is_done = self.follow_ups.done().contains(&this);
            match next {
                _ if is_done => {}
                FollowUp::Remember => self.remember(task, &data).await,
                FollowUp::DrawMap if self.has_cartographer() => {
                    if !self.draw_map(task, &self.background.cancel).await {
                        return Ok(());
                    }
                }
                // Without a cartographer no map can be drawn, so the follow-up counts as done.
                FollowUp::DrawMap => {}
            }
            self.follow_ups.done().insert(this.clone());
            read(task, move |task| {
                task.update(|_, data| {
                    // If the task was completed again meanwhile, its follow-ups are due once more.
                    if data.settled == settled {
                        data.follow_ups.retain(|one| *one != next);
                    }
                    Ok(())
                })
            })
            .await?;
            self.follow_ups.done().remove(&this);
        }
    }

    async fn remember(&self, task: &Task, data: &TaskData) {
        let outcomes = data
            .brief
            .as_ref()
            .map(|brief| data.commits.iter().map(|commit| outcome(brief, commit.entry)).collect());
        let completed = CompletedTask {
            task_id: task.id().to_string(),
            project: data.project.clone(),
            goal: data.goal.clone(),
            problem: data.brief.as_ref().map(|brief| brief.problem.clone()).unwrap_or_default(),
            outcomes: outcomes.unwrap_or_default(),
        };
        if let Err(error) = self.memory.remember(&completed).await {
            let what = format!("the task could not be stored in the memory: {error}");
            let _ = read(task, move |task| task.log(&TaskLogEvent::WentWrong { what })).await;
        }
    }
}
