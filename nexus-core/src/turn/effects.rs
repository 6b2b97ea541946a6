//! Effects of a turn.

use serde::{Deserialize, Serialize};

/// Possible changes by a turn, or by one tool call, outside of itself.
///
/// Ordered by the care that they require: the effects of several calls are the greatest of them.
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
    /// The greater of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }

    /// Returns true if the same work may be given to another backend without doing it twice.
    pub fn allow_another_try(self) -> bool {
        matches!(self, Self::None | Self::Read)
    }
}
