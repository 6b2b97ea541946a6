//! Turns of agents in the form of logs and reports.

use nexus_core::{BackendId, Cost, Effects, ModelId, VendorId};
use serde::{Deserialize, Serialize};

use super::AgentTurn;
use crate::event::WorkspaceEvent;

/// Backend and usage of an agent's turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedTurn {
    /// Id of the turn in `turns.jsonl`. The artifact `turn-ID` shows it.
    pub turn: Option<String>,
    /// Number of the attempt at the step; `None` outside of steps.
    pub attempt: Option<u32>,
    /// Name of the agent.
    pub agent: String,
    /// Type of the agent.
    pub agent_type: String,
    /// Phase of the agent.
    pub phase: String,
    /// Purpose of the turn: `work`, `reminder` (only the submission is requested) or `afresh` (all of the work is done
    /// again).
    pub purpose: String,
    /// Backend whose outcome counts.
    pub backend: BackendId,
    /// Vendor of the backend.
    pub vendor: Option<VendorId>,
    /// The model.
    pub model: Option<ModelId>,
    /// Effort of the turn.
    pub effort: Option<String>,
    /// Cost of the turn.
    pub cost: Option<Cost>,
    /// Number of input tokens.
    pub input_tokens: Option<u64>,
    /// Number of output tokens.
    pub output_tokens: Option<u64>,
    /// Number of attempts to run the turn on a backend.
    pub attempts: Option<u32>,
    /// Backends that failed or were skipped before, with the reasons.
    pub skipped: Vec<String>,
    /// Effects that the turn may have had.
    pub effects: Option<Effects>,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Reason for a failure. `None` if the turn succeeded.
    pub failure: Option<String>,
}

impl LoggedTurn {
    /// Returns the turns that ended, from the events of a workspace.
    pub fn ended(events: &[WorkspaceEvent]) -> impl Iterator<Item = Self> + '_ {
        let ended = events.iter().filter(|event| event.kind == "turn_ended");
        ended.filter_map(|event| serde_json::from_value(event.data.clone()).ok())
    }

    /// Returns the vendor of the turn, or its backend if no vendor is known.
    pub fn vendor_name(&self) -> &str {
        self.vendor.as_ref().map_or_else(|| self.backend.as_str(), VendorId::as_str)
    }

    /// Creates the log entry of a turn. `phase` is one word: `review`.
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
