//! Time of the next attempt.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{ErrorKind, Phase};

/// Time at which the same request may be tried again.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Never: the same request would fail again.
    #[default]
    Never,
    /// Immediately.
    Now,
    /// After this wait, which the vendor named.
    After(Duration),
    /// At this time, which the vendor named.
    At(SystemTime),
    /// After this wait, which is our guess because the vendor named no time.
    Guessed(Duration),
}

/// Longest accepted wait from a vendor that limits rates or is overloaded. Source: our own bound; no observed vendor meant more than
/// minutes.
const LONGEST_PATIENCE: Duration = Duration::from_secs(24 * 3_600);
/// Longest accepted wait for a used-up plan; a date is accepted unchanged. Source: our own bound. The longest plans of vendors run for a
/// month, or for a year if they are paid by the year.
const LONGEST_PLAN: Duration = Duration::from_secs(400 * 24 * 3_600);

impl Retry {
    /// Guessed duration of a rate limit, if the vendor names none.
    pub const RATE_LIMIT_GUESS: Duration = Duration::from_secs(60);
    /// Guessed duration of an overload or another failure of the vendor, if the vendor names none.
    pub const SERVER_GUESS: Duration = Duration::from_secs(30);

    /// Returns the time at which a request that failed as `kind` may be tried again: the policy of every
    /// backend. `named` is the vendor's own time, if it named one.
    ///
    /// | kind | without a named time |
    /// | --- | --- |
    /// | [`RateLimited`](ErrorKind::RateLimited) | [`Retry::Guessed`], 60 s |
    /// | [`Overloaded`](ErrorKind::Overloaded), [`VendorFailure`](ErrorKind::VendorFailure) | [`Retry::Guessed`], 30 s |
    /// | [`Starved`](ErrorKind::Starved), except by a tool | [`Retry::Guessed`], 30 s |
    /// | [`Transport`](ErrorKind::Transport) | [`Retry::Now`] |
    /// | [`UsageLimit`](ErrorKind::UsageLimit) | [`Retry::Never`] |
    /// | any other | [`Retry::Never`], also with a named time |
    ///
    /// If a vendor names a wait, the result is never [`Retry::Now`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use nexus_core::{ErrorKind, Retry};
    ///
    /// let named = Retry::After(Duration::from_secs(300));
    /// assert_eq!(Retry::after_failure(ErrorKind::RateLimited, Some(named)), named);
    /// assert_eq!(
    ///     Retry::after_failure(ErrorKind::RateLimited, None),
    ///     Retry::Guessed(Retry::RATE_LIMIT_GUESS)
    /// );
    /// assert_eq!(Retry::after_failure(ErrorKind::InvalidRequest, Some(named)), Retry::Never);
    /// ```
    pub fn after_failure(kind: ErrorKind, named: Option<Self>) -> Self {
        let named = named.filter(|named| !matches!(named, Self::Never));
        let guess = match kind {
            ErrorKind::RateLimited => Self::Guessed(Self::RATE_LIMIT_GUESS),
            ErrorKind::Overloaded | ErrorKind::VendorFailure => Self::Guessed(Self::SERVER_GUESS),
            // A silent program or server may recover. A tool that hangs would hang again for the same request.
            ErrorKind::Starved(Phase::Start | Phase::FirstByte | Phase::Model) => {
                Self::Guessed(Self::SERVER_GUESS)
            }
            ErrorKind::Transport => return named.unwrap_or(Self::Now),
            ErrorKind::UsageLimit => Self::Never,
            _ => return Self::Never,
        };
        named.filter(|named| !matches!(named, Self::Now)).unwrap_or(guess)
    }

    /// Returns this time with an implausible wait cut, and the original wait. The longest waits are 24 hours from `now`, and 400 days for a
    /// used-up plan, whose dates are never cut. `None` if nothing was cut.
    pub(crate) fn capped(self, kind: ErrorKind, now: SystemTime) -> Option<(Self, Duration)> {
        let longest = if kind == ErrorKind::UsageLimit { LONGEST_PLAN } else { LONGEST_PATIENCE };
        let capped = match self {
            Self::After(_) => Self::After(longest),
            Self::At(_) if kind != ErrorKind::UsageLimit => Self::At(now.checked_add(longest)?),
            _ => return None,
        };
        self.delay(now).filter(|wait| *wait > longest).map(|_| (capped, longest))
    }

    /// Returns true if the time is our own guess, because the vendor named none.
    pub fn is_guessed(&self) -> bool {
        matches!(self, Self::Guessed(_))
    }

    /// Returns the wait from `now` on: zero if the time has passed, `None` if the same request must not be
    /// repeated.
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
            Self::After(delay) | Self::Guessed(delay) => Some(*delay),
            Self::At(at) => Some(at.duration_since(now).unwrap_or_default()),
        }
    }
}
