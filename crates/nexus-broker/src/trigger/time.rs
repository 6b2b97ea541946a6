//! Times, as the names of occurrences have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{BrokerError, BrokerErrorKind};

/// The last second that RFC 3339 can write: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// RFC 3339, UTC, to the second. A time outside of 1970 to 9999 is written as the nearest that is inside.
pub(super) fn to_seconds(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(whole_milli(time)).to_string()
}

/// The millisecond that a time lies in: what is stored of it.
pub(super) fn whole_milli(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().min(Duration::from_secs(LAST_SECOND));
    UNIX_EPOCH + Duration::new(since.as_secs(), since.subsec_millis() * 1_000_000)
}

/// Reads RFC 3339 in UTC.
pub(super) fn parse(text: &str) -> Result<SystemTime, BrokerError> {
    humantime::parse_rfc3339(text).map_err(|_| {
        let shown: String = text.chars().take(80).collect();
        BrokerError::new(
            BrokerErrorKind::Invalid,
            format!("{shown:?} is no time"),
            "write it in UTC, such as 2026-01-31T12:00:00Z",
        )
    })
}
