//! What is written into the log of a task.

use nexus_core::{BackendId, Cost, Effects, ModelId, VendorId};
use serde::{Deserialize, Serialize};

use crate::{agent::AgentTurn, review::ReviewDecision};

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

/// Who ran a turn of an agent, and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedTurn {
    /// Names it in `turns.jsonl`: the artifact `turn-ID`.
    pub turn: Option<String>,
    /// The attempt; `None` outside of steps.
    pub attempt: Option<u32>,
    /// Which agent.
    pub agent: String,
    /// Its type.
    pub agent_type: String,
    /// Its phase.
    pub phase: String,
    /// Why it was run: `work`, `reminder`, `afresh`.
    pub purpose: String,
    /// The backend that decided.
    pub backend: BackendId,
    /// The company behind it.
    pub vendor: Option<VendorId>,
    /// The model.
    pub model: Option<ModelId>,
    /// The effort that it ran with.
    pub effort: Option<String>,
    /// What it cost.
    pub cost: Option<Cost>,
    /// Tokens that went in.
    pub input_tokens: Option<u64>,
    /// Tokens that came out.
    pub output_tokens: Option<u64>,
    /// How often a backend was started for it.
    pub attempts: Option<u32>,
    /// Who was asked before, or passed over, and why.
    pub skipped: Vec<String>,
    /// What it may have changed.
    pub effects: Option<Effects>,
    /// Tools that it called.
    pub tool_calls: u32,
    /// Why it failed. `None` if it ended well.
    pub failure: Option<String>,
}

impl LoggedTurn {
    /// A turn as the log has it. `phase` is in a word: `review`.
    pub fn of(turn: &AgentTurn, attempt: Option<u32>, agent: &str, agent_type: &str, phase: &str) -> Self {
        let (partial, result) = match &turn.outcome {
            Ok(result) => (None, Some(result)),
            Err(error) => (Some(error.partial()), None),
        };
        let provenance = result
            .map(|result| &result.provenance)
            .or_else(|| partial.and_then(|partial| partial.provenance.as_ref()));
        let usage = result.map(|result| result.usage).or_else(|| partial.map(|partial| partial.usage));
        let calls =
            result.map(|result| &result.tool_calls).or_else(|| partial.map(|partial| &partial.tool_calls));
        Self {
            turn: turn.recorded_as.clone(),
            attempt,
            agent: agent.to_owned(),
            agent_type: agent_type.to_owned(),
            phase: phase.to_owned(),
            purpose: turn.purpose.to_string(),
            backend: turn.backend.clone(),
            vendor: turn.vendor.clone(),
            model: provenance.and_then(|provenance| provenance.model.clone()),
            effort: provenance
                .and_then(|provenance| provenance.effort)
                .map(|effort| effort.applied.to_string()),
            cost: result.and_then(|result| result.cost).or_else(|| partial.and_then(|partial| partial.cost)),
            input_tokens: usage.and_then(|usage| usage.all_input_tokens()),
            output_tokens: usage.and_then(|usage| usage.all_output_tokens()),
            attempts: provenance.map(|provenance| provenance.attempts),
            skipped: provenance
                .map(|provenance| {
                    provenance
                        .skipped
                        .iter()
                        .map(|skipped| format!("{}: {}", skipped.backend, skipped.reason))
                        .collect()
                })
                .unwrap_or_default(),
            effects: result.map(|result| result.effects).or_else(|| partial.map(|partial| partial.effects)),
            tool_calls: calls.map_or(0, |calls| u32::try_from(calls.len()).unwrap_or(u32::MAX)),
            failure: turn.outcome.as_ref().err().map(|error| format!("{:?}: {error}", error.kind())),
        }
    }
}
