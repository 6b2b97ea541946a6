//! What fires when, with a clock that is set and a runtime whose time is paused.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use nexus_core::{CancelToken, Clock as _};

use super::{Bench, time};
use crate::{
    error::BrokerErrorKind,
    trigger::{
        AtSchedule, CronSchedule, MissedRule, NewTrigger, Scheduler, SchedulerSettings, TriggerSchedule,
    },
};

fn cron(expression: &str, zone: &str, missed: MissedRule) -> TriggerSchedule {
    TriggerSchedule::Cron(CronSchedule::new(expression).in_zone(zone).with_missed(missed))
}

/// Runs two schedulers, as two brokers on one store, for so long by the paused clock.
async fn run_two(bench: &Bench, time: Duration, look_every: Duration) {
    let cancel = CancelToken::new();
    let tasks: Vec<_> = [bench.elsewhere(), bench.elsewhere()]
        .map(|triggers| {
            let settings =
                SchedulerSettings { look_every, read_every: look_every * 2, ..SchedulerSettings::default() };
            let scheduler = Scheduler::new(triggers, settings);
            let cancel = cancel.clone();
            tokio::spawn(async move { scheduler.run(&cancel).await })
        })
        .into();
    tokio::time::sleep(time).await;
    cancel.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn two_schedulers_fire_each_time_once_through_the_days_that_leap() {
    let day = Duration::from_secs(24 * 60 * 60);
    let cases = [
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        (
            "15 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00Z",
            ["2026-03-08T07:00:00Z", "2026-03-09T06:15:00Z"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ),
        (
            "10 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00:00Z",
            ["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00:00Z",
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
        ),
        ("0 12 29 2 *", "UTC", "2028-02-28T18:00:00Z", ["2028-02-29T12:00:00Z", ""]),
    ];
    for (expression, zone, start, expected) in cases {
        let bench = Bench::at(start);
        bench.create(cron(expression, zone, MissedRule::Once)).await;
        run_two(&bench, day * 2, Duration::from_secs(300)).await;
        let expected: Vec<_> = expected.into_iter().filter(|time| !time.is_empty()).collect();
        assert_eq!(bench.fired(), expected, "{expression} {zone}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_fires_within_a_second_of_the_time() {
    let bench = Bench::at("2026-01-01T00:00:00.250Z");
    bench.create(cron("*/10 * * * * *", "UTC", MissedRule::Once)).await;
    run_two(&bench, Duration::from_secs(60), Duration::from_secs(1)).await;
    let put = bench.store.put_so_far();
    assert_eq!(put.len(), 6);
    for (_, envelope) in put {
        let late =
            envelope.timestamp.duration_since(time("2026-01-01T00:00:00Z")).unwrap().as_millis() % 10_000;
        assert!(late < 100, "{late} ms late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleep_of_hours_is_made_up_for_by_the_rule() {
    let cases = [
        (MissedRule::Once, vec!["2026-01-01T09:00:00Z"]),
        (
            MissedRule::All,
            vec![
                "2026-01-01T04:00:00Z",
                "2026-01-01T05:00:00Z",
                "2026-01-01T06:00:00Z",
                "2026-01-01T07:00:00Z",
                "2026-01-01T08:00:00Z",
                "2026-01-01T09:00:00Z",
            ],
        ),
        (MissedRule::None, vec![]),
    ];
    for (rule, expected) in cases {
        let bench = Bench::at("2026-01-01T03:30:00Z");
        bench.create(cron("0 * * * *", "UTC", rule)).await;
        let cancel = CancelToken::new();
        let (scheduler, ended) = (bench.scheduler(), cancel.clone());
        let running = tokio::spawn(async move { scheduler.run(&ended).await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The machine sleeps: its clock steps, and no timer has run.
        bench.clock.set(time("2026-01-01T09:20:00Z"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.fired(), expected, "{rule:?}");
        bench.clock.set(time("2026-01-01T09:59:58Z"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.fired().last().unwrap(), "2026-01-01T10:00:00Z", "{rule:?}");
        assert_eq!(bench.fired().len(), expected.len() + 1);
        cancel.cancel();
        running.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_little_late_is_not_missed() {
    let bench = Bench::at("2026-01-01T03:30:00Z");
    bench.create(cron("0 * * * *", "UTC", MissedRule::None)).await;
    bench.clock.set(time("2026-01-01T04:00:59Z"));
    bench.scheduler().look().await.unwrap();
    assert_eq!(bench.fired(), ["2026-01-01T04:00:00Z"]);
    bench.clock.set(time("2026-01-01T05:01:01Z"));
    bench.scheduler().look().await.unwrap();
    assert_eq!(bench.fired().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_back_fires_nothing_again() {
    let bench = Bench::at("2026-01-01T03:59:00Z");
    let made = bench.create(cron("0 * * * *", "UTC", MissedRule::All)).await;
    let scheduler = bench.scheduler();
    for now in
        ["2026-01-01T06:00:01Z", "2026-01-01T03:00:00Z", "2026-01-01T05:30:00Z", "2026-01-01T06:30:00Z"]
    {
        bench.clock.set(time(now));
        scheduler.look().await.unwrap();
    }
    assert_eq!(bench.fired(), ["2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z"]);
    let trigger = bench.triggers.trigger(&made.id).await.unwrap();
    assert_eq!(trigger.next_run, Some(time("2026-01-01T07:00:00Z")));
    assert_eq!(trigger.last_run, Some(time("2026-01-01T06:00:01Z")));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_killed_between_the_message_and_the_next_run_fires_once() {
    let bench = Bench::at("2026-01-01T03:59:00Z");
    let made = bench.create(cron("0 * * * *", "UTC", MissedRule::All)).await;
    bench.clock.set(time("2026-01-01T05:00:01Z"));
    // The messages are put, and the trigger is not moved.
    bench.store.failing_writes.store(1, Ordering::SeqCst);
    let look = bench.scheduler().look().await.unwrap();
    assert_eq!(look.failures[0].kind, BrokerErrorKind::Unavailable);
    assert_eq!(bench.triggers.trigger(&made.id).await.unwrap().last_run, None);
    let look = bench.scheduler().look().await.unwrap();
    assert!(look.failures.is_empty());
    assert_eq!(bench.fired(), ["2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"]);
    let trigger = bench.triggers.trigger(&made.id).await.unwrap();
    assert_eq!(trigger.next_run, Some(time("2026-01-01T06:00:00Z")));
}

#[tokio::test(start_paused = true)]
async fn what_a_full_queue_refused_fires_when_there_is_room() {
    let bench = Bench::at("2026-01-01T03:59:00Z");
    bench.create(cron("0 * * * *", "UTC", MissedRule::All)).await;
    bench.clock.set(time("2026-01-01T06:00:01Z"));
    bench.store.room.store(1, Ordering::SeqCst);
    let look = bench.scheduler().look().await.unwrap();
    assert_eq!(look.failures[0].kind, BrokerErrorKind::QueueFull);
    bench.store.room.store(10, Ordering::SeqCst);
    bench.scheduler().look().await.unwrap();
    assert_eq!(bench.fired(), ["2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn one_time_fires_once_and_late_by_its_rule() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let at = |text: &str, missed| {
        let mut at = AtSchedule::new(time(text));
        at.missed = missed;
        TriggerSchedule::At(at)
    };
    let late = bench.create(at("2026-01-01T01:00:00Z", MissedRule::Once)).await;
    let never = bench.create(at("2026-01-01T01:00:00Z", MissedRule::None)).await;
    let later = bench.create(at("2026-02-01T00:00:00Z", MissedRule::Once)).await;
    let passed = NewTrigger::new("worker", at("2025-12-31T23:59:59Z", MissedRule::Once), "look");
    let error = bench.triggers.create(passed).await.unwrap_err();
    assert!(error.to_string().contains("has passed"), "{error}");
    bench.clock.set(time("2026-01-03T00:00:00Z"));
    for _ in 0..3 {
        bench.scheduler().look().await.unwrap();
    }
    let put = bench.store.put_so_far();
    assert_eq!(put.len(), 1);
    assert_eq!(put[0].1.message_id.as_str(), format!("trigger:{}@2026-01-01T01:00:00.000Z", late.id));
    for (id, enabled, ran) in [(late.id, false, true), (never.id, false, false), (later.id, true, false)] {
        let trigger = bench.triggers.trigger(&id).await.unwrap();
        assert_eq!((trigger.enabled, trigger.last_run.is_some()), (enabled, ran));
        assert_eq!(trigger.next_run.is_some(), enabled);
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_make_and_switch_off_is_taken_up_while_it_runs() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let cancel = CancelToken::new();
    let (scheduler, ended) = (bench.scheduler(), cancel.clone());
    let running = tokio::spawn(async move { scheduler.run(&ended).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let made = bench.create(cron("* * * * * *", "UTC", MissedRule::Once)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let fired = bench.fired().len();
    assert!((7..=10).contains(&fired), "{fired}");
    bench.triggers.set_enabled(&made.id, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(bench.fired().len() <= fired + 1);
    let switched = bench.triggers.set_enabled(&made.id, true).await.unwrap();
    assert!(switched.next_run.unwrap() > bench.clock.now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The minute in which it was off is not made up for.
    assert!((fired + 5..=fired + 12).contains(&bench.fired().len()), "{} {fired}", bench.fired().len());
    bench.triggers.delete(&made.id).await.unwrap();
    let fired = bench.fired().len();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(bench.fired().len() <= fired + 1);
    cancel.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_conflicts_and_is_shared_by_many_fires_each_once() {
    let bench = Arc::new(Bench::at("2026-01-01T00:00:00Z"));
    for _ in 0..5 {
        bench.create(cron("* * * * *", "UTC", MissedRule::All)).await;
    }
    bench.clock.set(time("2026-01-01T00:20:30Z"));
    let looks: Vec<_> = (0..8)
        .map(|_| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.scheduler().look().await.unwrap() })
        })
        .collect();
    for look in looks {
        look.await.unwrap();
    }
    assert_eq!(bench.fired().len(), 5 * 20);
    for trigger in bench.triggers.list().await.unwrap().triggers {
        assert_eq!(trigger.next_run, Some(time("2026-01-01T00:21:00Z")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_time_that_has_passed_is_not_switched_on_again() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let schedule = TriggerSchedule::At(AtSchedule::new(time("2026-01-01T01:00:00Z")));
    let made = bench.create(schedule).await;
    bench.triggers.set_enabled(&made.id, false).await.unwrap();
    assert!(bench.triggers.set_enabled(&made.id, true).await.unwrap().next_run.is_some());
    bench.clock.set(time("2026-01-01T02:00:00Z"));
    bench.scheduler().look().await.unwrap();
    assert_eq!(bench.fired().len(), 1);
    let error = bench.triggers.set_enabled(&made.id, true).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid);
    assert!(!bench.triggers.trigger(&made.id).await.unwrap().enabled);
}
