//! Runs one queued task to its end.

use std::{
    collections::HashSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nexus_core::CancelToken;
use nexus_work::WorkspaceEvent;
use tokio::sync::{Notify, mpsc};

use super::{
    inner::{TaskJob, TasksCore, read},
    queue_event::QueueEvent,
    report::waits_of,
};
use crate::{
    store::{Task, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
    task_state::{TaskStatus, TaskStatusWord},
};

/// Reason why the queue no longer runs a task.
pub(super) enum RunEnd {
    /// The task ended with this status.
    Ended(TaskStatusWord),
    /// The task needs answers.
    Asks(Vec<String>),
    /// The task was taken off the queue.
    Dequeued,
    /// The queue ends.
    Drained,
    /// A call on the task failed. `has_advanced` is true if an earlier call of this run succeeded.
    Failed { error: TaskError, has_advanced: bool },
}

/// Run of one queued task.
pub(super) struct QueueRun {
    pub(super) core: Arc<TasksCore>,
    pub(super) task_id: String,
    /// Cancelled if no further step may begin.
    pub(super) drain: CancelToken,
    /// True while all working agents of the task wait.
    pub(super) waits: Arc<AtomicBool>,
    /// Notified when `waits` becomes true.
    pub(super) slot_freed: Arc<Notify>,
    pub(super) events: mpsc::UnboundedSender<QueueEvent>,
}

impl QueueRun {
    /// Runs the task, step by step.
    pub(super) async fn to_end(self) -> RunEnd {
        let mut has_advanced = false;
        let ended = self.steps(&mut has_advanced).await;
        self.waits.store(false, Ordering::Release);
        match ended {
            Ok(end) => end,
            // The server stops its jobs. The task stays queued.
            Err(error) if self.drain.is_cancelled() && error.kind == TaskErrorKind::Interrupted => {
                RunEnd::Drained
            }
            Err(error) => self.end_elsewhere().await.unwrap_or(RunEnd::Failed { error, has_advanced }),
        }
    }

    /// Returns the end of a task that another program ended or took off the queue, which is no failure.
    async fn end_elsewhere(&self) -> Option<RunEnd> {
        let task = self.core.open(&self.task_id).await.ok()?;
        let (state, data) = read(&task, Task::data).await.ok()?;
        match state.status.word() {
            status if status.is_final() => Some(RunEnd::Ended(status)),
            // Another program cancels the task, and has stopped this job for it.
            _ if data.stop => Some(RunEnd::Ended(TaskStatusWord::Cancelled)),
            _ if data.queued.is_none() => Some(RunEnd::Dequeued),
            _ => None,
        }
    }

    async fn steps(&self, has_advanced: &mut bool) -> Result<RunEnd, TaskError> {
        loop {
            let task = self.core.open(&self.task_id).await?;
            let (state, data) = read(&task, Task::data).await?;
            let status = state.status.word();
            let job = match state.status {
                _ if status.is_final() => return Ok(RunEnd::Ended(status)),
                _ if data.stop => return Ok(RunEnd::Ended(TaskStatusWord::Cancelled)),
                _ if data.queued.is_none() => return Ok(RunEnd::Dequeued),
                TaskStatus::ClarificationNeeded { questions } => return Ok(RunEnd::Asks(questions)),
                _ if self.drain.is_cancelled() => return Ok(RunEnd::Drained),
                // A failure of an earlier job was reported when it happened.
                _ => {
                    self.core.jobs.take_failure(task.id());
                    match (self.core.jobs.of(task.id()), state.status) {
                        // A caller in this process started it.
                        (Some(job), _) => job,
                        (None, TaskStatus::Active { cursor }) => self.core.start_step(&task, cursor.entry)?,
                        (None, _) => self.core.start_framing(&task)?,
                    }
                }
            };
            self.wait_for(&task, &job).await?;
            let (state, data) = read(&task, Task::data).await?;
            *has_advanced = true;
            let (status, steps) = (state.status.word(), data.commits.len());
            let _ = self.events.send(QueueEvent::Advanced { task_id: self.task_id.clone(), status, steps });
        }
    }

    /// Waits for the end of a job, and follows the waits of its agents meanwhile.
    async fn wait_for(&self, task: &Task, job: &TaskJob) -> Result<(), TaskError> {
        let mut changes = task.watch();
        let log = task.events_path();
        let (mut bytes, mut is_stopped) = (None, false);
        loop {
            tokio::select! {
                ended = job.ended() => {
                    self.core.jobs.take_failure(task.id());
                    self.waits.store(false, Ordering::Release);
                    return ended;
                }
                // A wait may last for days, and the step is repeated without loss. So it does not delay the end of the server.
                () = self.drain.cancelled(), if self.waits.load(Ordering::Acquire) && !is_stopped => {
                    is_stopped = true;
                    job.cancel.cancel();
                }
                () = changes.changed() => {
                    // The watch also returns every few seconds. Parse the log only after it has grown.
                    let now = fs::metadata(&log).map(|found| found.len()).ok();
                    if now == bytes {
                        continue;
                    }
                    bytes = now;
                    // An unreadable log shows no wait, so the task uses a slot.
                    let until = read(task, |task| Ok(all_wait_until(&task.events()?.events))).await;
                    self.set_waiting(until.ok().flatten());
                }
            }
        }
    }

    fn set_waiting(&self, until: Option<String>) {
        let waited = self.waits.swap(until.is_some(), Ordering::AcqRel);
        if let (Some(until), false) = (until, waited) {
            let _ = self.events.send(QueueEvent::Waits { task_id: self.task_id.clone(), until });
            self.slot_freed.notify_one();
        }
    }
}

/// Takes a task off the queue, and logs the reason. Returns false if the task was not queued.
pub(super) fn dequeue(task: &Task, reason: &str) -> Result<bool, TaskError> {
    let was_queued = task.update(|_, data| {
        let was_queued = data.queued.is_some();
        data.set_queued(None);
        Ok(was_queued)
    })?;
    if was_queued {
        // The log is informative only, so a failed write is ignored.
        let _ = task.log(&TaskLogEvent::Dequeued { reason: reason.to_owned() });
    }
    Ok(was_queued)
}

/// Returns the earliest time at which an agent tries again, if all agents at work wait.
fn all_wait_until(events: &[WorkspaceEvent]) -> Option<String> {
    let waits = waits_of(events);
    let at_work = agents_at_work(events);
    let is_waiting = |agent: &&str| waits.iter().any(|wait| wait.agent == **agent);
    let until = waits.iter().map(|wait| wait.until.clone()).min()?;
    at_work.iter().all(is_waiting).then_some(until)
}

/// Returns the agents that began and did not end, by the log of a task.
fn agents_at_work(events: &[WorkspaceEvent]) -> HashSet<&str> {
    let mut agents = HashSet::new();
    for event in events {
        let agent = event.data["agent"].as_str();
        match (event.kind.as_str(), agent) {
            ("agent_began", Some(agent)) => drop(agents.insert(agent)),
            ("turn_ended", Some(agent)) => drop(agents.remove(agent)),
            ("step_began" | "step_settled" | "step_interrupted" | "framing_began", _) => agents.clear(),
            _ => {}
        }
    }
    agents
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(events: &[(&str, serde_json::Value)]) -> Vec<WorkspaceEvent> {
        let event = |(number, (kind, data)): (usize, &(&str, serde_json::Value))| {
            let time = "2026-05-04T09:00:00.000000Z";
            let event = json!({ "sequence": number, "time": time, "kind": kind, "data": data });
            serde_json::from_value(event).unwrap()
        };
        events.iter().enumerate().map(event).collect()
    }

    fn waits(agent: &str, until: &str) -> (&'static str, serde_json::Value) {
        ("wait_began", json!({ "agent": agent, "until": until, "backends": ["a"], "reason": "limit" }))
    }

    #[test]
    fn a_task_waits_if_each_agent_at_work_waits_and_until_the_first_of_them() {
        let (ten, eleven) = ("2026-05-04T10:00:00Z", "2026-05-04T11:00:00Z");
        let began = |agent: &str| ("agent_began", json!({ "agent": agent }));
        let step = ("step_began", json!({}));
        let mut events = vec![step.clone(), began("seat 1"), began("seat 2"), waits("seat 1", eleven)];
        assert_eq!(all_wait_until(&log(&events)), None, "the other seat works");
        events.push(waits("seat 2", ten));
        assert_eq!(all_wait_until(&log(&events)).as_deref(), Some(ten));
        events.push(("wait_ended", json!({ "agent": "seat 2" })));
        assert_eq!(all_wait_until(&log(&events)), None);
        events.push(("turn_ended", json!({ "agent": "seat 2" })));
        assert_eq!(all_wait_until(&log(&events)).as_deref(), Some(eleven), "the other seat has ended");
        events.push(step);
        assert_eq!(all_wait_until(&log(&events)), None, "a new attempt begins");
        // The orchestrator has no event of its beginning.
        let framing = [("framing_began", json!({})), waits("orchestrator", ten)];
        assert_eq!(all_wait_until(&log(&framing)).as_deref(), Some(ten));
    }
}
