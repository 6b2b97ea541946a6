//! Observer of a step's agents.

use std::fmt;

use nexus_core::{Cost, EventEnvelope, Usage, VendorId};
use nexus_work::AgentTurn;

use crate::agent::AgentPhase;

/// Observes the agents of a step: for progress, for `watch`, and for the log. Never pass this information to an agent: it names vendors.
///
/// Agents of one step run at the same time, and each call comes in the middle of a turn: it must not block.
pub trait StepWatcher: Send + Sync {
    /// An agent is about to begin.
    fn agent_began(&self, agent: &StepAgent);
    /// An event of an agent's turn arrived. `progress` includes this event.
    fn agent_event(&self, agent: &StepAgent, progress: AgentProgress, event: &EventEnvelope);
    /// An agent has ended; `turns` are all of its turns, in order.
    fn agent_ended(&self, agent: &StepAgent, ending: &AgentEnding, turns: &[AgentTurn]);
    /// A line for a person: the current activity of the step, or a problem that does not stop it.
    fn said(&self, line: &str);
}

/// Ignores everything.
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
    /// Its entry of the plan, counted from 0. A reflector has the first entry of the step.
    pub entry: usize,
    /// The attempt, from 1 on over all steps of the task.
    pub attempt: u32,
    /// Its role in the step.
    pub role: StepRole,
    /// Its type.
    pub agent_type: String,
    /// Its phase.
    pub phase: AgentPhase,
}

/// Role of an agent in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// The agent does the work, or a part of it.
    Unit {
        /// Number of the unit, from 0 on in plan order.
        index: usize,
    },
    /// The agent reviews the work.
    Seat {
        /// Number of the seat, from 0 on.
        index: usize,
        /// Name of its lens.
        lens: Option<String>,
    },
    /// The agent answers a verdict that does not advance.
    Reflector,
}

/// Progress of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentProgress {
    /// Tool calls so far in this turn that count towards the limit.
    pub tool_calls: u32,
    /// Maximum number of calls that it may make in a turn. Calls that submit an answer do not count towards this limit.
    pub most_tool_calls: u32,
}

/// End of an agent, and its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEnding {
    /// Reason why it submitted nothing. `None` if it did.
    pub failure: Option<String>,
    /// Vendor of its last turn, if a turn ran.
    pub vendor: Option<VendorId>,
    /// Number of its turns: one, unless it needed a reminder.
    pub turns: usize,
    /// Tool calls, over all its turns.
    pub tool_calls: u32,
    /// Usage of its turns.
    pub usage: Usage,
    /// Cost of its turns in all, as far as it is known.
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
