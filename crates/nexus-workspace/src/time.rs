//! Times as the files have them: UTC, RFC 3339, to the microsecond.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize as _, Deserializer, Serializer, de, ser};

use nexus_core::Clock;

/// The time now, as it is read back: without the nanoseconds, and not before 1970.
pub(super) fn now(clock: &dyn Clock) -> SystemTime {
    let since = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    UNIX_EPOCH.checked_add(Duration::from_micros(micros)).unwrap_or(UNIX_EPOCH)
}

pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_micros(*time))
        .map_err(|_| ser::Error::custom("the clock says a time after the year 9999"))?;
    serializer.serialize_str(&text)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text)
        .map_err(|_| de::Error::custom("this is no time such as 2026-01-31T12:00:00.000000Z"))
}
