//! What a document of a trigger may be.

use serde_json::{Value, json};

use super::{Bench, time};
use crate::{
    error::BrokerErrorKind,
    message::{Address, MessagePriority},
    trigger::{
        AtSchedule, CompletionSchedule, CronSchedule, EventSchedule, FileSchedule, NewTrigger, Trigger,
        TriggerId, TriggerSchedule, WebhookSchedule,
    },
};

fn document() -> Value {
    json!({
        "id": "nightly", "agent": "worker", "type": "cron",
        "schedule": { "expression": "0 3 * * *", "time_zone": "Europe/Berlin", "of_tomorrow": 1 },
        "action": "tidy up", "enabled": true, "next_run": null, "last_run": null,
        "created_at": "2026-01-01T00:00:00.000Z", "decided_until": "2026-01-01T00:00:00.000Z",
        "colour": "green",
    })
}

#[test]
fn unknown_keys_are_kept_and_an_unknown_type_is_refused() {
    let trigger = Trigger::read("nightly", &document()).unwrap();
    assert_eq!(trigger.other["colour"], "green");
    let written = trigger.to_value();
    assert_eq!(written["schedule"]["of_tomorrow"], 1);
    assert_eq!(written["type"], "cron");
    assert_eq!(Trigger::read("nightly", &written).unwrap(), trigger);

    let mut other = document();
    other["type"] = "moon".into();
    let error = Trigger::read("nightly", &other).unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert!(error.to_string().contains("moon"), "{error}");
    assert!(Trigger::read("another", &document()).unwrap_err().to_string().contains(
        "the document contains \
        the id"
    ));
}

#[test]
fn what_this_version_would_not_make_it_does_not_fire() {
    let cases = [
        ("/action", json!("")),
        ("/action", json!("x".repeat(20_000))),
        ("/agent", json!("Not A Name")),
        ("/id", json!("../escape")),
        ("/schedule", json!({ "expression": "0 0 31 2 *" })),
        ("/schedule", json!({ "expression": "0 0 * * *", "time_zone": "Nowhere" })),
        ("/schedule", json!({ "expression": "0 0 * * *", "missed": "sometimes" })),
        ("/schedule", json!({ "expression": "0 0 * * *", "most_missed": 0 })),
        ("/schedule", json!({ "expression": "0 0 * * *", "jitter_seconds": 100_000 })),
        ("/schedule", json!("0 0 * * *")),
        ("/created_at", json!("yesterday")),
        ("/next_run", json!(17)),
    ];
    for (place, value) in cases {
        let mut broken = document();
        *broken.pointer_mut(place).unwrap() = value.clone();
        let error = Trigger::read("nightly", &broken).unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::Damaged, "{place} {value}");
    }
}

#[test]
fn each_type_is_written_and_read_back() {
    let schedules = [
        TriggerSchedule::Cron(CronSchedule::new("@hourly").in_zone("Asia/Kathmandu").with_jitter_seconds(9)),
        TriggerSchedule::At(AtSchedule::new(time("2027-01-01T00:00:00.123Z"))),
        TriggerSchedule::Event(EventSchedule::new("deployed")),
        TriggerSchedule::Webhook(WebhookSchedule::in_environment("HOOK_SECRET")),
        TriggerSchedule::File(FileSchedule::folder("/var/spool/in")),
        TriggerSchedule::Completion(CompletionSchedule::of_agent("builder")),
    ];
    let names = ["cron", "at", "event", "webhook", "file", "completion"];
    for (schedule, name) in schedules.into_iter().zip(names) {
        let mut new = NewTrigger::new("worker", schedule, "go");
        new.priority = MessagePriority::High;
        new.target = Some("manager-of:worker".parse().unwrap());
        let made = new.made_at(time("2026-01-01T00:00:00Z"));
        let value = made.to_value();
        assert_eq!(value["type"], name);
        assert_eq!(Trigger::read(made.id.as_str(), &value).unwrap(), made);
    }
    let schema = serde_json::to_value(schemars::schema_for!(Trigger)).unwrap().to_string();
    for name in names {
        assert!(schema.contains(&format!("\"const\":\"{name}\"")), "{name} in {schema}");
    }
}

