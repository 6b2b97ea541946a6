//! Turns that end in other ways than by themselves, and what of them is left.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nexus_broker::{
    AgentStatus, Broker, BrokerErrorKind, Envelope, MessagePriority, Payload, PutOutcome, SendOptions,
};
use nexus_core::CancelToken;
use serde_json::json;
use tokio::sync::Notify;

use super::{
    kit::{Kit, Scripts, agent, caller, inbox, inbox_in_time, manager, reporting, until_status},
    message, named, task,
    watched_store::WatchedStore,
};

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(tokio::time::Instant::now() < end, "{what}: waited in vain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_lost(envelope: &Envelope) -> bool {
    matches!(&envelope.payload, Payload::Error { code, .. } if code == "turn_lost")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_message_that_a_turn_ended_before_it_was_read_begins_the_next_one() {
    let begun = Arc::new(AtomicU32::new(0));
    let store = Arc::new(OnceLock::<Arc<WatchedStore>>::new());
    let (counts, shared) = (Arc::clone(&begun), Arc::clone(&store));
    let kit = Kit::new(Scripts::default().with("steered", move |_| {
        let (number, store) = (counts.fetch_add(1, Ordering::SeqCst), Arc::clone(&shared));
        async move {
            if number == 0 {
                store.get().unwrap().noted.notified().await;
            }
            Ok(format!("turn {number}"))
        }
    }));
    let mut options = kit.broker().await.options().clone();
    let slow = WatchedStore::over(Arc::clone(&options.store), Duration::from_secs(2));
    store.set(Arc::clone(&slow)).unwrap();
    options.store = slow;
    let running = kit.run_with(options).await;
    running.broker.configure(&agent("steered")).await.unwrap();
    let send = async |priority| {
        let options = SendOptions::default().with_priority(priority);
        running.broker.send(&caller(), &named("steered"), message("Go."), options).await.unwrap().message_id
    };
    send(MessagePriority::Normal).await;
    until("the first turn", || begun.load(Ordering::SeqCst) == 1).await;
    let urgent = send(MessagePriority::Urgent).await;
    let mut answers = inbox(&running.broker, 1).await;
    // The first turn is over. Where it left the message without putting it back, the message's time passes now.
    let moving = tokio::spawn({
        let (clock, begun) = (Arc::clone(&kit.clock), Arc::clone(&begun));
        async move {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                if begun.load(Ordering::SeqCst) < 2 {
                    clock.by(Duration::from_secs(61));
                }
            }
        }
    });
    answers.extend(inbox(&running.broker, 1).await);
    moving.abort();
    let id = format!("{urgent}@answer");
    let answer = answers.iter().find(|answer| answer.message_id.as_str() == id).unwrap();
    assert!(!is_lost(answer) && answer.payload.text().contains("turn 1"), "{answer:?}");
    running.drain().await;
}

