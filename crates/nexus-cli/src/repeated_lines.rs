//! Limit on warnings that repeat: another program, or a server that is away, must not fill a log.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Period of the limits.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of lines of one origin within [`PERIOD`].
const MAX_LINES: usize = 10;

/// File and line of the code that writes a warning.
pub(crate) type LineOrigin = (&'static str, Option<u32>);

/// Lines that were shown lately, by their origins.
#[derive(Debug, Default)]
pub(crate) struct RepeatedLines(HashMap<LineOrigin, RecentLines>);

/// Lines of one origin within one period.
#[derive(Debug)]
struct RecentLines {
    began: Instant,
    shown: Vec<String>,
    left_out: usize,
}

impl RepeatedLines {
    /// Returns the text to show in place of a line. `None` if the line is left out: it was shown within the period, or many others of
    /// its origin were.
    pub(crate) fn admit(&mut self, origin: LineOrigin, text: &str, now: Instant) -> Option<String> {
        let new = || RecentLines { began: now, shown: Vec::new(), left_out: 0 };
        let recent = self.0.entry(origin).or_insert_with(new);
        let mut left_out = 0;
        if now.saturating_duration_since(recent.began) >= PERIOD {
            left_out = std::mem::replace(recent, new()).left_out;
        }
        if recent.shown.len() >= MAX_LINES || recent.shown.iter().any(|shown| shown == text) {
            recent.left_out += 1;
            return None;
        }
        recent.shown.push(text.to_owned());
        let note = match (left_out, recent.shown.len()) {
            (0, MAX_LINES) => format!(" [further lines like this are left out for {} s]", PERIOD.as_secs()),
            (0, _) => String::new(),
            (left_out, _) => format!(" [{left_out} lines like this were left out]"),
        };
        Some(format!("{text}{note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_once_and_a_flood_ends_after_ten() {
        let mut lines = RepeatedLines::default();
        let (here, there) = (("here", Some(1)), ("there", Some(1)));
        let now = Instant::now();
        let mut shows =
            |origin, text: &str, after| lines.admit(origin, text, now + Duration::from_secs(after));
        assert_eq!(shows(here, "away", 0).as_deref(), Some("away"));
        assert_eq!(shows(here, "away", 30), None);
        assert_eq!(shows(there, "away", 30).as_deref(), Some("away"));
        assert_eq!(shows(here, "away", 60).as_deref(), Some("away [1 lines like this were left out]"));
        let flood: Vec<_> =
            (0..200).filter_map(|number| shows(there, &format!("bad {number}"), 31)).collect();
        assert_eq!(flood.len(), MAX_LINES - 1);
        assert!(
            flood[MAX_LINES - 2].ends_with("[further lines like this are left out for 60 s]"),
            "{flood:?}"
        );
    }
}
