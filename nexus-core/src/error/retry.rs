//! When to try again.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// When the same request may be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Not as it stands.
    #[default]
    Never,
    /// At once.
    Now,
    /// After this long.
    After(Duration),
    /// At this time, by the vendor's clock.
    At(SystemTime),
}
