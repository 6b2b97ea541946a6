//! One agent's part of a piece of work: its inputs, a turn that ends by submitting an answer, and the
//! submission.
//!
//! The prose of an agent is never read as an answer. An agent that ends without a submission is asked once
//! more, in the same conversation and with nothing but its terminal tools; if that conversation is lost, in a
//! new one. A second silence is a failure of the infrastructure, never an invented opinion.

mod budget;
mod draft_fault;
mod logged_turn;
mod quote;
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
    /// The file.
    pub file: RecordFile,
    /// Name of its turns there, to which the reason of each turn is added: `0.1 unit 1 work`.
    pub name: String,
}

/// One agent's part: its instructions, its scope, and the source of its answer.
pub struct Assignment<T> {
    /// Backend of the agent.
    pub route: AgentRoute,
    /// Its request. [`run_agent`] decides if the conversation is stored, and ignores the value here.
    pub request: TurnRequest,
    /// Participant of its session.
    pub participant: ParticipantId,
    /// Paths that it may touch, and the ones of `tools` that it may call.
    pub scope: ParticipantScope,
    /// Its tools. At least one of them, within `scope`, is terminal: it submits the answer.
    pub tools: Arc<dyn ToolRouter>,
    /// Highest number of its calls in all, except those of terminal tools.
    pub tool_calls: u32,
    /// Number of its submissions that may be refused in all before it counts as silent.
    pub refused_submissions: u32,
    /// Host of its turns: cancellation, budget, restoring of files. Its session is replaced.
    pub host: TurnHost,
    /// Destination of the records of its turns. A turn that cannot be recorded does not run.
    pub record: Option<AgentRecord>,
    /// Takes the submission: [`Submission::take`](nexus_core::Submission::take) of one tool, or of several.
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
