//! Reports of agents that fire triggers.

use std::time::Duration;

use serde_json::Map;

use super::{Bench, occurrence, time};
use crate::{
    message::{Address, Envelope, Payload, ReportedStatus},
    store::BrokerStore as _,
    trigger::{CompletionOutcome, CompletionSchedule, TriggerSchedule},
};

fn status(task: &str, status: ReportedStatus) -> Payload {
    Payload::StatusUpdate {
        task_id: task.to_owned(),
        status,
        percent: None,
        details: Some("as said".to_owned()),
        other: Map::new(),
    }
}

fn result(task: &str) -> Payload {
    Payload::Result {
        task_id: task.to_owned(),
        summary: "done".to_owned(),
        artifacts: Vec::new(),
        stdout: None,
        diff: None,
        other: Map::new(),
    }
}

async fn report(bench: &Bench, agent: &str, payload: Payload) {
    let envelope = Envelope::new(
        Address::agent(agent).unwrap(),
        Address::agent("boss").unwrap(),
        payload,
        &*bench.clock,
    );
    bench.store.put("agent.boss", &envelope).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_reported_twice_fires_once_and_its_failure_apart() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    // More than are read at one look.
    for number in 0..25_000 {
        report(&bench, "noise", status(&number.to_string(), ReportedStatus::InProgress)).await;
    }
    report(&bench, "builder", result("before")).await;
    bench.clock.advance(Duration::from_secs(60));
    bench.create(TriggerSchedule::Completion(CompletionSchedule::of_agent("builder"))).await;
    let scheduler = bench.scheduler();
    assert!(scheduler.look().await.unwrap().more);
    assert!(!scheduler.look().await.unwrap().more);
    assert!(bench.fired().is_empty());
    report(&bench, "builder", status("t1", ReportedStatus::InProgress)).await;
    report(&bench, "builder", status("t1", ReportedStatus::Failed)).await;
    report(&bench, "builder", status("t1", ReportedStatus::Completed)).await;
    scheduler.look().await.unwrap();
    report(&bench, "builder", result("t1")).await;
    report(&bench, "other", result("t1")).await;
    report(&bench, "builder", result("t2 / strange")).await;
    scheduler.look().await.unwrap();
    // Another broker, or this one after a restart.
    bench.scheduler().look().await.unwrap();
    let fired = bench.fired();
    assert_eq!(fired[..2], ["builder:t1:failed", "builder:t1:completed"]);
    assert!(fired[2].starts_with("sha256:"), "{fired:?}");
    assert_eq!(fired.len(), 3);
    let put = bench.store.put_so_far();
    let (_, first) = put.iter().find(|(_, envelope)| super::occurrence(envelope).is_some()).unwrap();
    let value = serde_json::to_value(first).unwrap();
    assert_eq!(
        value["payload"]["data"],
        serde_json::json!({ "agent": "builder", "task_id": "t1", "outcome": "failed", "text": "as said" })
    );
}

#[tokio::test(start_paused = true)]
async fn a_trigger_waits_for_one_task_and_one_outcome() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let mut schedule = CompletionSchedule::of_task("t9");
    schedule.outcomes = vec![CompletionOutcome::Failed];
    bench.create(TriggerSchedule::Completion(schedule)).await;
    let scheduler = bench.scheduler();
    for agent in ["one", "two"] {
        report(&bench, agent, result("t9")).await;
        report(&bench, agent, status("t8", ReportedStatus::Failed)).await;
    }
    report(&bench, "two", status("t9", ReportedStatus::Failed)).await;
    scheduler.look().await.unwrap();
    assert_eq!(bench.fired(), ["two:t9:failed"]);
}

#[tokio::test(start_paused = true)]
async fn reports_while_no_broker_ran_fire_and_long_logs_are_read_in_parts() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let made = bench.create(TriggerSchedule::Completion(CompletionSchedule::of_agent("builder"))).await;
    bench.scheduler().look().await.unwrap();
    for number in 0..30_000 {
        report(&bench, "noise", status(&number.to_string(), ReportedStatus::InProgress)).await;
    }
    report(&bench, "builder", result("late")).await;
    bench.clock.set(time("2026-01-02T00:00:00Z"));
    let scheduler = bench.scheduler();
    assert!(scheduler.look().await.unwrap().more);
    let position = bench.triggers.trigger(&made.id).await.unwrap().decided_in_log.unwrap();
    assert!(position >= 19_000, "{position}");
    while scheduler.look().await.unwrap().more {}
    assert_eq!(bench.fired(), ["builder:late:completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_that_could_not_be_passed_on_is_not_lost() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    bench.create(TriggerSchedule::Completion(CompletionSchedule::of_agent("builder"))).await;
    for task in ["a", "b"] {
        report(&bench, "builder", result(task)).await;
    }
    bench.store.room.store(3, std::sync::atomic::Ordering::SeqCst);
    let scheduler = bench.scheduler();
    assert_eq!(scheduler.look().await.unwrap().failures.len(), 1);
    bench.store.room.store(100, std::sync::atomic::Ordering::SeqCst);
    scheduler.look().await.unwrap();
    assert_eq!(bench.fired(), ["builder:a:completed", "builder:b:completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_firing_counts_the_turns_that_began_each_other_until_the_report() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    bench.create(TriggerSchedule::Completion(CompletionSchedule::of_agent("poet"))).await;
    let (from, to) = (Address::agent("poet").unwrap(), Address::agent("boss").unwrap());
    let mut envelope = Envelope::new(from, to, result("t"), &*bench.clock);
    envelope.hops = 7;
    bench.store.put("agent.boss", &envelope).await.unwrap();
    bench.scheduler().look().await.unwrap();
    let put = bench.store.put_so_far();
    let fired: Vec<_> = put.iter().filter(|(_, envelope)| occurrence(envelope).is_some()).collect();
    assert_eq!(fired.iter().map(|(_, envelope)| envelope.hops).collect::<Vec<_>>(), [7]);
}