/// Waits until the turn of the one agent says that it runs at the time of the clock, or for a while.
async fn until_heartbeat(kit: &Kit, broker: &Broker) {
    let end = tokio::time::Instant::now() + Duration::from_secs(5);
    let now = nexus_core::Clock::now(&*kit.clock);
    while tokio::time::Instant::now() < end {
        let turn = broker.agents().await.unwrap()[0].turn.clone();
        if turn.is_none_or(|turn| turn.heartbeat_at == now) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A machine that sleeps steps its clock, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_in_mid_turn_loses_no_answer() {
    // An urgent message is one that a running turn would be handed, and a turn that waits takes what comes.
    for (kind, priority, waits) in [
        ("echo", MessagePriority::Normal, false),
        ("steered", MessagePriority::Urgent, false),
        ("echo", MessagePriority::Normal, true),
    ] {
        for (step, is_back) in [(300, false), (86_400, false), (86_400, true)] {
            let (begun, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
            let shared = (Arc::clone(&begun), Arc::clone(&gate));
            let kit = Kit::new(Scripts::default().with(kind, move |mut puppet| {
                let (begun, gate) = shared.clone();
                async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    gate.notified().await;
                    if waits {
                        assert_eq!(puppet.done("wait_for_message", json!({ "seconds": 1 })).await, "null");
                    }
                    Ok("the answer".to_owned())
                }
            }));
            let running = kit.run().await;
            running.broker.configure(&agent(kind)).await.unwrap();
            let options = SendOptions::default().with_priority(priority);
            running.broker.send(&caller(), &named(kind), message("Go."), options).await.unwrap();
            until("the turn", || begun.load(Ordering::SeqCst) == 1).await;
            match is_back {
                false => kit.clock.by(Duration::from_secs(step)),
                true => kit.clock.back(Duration::from_secs(step)),
            }
            // The broker looks at what waits meanwhile.
            until_heartbeat(&kit, &running.broker).await;
            gate.notify_one();
            let answers = inbox_in_time(&kit, &running.broker, 1).await;
            let place = format!("{kind}, {step} s, back: {is_back}, waits: {waits}");
            assert!(answers[0].payload.text().contains("the answer"), "{place}: {answers:?}");
            assert_eq!(begun.load(Ordering::SeqCst), 1, "{place}");
            running.drain().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_wake_together_leave_the_turns_of_each_other_alone() {
    let (begun, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let shared = (Arc::clone(&begun), Arc::clone(&gate));
    let kit = Kit::new(Scripts::default().with("echo", move |_| {
        let (begun, gate) = shared.clone();
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            Ok("the answer".to_owned())
        }
    }));
    let one = kit.run().await;
    one.broker.configure(&agent("echo")).await.unwrap();
    one.broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    until("the turn", || begun.load(Ordering::SeqCst) == 1).await;
    let mut options = kit.broker().await.options().clone();
    let store = WatchedStore::over(Arc::clone(&options.store), Duration::ZERO);
    options.store = Arc::clone(&store) as _;
    let two = kit.run_with(options).await;
    until("a look of the second broker", || store.looked.load(Ordering::SeqCst) > 0).await;
    kit.clock.by(Duration::from_secs(300));
    until_heartbeat(&kit, &one.broker).await;
    gate.notify_one();
    let answers = inbox_in_time(&kit, &one.broker, 1).await;
    assert!(answers[0].payload.text().contains("the answer"), "{answers:?}");
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    one.drain().await;
    two.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_the_message_that_it_is_of() {
    let scripts = Scripts::default()
        .with("fails", |_| async move { Err(nexus_core::ErrorKind::InvalidRequest) })
        .with("hangs", |_| std::future::pending());
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    let mut expected = Vec::new();
    for (name, tool) in [("fails", None), ("hangs", None), ("fails", Some("fly"))] {
        running.broker.configure(&agent(name)).await.unwrap();
        let mut payload = task("Go.");
        if let Payload::TaskAssignment { required_tools, .. } = &mut payload {
            required_tools.extend(tool.map(ToOwned::to_owned));
        }
        let sent = running.broker.send(&caller(), &named(name), payload, SendOptions::default()).await;
        expected.push(sent.unwrap().message_id.to_string());
    }
    let mut failures = inbox(&running.broker, 2).await;
    until_status(&running.broker, "hangs", AgentStatus::Working).await;
    running.kill().await;
    kit.clock.by(Duration::from_secs(120));
    let running = kit.run().await;
    failures.extend(inbox(&running.broker, 1).await);
    // A program that reads the inbox matches by the key.
    let mut named: Vec<_> = failures
        .iter()
        .map(|failure| {
            let json = serde_json::to_value(failure).unwrap();
            assert_eq!(json["type"], "error", "{json}");
            json["payload"]["in_reply_to"].as_str().unwrap_or("nothing").to_owned()
        })
        .collect();
    named.sort();
    expected.sort();
    assert_eq!(named, expected);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_that_of_one_message() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async move { Ok("done".to_owned()) }));
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let send = async |from: &str, to: &str, text: &str| {
        let mut options = SendOptions::default();
        options.message_id = Some("the-id".parse().unwrap());
        running.broker.send(&from.parse().unwrap(), &to.parse().unwrap(), message(text), options).await
    };
    let echo = "agent:echo:main";
    assert_eq!(send("caller:me", echo, "One.").await.unwrap().outcome, PutOutcome::Stored);
    // While it waits, and when it is handled.
    for _ in 0..2 {
        assert_eq!(send("caller:me", echo, "One.").await.unwrap().outcome, PutOutcome::AlreadyThere);
        for (from, to, text, words) in [
            ("caller:me", echo, "Two.", "with another text"),
            ("caller:me", "agent:echo:other", "One.", "to agent:echo:main"),
            ("caller:me", "caller:you", "Two.", "to agent:echo:main"),
            ("caller:you", echo, "One.", "by caller:me"),
        ] {
            let error =
                send(from, to, text).await.expect_err(&format!("{from} to {to}, {text}: it was taken"));
            assert_eq!(error.kind, BrokerErrorKind::Conflict, "{error}");
            assert!(error.message.contains(words) && error.message.contains("the-id"), "{error}");
        }
        let _ = running.broker.inbox("me", 1).await.unwrap();
        until_status(&running.broker, "echo", AgentStatus::Started).await;
    }
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_another_broker_holds_for_lost_leaves_that_ones_turn_alone() {
    let gates: Arc<[Notify; 2]> = Arc::new([Notify::new(), Notify::new()]);
    let begun = Arc::new(AtomicU32::new(0));
    let (waits, counts) = (Arc::clone(&gates), Arc::clone(&begun));
    let scripts = Scripts::default().with("echo", move |_| {
        let (number, gates) = (counts.fetch_add(1, Ordering::SeqCst) as usize, Arc::clone(&waits));
        async move {
            gates[number].notified().await;
            Ok(format!("turn {number}"))
        }
    });
    let kit = Kit::new(scripts);
    let one = kit.run().await;
    one.broker.configure(&agent("echo")).await.unwrap();
    let send = async || {
        let sent = one.broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await;
        sent.unwrap().message_id
    };
    send().await;
    until("the first turn", || begun.load(Ordering::SeqCst) == 1).await;
    let second = send().await;
    // The first broker stands still for so long that it is held for dead.
    kit.clock.by(Duration::from_secs(120));
    let two = kit.run().await;
    assert!(is_lost(&inbox(&two.broker, 1).await[0]));
    let turn_of = async |broker: &Broker| broker.agents().await.unwrap()[0].turn.clone();
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while turn_of(&two.broker).await.is_none_or(|turn| turn.message_id != second) {
        assert!(tokio::time::Instant::now() < end, "the second turn did not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gates[0].notify_one();
    one.drain().await;
    let record = two.broker.agents().await.unwrap().remove(0);
    assert_eq!(record.turn.map(|turn| turn.message_id), Some(second), "it is the second broker's");
    assert_eq!(record.status, AgentStatus::Working);
    gates[1].notify_one();
    assert!(inbox(&two.broker, 1).await[0].payload.text().contains("turn 1"));
    two.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_manager_writes_only_to_callers_that_its_scope_names() {
    let scripts = Scripts::default().with("echo", |mut puppet| async move {
        puppet.refused("send_message_to_agent", json!({ "to": "caller:you", "content": "x" })).await;
        let text = match puppet.prompt.contains("trusted") {
            true => {
                puppet.done("send_message_to_agent", json!({ "to": "caller:me", "content": "mine" })).await
            }
            false => {
                puppet.refused("send_message_to_agent", json!({ "to": "caller:me", "content": "x" })).await
            }
        };
        Ok(text)
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    running.broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    // The broker's own answer arrives all the same.
    assert!(inbox(&running.broker, 1).await[0].payload.text().contains("may not write to caller:me"));
    running.broker.configure(&reporting(agent("echo"))).await.unwrap();
    running.broker.send(&caller(), &named("echo"), message("trusted"), SendOptions::default()).await.unwrap();
    assert_eq!(inbox(&running.broker, 2).await[0].payload.text(), "mine");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_answers_only_one_between_its_own_sender_and_recipient() {
    let reply = |to: &str, id: &str| json!({ "to": to, "content": "x", "in_reply_to": id });
    let scripts = Scripts::default().with("echo", |_| async move { Ok("said".to_owned()) }).with(
        "spy",
        move |mut puppet| async move {
            let own = puppet.handles().rsplit("id ").next().unwrap().trim_end_matches(']').to_owned();
            for (to, id) in [("caller:me", "nothere"), ("caller:me", "to-echo"), ("echo", &own)] {
                let answer = puppet.refused("send_message_to_agent", reply(to, id)).await;
                assert!(answer.contains(&format!("message {id}")), "{answer}");
            }
            // A question that asks back is checked, too.
            let mut asks_back = reply("caller:me", "to-echo");
            asks_back["expects_answer"] = json!(true);
            puppet.refused("send_message_to_agent", asks_back).await;
            puppet.done("send_message_to_agent", reply("caller:me", &own)).await;
            Ok("end".to_owned())
        },
    );
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    let broker = &running.broker;
    broker.configure(&agent("echo")).await.unwrap();
    broker.configure(&reporting(agent("spy"))).await.unwrap();
    let send = async |to: &str, payload, id: Option<&str>| {
        let mut options = SendOptions::default();
        options.message_id = id.map(|id| id.parse().unwrap());
        broker.send(&caller(), &named(to), payload, options).await
    };
    send("echo", message("Go."), Some("to-echo")).await.unwrap();
    let answer = inbox(broker, 1).await.remove(0);
    send("spy", message("Go."), None).await.unwrap();
    let written = inbox(broker, 1).await.remove(0);
    assert_eq!(written.source_agent_id.agent_name(), Some("spy"), "{written:?}");

    let answering = |id: &str| {
        let mut payload = message("Thanks.");
        if let Payload::Message { in_reply_to, .. } = &mut payload {
            *in_reply_to = Some(id.parse().unwrap());
        }
        payload
    };
    let id = answer.message_id.as_str();
    send("echo", answering(id), None).await.unwrap();
    // A sender may also continue its own message.
    send("echo", answering("to-echo"), None).await.unwrap();
    let error = send("spy", answering(id), None).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid, "{error}");
    let error = send("echo", answering("nothere"), None).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Unknown, "{error}");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_waits_for_ever() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async move { Ok("said".to_owned()) }));
    let broker = kit.broker().await;
    broker.configure(&agent("echo")).await.unwrap();
    let mut options = SendOptions::default();
    options.expires_in = Some(Duration::MAX);
    let error = broker.send(&caller(), &named("echo"), message("Go."), options).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_turn_of_a_worker_that_was_stopped_is_told_of_and_the_worker_can_be_removed() {
    let begun = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&begun);
    let scripts = Scripts::default()
        .with("manager", |mut puppet| async move {
            if puppet.handles().starts_with("[error from poet") {
                let said = puppet.prompt.clone();
                puppet.done("send_message_to_agent", json!({ "to": "caller:me", "content": said })).await;
                return Ok("told".to_owned());
            }
            puppet.done("start_worker", json!({ "name": "poet", "kind": "worker", "task": "Write." })).await;
            Ok("given away".to_owned())
        })
        .with("worker", move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    running.broker.configure(&reporting(manager(&project))).await.unwrap();
    running.broker.send(&caller(), &named("manager"), task("A poem."), SendOptions::default()).await.unwrap();
    inbox(&running.broker, 1).await;
    until("the turn", || begun.load(Ordering::SeqCst) == 1).await;
    running.kill().await;
    // By a command, while no broker runs.
    kit.broker().await.stop("poet").await.unwrap();
    kit.clock.by(Duration::from_secs(120));
    let running = kit.run().await;
    let told = inbox(&running.broker, 1).await;
    assert!(told[0].payload.text().contains("turn_lost"), "{told:?}");
    let poet = until_status(&running.broker, "poet", AgentStatus::Stopped).await;
    assert_eq!(poet.turn, None);
    running.broker.clean("poet", true).await.unwrap();
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_a_machine_that_is_gone_is_moved_though_its_last_turn_has_no_end() {
    let begun = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&begun);
    let scripts = Scripts::default().with("echo", move |_| {
        let is_first = counts.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok("done".to_owned())
        }
    });
    let kit = Kit::new(scripts);
    let on = async |machine: &str| {
        let mut options = kit.broker().await.options().clone();
        options.machine = Some(machine.to_owned());
        options
    };
    let one = kit.run_with(on("one").await).await;
    one.broker.configure(&agent("echo")).await.unwrap();
    let send = async |broker: &Broker| {
        broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    };
    send(&one.broker).await;
    until("the turn", || begun.load(Ordering::SeqCst) == 1).await;
    one.kill().await;
    let two = kit.run_with(on("two").await).await;
    let refused = two.broker.move_here("echo").await.unwrap_err();
    assert!(refused.to_string().contains("a turn of echo runs"), "{refused}");
    kit.clock.by(Duration::from_secs(120));
    two.broker.move_here("echo").await.unwrap();
    kit.clock.by(Duration::from_secs(3));
    assert!(is_lost(&inbox(&two.broker, 1).await[0]));
    send(&two.broker).await;
    assert!(inbox(&two.broker, 1).await[0].payload.text().contains("done"));
    two.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_ended_at_once_does_not_go_on_looking() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async move { Ok("done".to_owned()) }));
    let broker = kit.broker().await;
    broker.configure(&agent("echo")).await.unwrap();
    broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    let end = CancelToken::new();
    end.cancel();
    let ran = tokio::time::timeout(Duration::from_secs(30), broker.run(CancelToken::new(), end)).await;
    assert!(ran.is_ok(), "it runs on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_takes_nothing_of_another_session() {
    let begun = AtomicU32::new(0);
    let scripts = Scripts::default().with("taker", move |mut puppet| {
        let is_first = begun.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match is_first {
                true => Ok(puppet.done("wait_for_message", json!({ "seconds": 3 })).await),
                false => Ok("other".to_owned()),
            }
        }
    });
    let kit = Kit::new(scripts);
    let mut options = kit.broker().await.options().clone();
    let store = WatchedStore::over(Arc::clone(&options.store), Duration::ZERO);
    options.store = Arc::clone(&store) as _;
    let broker = Broker::new(options.clone());
    broker.configure(&agent("taker")).await.unwrap();
    broker.send(&caller(), &named("taker"), message("Wait."), SendOptions::default()).await.unwrap();
    let other = "agent:taker:other".parse().unwrap();
    broker.send(&caller(), &other, message("Later."), SendOptions::default()).await.unwrap();
    let running = kit.run_with(options).await;
    let asked = kit.broker().await;
    assert!(inbox(&asked, 1).await[0].payload.text().contains("null"));
    assert!(inbox(&asked, 1).await[0].payload.text().contains("other"));
    running.drain().await;
    assert_eq!(store.taken.load(Ordering::SeqCst), 2, "each message is given out once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_with_many_calls_that_wait_leaves_room_for_one_more_turn() {
    let (at_once, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&at_once), Arc::clone(&most));
    let slow = move |_| {
        let (at_once, most) = counts.clone();
        async move {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(700)).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok("done".to_owned())
        }
    };
    let waiting = Arc::new(AtomicU32::new(0));
    let waits = Arc::clone(&waiting);
    let scripts = Scripts::default()
        .with("waiter", move |mut puppet| {
            let waits = Arc::clone(&waits);
            async move {
                let calls = puppet.calls_at_once("wait_for_message", json!({ "seconds": 60 }), 3);
                waits.store(1, Ordering::SeqCst);
                calls.await;
                Ok("waited".to_owned())
            }
        })
        .with("a", slow.clone())
        .with("b", slow.clone())
        .with("c", slow);
    let kit = Kit::new(scripts);
    let mut options = kit.broker().await.options().clone();
    options.max_turns_at_once = 1;
    let running = kit.run_with(options).await;
    let send = async |name: &str| {
        running.broker.send(&caller(), &named(name), message("Go."), SendOptions::default()).await.unwrap();
    };
    for name in ["waiter", "a", "b", "c"] {
        running.broker.configure(&agent(name)).await.unwrap();
    }
    send("waiter").await;
    until("the waits", || waiting.load(Ordering::SeqCst) == 1).await;
    for name in ["a", "b", "c"] {
        send(name).await;
    }
    let answers: BTreeMap<_, _> = inbox(&running.broker, 3)
        .await
        .into_iter()
        .map(|answer| (answer.source_agent_id.to_string(), answer))
        .collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(most.load(Ordering::SeqCst), 1);
    for _ in 0..3 {
        send("waiter").await;
    }
    inbox(&running.broker, 4).await;
    running.drain().await;
}
