//! Times as text: RFC 3339 in UTC, such as `2026-01-31T12:00:00Z`.
//!
//! Times before 1970 or after the year 9999 are written as the first or the last possible time.
//!
//! [`as_millis`] and [`as_micros`] are modules for `#[serde(with = "…")]`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserializer, Serializer, de};

/// Last second in the supported range: 9999-12-31T23:59:59Z.
const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a time, truncated to the second.
#[must_use]
pub fn seconds(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(cut(time, 1_000_000_000)).to_string()
}

/// Formats a time, truncated to the millisecond.
#[must_use]
pub fn millis(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(cut(time, 1_000_000)).to_string()
}

/// Formats a time, truncated to the microsecond.
#[must_use]
pub fn micros(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(cut(time, 1_000)).to_string()
}

/// Truncates a time to the millisecond, like a round trip through [`millis`] and [`parse`].
#[must_use]
pub fn cut_to_millis(time: SystemTime) -> SystemTime {
    cut(time, 1_000_000)
}

/// Truncates a time to the microsecond, like a round trip through [`micros`] and [`parse`].
#[must_use]
pub fn cut_to_micros(time: SystemTime) -> SystemTime {
    cut(time, 1_000)
}

/// Parses a time. Returns `None` for other text.
#[must_use]
pub fn parse(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

fn cut(time: SystemTime, unit_nanos: u32) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = since.min(Duration::new(LAST_SECOND, 999_999_999));
    UNIX_EPOCH + Duration::new(since.as_secs(), since.subsec_nanos() / unit_nanos * unit_nanos)
}

fn read<E: de::Error>(text: &str) -> Result<SystemTime, E> {
    // Leave the text out of the error, because it may contain anything.
    parse(text).ok_or_else(|| E::custom("this is not a time such as 2026-01-31T12:00:00.000Z"))
}

/// Declares a module for `#[serde(with = "…")]` that writes times with `$format`, and truncates times that it reads
/// with `$cut`.
macro_rules! field_format {
    ($(#[$about:meta])* $name:ident, $format:ident, $cut:ident) => {
        $(#[$about])*
        pub mod $name {
            use super::{$cut, $format, Deserializer, Serializer, SystemTime, read};
            use serde::Deserialize as _;

            /// Writes a time.
            ///
            /// # Errors
            ///
            /// Errors of the serializer.
            pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$format(*time))
            }

            /// Reads a time, and truncates it.
            ///
            /// # Errors
            ///
            /// Errors of the deserializer, and an error for text that is not a time.
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
                read::<D::Error>(&String::deserialize(deserializer)?).map($cut)
            }

            /// The same format for an optional time.
            pub mod option {
                use super::{$cut, $format, Deserializer, Serializer, SystemTime, read};
                use serde::Deserialize as _;

                /// Writes a time, or null.
                ///
                /// # Errors
                ///
                /// Errors of the serializer.
                pub fn serialize<S: Serializer>(
                    time: &Option<SystemTime>,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    match time {
                        Some(time) => serializer.serialize_str(&$format(*time)),
                        None => serializer.serialize_none(),
                    }
                }

                /// Reads a time or null, and truncates the time.
                ///
                /// # Errors
                ///
                /// Errors of the deserializer, and an error for text that is not a time.
                pub fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Option<SystemTime>, D::Error> {
                    let text = Option::<String>::deserialize(deserializer)?;
                    text.map(|text| read::<D::Error>(&text).map($cut)).transpose()
                }
            }
        }
    };
}

field_format! {
    /// Format of a [`SystemTime`] field, to the millisecond.
    as_millis, millis, cut_to_millis
}

field_format! {
    /// Format of a [`SystemTime`] field, to the microsecond.
    as_micros, micros, cut_to_micros
}