#[test]
fn what_cannot_be_watched_or_taken_is_refused() {
    let mut relative = FileSchedule::file("notes.txt");
    relative.quiet_milliseconds = 500;
    let mut hasty = FileSchedule::file("/notes.txt");
    hasty.quiet_milliseconds = 1;
    let mut globbed = FileSchedule::folder("/in");
    globbed.pattern = Some("[".to_owned());
    let mut of_file = FileSchedule::file("/in/a");
    of_file.pattern = Some("*.csv".to_owned());
    let mut polled = FileSchedule::file("/in/a");
    polled.poll_milliseconds = Some(1);
    let files = [relative, hasty, globbed, of_file, polled, FileSchedule::folder("/in/../etc")];
    let mut flood = WebhookSchedule::in_folder();
    flood.max_per_minute = 0;
    let mut nobody = CompletionSchedule::of_agent("x");
    nobody.agent = None;
    let others = [
        TriggerSchedule::Webhook(flood),
        TriggerSchedule::Webhook(WebhookSchedule::in_environment("whsec_c2VjcmV0IQ==")),
        TriggerSchedule::Event(EventSchedule::new(" ")),
        TriggerSchedule::Completion(nobody),
    ];
    for schedule in files.into_iter().map(TriggerSchedule::File).chain(others) {
        let error = schedule.check().unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::Invalid, "{schedule:?}");
        assert!(!error.to_string().contains("c2VjcmV0"), "a secret in place of a name: {error}");
    }
}

#[tokio::test]
async fn a_firing_goes_to_the_target_else_the_session_else_the_manager() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let session: Address = "agent:worker:inbox".parse().unwrap();
    let target: Address = "caller:me".parse().unwrap();
    for (id, target, session) in
        [("a", Some(target.clone()), Some(session.clone())), ("b", None, Some(session)), ("c", None, None)]
    {
        let mut new = NewTrigger::new("worker", TriggerSchedule::Event(EventSchedule::new("go")), "act");
        new.id = id.parse().unwrap();
        (new.target, new.session) = (target, session);
        bench.triggers.create(new).await.unwrap();
    }
    let data = Some(json!({ "n": 1 }));
    assert_eq!(bench.triggers.fire_event("go", "one", data.clone()).await.unwrap().len(), 3);
    assert_eq!(bench.triggers.fire_event("go", "one", data.clone()).await.unwrap().len(), 3);
    assert!(bench.triggers.fire_event("stay", "one", data).await.unwrap().is_empty());
    let put = bench.store.put_so_far();
    let queues: Vec<_> = put.iter().map(|(queue, _)| queue.as_str()).collect();
    assert_eq!(queues, ["caller.me", "agent.worker", "manager-of.worker"]);
    let value = serde_json::to_value(&put[0].1).unwrap();
    assert_eq!(value["type"], "trigger");
    assert_eq!(value["source_agent_id"], "worker");
    assert_eq!(
        value["payload"],
        json!({ "trigger_id": "a", "occurrence": "one", "action": "act", "data": { "n": 1 } })
    );
}

#[tokio::test]
async fn an_event_that_could_not_be_put_everywhere_is_safe_to_send_again() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    for _ in 0..2 {
        bench.create(TriggerSchedule::Event(EventSchedule::new("go"))).await;
    }
    bench.store.room.store(1, std::sync::atomic::Ordering::SeqCst);
    let error = bench.triggers.fire_event("go", "strange id / with\nall", None).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::QueueFull);
    bench.store.room.store(10, std::sync::atomic::Ordering::SeqCst);
    bench.triggers.fire_event("go", "strange id / with\nall", None).await.unwrap();
    let fired = bench.fired();
    assert_eq!(fired.len(), 2);
    assert!(fired[0].starts_with("sha256:"), "{fired:?}");
    assert!(bench.triggers.fire_event("go", "", None).await.is_err());
    assert!(bench.triggers.fire_event("go", &"x".repeat(300), None).await.is_err());
}

#[tokio::test]
async fn triggers_are_made_once_listed_and_deleted() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let made = bench.create(TriggerSchedule::Cron(CronSchedule::new("0 3 * * *"))).await;
    let mut again = NewTrigger::new("worker", made.schedule.clone(), "look");
    again.id = made.id.clone();
    assert_eq!(bench.triggers.create(again).await.unwrap_err().kind, BrokerErrorKind::Conflict);
    bench.store.place("odd", json!({ "type": "moon" }));
    let list = bench.elsewhere().list().await.unwrap();
    assert_eq!(list.triggers, std::slice::from_ref(&made));
    assert_eq!(list.damaged[0].0, "odd");
    let odd: TriggerId = "odd".parse().unwrap();
    assert_eq!(bench.triggers.trigger(&odd).await.unwrap_err().kind, BrokerErrorKind::Damaged);
    bench.triggers.delete(&odd).await.unwrap();
    bench.triggers.delete(&made.id).await.unwrap();
    assert_eq!(bench.triggers.delete(&made.id).await.unwrap_err().kind, BrokerErrorKind::Unknown);
    assert!(bench.triggers.list().await.unwrap().triggers.is_empty());
}
