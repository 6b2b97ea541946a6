//! What a turn may have changed.

use serde::{Deserialize, Serialize};

/// What a turn, or one tool call, may have changed outside itself.
///
/// Ordered by how much care it asks for: the effects of several calls are the greatest of them.
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
    /// It cannot be told. Treat it as written.
    Unknown,
}

impl Effects {
    /// The greater of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }

    /// Whether the same work may be given to another backend without doing it twice.
    pub fn allow_another_try(self) -> bool {
        matches!(self, Self::None | Self::Read)
    }
}
