//! Runs the next step of a task, or joins the running one.

use std::sync::Arc;

use nexus_core::harness::try_blocking;
use nexus_mcp::page::{cut, fitted};
use nexus_work::call_wait;

use super::{
    super::{
        answer::TaskTurnReport,
        inner::{JobKind, TaskJob, TasksCore, read},
        report::{cut_waits, next_call, step_view, waits_of},
        request::TaskRunTurnRequest,
        step_job::brief_of,
    },
    Tasks,
};
use crate::{
    store::Task,
    task_error::TaskError,
    task_state::{StepEnd, TaskStatus},
};

impl Tasks {
    /// Runs the next step of a task with all its retries, or joins the running step. A settled result that no caller has received yet is
    /// returned first. With `entry`, a settled step returns its result again.
    pub async fn run_turn(&self, request: TaskRunTurnRequest) -> Result<TaskTurnReport, TaskError> {
        self.0.sweep();
        self.0.follow_up_all();
        let wait = call_wait(request.wait_s);
        let task = self.0.open(&request.task_id).await?;
        if let Some(error) = self.0.jobs.take_failure(task.id()) {
            return Err(error);
        }
        let job = match self.0.jobs.of(task.id()) {
            Some(job) => job,
            None => {
                let (reading, entry) = (task.clone(), request.entry);
                match try_blocking(move || next_turn(&reading, entry)).await? {
                    NextTurn::Tell { attempt } => {
                        // The follow-ups of its completion may have failed, as on a full disk.
                        self.0.follow_up(&task);
                        return self.0.told(&task, attempt).await;
                    }
                    NextTurn::Run { entry } => self.0.start_step(&task, entry)?,
                }
            }
        };
        let JobKind::Step { entry } = job.kind else {
            return Err(TaskError::wrong_status(
                "the brief of the task is not finished",
                "call task_orchestrate, which waits for it",
            ));
        };
        // A caller that means another entry must not take the result of this step for it.
        if let Some(asked) = request.entry {
            let reading = task.clone();
            if !try_blocking(move || is_of_step(&reading, entry, asked)).await? {
                let message = format!("entry {asked} is not running; the running entry is {entry}");
                return Err(TaskError::wrong_status(
                    message,
                    "call task_run_turn without entry, which waits for the running step",
                ));
            }
        }
        match self.0.jobs.outcome(&task, &job, wait).await {
            None => {
                let (state, waiting) =
                    read(&task, |task| Ok((task.data()?.0, waits_of(&task.events()?.events)))).await?;
                Ok(TaskTurnReport {
                    task_id: task.id().to_string(),
                    running: true,
                    progress: Some(cut(&job.progress(), 500)),
                    waiting: cut_waits(&waiting, 300),
                    step: None,
                    status: state.status.word(),
                    next: next_call(&state, true).to_owned(),
                })
            }
            Some(outcome) => {
                outcome?;
                let data = read(&task, Task::data).await?.1;
                self.0.told(&task, data.settled).await
            }
        }
    }
}

impl TasksCore {
    /// Starts the step that begins with `entry`, or returns the running job of the task.
    pub(in crate::service) fn start_step(
        &self,
        task: &Task,
        entry: usize,
    ) -> Result<Arc<TaskJob>, TaskError> {
        let (inner, stepping) = (self.handle(), task.clone());
        let run =
            move |cancel, progress| async move { inner.run_step(&stepping, entry, &cancel, &progress).await };
        self.jobs.start(task, JobKind::Step { entry }, "the step begins", run)
    }

    /// Returns the result of the step whose last attempt is `attempt`, and marks it as delivered.
    async fn told(&self, task: &Task, attempt: u32) -> Result<TaskTurnReport, TaskError> {
        read(task, move |task| {
            let (state, data) = task.data()?;
            let records = task.step_records(&state)?;
            let last = records.iter().rposition(|record| record.attempt == attempt);
            let Some(last) = last else {
                let message = format!("attempt {attempt} has no record");
                return Err(TaskError::wrong_status(message, state.status.next_call()));
            };
            // Retried attempts directly before it belong to the same step.
            let mut first = last;
            while first > 0
                && records[first - 1].entry == records[last].entry
                && matches!(records[first - 1].end, StepEnd::Retried { .. })
            {
                first -= 1;
            }
            let answer = fitted(|most| TaskTurnReport {
                task_id: task.id().to_string(),
                running: false,
                progress: None,
                waiting: Vec::new(),
                step: step_view(&records[first..=last], &data, most),
                status: state.status.word(),
                next: next_call(&state, false).to_owned(),
            });
            if data.delivered < attempt {
                // If this fails, the next call returns the same result again.
                let _ = task.update(|_, data| {
                    data.delivered = data.delivered.max(attempt);
                    Ok(())
                });
            }
            Ok(answer)
        })
        .await
    }
}

/// Decision of a call of `task_run_turn`.
enum NextTurn {
    /// Return the result of the step whose last attempt is this.
    Tell { attempt: u32 },
    /// Run the step that begins with this entry.
    Run { entry: usize },
}

fn next_turn(task: &Task, entry: Option<usize>) -> Result<NextTurn, TaskError> {
    let (state, data) = task.data()?;
    let untold = data.settled > data.delivered;
    let Some(asked) = entry else {
        return match &state.status {
            _ if untold => Ok(NextTurn::Tell { attempt: data.settled }),
            TaskStatus::Active { cursor } => Ok(NextTurn::Run { entry: cursor.entry }),
            status => {
                Err(TaskError::wrong_status(format!("the task is {}", status.name()), status.next_call()))
            }
        };
    };
    if data.brief.is_none() {
        return Err(TaskError::wrong_status(
            format!("the task is {}", state.status.name()),
            state.status.next_call(),
        ));
    }
    let brief = brief_of(task, &data)?;
    let Some(step) = brief.plan().step_of(asked) else {
        let message = format!("the plan has no entry {asked}");
        return Err(TaskError::invalid(
            message,
            "call task_status, which lists the plan; entries are counted from 0",
        ));
    };
    // A reopened step has older records, but the caller means the attempt that is due.
    if let TaskStatus::Active { cursor } = &state.status
        && cursor.entry == step.first()
    {
        return Ok(NextTurn::Run { entry: cursor.entry });
    }
    let records = task.step_records(&state)?;
    match records.iter().rfind(|record| record.entry == step.first()) {
        Some(record) => Ok(NextTurn::Tell { attempt: record.attempt }),
        None => {
            let message = format!("entry {asked} is not the next entry, and was not run");
            Err(TaskError::wrong_status(
                message,
                "call task_run_turn without entry, which runs the next step",
            ))
        }
    }
}

fn is_of_step(task: &Task, first: usize, asked: usize) -> Result<bool, TaskError> {
    let (_, data) = task.data()?;
    let brief = brief_of(task, &data)?;
    Ok(brief.plan().step_of(asked).is_some_and(|step| step.first() == first))
}
