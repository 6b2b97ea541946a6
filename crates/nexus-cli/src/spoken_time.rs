//! Instants and spans of time, for people and for programs.

use std::time::{Duration, SystemTime};

use nexus_files::rfc3339;

/// Formats an instant for people, with its distance from now.
pub(crate) fn spoken_instant(instant: SystemTime, now: SystemTime) -> String {
    let text = rfc3339::seconds(instant);
    // The first 16 characters are the date, the hour and the minute.
    let minutes = text.get(..16).unwrap_or(&text).replace('T', " ");
    match (instant.duration_since(now), now.duration_since(instant)) {
        (Ok(left), _) => format!("{minutes} UTC (in {})", spoken(left)),
        (_, Ok(past)) => format!("{minutes} UTC ({} ago)", spoken(past)),
        _ => minutes,
    }
}

/// Formats the time since a moment in RFC 3339 for a column of a table: `5m`, `3h`, `12d`. An unreadable moment is shown as it is.
pub(crate) fn age(moment: &str) -> String {
    let Some(then) = rfc3339::parse(moment) else { return moment.to_owned() };
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a time span in its largest unit.
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
}
