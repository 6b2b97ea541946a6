//! The tools of an agent, as a model calls them.

use std::time::Duration;

use nexus_core::{Clock as _, ToolCall, ToolContent, ToolRouter as _, Toolbox};
use serde_json::{Value, json};

use super::Bench;
use crate::{
    message::{Address, Chain},
    trigger::{EventSchedule, NewTrigger, TriggerSchedule, TriggerTools, WebhookSecrets},
};

fn toolbox(tools: &TriggerTools) -> Toolbox {
    let toolbox = tools.tools().into_iter().fold(Toolbox::new(), Toolbox::with);
    assert!(toolbox.quarantined().is_empty(), "{:?}", toolbox.quarantined());
    toolbox
}

/// What the model reads: the value, or the error's words.
async fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Result<Value, String> {
    let result = toolbox.call(ToolCall::new("1", name, arguments)).await;
    let content = match result.content.as_slice() {
        [ToolContent::Json { value }] => value.clone(),
        [ToolContent::Text { text }] => text.as_str().into(),
        other => panic!("{other:?}"),
    };
    if result.is_error { Err(content.as_str().unwrap_or_default().to_owned()) } else { Ok(content) }
}

#[tokio::test]
async fn an_agent_makes_lists_and_deletes_its_own_triggers() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let session: Address = "agent:worker:main".parse().unwrap();
    let tools = toolbox(&TriggerTools::of_agent(bench.triggers.clone(), "worker").in_session(session));
    let cron = json!({ "type": "cron", "action": "sum up", "cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "missed": "none" });
    let made = call(&tools, "create_trigger", cron).await.unwrap();
    assert_eq!(
        (&made["target"], &made["next_run"]),
        (&json!("agent:worker:main"), &json!("2026-01-01T08:00:00.000Z"))
    );
    let at = json!({ "type": "at", "action": "once", "at": "2026-01-02T00:00:00Z", "target": "manager-of:worker" });
    call(&tools, "create_trigger", at).await.unwrap();
    let other = bench.create(TriggerSchedule::Event(EventSchedule::new("x"))).await;
    let mut stranger = NewTrigger::new("stranger", TriggerSchedule::Event(EventSchedule::new("x")), "look");
    stranger.id = "theirs".parse().unwrap();
    bench.triggers.create(stranger).await.unwrap();

    let listed = call(&tools, "list_triggers", json!({})).await.unwrap();
    let ids: Vec<_> =
        listed["triggers"].as_array().unwrap().iter().map(|trigger| trigger["id"].clone()).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.contains(&json!(other.id)) && !ids.contains(&json!("theirs")));
    let error = call(&tools, "delete_trigger", json!({ "id": "theirs" })).await.unwrap_err();
    assert!(error.contains("you have no trigger theirs"), "{error}");
    call(&tools, "delete_trigger", json!({ "id": made["id"] })).await.unwrap();
    assert!(call(&tools, "delete_trigger", json!({ "id": made["id"] })).await.is_err());
    assert_eq!(bench.triggers.list().await.unwrap().triggers.len(), 3);
}

#[tokio::test]
async fn what_an_agent_may_not_is_refused_with_the_way_out() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let tools = toolbox(&TriggerTools::of_agent(bench.triggers.clone(), "worker"));
    let cases = [
        (json!({ "type": "event", "event": "x", "target": "stranger" }), "may not address stranger"),
        (json!({ "type": "event", "event": "x", "target": "caller:me" }), "may not address"),
        (json!({ "type": "event", "event": "x", "target": "manager-of:stranger" }), "may not address"),
        (json!({ "type": "event", "event": "x", "target": "no one" }), "is not an address"),
        (json!({ "type": "event" }), "needs `event`"),
        (json!({ "type": "cron", "cron": "* * * * * *" }), "more than five fields"),
        (json!({ "type": "cron", "cron": "0 0 30 2 *" }), "no day matches all of its fields"),
        (json!({ "type": "at", "at": "tomorrow" }), "is not a time"),
        (json!({ "type": "at", "at": "2025-01-01T00:00:00Z" }), "has passed"),
        (json!({ "type": "webhook" }), "may not create triggers of type webhook"),
        (json!({ "type": "file", "path": "/etc/passwd" }), "may not create triggers of type file"),
        (json!({ "type": "completion", "of_agent": "stranger" }), "may not"),
        (json!({ "type": "completion", "of_task": "t1" }), "needs `of_agent`"),
        (json!({ "type": "moon" }), "moon"),
    ];
    for (mut arguments, expected) in cases {
        arguments["action"] = "do it".into();
        let error = call(&tools, "create_trigger", arguments.clone()).await.unwrap_err();
        assert!(error.contains(expected), "{arguments}: {error}");
    }
    for number in 0..50 {
        let event = json!({ "type": "event", "event": number.to_string(), "action": "do it" });
        call(&tools, "create_trigger", event).await.unwrap();
    }
    let error =
        call(&tools, "create_trigger", json!({ "type": "event", "event": "x", "action": "do it" })).await;
    assert!(error.unwrap_err().contains("which is the limit for one agent"));
}

