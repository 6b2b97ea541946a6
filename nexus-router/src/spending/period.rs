//! Hours, days and months of a time zone.

use std::{
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, NaiveTime, TimeDelta, TimeZone};

use super::budget::BudgetPeriod;

/// Length of an hour in seconds.
const HOUR: u64 = 3_600;
/// Step of the search for the first moment of a day without midnight, in minutes.
const STEP_MINUTES: i64 = 15;
/// Steps of that search: a day.
const STEPS: i32 = 96;

/// Returns the period that contains `now`, in a time zone.
pub(super) fn period_at<Z: TimeZone>(period: BudgetPeriod, now: SystemTime, zone: &Z) -> Range<SystemTime> {
    let (first, next) = match period {
        BudgetPeriod::Hour => {
            let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / HOUR * HOUR;
            let start = UNIX_EPOCH + Duration::from_secs(seconds);
            return start..start + Duration::from_secs(HOUR);
        }
        BudgetPeriod::Day => {
            let day = date_at(now, zone);
            (day, day.checked_add_days(Days::new(1)))
        }
        BudgetPeriod::Month => {
            let day = date_at(now, zone);
            let first = day.with_day(1).unwrap_or(day);
            (first, first.checked_add_months(Months::new(1)))
        }
    };
    let start = beginning(first, zone).unwrap_or(now);
    // A zone can skip a whole day, for example when it moves across the date line.
    let end = next.and_then(|next| beginning(next, zone)).unwrap_or(start + Duration::from_secs(24 * HOUR));
    start..end
}

/// Returns the date of a time in a time zone.
pub(super) fn date_at<Z: TimeZone>(time: SystemTime, zone: &Z) -> NaiveDate {
    DateTime::<chrono::Utc>::from(time).with_timezone(zone).date_naive()
}

/// Returns the first moment of a date. A day without midnight begins later, and a day with two midnights begins with the first.
pub(super) fn beginning<Z: TimeZone>(date: NaiveDate, zone: &Z) -> Option<SystemTime> {
    let midnight = date.and_time(NaiveTime::MIN);
    let moments = (0..STEPS).map(|step| midnight + TimeDelta::minutes(STEP_MINUTES) * step);
    moments.filter_map(|moment| zone.from_local_datetime(&moment).earliest()).map(SystemTime::from).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        nexus_files::rfc3339::parse(text).unwrap()
    }

    fn bounds<Z: TimeZone>(period: BudgetPeriod, now: &str, zone: &Z) -> [String; 2] {
        let Range { start, end } = period_at(period, at(now), zone);
        [start, end].map(nexus_files::rfc3339::seconds)
    }

    #[test]
    fn days_and_months_follow_the_zone_and_its_summer_time() {
        let berlin = chrono_tz::Europe::Berlin;
        for (period, now, start, end) in [
            (BudgetPeriod::Day, "2026-11-30T22:59:59Z", "2026-11-29T23:00:00Z", "2026-11-30T23:00:00Z"),
            (BudgetPeriod::Day, "2026-11-30T23:00:00Z", "2026-11-30T23:00:00Z", "2026-12-01T23:00:00Z"),
            // The day has 23 hours, and the one in October 25.
            (BudgetPeriod::Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            (BudgetPeriod::Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
            (BudgetPeriod::Month, "2026-10-31T22:30:00Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
            (BudgetPeriod::Month, "2026-12-31T23:30:00Z", "2026-12-31T23:00:00Z", "2027-01-31T23:00:00Z"),
            (BudgetPeriod::Hour, "2026-12-31T23:30:00Z", "2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(bounds(period, now, &berlin), [start, end], "{period:?} at {now}");
        }
        let utc = bounds(BudgetPeriod::Day, "2026-11-30T23:30:00Z", &chrono::Utc);
        assert_eq!(utc, ["2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"]);
    }

    #[test]
    fn a_day_without_midnight_begins_at_its_first_moment() {
        let beirut = bounds(BudgetPeriod::Day, "2022-03-27T12:00:00Z", &chrono_tz::Asia::Beirut);
        assert_eq!(beirut, ["2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"]);
    }
}
