//! Subjects of skills.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Subject of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// Use of a tool.
    Tools,
    /// Access to a service.
    Connectors,
    /// A way of working.
    Guides,
}

impl SkillKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Connectors, Self::Guides];

    /// Returns the name of the kind's folder.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Connectors => "connectors",
            Self::Guides => "guides",
        }
    }
}

impl fmt::Display for SkillKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
