//! What a broker does not do: begin a turn twice, for ever, without its tools, or where its agent is not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nexus_broker::{BrokerErrorKind, Payload, SendOptions};
use serde_json::json;

use super::{
    kit::{Kit, Scripts, agent, caller, inbox},
    message, named, task,
};

/// Waits until something has happened.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(tokio::time::Instant::now() < end, "{what}: waited in vain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_turn_took_is_told_of_and_not_begun_again() {
    let (begun, taken) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&begun), Arc::clone(&taken));
    let scripts = Scripts::default().with("taker", move |mut puppet| {
        let (begun, taken) = counts.clone();
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            let message = puppet.done("wait_for_message", json!({ "seconds": 60 })).await;
            assert!(message.contains("Second."), "{message}");
            taken.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
            Ok(String::new())
        }
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("taker")).await.unwrap();
    let send = async |text: &str| {
        running.broker.send(&caller(), &named("taker"), task(text), SendOptions::default()).await.unwrap()
    };
    let first = send("First.").await;
    until("the first turn", || begun.load(Ordering::SeqCst) == 1).await;
    let second = send("Second.").await;
    until("the second message", || taken.load(Ordering::SeqCst) == 1).await;
    running.kill().await;

    kit.clock.by(Duration::from_secs(120));
    let running = kit.run().await;
    let mut told: Vec<_> =
        inbox(&running.broker, 2).await.into_iter().map(|told| (told.message_id, told.payload)).collect();
    told.sort_by(|one, other| one.0.cmp(&other.0));
    let mut expected = [first, second].map(|sent| format!("{}@answer", sent.message_id));
    expected.sort();
    for ((id, payload), expected) in told.iter().zip(expected) {
        assert_eq!(id.as_str(), expected);
        assert!(matches!(payload, Payload::Error { code, .. } if code == "turn_lost"), "{payload:?}");
    }
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_write_to_each_other_come_to_an_end() {
    let (turns, end) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None)));
    let shared = (Arc::clone(&turns), Arc::clone(&end));
    let script = move |other: &'static str| {
        let shared = shared.clone();
        move |mut puppet: super::kit::Puppet| {
            let (turns, end) = shared.clone();
            async move {
                turns.fetch_add(1, Ordering::SeqCst);
                let (answer, is_error) =
                    puppet.call("send_message_to_agent", json!({ "to": other, "content": "And you?" })).await;
                if is_error {
                    *end.lock().unwrap() = Some(answer);
                }
                Ok("said".to_owned())
            }
        }
    };
    let kit = Kit::new(Scripts::default().with("ping", script("pong")).with("pong", script("ping")));
    let mut options = kit.broker().await.options().clone();
    options.max_hops = 5;
    let running = kit.run_with(options).await;
    for (name, other) in [("ping", "pong"), ("pong", "ping")] {
        let mut record = agent(name);
        record.scope.may_write_to = vec![other.to_owned()];
        running.broker.configure(&record).await.unwrap();
    }
    running.broker.send(&caller(), &named("ping"), message("Begin."), SendOptions::default()).await.unwrap();
    until("the end", || end.lock().unwrap().is_some()).await;
    let refusal = end.lock().unwrap().clone().unwrap();
    assert!(refusal.contains("max_hops"), "{refusal}");
    assert_eq!(
        turns.load(Ordering::SeqCst),
        6,
        "that of the caller's message, and five that began each other"
    );
    // A caller begins anew.
    running.broker.send(&caller(), &named("pong"), message("Begin."), SendOptions::default()).await.unwrap();
    until("another end", || turns.load(Ordering::SeqCst) == 12).await;
    running.drain().await;
}

