//! What a debate's `status.json` holds beside its state.

use serde::{Deserialize, Serialize};

use crate::{frame::FrameRules, settings::DebateSettings, sources::Source};

/// What a debate's `status.json` holds beside its [`DebateState`](crate::DebateState): all that is needed to go on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebateData {
    /// The version of this layout: [`DebateData::VERSION`].
    pub version: u32,
    /// What is debated.
    pub question: String,
    /// What the caller knows about it.
    pub context: Option<String>,
    /// What bounds it.
    pub settings: DebateSettings,
    /// Registered agents and panelists that the caller wants to sit.
    pub pins: Vec<String>,
    /// The registered agents, as they were when it was created.
    pub registered: Vec<RegisteredAgent>,
    /// Its sources. `None` until they are copied: nothing can be done with it before.
    pub sources: Option<Vec<Source>>,
    /// The stages whose records count, the oldest first.
    pub settled: Vec<String>,
    /// Whether the caller wants it cancelled: whoever runs a stage of it stops.
    pub stop: bool,
}

/// An agent that may sit on the panel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredAgent {
    /// The name of its type.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// What it knows about.
    pub topics: Vec<String>,
    /// What it is told beside its task.
    pub prompt: Option<String>,
}

impl DebateData {
    /// The version of this layout.
    pub const VERSION: u32 = 1;

    /// What its frame is held to.
    pub fn frame_rules(&self) -> FrameRules {
        FrameRules {
            panelists: self.settings.panelists,
            registered: self.registered.iter().map(|agent| agent.name.clone()).collect(),
            pins: self.pins.clone(),
            sources: self.sources.iter().flatten().map(|source| source.name.clone()).collect(),
        }
    }
}
