//! Times in the names of occurrences.

use std::time::SystemTime;

use nexus_files::rfc3339;

use crate::error::BrokerError;

/// Parses RFC 3339 in UTC.
pub(super) fn parse(text: &str) -> Result<SystemTime, BrokerError> {
    rfc3339::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        BrokerError::invalid(
            format!("{shown:?} is not a time"),
            "write it in UTC, such as 2026-01-31T12:00:00Z",
        )
    })
}
