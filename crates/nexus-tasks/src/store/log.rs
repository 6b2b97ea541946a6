//! What is written into the log of a task.

use nexus_core::VendorId;
use nexus_work::LoggedTurn;
use serde::{Deserialize, Serialize};

use crate::review::ReviewDecision;

/// One thing that happened in a task: a line of its `events.jsonl`, for people and for the caller. Nothing is decided by it, and
/// nothing of it is shown to an agent.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum TaskLogEvent {
    /// It was created.
    Created {
        /// The project.
        project: String,
        /// The commit that it begins with.
        base: String,
    },
    /// The project's tests were run before anything was changed.
    BaselineRan {
        /// How they ended.
        outcome: String,
    },
    /// The orchestrator began.
    FramingBegan,
    /// A brief was refused.
    BriefRefused {
        /// What was wrong with it.
        reason: String,
    },
    /// The orchestrator ended.
    FramingEnded {
        /// `brief`, `questions`, `failed` or `interrupted`.
        outcome: String,
    },
    /// The orchestrator asks the caller.
    QuestionsAsked {
        /// What.
        questions: Vec<String>,
    },
    /// The caller answered.
    QuestionsAnswered {
        /// What, in the order of the questions.
        answers: Vec<String>,
    },
    /// An attempt at a step began.
    StepBegan {
        /// The first entry of the step.
        entry: usize,
        /// The attempt.
        attempt: u32,
        /// How many attempts at it were sent back before.
        retries: u32,
    },
    /// An agent began.
    AgentBegan {
        /// The attempt; `None` outside of steps.
        attempt: Option<u32>,
        /// Which agent.
        agent: String,
        /// Its type.
        agent_type: String,
    },
    /// A turn of an agent ended.
    TurnEnded(LoggedTurn),
    /// An agent handed its work in, or failed.
    HandedIn {
        /// The attempt.
        attempt: u32,
        /// Its entry of the plan.
        entry: usize,
        /// Its type.
        agent_type: String,
        /// `step_done`, `complete`, `blocked` or `failed`.
        outcome: String,
        /// Why it failed or is blocked.
        reason: Option<String>,
    },
    /// A reviewer voted.
    Voted {
        /// The attempt.
        attempt: u32,
        /// The seat.
        seat: String,
        /// Who really ran it.
        vendor: VendorId,
        /// For what.
        decision: ReviewDecision,
    },
    /// A reviewer gave no vote.
    StayedSilent {
        /// The attempt.
        attempt: u32,
        /// The seat.
        seat: String,
        /// Why.
        reason: String,
    },
    /// The votes came to a verdict.
    VerdictReached {
        /// The attempt.
        attempt: u32,
        /// What it is.
        decision: ReviewDecision,
        /// How far the work is what was asked for.
        alignment: f64,
    },
    /// The reflector answered, or gave no answer.
    Reflected {
        /// The attempt.
        attempt: u32,
        /// `re_brief`, `re_dispatch`, `accept_terminal` or `none`.
        answer: String,
        /// Why there is none.
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
        /// Why.
        reason: Option<String>,
        /// The failure of the infrastructure behind it.
        error: Option<String>,
        /// The commit that it made.
        commit: Option<String>,
        /// The status of the task after it.
        status: String,
    },
    /// An attempt was cut off: nothing of it is settled, and what it changed was put back.
    StepInterrupted {
        /// The first entry of the step.
        entry: usize,
        /// The attempt.
        attempt: u32,
        /// Whether the program that ran it was killed.
        was_killed: bool,
    },
    /// The caller went on with it.
    Reopened {
        /// What the caller says to the agents.
        note: String,
        /// The entry that it goes on with.
        entry: Option<usize>,
    },
    /// The caller ended it.
    Cancelled,
    /// It was landed, or not.
    Landed {
        /// `landed`, `patch` or `nothing`.
        outcome: String,
        /// Why it was not.
        obstacle: Option<String>,
    },
    /// The map of the project was drawn, or not.
    ContextMapDrawn {
        /// Why not.
        error: Option<String>,
    },
    /// Something beside the task's work failed; the task went on.
    WentWrong {
        /// What, and why.
        what: String,
    },
}
