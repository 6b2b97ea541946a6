//! The status of a task, and every transition of it.

use nexus_work::WorkspaceState;
use serde::{Deserialize, Serialize};

use crate::problem_brief::Plan;

/// Maximum number of questions to the caller at once.
pub(crate) const MAX_QUESTIONS: usize = 3;

/// State of a task in `status.json`: its status, and the number of attempts at steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// Status of the task.
    pub status: TaskStatus,
    /// Number of all attempts at steps so far. It continues after a reopening, so each attempt has its own number.
    #[serde(default)]
    pub attempts: u32,
}

/// Status of a task. No status stands for an error: a permanent failure ends as [`TaskStatus::Escalated`].
///
/// ```text
/// Framing ── brief accepted ──► Active ──► Complete | Blocked | Escalated | Cancelled ── reopened ──► Active
///    ▲ │                          ▲ │
///    │ └─► ClarificationNeeded ───┘ └── step by step
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum TaskStatus {
    /// It has no brief yet.
    Framing,
    /// The goal cannot be framed without answers of the caller.
    ClarificationNeeded {
        /// One to three questions.
        questions: Vec<String>,
    },
    /// The task has a brief, and a step to do.
    Active {
        /// The step to do.
        cursor: Cursor,
    },
    /// The problem is solved, according to the reviews.
    Complete {
        /// Entry with which it ended, counted from 0.
        entry: usize,
        /// Entries of the plan that were not needed, reviews included.
        left_over: Vec<usize>,
    },
    /// An agent could not do its part. Its changes were undone.
    Blocked {
        /// Entry with which it ended.
        entry: usize,
        /// Reasons of the agents.
        reasons: Vec<String>,
    },
    /// A person has to look.
    Escalated {
        /// Entry with which it ended. `None` if it had no brief yet.
        entry: Option<usize>,
        /// Reason, in the words of Nexus.
        reason: String,
        /// Infrastructure failure behind it, if there was one. For the caller, never for an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The caller ended it.
    Cancelled {
        /// Entry that was next. `None` if it had no brief yet.
        entry: Option<usize>,
    },
}

/// The step to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// The first entry of the step, counted from 0. Never a review.
    pub entry: usize,
    /// Number of the attempt, from 1 on over all steps of the task: the key of a running step.
    pub attempt: u32,
    /// Number of its attempts that ended with a verdict for another one, since the task was started or reopened.
    pub retries: u32,
}

/// Event that changes the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// The orchestrator submitted a valid brief.
    BriefAccepted,
    /// The orchestrator asked the caller questions: one to three; further ones are dropped.
    QuestionsAsked(Vec<String>),
    /// Framing produced no brief.
    FramingFailed {
        /// Reason, in the words of Nexus.
        reason: String,
        /// Infrastructure failure behind it.
        error: Option<String>,
    },
    /// A step was settled.
    StepSettled(StepEnd),
    /// The caller ends the task.
    Cancelled,
    /// The caller resumes a task that ended.
    Reopened {
        /// Entry to resume with. A unit or a review resumes the step that it belongs to. `None` is the entry with which the task
        /// ended, or after [`TaskStatus::Complete`] the last step that changed files.
        from_entry: Option<usize>,
    },
}

/// End of an attempt at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepEnd {
    /// The changes of the attempt are committed. The agents claim that the step is done.
    Advanced,
    /// The changes of the attempt are committed. The agents claim that the whole problem is solved.
    Completed,
    /// A verdict asks for another attempt.
    Retried {
        /// Maximum number of retries of a step, [`StepEnd::DEFAULT_MAX_RETRIES`] by default.
        max_retries: u32,
    },
    /// An agent could not do its part.
    Blocked {
        /// Reasons of the agents.
        reasons: Vec<String>,
    },
    /// A verdict, a reflection or a failure ends the task.
    Escalated {
        /// Reason, in the words of Nexus.
        reason: String,
        /// Infrastructure failure behind it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl StepEnd {
    /// Maximum number of retries of a step by default.
    pub const DEFAULT_MAX_RETRIES: u32 = 2;
}