/// Turns of agents that each write so many messages to the other, until none is left.
async fn turns_of_one_message(breadth: u32, max_hops: u32) -> u32 {
    let turns = Arc::new(AtomicU32::new(0));
    let shared = Arc::clone(&turns);
    let script = move |other: &'static str| {
        let turns = Arc::clone(&shared);
        move |mut puppet: super::kit::Puppet| {
            turns.fetch_add(1, Ordering::SeqCst);
            async move {
                for number in 0..breadth {
                    let message = json!({ "to": other, "content": format!("And {number}?"), "expects_answer": number == 0 });
                    puppet.call("send_message_to_agent", message).await;
                }
                Ok("said".to_owned())
            }
        }
    };
    let kit = Kit::new(Scripts::default().with("ping", script("pong")).with("pong", script("ping")));
    let mut options = kit.broker().await.options().clone();
    options.max_hops = max_hops;
    let running = kit.run_with(options).await;
    for (name, other) in [("ping", "pong"), ("pong", "ping")] {
        let mut record = agent(name);
        record.scope.may_write_to = vec![other.to_owned()];
        running.broker.configure(&record).await.unwrap();
    }
    running.broker.send(&caller(), &named("ping"), message("Begin."), SendOptions::default()).await.unwrap();
    let is_over = async || {
        let queues = running.broker.store().queues().await.unwrap();
        let is_agents = |queue: &str| queue.starts_with("agent.");
        queues.iter().all(|queue| !is_agents(&queue.queue))
    };
    // Far above what may come of it, it is seen without its end.
    while turns.load(Ordering::SeqCst) <= 400 && !is_over().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = turns.load(Ordering::SeqCst);
    running.kill().await;
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_write_two_messages_each_come_to_an_end() {
    let count = turns_of_one_message(2, 12).await;
    assert!((100..=200).contains(&count), "{count} turns came of one message");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_does_not_begin_without_the_tools_that_it_needs() {
    let scripts = Scripts::default().with("plain", |_| async move { Ok("done".to_owned()) });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("plain")).await.unwrap();
    let needs = async |tools: &[&str]| {
        let mut payload = task("Do it.");
        if let Payload::TaskAssignment { required_tools, .. } = &mut payload {
            *required_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        }
        running.broker.send(&caller(), &named("plain"), payload, SendOptions::default()).await.unwrap();
        inbox(&running.broker, 1).await.remove(0).payload
    };
    let refused = needs(&["list_agents", "start_worker", "fly"]).await;
    let Payload::Error { code, message, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(code, "no_tool");
    assert!(message.contains("start_worker, fly; it has ") && message.contains("list_agents"), "{message}");
    assert!(matches!(needs(&["list_agents"]).await, Payload::Result { .. }));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turns_of_an_agent_run_on_its_machine() {
    let scripts = Scripts::default().with("echo", |_| async move { Ok("done".to_owned()) });
    let kit = Kit::new(scripts);
    let on = async |machine: &str| {
        let mut options = kit.broker().await.options().clone();
        options.machine = Some(machine.to_owned());
        options
    };
    let one = kit.run_with(on("one").await).await;
    assert_eq!(one.broker.configure(&agent("echo")).await.unwrap(), None);
    one.drain().await;

    let two = kit.run_with(on("two").await).await;
    assert_eq!(two.broker.configure(&agent("echo")).await.unwrap().as_deref(), Some("one"));
    two.broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    for _ in 0..5 {
        kit.clock.by(Duration::from_secs(3));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(two.broker.inbox("me", 1).await.unwrap(), []);
    two.broker.move_here("echo").await.unwrap();
    kit.clock.by(Duration::from_secs(3));
    assert!(inbox(&two.broker, 1).await[0].payload.text().contains("done"));
    assert_eq!(two.broker.configure(&agent("echo")).await.unwrap(), None);
    let unknown = two.broker.move_here("nobody").await.unwrap_err();
    assert_eq!(unknown.kind, BrokerErrorKind::Unknown);
    two.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_longest_comes_first() {
    let script = |_| async move { Ok("done".to_owned()) };
    let kit = Kit::new(Scripts::default().with("a", script).with("b", script).with("c", script));
    let mut options = kit.broker().await.options().clone();
    options.max_turns_at_once = 1;
    let broker = kit.broker().await;
    for name in ["c", "b", "a"] {
        broker.configure(&agent(name)).await.unwrap();
        broker.send(&caller(), &named(name), message("Go."), SendOptions::default()).await.unwrap();
        kit.clock.by(Duration::from_secs(1));
    }
    let running = kit.run_with(options).await;
    let order: Vec<_> =
        inbox(&running.broker, 3).await.iter().map(|answer| answer.source_agent_id.to_string()).collect();
    assert_eq!(order, ["c", "b", "a"].map(|name| named(name).to_string()));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_a_conversation_that_another_process_has() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async move { Ok("at last".to_owned()) }));
    let conversations = nexus_conversations::Conversations::in_home(kit.folder.path());
    let held = conversations.hold(&"agent.echo.main".parse().unwrap()).unwrap();
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    running.broker.send(&caller(), &named("echo"), message("Now?"), SendOptions::default()).await.unwrap();
    super::kit::until_status(&running.broker, "echo", nexus_broker::AgentStatus::Assigned).await;
    let is_back = async || {
        let queues = running.broker.store().queues().await.unwrap();
        queues.iter().any(|queue| queue.waiting.iter().sum::<u64>() == 1)
    };
    while !is_back().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(held);
    kit.clock.by(Duration::from_secs(61));
    let answers = inbox(&running.broker, 1).await;
    assert!(answers[0].payload.text().contains("at last"), "{answers:?}");
    running.drain().await;
}
