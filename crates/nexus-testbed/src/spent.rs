//! Usage of the agents of a run.

use std::sync::{Mutex, PoisonError};

use nexus_core::EventEnvelope;
use nexus_tasks::{AgentEnding, AgentProgress, StepAgent, StepWatcher};
use nexus_work::AgentTurn;
use serde::{Deserialize, Serialize};

/// Usage of the agents of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Number of turns.
    pub turns: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Cost in US dollars, as far as vendors report it.
    pub usd: f64,
    /// Number of turns without a reported cost.
    pub turns_without_cost: u32,
}

/// Sums the usage of agents.
#[derive(Debug, Default)]
pub(crate) struct TurnStats(Mutex<Spent>);

impl TurnStats {
    pub(crate) fn spent(&self) -> Spent {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepWatcher for TurnStats {
    fn agent_began(&self, _agent: &StepAgent) {}

    fn agent_event(&self, _agent: &StepAgent, _progress: AgentProgress, _event: &EventEnvelope) {}

    fn agent_ended(&self, _agent: &StepAgent, ending: &AgentEnding, _turns: &[AgentTurn]) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = u32::try_from(ending.turns).unwrap_or(u32::MAX);
        spent.turns += turns;
        spent.tool_calls += ending.tool_calls;
        match ending.cost {
            Some(cost) if cost.usd.0.is_finite() => spent.usd += cost.usd.0,
            _ => spent.turns_without_cost += turns,
        }
    }

    fn said(&self, _line: &str) {}
}