/// An event does not fit the status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task is {status}: {instead}")]
pub struct WrongStatus {
    /// The status, by its name in files.
    pub status: &'static str,
    /// Advice to the caller.
    pub instead: &'static str,
}

impl TaskState {
    /// Creates the state of a new task.
    pub fn new() -> Self {
        Self { status: TaskStatus::Framing, attempts: 0 }
    }

    /// Returns the state after `event`. `plan` is the plan of the accepted brief, if there is any.
    ///
    /// # Errors
    ///
    /// [`WrongStatus`] if the event does not fit the status, or names an entry that the plan does not have.
    pub fn after(&self, event: TaskEvent, plan: Option<&Plan>) -> Result<Self, WrongStatus> {
        use TaskStatus::{Active, Cancelled, ClarificationNeeded, Escalated, Framing};
        let status = match (&self.status, event) {
            (Framing | ClarificationNeeded { .. }, TaskEvent::BriefAccepted) => return Ok(self.at_entry(0)),
            (Framing | ClarificationNeeded { .. }, TaskEvent::QuestionsAsked(questions)) => {
                let questions: Vec<String> = questions.into_iter().take(MAX_QUESTIONS).collect();
                if questions.is_empty() {
                    return Err(self.wrong("ask at least one question"));
                }
                ClarificationNeeded { questions }
            }
            (Framing | ClarificationNeeded { .. }, TaskEvent::FramingFailed { reason, error }) => {
                Escalated { entry: None, reason, error }
            }
            (Active { cursor }, TaskEvent::StepSettled(end)) => return self.after_step(*cursor, end, plan),
            (Framing | ClarificationNeeded { .. }, TaskEvent::Cancelled) => Cancelled { entry: None },
            (Active { cursor }, TaskEvent::Cancelled) => Cancelled { entry: Some(cursor.entry) },
            (_, TaskEvent::Reopened { from_entry }) => return self.reopened(from_entry, plan),
            _ => return Err(self.wrong(self.status.next_call())),
        };
        Ok(self.with(status))
    }

    fn after_step(&self, cursor: Cursor, end: StepEnd, plan: Option<&Plan>) -> Result<Self, WrongStatus> {
        let step = plan.and_then(|plan| plan.step_of(cursor.entry));
        let (Some(plan), Some(step)) = (plan, step) else {
            return Err(self.wrong("its plan does not contain the next entry"));
        };
        let entry = cursor.entry;
        let status = match end {
            StepEnd::Advanced => match plan.step_after(&step) {
                Some(next) => return Ok(self.at_entry(next.first())),
                None => TaskStatus::Complete { entry, left_over: Vec::new() },
            },
            StepEnd::Completed => {
                TaskStatus::Complete { entry, left_over: (step.end()..plan.entries().len()).collect() }
            }
            StepEnd::Retried { max_retries } if cursor.retries < max_retries => {
                return Ok(self.begin(entry, cursor.retries.saturating_add(1)));
            }
            StepEnd::Retried { max_retries } => {
                let reason = format!("the review asked for another attempt after {max_retries} retries");
                TaskStatus::Escalated { entry: Some(entry), reason, error: None }
            }
            StepEnd::Blocked { reasons } => TaskStatus::Blocked { entry, reasons },
            StepEnd::Escalated { reason, error } => {
                TaskStatus::Escalated { entry: Some(entry), reason, error }
            }
        };
        Ok(self.with(status))
    }

