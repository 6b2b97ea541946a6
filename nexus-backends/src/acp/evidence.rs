//! Evidence for the facts about an agent.

use serde::{Deserialize, Serialize};

/// Evidence for the facts about an agent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentFactsEvidence {
    /// Its documentation. Nexus never ran it.
    #[default]
    Documentation,
    /// The program itself, against a simulated model.
    RealProgram,
    /// The program itself, including its own enforcement of each access level.
    Measured,
}

impl AgentFactsEvidence {
    /// Returns the evidence in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Documentation => "documentation",
            Self::RealProgram => "real-program",
            Self::Measured => "measured",
        }
    }
}
