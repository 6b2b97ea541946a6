//! The queue of a home: tasks that a server runs to their end.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_files::{Journal, JournalKind, JournalRead, rfc3339};
use nexus_mcp::page::cut;
use nexus_work::{JournalWatch, WorkspaceState as _};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    answer::{QueuePage, QueueRow},
    inner::{TasksCore, read},
    queue_event::QueueEvent,
    queue_run::{QueueRun, RunEnd, dequeue},
    report::time,
    request::TaskQueueRequest,
    tasks::Tasks,
};
use crate::{
    store::{IndexedTasks, QueueEntry, Task, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
    task_state::TaskStatusWord,
};

/// Range of priorities. Source: our own bound.
const PRIORITIES: std::ops::RangeInclusive<i32> = -100..=100;
/// Longest wait of the queue for a change of the home.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);
/// Pause after a failure to read the journal of the home.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(5);
/// Pause after the first failure of a task. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// Number of failures in a row after which a task is taken off the queue.
const MOST_FAILURES: u32 = 5;

impl Tasks {
    /// Queues a task, or changes its priority. The server of the queue then runs it to its end.
    ///
    /// # Errors
    ///
    /// [`WrongStatus`](crate::TaskErrorKind::WrongStatus) if the task has ended.
    pub async fn queue(&self, request: TaskQueueRequest) -> Result<QueueRow, TaskError> {
        if let Some(priority) = request.priority.filter(|priority| !PRIORITIES.contains(priority)) {
            let message = format!("the priority {priority} is not within -100 to 100");
            return Err(TaskError::invalid(message, "name a number from -100 to 100"));
        }
        let task = self.0.open(&request.task_id).await?;
        let now = rfc3339::cut_to_millis(self.0.clock.now());
        read(&task, move |task| {
            let is_change = task.update(|state, data| {
                if state.is_final() {
                    let message = format!("the task is {}", state.status.name());
                    return Err(TaskError::wrong_status(message, state.status.next_call()));
                }
                let before = data.queued;
                let (priority, since) = before.map_or((0, now), |entry| (entry.priority, entry.since));
                let entry = QueueEntry { priority: request.priority.unwrap_or(priority), since };
                data.set_queued(Some(entry));
                Ok((before != Some(entry)).then_some(entry.priority))
            })?;
            if let Some(priority) = is_change {
                // The log is informative only, so a failed write is ignored.
                let _ = task.log(&TaskLogEvent::Queued { priority });
            }
            row_of(task)
        })
        .await
    }

    /// Takes a task off the queue. A step of it that runs continues to its end. Returns false if the task was not queued.
    pub async fn dequeue(&self, task_id: &str) -> Result<bool, TaskError> {
        let task = self.0.open(task_id).await?;
        read(&task, |task| dequeue(task, "on request")).await
    }

    /// Returns the queued tasks, in the order in which they run.
    pub async fn queued(&self) -> Result<QueuePage, TaskError> {
        self.0.queued().await
    }
}

impl TasksCore {
    pub(super) async fn queued(&self) -> Result<QueuePage, TaskError> {
        let inner = self.handle();
        try_blocking(move || {
            let IndexedTasks { entries, unreadable } = inner.store.list_indexed()?;
            let mut queued: Vec<(QueueEntry, QueueRow)> = Vec::new();
            for task in entries {
                let Some(details) = task.details else { continue };
                let Some(entry) = details.queued.filter(|_| !details.status.is_final()) else { continue };
                queued.push((
                    entry,
                    QueueRow {
                        task_id: task.id,
                        priority: entry.priority,
                        since: time(entry.since),
                        status: details.status,
                        goal: task.title,
                        project: details.project.to_string_lossy().into_owned(),
                    },
                ));
            }
            // Entries of one time, such as those of a script, run in the order of their ids, so that every look has the same order.
            queued.sort_by(|(one, row), (other, other_row)| {
                (Reverse(one.priority), one.since, &row.task_id).cmp(&(
                    Reverse(other.priority),
                    other.since,
                    &other_row.task_id,
                ))
            });
            let tasks = queued.into_iter().map(|(_, row)| row).collect();
            Ok(QueuePage { tasks, unreadable: unreadable.iter().map(ToString::to_string).collect() })
        })
        .await
    }
}

fn row_of(task: &Task) -> Result<QueueRow, TaskError> {
    let (state, data) = task.data()?;
    let entry = data.queued.ok_or_else(|| TaskError::wrong_status("the task is not queued", "queue it"))?;
    Ok(QueueRow {
        task_id: task.id().to_string(),
        priority: entry.priority,
        since: time(entry.since),
        status: state.status.word(),
        goal: cut(&data.goal, 200),
        project: data.project.to_string_lossy().into_owned(),
    })
}

/// Runs the queued tasks of a home, each step by step.
///
/// Several queues of one home, and other programs that run a task, do not conflict: the one that locks the step of a task runs it, and the others
/// wait for it. A task that waits for the reset of a vendor's limit uses no slot.
#[derive(Clone, Debug)]
pub struct TaskQueue {
    tasks: Tasks,
    at_once: NonZeroUsize,
    until_idle: bool,
}

/// A task that the queue runs.
struct RunningTask {
    /// True while all its agents wait.
    waits: Arc<AtomicBool>,
}

/// A task that failed.
struct FailedTask {
    failures: u32,
    /// Time of the next attempt.
    next: Instant,
}

impl TaskQueue {
    /// Creates a queue that runs up to `at_once` tasks at the same time.
    pub fn new(tasks: Tasks, at_once: NonZeroUsize) -> Self {
        Self { tasks, at_once, until_idle: false }
    }

    /// Lets [`run`](Self::run) return when no queued task can be run: none is left, or the others need answers.
    #[must_use]
    pub fn until_idle(mut self) -> Self {
        self.until_idle = true;
        self
    }

    /// Runs queued tasks until `drain` is cancelled. No further step begins then, and the call returns when the running steps have ended.
    /// [`Tasks::shutdown`] stops them earlier.
    ///
    /// `on_event` must not block.
    pub async fn run(&self, drain: &CancelToken, mut on_event: impl FnMut(QueueEvent)) {
        let home = self.tasks.0.home.clone();
        let mut journal = JournalWatch::of(Arc::new(Journal::in_home(&home)));
        let (sender, mut events) = mpsc::unbounded_channel();
        let slot_freed = Arc::new(Notify::new());
        let mut running: HashMap<String, RunningTask> = HashMap::new();
        let mut failed: HashMap<String, FailedTask> = HashMap::new();
        let mut asked: HashSet<String> = HashSet::new();
        let mut unreadable: HashSet<String> = HashSet::new();
        let mut runs: JoinSet<RunEnd> = JoinSet::new();
        let mut ids: HashMap<tokio::task::Id, String> = HashMap::new();
        while !drain.is_cancelled() {
            let mut is_idle = false;
            match self.tasks.queued().await {
                // The present entries stay queued, and the next look reads them again.
                Err(error) => on_event(QueueEvent::Unreadable { reason: error.to_string() }),
                Ok(page) => {
                    // Each is reported once, not at every look.
                    unreadable.retain(|reason| page.unreadable.contains(reason));
                    for reason in page.unreadable {
                        if unreadable.insert(reason.clone()) {
                            on_event(QueueEvent::Unreadable { reason });
                        }
                    }
                    let now = Instant::now();
                    failed.retain(|id, _| page.tasks.iter().any(|task| task.task_id == *id));
                    asked.retain(|id| {
                        let asks = |task: &QueueRow| task.status == TaskStatusWord::ClarificationNeeded;
                        page.tasks.iter().any(|task| task.task_id == *id && asks(task))
                    });
                    for task in page.tasks {
                        let id = task.task_id;
                        let working =
                            running.values().filter(|run| !run.waits.load(Ordering::Acquire)).count();
                        if working >= self.at_once.get() {
                            break;
                        }
                        let is_due = failed.get(&id).is_none_or(|failed| failed.next <= now);
                        if running.contains_key(&id) || asked.contains(&id) || !is_due {
                            continue;
                        }
                        let waits = Arc::new(AtomicBool::new(false));
                        running.insert(id.clone(), RunningTask { waits: Arc::clone(&waits) });
                        on_event(QueueEvent::Began { task_id: id.clone(), goal: task.goal });
                        let run = QueueRun {
                            core: self.tasks.0.handle(),
                            task_id: id.clone(),
                            drain: drain.clone(),
                            waits,
                            slot_freed: Arc::clone(&slot_freed),
                            events: sender.clone(),
                        };
                        ids.insert(runs.spawn(run.to_end()).id(), id);
                    }
                    is_idle = runs.is_empty() && failed.is_empty();
                }
            }
            if self.until_idle && is_idle {
                break;
            }
            // Nothing above changes by a mere event, so the queue is read again only for the other reasons.
            loop {
                let next = failed.values().map(|failed| failed.next).min();
                tokio::select! {
                    () = drain.cancelled() => {}
                    Some(event) = events.recv() => {
                        on_event(event);
                        continue;
                    }
                    Some(ended) = runs.join_next_with_id() => {
                        while let Ok(event) = events.try_recv() {
                            on_event(event);
                        }
                        let (id, end) = ended_run(ended, &mut ids);
                        running.remove(&id);
                        self.settle(id, end, &mut failed, &mut asked, &mut on_event).await;
                    }
                    () = tasks_changed(&mut journal) => {}
                    () = slot_freed.notified() => {}
                    () = sleep_until(next.unwrap_or_else(far_future)) => {}
                }
                break;
            }
        }
        while let Some(ended) = runs.join_next_with_id().await {
            let (id, end) = ended_run(ended, &mut ids);
            while let Ok(event) = events.try_recv() {
                on_event(event);
            }
            self.settle(id, end, &mut failed, &mut asked, &mut on_event).await;
        }
    }

    /// Decides about a task that the queue no longer runs.
    async fn settle(
        &self,
        task_id: String,
        end: RunEnd,
        failed: &mut HashMap<String, FailedTask>,
        asked: &mut HashSet<String>,
        on_event: &mut impl FnMut(QueueEvent),
    ) {
        match end {
            RunEnd::Drained => drop(failed.remove(&task_id)),
            RunEnd::Dequeued => {
                failed.remove(&task_id);
                on_event(QueueEvent::Dequeued { task_id });
            }
            RunEnd::Ended(status) => {
                failed.remove(&task_id);
                on_event(QueueEvent::Ended { task_id, status });
            }
            RunEnd::Asks(questions) => {
                asked.insert(task_id.clone());
                on_event(QueueEvent::Asks { task_id, questions });
            }
            RunEnd::Failed { error, has_advanced } => {
                let before =
                    failed.get(&task_id).filter(|_| !has_advanced).map_or(0, |failed| failed.failures);
                let failures = before + 1;
                if failures >= MOST_FAILURES && self.take_off(&task_id, failures, &error).await.is_ok() {
                    failed.remove(&task_id);
                    on_event(QueueEvent::Failed { task_id, error, again_in: None });
                    return;
                }
                let pause = FIRST_PAUSE * 2_u32.pow(before.min(MOST_FAILURES));
                failed.insert(task_id.clone(), FailedTask { failures, next: Instant::now() + pause });
                on_event(QueueEvent::Failed { task_id, error, again_in: Some(pause) });
            }
        }
    }

    /// Takes a task off the queue after its failures.
    async fn take_off(&self, task_id: &str, failures: u32, error: &TaskError) -> Result<(), TaskError> {
        let reason = format!("it failed {failures} times: {error}");
        let task = self.tasks.0.open(task_id).await?;
        read(&task, move |task| dequeue(task, &reason)).await.map(drop)
    }
}

/// Returns the task of a run that ended. A run that panicked counts as failed.
fn ended_run(
    ended: Result<(tokio::task::Id, RunEnd), tokio::task::JoinError>,
    ids: &mut HashMap<tokio::task::Id, String>,
) -> (String, RunEnd) {
    let (id, end) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let failure = TaskError::new(
                TaskErrorKind::Failed,
                format!("the run ended unexpectedly: {error}"),
                "report this",
            );
            (error.id(), RunEnd::Failed { error: failure, has_advanced: false })
        }
    };
    (ids.remove(&id).unwrap_or_default(), end)
}

/// Waits until a task of the home may have changed.
async fn tasks_changed(journal: &mut JournalWatch) {
    loop {
        match journal.changed(LOOK_AGAIN).await {
            Ok(Some(JournalRead::Entries(entries))) => {
                if entries.iter().any(|entry| entry.kind == JournalKind::Task) {
                    return;
                }
            }
            Ok(None | Some(JournalRead::Rescan { .. })) => return,
            // The journal cannot be read now, as on a full disk. The pause prevents a busy loop.
            Err(_) => return sleep(UNREADABLE_PAUSE).await,
        }
    }
}

fn far_future() -> Instant {
    Instant::now() + LOOK_AGAIN
}
