//! The tools of its tier that an agent gets.

use nexus_core::ToolPattern;
use serde::{Deserialize, Serialize};

/// The tools of its tier that an agent gets. A surface only removes tools: a pattern cannot add a tool that the
/// tier does not have.
///
/// In a file it is a list of patterns; without the list, the agent gets every tool of its tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Surface(Option<Vec<ToolPattern>>);

impl Surface {
    /// Creates a surface with every tool of the tier.
    pub fn all() -> Self {
        Self(None)
    }

    /// Creates a surface with the tools of the tier that match one of `patterns`. Without a pattern, no tool remains.
    pub fn only(patterns: impl IntoIterator<Item = ToolPattern>) -> Self {
        Self(Some(patterns.into_iter().collect()))
    }

    /// Returns true if the surface removes no tool.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if the surface keeps a tool of this name, provided that the tier has it.
    pub fn keeps(&self, tool: &str) -> bool {
        self.0.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
    }
}
