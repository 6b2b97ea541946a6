//! Data of a debate in `status.json`, in addition to its state.

use nexus_work::{AgentType, WorkData};
use serde::{Deserialize, Serialize};

use crate::{
    debate_error::{DebateError, DebateErrorKind},
    frame::FrameRules,
    settings::DebateSettings,
    sources::Source,
    state::DebateState,
};

/// Data of a debate in `status.json`, in addition to its [`DebateState`](crate::DebateState). Together they are enough to
/// resume the debate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebateData {
    /// The version of this layout: [`DebateData::VERSION`].
    pub version: u32,
    /// Question of the debate.
    pub question: String,
    /// The caller's context for the question.
    pub context: Option<String>,
    /// Bounds of the debate.
    pub settings: DebateSettings,
    /// Registered agents and panelists that the caller requires on the panel.
    pub pins: Vec<String>,
    /// The registered agents at the time of the creation.
    pub registered: Vec<RegisteredAgent>,
    /// Sources of the debate. `None` until they are copied: no stage can run before.
    pub sources: Option<Vec<Source>>,
    /// Stages whose records count, oldest first.
    pub settled: Vec<String>,
    /// True if the caller wants to cancel the debate: the process that runs a stage then stops.
    pub stop: bool,
}

/// A registered agent that may join the panel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredAgent {
    /// Name of the agent's type.
    pub name: String,
    /// Purpose of the agent.
    pub description: String,
    /// Topics that the agent knows.
    pub topics: Vec<String>,
    /// Instructions of the agent, in addition to its task.
    pub prompt: Option<String>,
}

impl From<AgentType> for RegisteredAgent {
    fn from(agent: AgentType) -> Self {
        let AgentType { name, description, topics, prompt, .. } = agent;
        Self { name, description, topics: topics.into_iter().collect(), prompt }
    }
}

impl DebateData {
    /// Version of this format.
    pub const VERSION: u32 = 1;

    /// Returns the rules for the frame.
    pub fn frame_rules(&self) -> FrameRules {
        FrameRules {
            panelists: self.settings.panelists,
            registered: self.registered.iter().map(|agent| agent.name.clone()).collect(),
            pins: self.pins.clone(),
            sources: self.sources.iter().flatten().map(|source| source.name.clone()).collect(),
        }
    }

    /// Checks that the sources of the debate are copied.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if its creation was interrupted.
    pub(crate) fn check_is_whole(&self) -> Result<(), DebateError> {
        match self.sources {
            Some(_) => Ok(()),
            None => Err(DebateError::new(
                DebateErrorKind::Damaged,
                "the debate is incomplete: its creation was interrupted",
                "cancel it with debate_cancel, and create another debate with debate_create",
            )),
        }
    }
}

impl WorkData<DebateState> for DebateData {
    const VERSION: u32 = Self::VERSION;

    fn fault(&self, _state: &DebateState) -> Option<String> {
        if self.version != Self::VERSION {
            return Some(format!(
                "`data` has version {}, but this version of Nexus supports {}",
                self.version,
                Self::VERSION
            ));
        }
        if let Some((field, reason)) = self.settings.fault() {
            return Some(format!("`{field}` {reason}"));
        }
        // Check the names, because they become file names.
        let stage = self.settled.iter().find(|stage| !crate::names::is_name(stage))?;
        Some(format!("{stage:?} is not a stage"))
    }
}
