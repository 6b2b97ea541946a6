//! When to try again.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// When the same request may be tried again.
#[non_exhaustive]
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

impl Retry {
    /// How long to wait from `now` on: nothing if the time has passed, `None` if the same request is not to be repeated.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use nexus_core::Retry;
    ///
    /// let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    /// assert_eq!(Retry::At(now + Duration::from_secs(5)).delay(now), Some(Duration::from_secs(5)));
    /// assert_eq!(Retry::At(SystemTime::UNIX_EPOCH).delay(now), Some(Duration::ZERO));
    /// assert_eq!(Retry::Never.delay(now), None);
    /// ```
    pub fn delay(&self, now: SystemTime) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Now => Some(Duration::ZERO),
            Self::After(delay) => Some(*delay),
            Self::At(at) => Some(at.duration_since(now).unwrap_or_default()),
        }
    }
}
