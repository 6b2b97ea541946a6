//! The present time as files store it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970-01-01 00:00 UTC.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
