//! Runs a step: attempt after attempt, until the cursor leaves it or the task ends.

use std::sync::Arc;

use nexus_core::{Budget, CancelToken, harness::try_blocking};
use nexus_router::spending::WorkLabel;
use nexus_trees::Tree;
use tokio::sync::watch;

use super::{
    inner::TasksCore,
    recovery::{put_back, recover},
    report::outcome_of,
    settle::settle,
    watch::{AttemptWatcher, LogWriter},
};
use crate::{
    handoff::HandoffAction,
    problem_brief::ProblemBrief,
    review::Reflection,
    step::{AttemptPlace, StepAttempt, StepInterrupted},
    step_record::StepRecord,
    store::{Task, TaskData, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
    task_state::{Cursor, StepEnd, TaskState, TaskStatus},
};

/// Text that follows the reason of a failure once the budget of a task is used up.
pub(super) const NO_BUDGET: &str = "; the task's budget is used up: its commits remain and can be landed; \
                                    for the rest call task_reopen with a larger `budget`, or task_create for \
                                    a separate task";

/// Returns true if a budget is used up.
pub(super) fn is_used_up(budget: Option<&Budget>) -> bool {
    let left = budget.map(Budget::left).unwrap_or_default();
    left.output_tokens == Some(0) || left.cost.is_some_and(|usd| usd.0 <= 0.0)
}

impl TasksCore {
    /// Runs the step that begins with `entry`, if it is the next one. The caller owns the step's lock.
    pub(super) async fn run_step(
        &self,
        task: &Task,
        entry: usize,
        cancel: &CancelToken,
        said: &watch::Sender<String>,
    ) -> Result<(), TaskError> {
        // Use one tree for all attempts, because it retains its process that reads git objects.
        let mut opened: Option<Tree> = None;
        loop {
            let (recovering, opened_before) = (task.clone(), opened.take());
            let inner = self.handle();
            let (state, data, tree) = try_blocking(move || {
                let tree = match opened_before {
                    Some(tree) => tree,
                    None => inner.prepare_tree(&recovering)?,
                };
                recover(&recovering, &tree)?;
                let (state, data) = recovering.data()?;
                Ok::<_, TaskError>((state, data, tree))
            })
            .await?;
            let TaskStatus::Active { cursor } = state.status else {
                // The task is over: another process settled the last step, or `recover` just did.
                self.after_step(task).await;
                return Ok(());
            };
            // The step has advanced, and the next step needs a call of its own.
            if cursor.entry != entry {
                return Ok(());
            }
            let record = match self.unsettled.of(task, cursor.attempt) {
                Some(record) => record,
                None => self.attempt(task, &tree, &state, &data, cursor, cancel, said).await?,
            };
            said.send_replace("the step is settled".to_owned());
            opened = Some(tree.clone());
            let (settling, kept, inner) = (task.clone(), record.clone(), self.handle());
            let settled = try_blocking(move || {
                let brief = brief_of(&settling, &data)?;
                settle(&settling, &tree, &brief, &record, &*inner.clock)
            })
            .await;
            match settled {
                Ok(_) => self.unsettled.remove(task),
                Err(error) => {
                    // Store the record in memory, so that the agents need not repeat their work after an error such as
                    // a full disk.
                    self.unsettled.store(task, kept);
                    return Err(error);
                }
            }
            self.after_step(task).await;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they come from the status, which is read once")]
    async fn attempt(
        &self,
        task: &Task,
        tree: &Tree,
        state: &TaskState,
        data: &TaskData,
        cursor: Cursor,
        cancel: &CancelToken,
        said: &watch::Sender<String>,
    ) -> Result<StepRecord, TaskError> {
        let (beginning, was, now) = (task.clone(), state.clone(), data.clone());
        let (brief, settled, work, turns) = try_blocking(move || {
            let brief = brief_of(&beginning, &now)?;
            let settled = beginning.step_records(&was)?;
            let work = beginning.work_folder()?;
            let turns = beginning.turns()?;
            // Store the beginning before an agent works, so that recovery reverts the changes after a crash.
            beginning.update(|_, data| {
                data.begun = cursor.attempt;
                Ok(())
            })?;
            Ok::<_, TaskError>((brief, settled, work, turns))
        })
        .await?;
        let head = data.head.clone().unwrap_or_else(|| tree.base().commit.clone());
        let checks = self.checks(task, tree, data).await?;
        let log = LogWriter::of(task);
        log.log(TaskLogEvent::StepBegan {
            entry: cursor.entry,
            attempt: cursor.attempt,
            retries: cursor.retries,
        });
        let place = place_in_words(&brief, cursor);
        said.send_replace(place.clone());
        let prompts = self.prompts().await?;
        let budget = self.budget(task, data).await?;
        let router = self.router.labelled(WorkLabel::Task, task.id().to_string());
        let attempt = StepAttempt {
            router: &router,
            types: &data.types,
            prompts: &prompts,
            settings: &data.settings,
            brief: &brief,
            place: AttemptPlace {
                tree: tree.clone(),
                checks,
                work,
                task_base: tree.base().commit.clone(),
                step_base: head.clone(),
                from: data.work.clone().unwrap_or(head),
            },
            cursor,
            hints: data.notes.iter().chain(&data.hints).cloned().collect(),
            settled,
            turns: Some(turns),
            watcher: Arc::new(AttemptWatcher::new(said.clone(), log.sender(), place)),
            budget: budget.clone(),
            cancel: cancel.clone(),
        };
        let mut ran = attempt.run().await;
        // The attempt's watcher has a sender of the log, and `finish` below waits until all senders are dropped.
        drop(attempt);
        // Turns without budget end as failures of the infrastructure, so add the real cause.
        if let (Ok(record), true) = (&mut ran, is_used_up(budget.as_ref()))
            && let StepEnd::Escalated { reason, error: Some(_) } = &mut record.end
        {
            reason.push_str(NO_BUDGET);
        }
        match &ran {
            Ok(record) => log_record(&log, record),
            Err(StepInterrupted) => log.log(TaskLogEvent::StepInterrupted {
                entry: cursor.entry,
                attempt: cursor.attempt,
                was_killed: false,
            }),
        }
        log.finish().await;
        match ran {
            Ok(record) => Ok(record),
            Err(StepInterrupted) => {
                let restoring = (task.clone(), tree.clone());
                try_blocking(move || {
                    restoring.0.update(|_, data| {
                        data.begun = 0;
                        data.interrupted = cursor.attempt;
                        Ok(())
                    })?;
                    put_back(&restoring.0, &restoring.1)
                })
                .await?;
                let instead = "call task_run_turn, which starts it again";
                Err(TaskError::new(
                    TaskErrorKind::Interrupted,
                    "the step was interrupted, and its changes were reverted",
                    instead,
                ))
            }
        }
    }

    /// Returns the budget that remains for all turns of a task. `None` if it is unbounded.
    pub(super) async fn budget(&self, task: &Task, data: &TaskData) -> Result<Option<Budget>, TaskError> {
        let (bounds, task) = (data.settings.budget, task.clone());
        if !bounds.is_bound() {
            return Ok(None);
        }
        try_blocking(move || Ok(bounds.left_of(&task.turn_log()?))).await
    }
}

/// Returns the brief of a task that must have one.
pub(super) fn brief_of(task: &Task, data: &TaskData) -> Result<ProblemBrief, TaskError> {
    task.brief(data)?.ok_or_else(|| TaskError::damaged(task.folder(), "the task has no brief"))
}

/// Returns `step 1 of 3`, with the number of the retry if it is not the first attempt.
fn place_in_words(brief: &ProblemBrief, cursor: Cursor) -> String {
    let steps: Vec<usize> = brief.plan().steps().map(|step| step.first()).collect();
    let number = steps.iter().position(|first| *first == cursor.entry).map_or(0, |at| at + 1);
    match cursor.retries {
        0 => format!("step {number} of {}", steps.len()),
        retries => format!("step {number} of {}, retry {retries}", steps.len()),
    }
}

fn log_record(log: &LogWriter, record: &StepRecord) {
    let attempt = record.attempt;
    for unit in &record.units {
        let reason = match &unit.outcome {
            Ok(handoff) => match handoff.action() {
                HandoffAction::Blocked { reason } => Some(reason.clone()),
                _ => None,
            },
            Err(error) => Some(error.clone()),
        };
        log.log(TaskLogEvent::HandedIn {
            attempt,
            entry: unit.entry,
            agent_type: unit.agent_type.clone(),
            outcome: outcome_of(&unit.outcome).to_string(),
            reason,
        });
    }
    for vote in &record.votes {
        let (seat, vendor, decision) = (vote.seat.clone(), vote.vendor.clone(), vote.verdict.decision());
        log.log(TaskLogEvent::Voted { attempt, seat, vendor, decision });
    }
    for silent in &record.silent {
        let (seat, reason) = (silent.seat.clone(), silent.reason.clone());
        log.log(TaskLogEvent::StayedSilent { attempt, seat, reason });
    }
    if let Some(verdict) = &record.verdict {
        let (decision, alignment) = (verdict.decision(), verdict.alignment());
        log.log(TaskLogEvent::VerdictReached { attempt, decision, alignment });
    }
    let answer = match &record.reflection {
        Some(Reflection::ReBrief { .. }) => "re_brief",
        Some(Reflection::ReDispatch { .. }) => "re_dispatch",
        Some(Reflection::AcceptTerminal { .. }) => "accept_terminal",
        None if record.reflection_error.is_some() => "none",
        None => return,
    };
    let error = record.reflection_error.clone();
    log.log(TaskLogEvent::Reflected { attempt, answer: answer.to_owned(), error });
}
