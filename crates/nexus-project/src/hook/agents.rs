//! `state/{harness}/agent-tracker.json`: the subagents of a program's sessions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{state::Document, time::Time};

/// Maximum number of agents in the file. Source: our own bound; each start and end of an agent reads and writes the file.
const MOST_AGENTS: usize = 100;

/// The agents of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentTracker {
    /// The version of this file: 1.
    pub version: u32,
    /// The agents, in the order in which they began.
    pub agents: Vec<TrackedAgent>,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrackedAgent {
    /// Its name, which is the program's.
    pub id: String,
    /// Its type, if the program reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The session that it belongs to.
    pub session: String,
    /// Time of its start.
    pub started_at: Time,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The files that it changed, in files of earlier versions. `agent-files.jsonl` has them now.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files_touched: BTreeSet<String>,
}

impl AgentTracker {
    /// Adds an agent. Above the maximum number, removes the agent that ended first, or the oldest one.
    pub(super) fn add(&mut self, agent: TrackedAgent) {
        self.agents.push(agent);
        while self.agents.len() > MOST_AGENTS {
            // The end of a running agent is recorded in its entry, so remove an ended agent if possible.
            let ended = self.agents.iter().enumerate().filter_map(|(at, known)| Some((known.ended_at?, at)));
            let oldest = ended.min().map_or(0, |(_, at)| at);
            self.agents.remove(oldest);
        }
    }
}

impl Default for AgentTracker {
    fn default() -> Self {
        Self { version: 1, agents: Vec::new() }
    }
}

impl Document for AgentTracker {
    const NAME: &'static str = "agent-tracker.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
