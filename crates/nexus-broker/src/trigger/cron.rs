//! Times of a cron expression in a time zone. [`CronSchedule`](super::CronSchedule) describes clock changes.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use chrono::DateTime;
use chrono_tz::Tz;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};

use crate::error::BrokerError;

/// Longest expression, in bytes. Source: our own bound.
const MAX_EXPRESSION_BYTES: usize = 256;
/// Maximum number of times per day that become separate patterns.
const MAX_WRITTEN_OUT: usize = 96;
/// Time from which a new expression must have an occurrence. It is in the past, so that an expression fails for impossible
/// days, but not because its years are over.
const FIRST_TIME: u64 = 946_684_800;

/// The times of a cron expression.
pub(super) struct CronTimes {
    /// One pattern for each written-out time of day, or one pattern for all times.
    patterns: Vec<Cron>,
    zone: Tz,
}

impl CronTimes {
    /// Parses an expression.
    pub(super) fn parse(expression: &str, time_zone: &str) -> Result<Self, BrokerError> {
        let shown: String = expression.chars().take(80).collect();
        let fail = |problem: &dyn fmt::Display, instead: &str| {
            let message = format!("the cron expression {shown:?} is not valid: {problem}");
            BrokerError::invalid(message, instead)
        };
        let five = "write minute, hour, day of month, month and day of week, such as `30 9 * * 1-5`";
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(fail(&format_args!("it has {} bytes, more than 256", expression.len()), five));
        }
        let zone: Tz = time_zone.parse().map_err(|_| {
            let shown: String = time_zone.chars().take(80).collect();
            let message = format!("unknown time zone {shown:?}");
            let instead = "write a name of the IANA database, such as Europe/Berlin, America/New_York or UTC";
            BrokerError::invalid(message, instead)
        })?;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Optional).build();
        let cron = parser.parse(expression).map_err(|error| fail(&error, five))?;
        // Check the unsplit expression: a search without a result runs to the year 5000, and should do so once only.
        let times = Self { patterns: vec![cron], zone };
        if times.next(UNIX_EPOCH + Duration::from_secs(FIRST_TIME)).is_none() {
            return Err(fail(
                &"no day matches all of its fields",
                "write days that exist: February has at most 29, and `year` ends before 5000",
            ));
        }
        let patterns = times.patterns.into_iter().flat_map(|cron| written_out(&parser, expression, cron));
        Ok(Self { patterns: patterns.collect(), zone })
    }

    /// Returns the first time after another, to the second. None if no such time exists before the year 5000.
    pub(super) fn next(&self, after: SystemTime) -> Option<SystemTime> {
        let after = i64::try_from(after.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()).ok()?;
        let start = DateTime::from_timestamp(after, 0)?.with_timezone(&self.zone);
        let next = self.patterns.iter().filter_map(|pattern| {
            let found = pattern.find_next_occurrence(&start, false).ok()?.timestamp();
            // A time that does not advance would make the search endless.
            (found > after).then_some(found)
        });
        Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(next.min()?).ok()?))
    }
}

