//! One agent's part of a piece of work: its inputs, a turn that ends with a submitted answer, and the answer.
//!
//! The prose of an agent is never read as an answer. If an agent ends without a submission, it gets one reminder in the same
//! conversation, with only its terminal tools. If that conversation is lost, a new one repeats the work. A second turn
//! without a submission is a failure of the infrastructure; no opinion is invented for the agent.

mod budget;
mod draft_fault;
mod logged_turn;
mod quote;
mod reset_wait;
mod run;
mod terminal_tools;
mod text_page;

use std::{fmt, sync::Arc};

use nexus_core::{ParticipantId, ParticipantScope, RecordFile, ToolRouter, TurnHost, TurnRequest};
use nexus_router::{Seat, WorkKind};

pub use self::{
    budget::{MOST_REFUSED_SUBMISSIONS, WorkBudget},
    draft_fault::{DraftError, DraftFault, Faults, shown},
    logged_turn::LoggedTurn,
    quote::Quote,
    reset_wait::ResetWait,
    run::{AgentFailure, AgentReport, AgentTurn, AgentTurnPurpose, run_agent},
    text_page::{PageRequest, TextPage, bounded_answer},
};

/// Backend of the agent.
#[derive(Clone, Debug)]
pub enum AgentRoute {
    /// Binding of a work-kind of the configuration.
    Kind(WorkKind),
    /// One seat of a panel.
    Seat(Box<Seat>),
}

/// Destination of the records of an agent's turns.
#[derive(Clone, Debug)]
pub struct AgentRecord {
    /// File of the records.
    pub file: RecordFile,
    /// Name of the agent's turns in the file. The purpose of each turn is appended: `0.1 unit 1 work`.
    pub name: String,
}

/// One agent's part of the work: its instructions, its scope, and the source of its answer.
pub struct Assignment<T> {
    /// Backend of the agent.
    pub route: AgentRoute,
    /// Request of the turn. [`run_agent`] decides if the conversation is stored, and ignores the value here.
    pub request: TurnRequest,
    /// Participant of its session.
    pub participant: ParticipantId,
    /// Paths that the agent may access, and tools of `tools` that it may call.
    pub scope: ParticipantScope,
    /// Tools of the agent. At least one tool within `scope` is terminal: it submits the answer.
    pub tools: Arc<dyn ToolRouter>,
    /// Maximum number of tool calls in total, not counting terminal tools.
    pub tool_calls: u32,
    /// Number of rejected submissions in total after which the agent counts as one without an answer.
    pub refused_submissions: u32,
    /// Host of the turns: cancellation, budget, restoring of files. [`run_agent`] replaces its session.
    pub host: TurnHost,
    /// Destination of the records of its turns. A turn that cannot be recorded does not run.
    pub record: Option<AgentRecord>,
    /// Returns the submitted answer: [`Submission::take`](nexus_core::Submission::take) of one or several tools.
    pub answer: Box<dyn Fn() -> Option<T> + Send + Sync>,
}

impl<T> fmt::Debug for Assignment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment")
            .field("route", &self.route)
            .field("participant", &self.participant)
            .field("tool_calls", &self.tool_calls)
            .finish_non_exhaustive()
    }
}
