//! Recovery of tasks: restores the state that their last settled step left.

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
    /// Finishes the unfinished work of a killed process, unless a process works on the task.
    pub(super) async fn recover_if_free(&self, task: &Task) -> Result<(), TaskError> {
        let inner = self.handle();
        let is_recovered = read(task, move |task| {
            let (state, data) = task.data()?;
            let has_copies = state.is_final() && task.has_copies();
            let is_unfinished = data.was_begun(&state);
            if !is_unfinished && !has_copies {
                return Ok(false);
            }
            // The process that owns the lock works on the task itself.
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
        // Remove the copy of an interrupted cartographer. A task that was reopened since draws no map, but may still have the copy.
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

    /// Recovers all unfinished tasks of the home, once, in the background of the first call.
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
                    // Either the creator still works on this task, or the next creation removes it.
                    if task.is_unfinished() {
                        continue;
                    }
                    // Ignore an error: the next call on the task recovers it again and reports the error.
                    let _ = inner.recover_if_free(&task).await;
                }
            });
        });
    }
}

/// Restores the state that the last settled step of a task left. The caller owns its step's lock, so an unfinished attempt was interrupted.
pub(super) fn recover(task: &Task, tree: &Tree) -> Result<(), TaskError> {
    let (state, data) = task.data()?;
    // A process decided this commit and was killed before it was done: create the commit now.
    if data.intent.is_some() {
        carry_out(task, tree)?;
    }
    if let TaskStatus::Active { cursor } = state.status
        && data.intent.is_none()
        && data.begun == cursor.attempt
    {
        // Restore the files before the status forgets the attempt: after a crash in between, recovery restores them
        // again.
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
    // A caller cancelled the task, and the process that had to end it was killed.
    if data.stop {
        finish_cancel(task)?;
    }
    discard_cancelled(task)?;
    reset_head(task, tree)
}

/// Ends a task that the caller wants cancelled. The caller owns its step's lock.
pub(super) fn finish_cancel(task: &Task) -> Result<(), TaskError> {
    log_unlogged(task, |name| name != MAP_TURNS);
    let was_cancelled = task.update(|state, data| {
        data.stop = false;
        let is_open = !state.is_final();
        if is_open {
            // An intent that is left here could not be carried out, because the repository is unusable. Drop it.
            data.intent = None;
            *state = state.after(TaskEvent::Cancelled, None)?;
            // A cancelled attempt has no result, so none is due to a caller.
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

/// Removes the record of the attempt in which a task was cancelled. The record may exist although the attempt was never settled, and it
/// would count once the task is reopened.
fn discard_cancelled(task: &Task) -> Result<(), TaskError> {
    match task.data()?.0 {
        TaskState { status: TaskStatus::Cancelled { entry: Some(_) }, attempts } => {
            task.discard_step_record(attempts)
        }
        _ => Ok(()),
    }
}

/// Removes the copies of the project in which agents, tests and probes of an ended task worked. A reopened task creates them again from
/// the commits in its status. The caller owns its step's lock.
pub(super) fn clear_copies(task: &Task) {
    if !task.data().is_ok_and(|(state, _)| state.is_final()) {
        return;
    }
    if let Err(error) = task.clear_work() {
        let what = format!("copies of the project could not be removed: {error}");
        // Ignore an error of the log. The next call on the task tries to remove the copies again.
        let _ = task.log(&TaskLogEvent::WentWrong { what });
    }
}

/// Restores the files with which the next attempt begins, in every folder of the task's agents.
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