#[tokio::test]
async fn the_secret_of_a_webhook_is_never_shown_to_a_model() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let folder = tempfile::tempdir().unwrap();
    let secrets = WebhookSecrets::in_folder(folder.path().join("secrets"));
    let tools = TriggerTools::of_agent(bench.triggers.clone(), "worker").with_files();
    let tools = toolbox(&tools.with_webhooks(secrets, "http://127.0.0.1:8080/"));
    let made = call(&tools, "create_trigger", json!({ "type": "webhook", "action": "look" })).await.unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["url"], format!("http://127.0.0.1:8080/hooks/{id}"));
    assert!(!made.to_string().contains("whsec"), "{made}");
    let files = || std::fs::read_dir(folder.path().join("secrets")).unwrap().count();
    assert_eq!(files(), 1);
    call(&tools, "delete_trigger", json!({ "id": id })).await.unwrap();
    assert_eq!(files(), 0);
    let refused = call(&tools, "create_trigger", json!({ "type": "webhook", "action": "" })).await;
    assert!(refused.unwrap_err().contains("the action has 0 bytes"));
    assert_eq!(files(), 0, "no secret is left of a trigger that was not made");

    let file = json!({ "type": "file", "action": "look", "path": folder.path() });
    let made = call(&tools, "create_trigger", file).await.unwrap();
    assert_eq!(made["schedule"]["folder"], true);
    let relative = json!({ "type": "file", "action": "look", "path": "notes" });
    assert!(call(&tools, "create_trigger", relative).await.unwrap_err().contains("not absolute"));
}

#[tokio::test(start_paused = true)]
async fn a_trigger_for_the_next_minute_counts_as_a_message_of_the_turn_that_makes_it() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let session: Address = "agent:worker:main".parse().unwrap();
    let of_turn = |hops: u32| {
        let tools = TriggerTools::of_agent(bench.triggers.clone(), "worker").in_session(session.clone());
        let root = "m".parse().unwrap();
        toolbox(&tools.in_turn(Chain { hops: hops - 1, root }, 5))
    };
    let at = |time: &str| json!({ "type": "at", "action": "go on", "at": time });
    let soon = call(&of_turn(6), "create_trigger", at("2026-01-01T00:00:01Z")).await.unwrap_err();
    assert!(soon.contains("at least 60 s from now"), "{soon}");
    call(&of_turn(6), "create_trigger", at("2026-01-01T00:01:00Z")).await.unwrap();
    call(&of_turn(5), "create_trigger", at("2026-01-01T00:00:01Z")).await.unwrap();
    bench.clock.advance(Duration::from_secs(61));
    bench.scheduler().look().await.unwrap();
    let mut hops: Vec<_> = bench.store.put_so_far().iter().map(|(_, envelope)| envelope.hops).collect();
    hops.sort_unstable();
    assert_eq!(hops, [0, 5]);
    let roots: Vec<_> =
        bench.store.put_so_far().into_iter().filter_map(|(_, envelope)| envelope.root).collect();
    assert_eq!(roots, ["m".parse().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn reminders_that_have_fired_leave_room_for_others() {
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let tools = toolbox(&TriggerTools::of_agent(bench.triggers.clone(), "worker"));
    let at = |minutes: u64| {
        let time = bench.clock.now() + Duration::from_secs(60 * minutes);
        json!({ "type": "at", "action": "look", "at": nexus_files::rfc3339::millis(time) })
    };
    // Three times as many as an agent may have, fifty at a time.
    for round in 0..3 {
        for number in 0..50 {
            let made = call(&tools, "create_trigger", at(5)).await;
            assert!(made.is_ok(), "round {round}, reminder {number}: {made:?}");
        }
        let refused = call(&tools, "create_trigger", at(5)).await.unwrap_err();
        assert!(refused.contains("you have 50 triggers"), "{refused}");
        bench.clock.advance(Duration::from_secs(600));
        bench.scheduler().look().await.unwrap();
    }
    // Those that have fired last are there to be looked up, and no more than an agent may have, with those that have not been counted yet.
    let left = bench.triggers.list().await.unwrap().triggers.len();
    assert!((50..=100).contains(&left), "{left}");
    // One that is switched off before its time, and any other kind, counts.
    let cron = json!({ "type": "cron", "action": "look", "cron": "0 5 * * *" });
    for _ in 0..49 {
        call(&tools, "create_trigger", cron.clone()).await.unwrap();
    }
    let later = call(&tools, "create_trigger", at(100)).await.unwrap();
    let id = later["id"].as_str().unwrap().parse().unwrap();
    bench.triggers.set_enabled(&id, false).await.unwrap();
    assert!(call(&tools, "create_trigger", cron).await.is_err());
}
