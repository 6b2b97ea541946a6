//! Selects the occurrences that fire now, by the rule for missed ones.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ring::digest;

use super::{
    cron::CronTimes,
    document::TriggerId,
    schedule::{CronSchedule, MISSED_AFTER, MissedRule},
};

/// Range of the first search for the newest occurrences. Each search that finds too few doubles the range.
const FIRST_LOOK: Duration = Duration::from_secs(60 * 60);

/// An occurrence with its time and its delayed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronOccurrence {
    /// Time by the expression, which names the occurrence.
    pub(super) time: SystemTime,
    /// The time with its jitter.
    pub(super) runs_at: SystemTime,
}

/// Occurrences that are due at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueNow {
    /// Occurrences that fire, the oldest first.
    pub(super) fires: Vec<SystemTime>,
    /// The newest occurrence that was due, whether it fires or not. None if none was.
    pub(super) decided_until: Option<SystemTime>,
}

/// The occurrences of one trigger.
pub(super) struct Occurrences<'t> {
    pub(super) times: &'t CronTimes,
    pub(super) trigger: &'t TriggerId,
    pub(super) schedule: &'t CronSchedule,
}

impl Occurrences<'_> {
    /// Returns the first occurrence after a time.
    pub(super) fn next(&self, after: SystemTime) -> Option<CronOccurrence> {
        let time = self.times.next(after)?;
        Some(CronOccurrence { time, runs_at: time + self.jitter(time) })
    }

    /// Returns the due occurrences after `decided`. Computes only as many occurrences as needed, however long
    /// ago `decided` was.
    pub(super) fn due(&self, decided: SystemTime, now: SystemTime) -> DueNow {
        let most = match self.schedule.missed {
            MissedRule::All => self.schedule.most_missed.max(1) as usize,
            MissedRule::Once | MissedRule::None => 1,
        };
        let mut newest = self.newest(decided, now, most);
        let decided_until = newest.back().copied();
        if self.schedule.missed == MissedRule::None {
            newest.retain(|&time| !is_missed(time + self.jitter(time), now));
        }
        DueNow { fires: newest.into(), decided_until }
    }

    /// Returns the newest `most` due occurrences, oldest first.
    fn newest(&self, decided: SystemTime, now: SystemTime, most: usize) -> VecDeque<SystemTime> {
        let mut look = FIRST_LOOK;
        loop {
            let start = now.checked_sub(look).filter(|&start| start > decided).unwrap_or(decided);
            let mut found = VecDeque::new();
            let mut last = start;
            // An occurrence fires before the time of the next one, so the search ends at the first that is not due yet.
            while let Some(next) = self.next(last).filter(|next| next.runs_at <= now) {
                if found.len() == most {
                    found.pop_front();
                }
                found.push_back(next.time);
                last = next.time;
            }
            if found.len() == most || start == decided {
                return found;
            }
            look *= 2;
        }
    }

    /// Returns the delay of an occurrence. It is the same on every broker, and shorter than the time to the next occurrence,
    /// so that the order stays.
    fn jitter(&self, time: SystemTime) -> Duration {
        let mut bound = u64::from(self.schedule.jitter_seconds) * 1000;
        if bound == 0 {
            return Duration::ZERO;
        }
        if let Some(gap) = self.times.next(time).and_then(|next| next.duration_since(time).ok()) {
            bound = bound.min(u64::try_from(gap.as_millis()).unwrap_or(u64::MAX).saturating_sub(1));
        }
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let hash = digest::digest(&digest::SHA256, format!("{}@{seconds}", self.trigger).as_bytes());
        let number = hash.as_ref().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
        Duration::from_millis(number % (bound + 1))
    }
}

/// Returns true if a firing is later than [`MissedRule::None`] allows.
pub(super) fn is_missed(runs_at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(runs_at).is_ok_and(|late| late > MISSED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        nexus_files::rfc3339::parse(text).unwrap()
    }

    fn due(schedule: &CronSchedule, decided: &str, now: &str) -> DueNow {
        let times = CronTimes::parse(&schedule.expression, &schedule.time_zone).unwrap();
        let trigger = "t".parse().unwrap();
        Occurrences { times: &times, trigger: &trigger, schedule }.due(at(decided), at(now))
    }

    #[test]
    fn fifty_years_of_seconds_are_not_looked_at_one_by_one() {
        let once = CronSchedule::new("* * * * * *");
        let due = due(&once, "1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(due.fires, [at("2026-01-01T00:00:00Z")]);
    }

    #[test]
    fn of_all_the_newest_are_made_up_for() {
        let mut all = CronSchedule::new("0 * * * *").with_missed(MissedRule::All);
        all.most_missed = 3;
        let due = due(&all, "2020-01-01T00:00:00Z", "2026-01-01T12:30:00Z");
        let fires = [at("2026-01-01T10:00:00Z"), at("2026-01-01T11:00:00Z"), at("2026-01-01T12:00:00Z")];
        assert_eq!(due, DueNow { fires: fires.to_vec(), decided_until: Some(fires[2]) });
    }

    #[test]
    fn jitter_stays_within_its_bound_and_before_the_next_one() {
        let schedule = CronSchedule::new("* * * * *").with_jitter_seconds(600);
        let times = CronTimes::parse(&schedule.expression, "UTC").unwrap();
        let (one, two) = ("one".parse().unwrap(), "two".parse().unwrap());
        let mut last = at("2026-01-01T00:00:00Z");
        let mut differ = 0;
        let mut delayed = 0;
        for _ in 0..200 {
            let of =
                |trigger| Occurrences { times: &times, trigger, schedule: &schedule }.next(last).unwrap();
            let (first, again, other) = (of(&one), of(&one), of(&two));
            assert_eq!(first, again);
            let jitter = first.runs_at.duration_since(first.time).unwrap();
            assert!(jitter < Duration::from_secs(60), "{jitter:?}");
            differ += u32::from(first.runs_at != other.runs_at);
            delayed += u32::from(jitter > Duration::from_secs(30));
            last = first.time;
        }
        assert!(differ > 150 && (50..150).contains(&delayed), "{differ} {delayed}");
    }
}
