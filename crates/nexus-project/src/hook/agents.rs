//! `state/{harness}/agent-tracker.json`: the subagents of a program's sessions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{state::Document, time::Time};

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
    /// The files that it changed, relative to the project.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files_touched: BTreeSet<String>,
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
