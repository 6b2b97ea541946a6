//! Turns of agents as logs and reports show them.

use nexus_core::{BackendId, Cost, Effects, ModelId, VendorId};
use serde::{Deserialize, Serialize};

use super::AgentTurn;

/// Backend and usage of an agent's turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedTurn {
    /// Names it in `turns.jsonl`: the artifact `turn-ID`.
    pub turn: Option<String>,
    /// The attempt; `None` outside of steps.
    pub attempt: Option<u32>,
    /// Name of the agent.
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
    /// Cost of the turn.
    pub cost: Option<Cost>,
    /// Tokens that went in.
    pub input_tokens: Option<u64>,
    /// Tokens that came out.
    pub output_tokens: Option<u64>,
    /// Number of starts of a backend for it.
    pub attempts: Option<u32>,
    /// Backends that failed before or were skipped, with the reasons.
    pub skipped: Vec<String>,
    /// Possible changes by it.
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
