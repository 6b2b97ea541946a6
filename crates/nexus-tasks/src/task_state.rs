//! The status of a task, and every transition of it.

use nexus_work::WorkspaceState;
use serde::{Deserialize, Serialize};

use crate::problem_brief::Plan;

/// Most questions that are asked at once.
pub(crate) const MAX_QUESTIONS: usize = 3;

/// What `status.json` holds of a task: where it is, and how many attempts at steps there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// Where it is.
    pub status: TaskStatus,
    /// How many attempts at steps were begun in all: also over a reopening no two have one number.
    #[serde(default)]
    pub attempts: u32,
}

/// Where a task is. There is no error status: a failure that nothing mends ends as [`TaskStatus::Escalated`].
///
/// ```text
/// Framing ── brief accepted ──► Active ──► Complete | Blocked | Escalated | Cancelled ── reopened ──► Active
///    ▲ │                          ▲ │
///    │ └─► ClarificationNeeded ───┘ └── step by step
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum TaskStatus {
    /// There is no brief yet.
    Framing,
    /// The goal cannot be framed without answers of the caller's.
    ClarificationNeeded {
        /// One to three.
        questions: Vec<String>,
    },
    /// There is a brief, and a step to be done.
    Active {
        /// Which.
        cursor: Cursor,
    },
    /// The problem is solved, as reviews found.
    Complete {
        /// The entry with which it ended, counted from 0.
        entry: usize,
        /// The entries of the plan that were not needed, reviews included.
        left_over: Vec<usize>,
    },
    /// An agent could not do its part; what it changed was put back.
    Blocked {
        /// The entry with which it ended.
        entry: usize,
        /// Why, as the agents said.
        reasons: Vec<String>,
    },
    /// A person has to look.
    Escalated {
        /// The entry with which it ended. `None` if there was no brief yet.
        entry: Option<usize>,
        /// Why, in words of ours.
        reason: String,
        /// The failure of the infrastructure behind it, if there was one. For the caller, never for an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The caller ended it.
    Cancelled {
        /// The entry that was to be done. `None` if there was no brief yet.
        entry: Option<usize>,
    },
}

/// The step that is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// The first entry of the step, counted from 0. Never a review.
    pub entry: usize,
    /// Which attempt it is, from 1 on over all steps of the task: the key of a running step.
    pub attempt: u32,
    /// How many of its attempts ended with a verdict that asks for another, since the task was begun or reopened.
    pub retries: u32,
}

/// What changes the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// The orchestrator handed in a brief that holds.
    BriefAccepted,
    /// It asked questions of the caller instead. One to three; more are left out.
    QuestionsAsked(Vec<String>),
    /// No brief came of it.
    FramingFailed {
        /// Why, in words of ours.
        reason: String,
        /// The failure of the infrastructure behind it.
        error: Option<String>,
    },
    /// A step was settled.
    StepSettled(StepEnd),
    /// The caller ends the task.
    Cancelled,
    /// The caller goes on with a task that ended.
    Reopened {
        /// With which entry; one of a band, or a review, stands for its step. `None` is the one that ended it; after
        /// [`TaskStatus::Complete`] the last that changed files.
        from_entry: Option<usize>,
    },
}

/// How an attempt at a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepEnd {
    /// It is committed, and the agents said that the step is done.
    Advanced,
    /// It is committed, and the agents said that all is done.
    Completed,
    /// A verdict asks for another attempt.
    Retried {
        /// How many retries a step has: [`StepEnd::DEFAULT_MAX_RETRIES`] where nobody says otherwise.
        max_retries: u32,
    },
    /// An agent could not do its part.
    Blocked {
        /// Why.
        reasons: Vec<String>,
    },
    /// A verdict, a reflection or a failure ends the task.
    Escalated {
        /// Why, in words of ours.
        reason: String,
        /// The failure of the infrastructure behind it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl StepEnd {
    /// How many retries a step has where nobody says otherwise.
    pub const DEFAULT_MAX_RETRIES: u32 = 2;
}

/// An event does not fit the status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task is {status}: {instead}")]
pub struct WrongStatus {
    /// The status, by its name in files.
    pub status: &'static str,
    /// What can be done instead.
    pub instead: &'static str,
}

impl TaskState {
    /// A task that was just made.
    pub fn new() -> Self {
        Self { status: TaskStatus::Framing, attempts: 0 }
    }

    /// The state after `event`. `plan` is that of the accepted brief, if there is one.
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
                    return Err(self.wrong("at least one question has to be asked"));
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
            return Err(self.wrong("its plan does not have the entry that is to be done"));
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
                return Err(self.wrong("only what ended can be reopened"));
            }
            Complete { .. } => plan.and_then(Plan::last_execution).map(|step| step.first()),
            Blocked { entry, .. } => Some(*entry),
            Escalated { entry, .. } | Cancelled { entry } => *entry,
        };
        let Some(plan) = plan else {
            return match from_entry {
                None => Ok(self.with(Framing)),
                Some(_) => Err(self.wrong("it has no plan yet; reopen it without an entry")),
            };
        };
        let step = plan.step_of(from_entry.or(ended_with).unwrap_or(0));
        let step =
            step.ok_or_else(|| self.wrong("its plan has no such entry; task_status lists the plan"))?;
        Ok(self.at_entry(step.first()))
    }

    /// The first attempt at a step, since the task was begun or reopened.
    fn at_entry(&self, entry: usize) -> Self {
        self.begin(entry, 0)
    }

    fn begin(&self, entry: usize, retries: u32) -> Self {
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
    /// Its word in files and answers.
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

    /// Its name in files and answers.
    pub fn name(&self) -> &'static str {
        self.word().as_str()
    }

    /// What a caller does with a task in this status.
    pub fn next_call(&self) -> &'static str {
        match self {
            Self::Framing => "call task_orchestrate",
            Self::ClarificationNeeded { .. } => "answer the questions in a call of task_orchestrate",
            Self::Active { .. } => "call task_run_turn",
            Self::Complete { .. } => "read it by task_result, or go on by task_reopen",
            Self::Blocked { .. } | Self::Escalated { .. } => "see why by task_log, then go on by task_reopen",
            Self::Cancelled { .. } => "go on by task_reopen",
        }
    }
}

nexus_work::answer_words! {
    /// Status of a task, in a word.
    pub enum TaskStatusWord {
        /// There is no brief yet.
        Framing = "framing",
        /// The goal cannot be framed without answers.
        ClarificationNeeded = "clarification_needed",
        /// There is a step to be done.
        Active = "active",
        /// The problem is solved, as reviews found.
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
    /// Whether the task has ended, unless it is reopened.
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
