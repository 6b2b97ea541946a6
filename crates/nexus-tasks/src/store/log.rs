//! Events in the log of a task.

use nexus_core::VendorId;
use nexus_work::{LoggedTurn, WorkspaceEvent};
use serde::{Deserialize, Serialize};

use crate::review::ReviewDecision;

/// One event of a task: a line of its `events.jsonl`, for people and for the caller. No decision depends on it, and no agent reads it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum TaskLogEvent {
    /// The task was created.
    Created {
        /// The project.
        project: String,
        /// Commit with which it begins.
        base: String,
    },
    /// The project's tests ran before any change.
    BaselineRan {
        /// Outcome of the tests.
        outcome: String,
    },
    /// The orchestrator began.
    FramingBegan,
    /// A brief was rejected.
    BriefRefused {
        /// Its faults.
        reason: String,
    },
    /// The orchestrator ended.
    FramingEnded {
        /// `brief`, `questions`, `failed` or `interrupted`.
        outcome: String,
    },
    /// The orchestrator asked the caller questions.
    QuestionsAsked {
        /// The questions.
        questions: Vec<String>,
    },
    /// The caller answered.
    QuestionsAnswered {
        /// The answers, in the order of the questions.
        answers: Vec<String>,
    },
    /// An attempt at a step began.
    StepBegan {
        /// The first entry of the step.
        entry: usize,
        /// The attempt.
        attempt: u32,
        /// Number of attempts at it that reviews sent back before.
        retries: u32,
    },
    /// An agent began.
    AgentBegan {
        /// The attempt; `None` outside of steps.
        attempt: Option<u32>,
        /// Name of the agent.
        agent: String,
        /// Its type.
        agent_type: String,
        /// Its phase.
        phase: String,
    },
    /// An agent waits, because every backend that could run its turn refuses turns until a time.
    WaitBegan {
        /// The attempt; `None` outside of steps.
        attempt: Option<u32>,
        /// Name of the agent.
        agent: String,
        /// Time of the next attempt, in RFC 3339.
        until: String,
        /// Names of the backends.
        backends: Vec<String>,
        /// Refusals of the backends, in the vendors' words.
        reason: String,
    },
    /// An agent that waited goes on.
    WaitEnded {
        /// The attempt; `None` outside of steps.
        attempt: Option<u32>,
        /// Name of the agent.
        agent: String,
    },
    /// A turn of an agent ended.
    TurnEnded(LoggedTurn),
    /// An agent submitted its handoff, or failed.
    HandedIn {
        /// The attempt.
        attempt: u32,
        /// Its entry of the plan.
        entry: usize,
        /// Its type.
        agent_type: String,
        /// `step_done`, `complete`, `blocked` or `failed`.
        outcome: String,
        /// Reason, if it failed or is blocked.
        reason: Option<String>,
    },
    /// A reviewer voted.
    Voted {
        /// The attempt.
        attempt: u32,
        /// The seat.
        seat: String,
        /// Vendor that actually ran it.
        vendor: VendorId,
        /// The decision.
        decision: ReviewDecision,
    },
    /// A reviewer gave no vote.
    StayedSilent {
        /// The attempt.
        attempt: u32,
        /// The seat.
        seat: String,
        /// Reason.
        reason: String,
    },
    /// The votes gave a verdict.
    VerdictReached {
        /// The attempt.
        attempt: u32,
        /// Decision of the verdict.
        decision: ReviewDecision,
        /// Degree to which the work is what was requested.
        alignment: f64,
    },
    /// The reflector answered, or gave no answer.
    Reflected {
        /// The attempt.
        attempt: u32,
        /// `re_brief`, `re_dispatch`, `accept_terminal` or `none`.
        answer: String,
        /// Reason why the reflector gave no answer.
        error: Option<String>,
    },
    /// An attempt at a step was settled.
    StepSettled {
        /// The first entry of the step.
        entry: usize,
        /// The attempt.
        attempt: u32,
        /// `advanced`, `completed`, `retried`, `blocked` or `escalated`.
        end: String,
        /// Reason.
        reason: Option<String>,
        /// Infrastructure failure behind it.
        error: Option<String>,
        /// The commit that it made.
        commit: Option<String>,
        /// The status of the task after it.
        status: String,
    },
    /// An attempt was interrupted. It has no result, and its changes were undone.
    StepInterrupted {
        /// The first entry of the step.
        entry: usize,
        /// The attempt.
        attempt: u32,
        /// True if the process that ran it was killed.
        was_killed: bool,
    },
    /// The caller resumed the task.
    Reopened {
        /// Message of the caller to the agents.
        note: String,
        /// Entry with which it resumes.
        entry: Option<usize>,
    },
    /// The task was queued, or its priority changed.
    Queued {
        /// Tasks with a larger number run first.
        priority: i32,
    },
    /// The task was taken off the queue before it ended.
    Dequeued {
        /// Reason.
        reason: String,
    },
    /// The caller ended the task.
    Cancelled,
    /// A landing was tried.
    Landed {
        /// `landed`, `patch` or `nothing`.
        outcome: String,
        /// Reason why it was not landed.
        obstacle: Option<String>,
        /// The last commit of the task at that time, which is not the commit on the branch after a merge or rebase.
        #[serde(default)]
        commit: Option<String>,
    },
    /// A cartographer drew the map of the project, or failed.
    ContextMapDrawn {
        /// Reason of the failure.
        error: Option<String>,
    },
    /// Work in the background failed, such as a follow-up. The task continued.
    WentWrong {
        /// The problem, and its reason.
        what: String,
    },
}

/// Returns true if the event is a landing that moved a branch of the project.
pub(crate) fn is_landing(event: &WorkspaceEvent) -> bool {
    event.kind == "landed" && event.data.get("outcome").and_then(|outcome| outcome.as_str()) == Some("landed")
}
