//! Formats durations for people.

use std::{fmt, time::Duration};

/// A duration, displayed in its two largest units.
pub(crate) struct Spoken(pub(crate) Duration);

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs() + u64::from(self.0.subsec_nanos() > 0);
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds}s"),
            (0, 0, _) => write!(f, "{minutes}m {}s", seconds % 60),
            (0, ..) => write!(f, "{hours}h {minutes}m"),
            _ => write!(f, "{days}d {hours}h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_span_is_said_in_its_two_greatest_units() {
        let spoken = |seconds| Spoken(Duration::from_secs(seconds)).to_string();
        assert_eq!(spoken(59), "59s");
        assert_eq!(spoken(61), "1m 1s");
        assert_eq!(spoken(3_600 * 5 + 60 * 7 + 8), "5h 7m");
        assert_eq!(spoken(86_400 * 6 + 3_600), "6d 1h");
    }
}
