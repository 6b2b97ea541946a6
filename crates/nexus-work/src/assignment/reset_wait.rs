//! Wait of an agent's turn for the reset of a vendor's limit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest time, in seconds, that one agent's turn waits where every backend that could run it refuses turns until a time, such as the
/// reset of a plan. The turn then goes on by itself. 0 does not wait. A day by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ResetWait(u64);

impl ResetWait {
    /// Creates a wait of this many seconds.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the longest wait; `None` if the turn does not wait.
    pub fn longest(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(self.0))
    }

    /// Returns true for the default. Settings leave it out of their files, so that an older program can read them.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ResetWait {
    fn default() -> Self {
        Self(24 * 60 * 60)
    }
}
