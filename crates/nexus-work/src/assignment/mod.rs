//! One agent's part of a piece of work: what it is given, a turn that ends by submitting an answer, and what it submits.
//!
//! What an agent says in prose is never read as an answer. One that ends without handing anything in is asked once more, in
//! the same conversation and with nothing but its terminal tools; where that conversation is lost, it begins afresh. Then it
//! is a failure of the infrastructure, never a made-up opinion.

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

/// Who runs the agent.
#[derive(Clone, Debug)]
pub enum AgentRoute {
    /// What a work-kind of the configuration is bound to.
    Kind(WorkKind),
    /// One seat of a panel.
    Seat(Box<Seat>),
}

/// Where an agent's turns are written down.
#[derive(Clone, Debug)]
pub struct AgentRecord {
    /// The file.
    pub file: RecordFile,
    /// What its turns go by there; why a turn was run is added: `0.1 unit 1 work`.
    pub name: String,
}

/// One agent's part: what it is told, what it may do, and where its answer lies afterwards.
pub struct Assignment<T> {
    /// Who runs it.
    pub route: AgentRoute,
    /// What is asked of it. The conversation is kept or not as [`run_agent`] needs it, whatever is said here.
    pub request: TurnRequest,
    /// Whose session it is.
    pub participant: ParticipantId,
    /// What it may touch, and which of `tools` it may call.
    pub scope: ParticipantScope,
    /// Its tools. At least one of them, within `scope`, is terminal: it hands in the answer.
    pub tools: Arc<dyn ToolRouter>,
    /// How many calls it may make in all, those of terminal tools excepted.
    pub tool_calls: u32,
    /// How many of its submissions may be refused in all before it is silent.
    pub refused_submissions: u32,
    /// What else its turns are run with: cancellation, budget, what puts things back. Its session is replaced.
    pub host: TurnHost,
    /// Where its turns are written down. A turn that cannot be is not run.
    pub record: Option<AgentRecord>,
    /// Takes out what was handed in: [`Submission::take`](nexus_core::Submission::take) of one place, or of several.
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
