//! Bringing tasks to where their last settled step left them.

use std::path::Path;

use nexus_core::harness::try_blocking;
use nexus_trees::Tree;
use nexus_work::WorkspaceState as _;

use super::{
    inner::{TasksCore, read},
    settle::{carry_out, reset_head},
    watch::{MAP_TURNS, log_unlogged},
};
use crate::{
    store::{Task, TaskLogEvent},
    task_error::TaskError,
    task_state::{TaskEvent, TaskState, TaskStatus},
};

impl TasksCore {
    /// Carries out what a process that was killed left half done, if nobody works on the task.
    pub(super) async fn recover_if_free(&self, task: &Task) -> Result<(), TaskError> {
        let inner = self.handle();
        let is_recovered = read(task, move |task| {
            let (state, data) = task.data()?;
            let has_copies = state.is_final() && task.has_copies();
            let is_unfinished = data.was_begun(&state);
            if !is_unfinished && !has_copies {
                return Ok(false);
            }
            let Some(_hold) = task.try_hold_step()? else { return Ok(false) };
            if is_unfinished {
                let tree = inner.prepare_tree(task)?;
                recover(task, &tree)?;
            }
            if task.data()?.0.is_final() {
                task.clear_work()?;
            }
            Ok(is_unfinished)
        })
        .await?;
        // What a cartographer read that was cut off: also of a task that was reopened since, and draws no map.
        read(task, |task| {
            let hold = if task.has_map() { task.try_hold_follow_ups()? } else { None };
            hold.map_or(Ok(()), |_hold| task.clear_map())
        })
        .await?;
        if is_recovered {
            self.follow_up_recovered(task);
        }
        Ok(())
    }

    /// Looks after the tasks that were left half done, once, beside the first call.
    pub(super) fn sweep(&self) {
        self.swept.call_once(|| {
            let inner = self.handle();
            self.background.start(async move {
                let listing = {
                    let inner = inner.handle();
                    try_blocking(move || inner.store.unsettled()).await
                };
                for task in listing.unwrap_or_default() {
                    if inner.background.cancel.is_cancelled() {
                        return;
                    }
                    let Ok(task) = inner.open(&task).await else { continue };
                    // Its creator is at work on it, or it is removed.
                    if task.is_unfinished() {
                        continue;
                    }
                    // What is wrong with a task is told to whoever asks for it.
                    let _ = inner.recover_if_free(&task).await;
                }
            });
        });
    }
}

/// Brings a task to where its last settled step left it. The caller holds its step: what was begun was cut off.
pub(super) fn recover(task: &Task, tree: &Tree) -> Result<(), TaskError> {
    let (state, data) = task.data()?;
    if data.intent.is_some() {
        carry_out(task, tree)?;
    }
    if let TaskStatus::Active { cursor } = state.status
        && data.intent.is_none()
        && data.begun == cursor.attempt
    {
        put_back(task, tree)?;
        log_unlogged(task, |name| name != MAP_TURNS);
        let event =
            TaskLogEvent::StepInterrupted { entry: cursor.entry, attempt: cursor.attempt, was_killed: true };
        let _ = task.log(&event);
        task.update(|_, data| {
            data.begun = 0;
            data.interrupted = cursor.attempt;
            Ok(())
        })?;
    }
    if data.stop {
        finish_cancel(task)?;
    }
    discard_cancelled(task)?;
    reset_head(task, tree)
}

/// Ends a task that the caller wants cancelled. The caller holds its step.
pub(super) fn finish_cancel(task: &Task) -> Result<(), TaskError> {
    log_unlogged(task, |name| name != MAP_TURNS);
    let was_cancelled = task.update(|state, data| {
        data.stop = false;
        let is_open = !state.is_final();
        if is_open {
            // Decided, and not carried out: its repository cannot be used.
            data.intent = None;
            *state = state.after(TaskEvent::Cancelled, None)?;
            data.settled = state.attempts;
            data.delivered = state.attempts;
        }
        Ok(is_open)
    })?;
    if was_cancelled {
        let _ = task.log(&TaskLogEvent::Cancelled);
    }
    discard_cancelled(task)
}

/// Removes the record of the attempt in which a task was cancelled: written perhaps, and never settled, it would count once the task
/// is reopened.
fn discard_cancelled(task: &Task) -> Result<(), TaskError> {
    match task.data()?.0 {
        TaskState { status: TaskStatus::Cancelled { entry: Some(_) }, attempts } => {
            task.discard_step_record(attempts)
        }
        _ => Ok(()),
    }
}

/// Removes the copies of the project in which agents, tests and probes of a task worked that has ended: a reopened task lays them
/// out again, from the commits that its status names. The caller holds its step.
pub(super) fn clear_copies(task: &Task) {
    if !task.data().is_ok_and(|(state, _)| state.is_final()) {
        return;
    }
    if let Err(error) = task.clear_work() {
        let what = format!("copies of the project could not be removed: {error}");
        // They are tried again when somebody looks at the task.
        let _ = task.log(&TaskLogEvent::WentWrong { what });
    }
}

/// Makes every folder of the task's agents hold what the next attempt begins with.
pub(super) fn put_back(task: &Task, tree: &Tree) -> Result<(), TaskError> {
    let (_, data) = task.data()?;
    let from = data.work.or(data.head).unwrap_or_else(|| tree.base().commit.clone());
    let work = task.work_folder()?;
    let failed = |error| TaskError::unusable(&work, &error);
    for entry in std::fs::read_dir(&work).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            tree.restore(&from, entry.path(), &[] as &[&Path])?;
        }
    }
    Ok(())
}
