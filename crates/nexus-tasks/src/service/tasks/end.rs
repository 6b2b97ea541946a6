//! Ends a task, and resumes a task that ended.

use nexus_core::harness::try_blocking;
use nexus_work::{MAX_CALL_WAIT, ResetWait, WorkBudget, WorkspaceState as _};

use super::{
    super::{
        answer::TaskReport,
        inner::read,
        recovery::{clear_copies, finish_cancel, recover},
        report::ReportParts,
        request::{TaskCancelRequest, TaskReopenRequest},
    },
    LOOK, Tasks,
};
use crate::{
    problem_brief::ProblemBrief,
    store::{TaskData, TaskLogEvent},
    task_error::TaskError,
    task_state::{TaskEvent, TaskState, TaskStatus},
};

/// Longest note, in bytes. Source: our own bound.
const MOST_NOTE_BYTES: usize = 2 << 10;

impl Tasks {
    /// Ends a task. A running job is stopped first, here or in another process, and its changes are undone.
    pub async fn cancel(&self, request: TaskCancelRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        let marking = task.clone();
        // Store the wish before anything is stopped. Another process that runs a step reads it, and after a crash
        // recovery carries it out.
        let is_over = try_blocking(move || {
            marking.update(|state, data| {
                data.stop = !state.is_final();
                match &state.status {
                    TaskStatus::Cancelled { .. } => Ok(true),
                    status if state.is_final() => Err(TaskError::wrong_status(
                        format!("the task is {}, and no work of it is running", status.name()),
                        status.next_call(),
                    )),
                    _ => Ok(false),
                }
            })
        })
        .await?;
        if !is_over {
            self.0.jobs.stop(&task).await;
            let ending = task.clone();
            let _hold = self.0.jobs.lock(&task, MAX_CALL_WAIT).await?;
            let inner = self.0.handle();
            try_blocking(move || {
                // A missing or damaged tree must not prevent the caller from ending the task.
                let _ = inner.prepare_tree(&ending).and_then(|tree| recover(&ending, &tree));
                finish_cancel(&ending)?;
                clear_copies(&ending);
                Ok::<_, TaskError>(())
            })
            .await?;
            self.0.unsettled.remove(&task);
            // `recover` may have carried out a commit that was decided before this call. If it completed the task, the
            // follow-ups of the task start now.
            self.0.follow_up_recovered(&task);
        }
        Ok(read(&task, ReportParts::read).await?.report(None))
    }

    /// Resumes a task that ended. Its agents read the note as a message of the caller.
    pub async fn reopen(&self, request: TaskReopenRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        if request.note.trim().is_empty() || request.note.len() > MOST_NOTE_BYTES {
            let message = format!("`note` must have 1 to {MOST_NOTE_BYTES} bytes");
            return Err(TaskError::invalid(
                message,
                "describe the change, or give advice for the next attempt",
            ));
        }
        if let Some(name) = request.budget.as_ref().and_then(WorkBudget::fault) {
            let message = format!("`budget.{name}` must be more than 0");
            return Err(TaskError::invalid(message, "write a number above 0, or leave it out"));
        }
        if request.min_vendors == Some(0) {
            let message = "`min_vendors` must be more than 0";
            return Err(TaskError::invalid(message, "write a number above 0, or leave it out"));
        }
        let task = self.0.open(&request.task_id).await?;
        let _hold = self.0.jobs.lock(&task, LOOK).await?;
        let settings = read(&task, |task| Ok(task.data()?.1.settings)).await?;
        self.0.admission.check_vendors(request.min_vendors.or(settings.min_vendors))?;
        let reopening = task.clone();
        let inner = self.0.handle();
        try_blocking(move || {
            let tree = inner.prepare_tree(&reopening)?;
            recover(&reopening, &tree)?;
            let (_, data) = reopening.data()?;
            let brief = reopening.brief(&data)?;
            let entry = reopening.update(|state, data| reopen(state, data, brief.as_ref(), &request))?;
            let _ = reopening.log(&TaskLogEvent::Reopened { note: request.note.clone(), entry });
            Ok::<_, TaskError>(())
        })
        .await?;
        Ok(read(&task, ReportParts::read).await?.report(None))
    }
}

fn reopen(
    state: &mut TaskState,
    data: &mut TaskData,
    brief: Option<&ProblemBrief>,
    request: &TaskReopenRequest,
) -> Result<Option<usize>, TaskError> {
    let ended_with = match &state.status {
        TaskStatus::Escalated { entry, .. } | TaskStatus::Cancelled { entry } => *entry,
        _ => None,
    };
    let event = TaskEvent::Reopened { from_entry: request.from_entry };
    *state = state.after(event, brief.map(ProblemBrief::plan))?;
    let entry = match &state.status {
        TaskStatus::Active { cursor } => Some(cursor.entry),
        _ => None,
    };
    // Work that a review sent back belongs to its own step. Another step begins with the last commit.
    if entry.is_none() || entry != ended_with {
        data.work = None;
        data.hints.clear();
    }
    if let Some(budget) = request.budget {
        data.settings.budget = data.settings.budget.raised_by(budget);
    }
    if request.min_vendors.is_some() {
        data.settings.min_vendors = request.min_vendors;
    }
    if let Some(seconds) = request.max_wait_seconds {
        data.settings.max_wait_seconds = ResetWait::of_seconds(seconds);
    }
    // Follow-ups of the earlier completion are void; the next completion has its own.
    data.follow_ups.clear();
    data.notes.push(request.note.clone());
    let most = TaskData::NOTES;
    data.notes.drain(..data.notes.len().saturating_sub(most));
    // The caller knows the result that it reopens, so the next `task_run_turn` runs a step and does not return it
    // again.
    data.delivered = data.settled;
    Ok(entry)
}
