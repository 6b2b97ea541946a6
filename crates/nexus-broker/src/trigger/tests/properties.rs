//! For any expression and any steps of the clock: each occurrence fires at most once, and the rule says which.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use proptest::prelude::*;

use nexus_files::rfc3339;

use super::{Bench, time};
use crate::trigger::{
    CronSchedule, MissedRule, NewTrigger, TriggerSchedule,
    cron::CronTimes,
    due::{Occurrences, is_missed},
};

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (low..=high).prop_map(|one| one.to_string()),
        2 => (2..=7u32).prop_map(|step| format!("*/{step}")),
        1 => (low..=high, low..=high).prop_map(|(one, two)| format!("{},{}", one, two)),
        1 => (low..=high, low..=high).prop_map(|(one, two)| format!("{}-{}", one.min(two), one.max(two))),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let fields = (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6));
    fields.prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
    ])
}

fn rule() -> impl Strategy<Value = MissedRule> {
    prop::sample::select(vec![MissedRule::Once, MissedRule::All, MissedRule::None])
}

/// Steps of the clock in seconds: mostly forward, by less than a minute up to weeks.
fn steps() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![
        3 => 1..120i64,
        3 => 120..7_200i64,
        2 => 7_200..200_000i64,
        1 => 200_000..3_000_000i64,
        1 => -100_000..0i64,
    ];
    prop::collection::vec(step, 1..12)
}

/// One after the other from the first, as nobody would who has to look at a year of them.
fn all_due(of: &Occurrences<'_>, decided: SystemTime, now: SystemTime) -> Vec<SystemTime> {
    let mut due = Vec::new();
    let mut last = decided;
    while let Some(next) = of.next(last).filter(|next| next.runs_at <= now) {
        due.push(next.time);
        last = next.time;
    }
    due
}

proptest! {
    #[test]
    fn each_occurrence_fires_at_most_once_and_the_rule_says_which(
        expression in expression(),
        zone in zone(),
        rule in rule(),
        jitter in prop::sample::select(vec![0u32, 0, 30, 5_000]),
        start in 0..366 * 24 * 60 * 60u64,
        steps in steps(),
        fails in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut schedule = CronSchedule::new(&*expression).in_zone(zone).with_missed(rule).with_jitter_seconds(jitter);
        schedule.most_missed = 5;
        let times = CronTimes::parse(&expression, zone).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bench = Bench::at("2026-01-01T00:00:00Z");
            let mut now = time("2026-01-01T00:00:00Z") + Duration::from_secs(start);
            bench.clock.set(now);
            let new = NewTrigger::new("worker", TriggerSchedule::Cron(schedule.clone()), "look");
            let made = bench.triggers.create(new).await.unwrap();
            let of = Occurrences { times: &times, trigger: &made.id, schedule: &schedule };
            let mut decided = now;
            let mut expected = Vec::new();
            for (step, fail) in steps.iter().zip(&fails) {
                now = if *step < 0 { now - Duration::from_secs(step.unsigned_abs()) } else { now + Duration::from_secs(step.unsigned_abs()) };
                bench.clock.set(now);
                // One of two brokers may be killed when the messages are put.
                bench.store.failing_writes.store(u64::from(*fail), Ordering::SeqCst);
                let (one, two) = (bench.scheduler(), bench.scheduler());
                let (one, two) = tokio::join!(one.look(), two.look());
                let failures = one.unwrap().failures.len() + two.unwrap().failures.len();
                prop_assert!(failures <= 1);
                bench.store.failing_writes.store(0, Ordering::SeqCst);

                let mut due = all_due(&of, decided, now);
                decided = due.last().copied().unwrap_or(decided);
                match rule {
                    MissedRule::All => drop(due.drain(..due.len().saturating_sub(5))),
                    _ => drop(due.drain(..due.len().saturating_sub(1))),
                }
                if rule == MissedRule::None {
                    due.retain(|&time| {
                        let before = time - Duration::from_secs(1);
                        !is_missed(of.next(before).unwrap().runs_at, now)
                    });
                }
                expected.extend(due);
            }
            let fired = bench.fired();
            prop_assert_eq!(&fired, &expected.iter().map(|&time| rfc3339::seconds(time)).collect::<Vec<_>>());
            prop_assert_eq!(fired.iter().collect::<HashSet<_>>().len(), fired.len());
            Ok(())
        })?;
    }

    #[test]
    fn the_times_of_an_expression_do_not_depend_on_where_the_search_begins(
        expression in expression(),
        zone in zone(),
        start in 0..366 * 24 * 60 * 60u64,
        ahead in 1..400_000u64,
    ) {
        let times = CronTimes::parse(&expression, zone).unwrap();
        let start = time("2026-01-01T00:00:00Z") + Duration::from_secs(start);
        let end = start + Duration::from_secs(ahead);
        // By any second in between the next is the first of the list that is later.
        let mut list = BTreeMap::new();
        let mut last = start;
        while let Some(next) = times.next(last) {
            prop_assert!(next > last);
            list.insert(next, ());
            last = next;
            if next > end || list.len() > 300 {
                break;
            }
        }
        let end = end.min(last - Duration::from_secs(1));
        let span = end.duration_since(start).unwrap_or_default().as_secs();
        for part in 0..=20 {
            let from = start + Duration::from_secs(span * part / 20);
            let expected = list.range(from + Duration::from_secs(1)..).next().map(|(time, ())| *time);
            prop_assert_eq!(times.next(from), expected, "from {:?}", from);
        }
    }
}
