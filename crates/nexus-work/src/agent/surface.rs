//! Which tools of its tier an agent is given.

use nexus_core::ToolPattern;
use serde::{Deserialize, Serialize};

/// Which tools of those that its tier has an agent is given. A surface only takes tools away: what the tier does not
/// have, no pattern here adds.
///
/// In a file it is a list of patterns; where there is none, the agent is given every tool of its tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Surface(Option<Vec<ToolPattern>>);

impl Surface {
    /// Every tool of the tier.
    pub fn all() -> Self {
        Self(None)
    }

    /// Those tools of the tier that one of `patterns` matches. No pattern leaves no tool.
    pub fn only(patterns: impl IntoIterator<Item = ToolPattern>) -> Self {
        Self(Some(patterns.into_iter().collect()))
    }

    /// Whether nothing is taken away.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a tool of this name, if the tier has it, is left.
    pub fn keeps(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
    }
}
