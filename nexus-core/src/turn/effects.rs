//! Effects of a turn.

use serde::{Deserialize, Serialize};

/// Possible changes by a turn or a tool call outside of itself.
///
/// The variants are ordered by the care that they require. The effects of several calls are the greatest of their effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// Nothing was touched.
    #[default]
    None,
    /// Something was read.
    Read,
    /// Something was written or executed.
    Wrote,
    /// The effects are not known. Treat them as writes.
    Unknown,
}

impl Effects {
    /// Returns the greater of the two effects.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }

    /// Returns true if another backend may do the same work without repeating a change.
    pub fn allow_another_try(self) -> bool {
        matches!(self, Self::None | Self::Read)
    }
}
