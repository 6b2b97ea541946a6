//! Who is told what the agents of a step do, while they do it.

use std::fmt;

use nexus_core::{Cost, EventEnvelope, Usage, VendorId};
use nexus_work::AgentTurn;

use crate::agent::AgentPhase;

/// Is told what the agents of a step do: for progress, for `watch`, and for the log. Never for an agent: what it is told names
/// vendors.
///
/// Agents of one step are at work at the same time, and it is called in the middle of their turns: it must not block.
pub trait StepWatcher: Send + Sync {
    /// An agent is about to begin.
    fn agent_began(&self, agent: &StepAgent);
    /// Something happened in an agent's turn. `progress` is as of this event.
    fn agent_event(&self, agent: &StepAgent, progress: AgentProgress, event: &EventEnvelope);
    /// An agent has ended; `turns` are all of its turns, in order.
    fn agent_ended(&self, agent: &StepAgent, ending: &AgentEnding, turns: &[AgentTurn]);
    /// A line that a person can read: what the step is at, or what went wrong beside it.
    fn said(&self, line: &str);
}

/// Tells nobody.
impl StepWatcher for () {
    fn agent_began(&self, _agent: &StepAgent) {}
    fn agent_event(&self, _agent: &StepAgent, _progress: AgentProgress, _event: &EventEnvelope) {}
    fn agent_ended(&self, _agent: &StepAgent, _ending: &AgentEnding, _turns: &[AgentTurn]) {}
    fn said(&self, _line: &str) {}
}

/// One agent of a step.
///
/// Its [`Display`](fmt::Display) form names it without a vendor: `unit 2`, `seat 1 (boundary-inputs)`, `reflector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAgent {
    /// Its entry of the plan, counted from 0. A reflector has that of the step's first entry.
    pub entry: usize,
    /// The attempt, from 1 on over all steps of the task.
    pub attempt: u32,
    /// What it is in the step.
    pub role: StepRole,
    /// Its type.
    pub agent_type: String,
    /// Its phase.
    pub phase: AgentPhase,
}

/// What an agent is in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// It does the work, or a part of it.
    Unit {
        /// Which of them, from 0 on in plan order.
        index: usize,
    },
    /// It reviews the work.
    Seat {
        /// Which of them, from 0 on.
        index: usize,
        /// The name of the lens that it has.
        lens: Option<String>,
    },
    /// It answers to a verdict that does not advance.
    Reflector,
}

/// How far an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentProgress {
    /// Calls of tools so far, in this turn.
    pub tool_calls: u32,
    /// How many it may make in a turn; those that hand something in are not counted against it.
    pub most_tool_calls: u32,
}

/// How an agent ended, and what it used.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEnding {
    /// Why it handed nothing in. `None` if it did.
    pub failure: Option<String>,
    /// The vendor of its last turn, where one ran.
    pub vendor: Option<VendorId>,
    /// How many turns it had: one, unless it had to be reminded.
    pub turns: usize,
    /// Calls of tools, over all its turns.
    pub tool_calls: u32,
    /// What its turns used.
    pub usage: Usage,
    /// What they cost, in all, as far as it is known.
    pub cost: Option<Cost>,
}

impl fmt::Display for StepAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.role.fmt(f)
    }
}

impl fmt::Display for StepRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit { index } => write!(f, "unit {}", index + 1),
            Self::Seat { index, lens: Some(lens) } => write!(f, "seat {} ({lens})", index + 1),
            Self::Seat { index, lens: None } => write!(f, "seat {}", index + 1),
            Self::Reflector => f.write_str("reflector"),
        }
    }
}