/// Returns one pattern for each time of day, if they are few and none of the fields is a `*`. A single pattern with several
/// hours would follow the clock at a clock change.
fn written_out(parser: &CronParser, expression: &str, cron: Cron) -> Vec<Cron> {
    let pattern = &cron.pattern;
    let (seconds, minutes, hours) =
        (pattern.seconds.values(), pattern.minutes.values(), pattern.hours.values());
    let times = seconds.len() * minutes.len() * hours.len();
    let wild = [&pattern.seconds, &pattern.minutes, &pattern.hours].iter().any(|field| field.from_wildcard);
    let fields: Vec<&str> = expression.split_whitespace().collect();
    // An expression without seconds has five fields; a nickname has a single field.
    let days = if fields.len() == 5 { fields.get(2..) } else { fields.get(3..) };
    let Some(days) = days else { return vec![cron] };
    if wild || !(2..=MAX_WRITTEN_OUT).contains(&times) {
        return vec![cron];
    }
    let days = days.join(" ");
    let mut patterns = Vec::with_capacity(times);
    for hour in &hours {
        for minute in &minutes {
            for second in &seconds {
                match parser.parse(&format!("{second} {minute} {hour} {days}")) {
                    Ok(single) => patterns.push(single),
                    Err(_) => return vec![cron],
                }
            }
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        nexus_files::rfc3339::parse(text).unwrap()
    }

    fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let times = CronTimes::parse(expression, zone).unwrap();
        let mut now = at(after);
        let mut found = Vec::new();
        while found.len() < count {
            now = times.next(now).unwrap();
            found.push(nexus_files::rfc3339::seconds(now));
        }
        found
    }

    #[test]
    fn a_time_that_the_clock_leaps_over_happens_when_it_has_leapt() {
        // Berlin leaps from 02:00 to 03:00 at 01:00 UTC.
        assert_eq!(
            times("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        // New York leaps at 07:00 UTC.
        assert_eq!(
            times("15 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", 2),
            ["2026-03-08T07:00:00Z", "2026-03-09T06:15:00Z"]
        );
        // Lord Howe leaps by half an hour, from 02:00 (+10:30) to 02:30 (+11:00) at 15:30 UTC.
        assert_eq!(
            times("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
            ["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"]
        );
    }

    #[test]
    fn a_time_that_the_clock_repeats_happens_the_first_time() {
        assert_eq!(
            times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        assert_eq!(
            times("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", 2),
            ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]
        );
        // Lord Howe goes from 02:00 (+11:00) back to 01:30 (+10:30) at 15:00 UTC.
        assert_eq!(
            times("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2),
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]
        );
    }

    #[test]
    fn several_times_that_are_written_out_are_each_as_one() {
        // 02:00 and 02:30 are leapt over, and are one with 03:00.
        assert_eq!(
            times("0,30 2-3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
            ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"]
        );
        // Neither is repeated.
        assert_eq!(
            times("30 2,14 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", 3),
            ["2026-10-25T00:30:00Z", "2026-10-25T13:30:00Z", "2026-10-26T01:30:00Z"]
        );
    }

    #[test]
    fn times_with_a_star_go_by_what_the_clock_shows() {
        assert_eq!(
            times("0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]
        );
        assert_eq!(
            times("*/30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", 1),
            ["2026-03-30T00:00:00Z"]
        );
        assert_eq!(
            times("*/30 2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", 5),
            [
                "2026-10-25T00:00:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-26T01:00:00Z"
            ]
        );
        assert_eq!(
            times("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 7),
            [
                "2026-04-04T14:15:00Z",
                "2026-04-04T14:30:00Z",
                "2026-04-04T14:45:00Z",
                "2026-04-04T15:00:00Z",
                "2026-04-04T15:15:00Z",
                "2026-04-05T14:30:00Z",
                "2026-04-05T14:45:00Z"
            ]
        );
    }

    #[test]
    fn leap_days_are_waited_for_over_a_century_that_has_none() {
        assert_eq!(
            times("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2),
            ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
        );
        assert_eq!(times("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
        assert_eq!(times("0 0 L 2 *", "UTC", "2028-02-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
        assert_eq!(times("0 0 31 * *", "UTC", "2026-03-31T00:00:00Z", 1), ["2026-05-31T00:00:00Z"]);
    }

    #[test]
    fn what_never_happens_is_refused_with_the_way_out() {
        for expression in
            ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 1 * 1999", "59 59 23 31 2 *"]
        {
            let zone = "Europe/Berlin";
            // A field more is one of seconds, unless it is one of years.
            let expression =
                if expression.ends_with("1999") { format!("0 {expression}") } else { expression.to_owned() };
            let error = CronTimes::parse(&expression, zone).map(drop).unwrap_err();
            assert_eq!(error.kind, crate::error::BrokerErrorKind::Invalid);
            assert!(error.to_string().contains("no day matches all of its fields"), "{error}");
        }
        for expression in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "a * * * *",
            "@never",
            "*/0 * * * *",
        ] {
            assert!(CronTimes::parse(expression, "UTC").is_err(), "{expression:?}");
        }
        let long = "1,".repeat(200);
        assert!(CronTimes::parse(&long, "UTC").is_err());
        let error = CronTimes::parse("@daily", "Mars/Olympus").map(drop).unwrap_err();
        assert!(error.to_string().contains("unknown time zone \"Mars/Olympus\""), "{error}");
    }
}
