//! Times as messages and documents have them: RFC 3339, UTC, to the millisecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serializer, de};

/// The last time that can be written: 9999-12-31T23:59:59.999Z.
const LAST: Duration = Duration::from_millis(253_402_300_799_999);

/// A time as it is written: to the millisecond. One that lies before 1970 or behind the year 9999 is taken to be the nearest that can be.
pub(crate) fn rounded(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST);
    UNIX_EPOCH + Duration::new(since.as_secs(), since.subsec_millis() * 1_000_000)
}

/// A time as text, [`rounded`].
pub(crate) fn text(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(rounded(time)).to_string()
}

fn read<E: de::Error>(text: &str) -> Result<SystemTime, E> {
    humantime::parse_rfc3339(text)
        .map(rounded)
        .map_err(|_| E::custom(format!("{text:?} is no time such as 2026-01-31T12:00:00.000Z")))
}

pub(crate) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    read(&String::deserialize(deserializer)?)
}

pub(crate) mod option {
    use super::{Deserialize, Deserializer, Serializer, SystemTime, read, text};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_str(&text(*time)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        Option::<String>::deserialize(deserializer)?.as_deref().map(read).transpose()
    }
}
