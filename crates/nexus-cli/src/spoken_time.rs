//! Instants and spans of time, for people and for programs.

use std::time::{Duration, SystemTime};

/// An instant as a person reads it, and how far off it is.
pub(crate) fn spoken_instant(instant: SystemTime, now: SystemTime) -> String {
    let text = rfc3339(instant);
    let minutes = text.get(..16).unwrap_or(&text).replace('T', " ");
    match (instant.duration_since(now), now.duration_since(instant)) {
        (Ok(left), _) => format!("{minutes} UTC (in {})", spoken(left)),
        (_, Ok(past)) => format!("{minutes} UTC ({} ago)", spoken(past)),
        _ => minutes,
    }
}

/// An instant for programs.
pub(crate) fn rfc3339(instant: SystemTime) -> String {
    // Beyond the year 9999 there is no such text, and printing one would panic.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_seconds(instant.clamp(SystemTime::UNIX_EPOCH, last)).to_string()
}

/// A time span by its greatest unit.
pub(crate) fn spoken(span: Duration) -> String {
    let seconds = span.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_span_is_said_in_its_greatest_unit() {
        assert_eq!(spoken(Duration::from_secs(1)), "1 second");
        assert_eq!(spoken(Duration::from_secs(899)), "14 minutes");
        assert_eq!(spoken(Duration::from_secs(86_400)), "24 hours");
        assert_eq!(spoken(Duration::from_secs(86_400 * 8)), "8 days");
    }

    #[test]
    fn an_instant_is_said_with_its_distance() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(
            spoken_instant(now + Duration::from_secs(7_200), now),
            "2027-01-15 10:00 UTC (in 2 hours)"
        );
        assert_eq!(spoken_instant(now - Duration::from_secs(60), now), "2027-01-15 07:59 UTC (1 minute ago)");
    }

    #[test]
    fn no_instant_is_too_far_off() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::MAX >> 1);
        assert_eq!(rfc3339(far), "9999-12-31T23:59:59Z");
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(rfc3339(early), "1970-01-01T00:00:00Z");
    }
}
