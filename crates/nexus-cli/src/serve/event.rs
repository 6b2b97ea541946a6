//! Events of `nexus serve`.

use std::time::Duration;

use nexus_tasks::{QueueEvent, TaskStatusWord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    broker_state::BrokerEvent,
    clean::CleanedItem,
    for_a_person::for_a_person,
    output::{AnswerWriter, complain, printable_lines, say},
    spoken_time::spoken,
};

/// Event of `nexus serve`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServeEvent {
    /// The server has started.
    Started {
        /// Process id of the server.
        process: u32,
        /// Maximum number of tasks at the same time.
        tasks_at_once: usize,
    },
    /// A part starts later, because another program of this home runs it.
    Deferred {
        /// The part.
        part: &'static str,
        /// The other program.
        reason: String,
    },
    /// Tools are served over HTTP.
    Tools {
        /// Command that serves the same tools alone.
        command: &'static str,
        /// URL of the server.
        url: String,
    },
    /// A queued task begins or resumes.
    TaskBegan {
        /// The task.
        task_id: String,
        /// Beginning of its goal.
        goal: String,
    },
    /// A task was framed, or a step of it ended.
    TaskAdvanced {
        /// The task.
        task_id: String,
        /// Its status.
        status: TaskStatusWord,
        /// Number of steps that were committed so far.
        steps: usize,
    },
    /// Every working agent of a task waits for the reset of a vendor's limit.
    TaskWaits {
        /// The task.
        task_id: String,
        /// Earliest time of a next attempt, in RFC 3339.
        until: String,
    },
    /// A task needs answers.
    TaskAsks {
        /// The task.
        task_id: String,
        /// The questions.
        questions: Vec<String>,
    },
    /// A task ended.
    TaskEnded {
        /// The task.
        task_id: String,
        /// Its status.
        status: TaskStatusWord,
    },
    /// A task was taken off the queue before it ended.
    TaskDequeued {
        /// The task.
        task_id: String,
    },
    /// A task could not be run.
    TaskFailed {
        /// The task.
        task_id: String,
        /// The failure, with advice.
        error: String,
        /// Seconds until the next attempt. Absent if the task was taken off the queue.
        #[serde(skip_serializing_if = "Option::is_none")]
        again_in_seconds: Option<u64>,
    },
    /// An event of the broker.
    Broker {
        /// The event.
        event: BrokerEvent,
        #[serde(skip)]
        #[schemars(skip)]
        text: String,
    },
    /// A rule of `retention` selected an item.
    Cleaned {
        /// The item, and what the server did with it.
        item: CleanedItem,
    },
    /// A part failed. The other parts continue.
    Problem {
        /// The problem, and what the server does about it.
        message: String,
    },
    /// The server ends: no further work begins.
    Draining {
        /// Reason.
        reason: String,
    },
}

impl ServeEvent {
    /// Returns the event of the server for an event of the queue.
    pub(super) fn of_queue(event: QueueEvent) -> Self {
        match event {
            QueueEvent::Began { task_id, goal } => Self::TaskBegan { task_id, goal },
            QueueEvent::Advanced { task_id, status, steps } => Self::TaskAdvanced { task_id, status, steps },
            QueueEvent::Waits { task_id, until } => Self::TaskWaits { task_id, until },
            QueueEvent::Asks { task_id, questions } => Self::TaskAsks { task_id, questions },
            QueueEvent::Ended { task_id, status } => Self::TaskEnded { task_id, status },
            QueueEvent::Failed { task_id, error, again_in } => Self::TaskFailed {
                task_id,
                error: for_a_person(&error.to_string()),
                again_in_seconds: again_in.map(|pause| pause.as_secs()),
            },
            QueueEvent::Dequeued { task_id } => Self::TaskDequeued { task_id },
            QueueEvent::Unreadable { reason } => Self::Problem {
                message: format!("a part of the queue cannot be read: {}", for_a_person(&reason)),
            },
            other => Self::Problem { message: format!("{other:?}") },
        }
    }

    /// Prints the event.
    pub(super) fn show(self, out: AnswerWriter) {
        out.show(&self, Self::print);
    }

    fn print(&self) {
        match self {
            Self::Started { process, tasks_at_once } => {
                say(format_args!(
                    "serving in process {process}: up to {tasks_at_once} tasks at the same time"
                ));
            }
            Self::Deferred { part, reason } => complain(format_args!("{part}: {reason}")),
            Self::Tools { command, url } => say(format_args!("tools of `{command}` are at {url}")),
            Self::TaskBegan { task_id, goal } => {
                say(printable_lines(&format!(
                    "{task_id}  runs: {}",
                    goal.lines().next().unwrap_or_default()
                )));
            }
            Self::TaskAdvanced { task_id, status, steps } => {
                say(format_args!("{task_id}  {}, {}", status.spoken(), nexus_files::counted(*steps, "step")));
            }
            Self::TaskWaits { task_id, until } => say(format_args!("{task_id}  waits until {until}")),
            Self::TaskAsks { task_id, questions } => {
                for question in questions {
                    say(printable_lines(&format!("{task_id}  asks: {question}")));
                }
                say(format_args!(
                    "answer with `nexus task run {task_id} --answer TEXT`, once for each question"
                ));
            }
            Self::TaskDequeued { task_id } => say(format_args!("{task_id}  is off the queue")),
            Self::TaskEnded { task_id, status } => say(format_args!("{task_id}  is {}", status.spoken())),
            Self::TaskFailed { task_id, error, again_in_seconds } => {
                let next = match again_in_seconds {
                    Some(seconds) => format!("tries again in {}", spoken(Duration::from_secs(*seconds))),
                    None => format!("it is off the queue; `nexus task queue {task_id}` queues it again"),
                };
                complain(printable_lines(&format!("{task_id} failed: {error}; {next}")));
            }
            Self::Broker { text, .. } => say(text),
            Self::Cleaned { item } => item.print(),
            Self::Problem { message } => complain(printable_lines(message)),
            Self::Draining { reason } => complain(printable_lines(reason)),
        }
    }
}