    fn reopened(&self, from_entry: Option<usize>, plan: Option<&Plan>) -> Result<Self, WrongStatus> {
        use TaskStatus::{Active, Blocked, Cancelled, ClarificationNeeded, Complete, Escalated, Framing};
        let ended_with = match &self.status {
            Framing | ClarificationNeeded { .. } | Active { .. } => {
                return Err(self.wrong("only a task that has ended can be reopened"));
            }
            Complete { .. } => plan.and_then(Plan::last_execution).map(|step| step.first()),
            Blocked { entry, .. } => Some(*entry),
            Escalated { entry, .. } | Cancelled { entry } => *entry,
        };
        let Some(plan) = plan else {
            return match from_entry {
                // A task that ended without a brief is framed again.
                None => Ok(self.with(Framing)),
                Some(_) => Err(self.wrong("it has no plan yet; reopen it without an entry")),
            };
        };
        // A task that was cancelled before its first step resumes with the first entry.
        let step = plan.step_of(from_entry.or(ended_with).unwrap_or(0));
        let step =
            step.ok_or_else(|| self.wrong("its plan has no such entry; task_status lists the plan"))?;
        Ok(self.at_entry(step.first()))
    }

    /// Begins the first attempt at a step, since the task was started or reopened.
    fn at_entry(&self, entry: usize) -> Self {
        self.begin(entry, 0)
    }

    fn begin(&self, entry: usize, retries: u32) -> Self {
        // Numbers of attempts are never used twice, so older records stay valid after a reopening.
        let attempts = self.attempts.saturating_add(1);
        Self { status: TaskStatus::Active { cursor: Cursor { entry, attempt: attempts, retries } }, attempts }
    }

    fn with(&self, status: TaskStatus) -> Self {
        Self { status, attempts: self.attempts }
    }

    fn wrong(&self, instead: &'static str) -> WrongStatus {
        WrongStatus { status: self.status.name(), instead }
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self::new()
    }
}

impl TaskStatus {
    /// Returns the word for the status in files and answers.
    pub fn word(&self) -> TaskStatusWord {
        match self {
            Self::Framing => TaskStatusWord::Framing,
            Self::ClarificationNeeded { .. } => TaskStatusWord::ClarificationNeeded,
            Self::Active { .. } => TaskStatusWord::Active,
            Self::Complete { .. } => TaskStatusWord::Complete,
            Self::Blocked { .. } => TaskStatusWord::Blocked,
            Self::Escalated { .. } => TaskStatusWord::Escalated,
            Self::Cancelled { .. } => TaskStatusWord::Cancelled,
        }
    }

    /// Returns the word for the status as text.
    pub fn name(&self) -> &'static str {
        self.word().as_str()
    }

    /// Returns the caller's next call for a task in this status.
    pub fn next_call(&self) -> &'static str {
        match self {
            Self::Framing => "call task_orchestrate",
            Self::ClarificationNeeded { .. } => "answer the questions in a call of task_orchestrate",
            Self::Active { .. } => "call task_run_turn",
            Self::Complete { .. } => "read it with task_result, or continue it with task_reopen",
            Self::Blocked { .. } | Self::Escalated { .. } => {
                "find the reason with task_log, then continue \
                with task_reopen"
            }
            Self::Cancelled { .. } => "continue the task by calling task_reopen",
        }
    }
}

nexus_work::answer_words! {
    /// Status of a task, in a word.
    pub enum TaskStatusWord {
        /// It has no brief yet.
        Framing = "framing",
        /// The goal cannot be framed without answers.
        ClarificationNeeded = "clarification_needed",
        /// It has a step to do.
        Active = "active",
        /// The problem is solved, according to the reviews.
        Complete = "complete",
        /// An agent could not do its part.
        Blocked = "blocked",
        /// A person has to look.
        Escalated = "escalated",
        /// Its caller ended it.
        Cancelled = "cancelled",
    }
}

impl TaskStatusWord {
    /// Returns true if the task has ended, unless it is reopened.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Framing | Self::ClarificationNeeded | Self::Active)
    }
}

impl WorkspaceState for TaskState {
    const KIND: &'static str = "task";

    fn is_final(&self) -> bool {
        self.status.word().is_final()
    }
}
