//! Events of the queue of a home.

use std::time::Duration;

use crate::{task_error::TaskError, task_state::TaskStatusWord};

/// Progress of a queue.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum QueueEvent {
    /// The queue starts to run a task, or resumes it.
    Began {
        /// The task.
        task_id: String,
        /// Beginning of its goal.
        goal: String,
    },
    /// A task reached the next status: it was framed, or a step ended.
    Advanced {
        /// The task.
        task_id: String,
        /// Its status.
        status: TaskStatusWord,
        /// Number of steps that were committed so far.
        steps: usize,
    },
    /// Every working agent of a task waits for the reset of a vendor's limit. The task uses no slot meanwhile.
    Waits {
        /// The task.
        task_id: String,
        /// Earliest time of a next attempt, in RFC 3339.
        until: String,
    },
    /// A task needs answers of a person.
    Asks {
        /// The task.
        task_id: String,
        /// The questions.
        questions: Vec<String>,
    },
    /// A task ended.
    Ended {
        /// The task.
        task_id: String,
        /// Its status.
        status: TaskStatusWord,
    },
    /// A task could not be run.
    Failed {
        /// The task.
        task_id: String,
        /// The failure.
        error: TaskError,
        /// Pause until the next attempt. `None` if the task was taken off the queue.
        again_in: Option<Duration>,
    },
    /// A task was taken off the queue before it ended.
    Dequeued {
        /// The task.
        task_id: String,
    },
    /// The queue or a task of the home cannot be read. The next look reads it again.
    Unreadable {
        /// The failure, with advice.
        reason: String,
    },
}
