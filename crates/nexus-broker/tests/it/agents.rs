//! Agents over a broker: what they say to each other, workers and their trees, scope, locks, and brokers that end.

mod bounds;
mod callbacks;
mod ends;
mod idle;
mod inbox;
pub(crate) mod kit;
mod landing;
mod recorded;
mod triggers;
mod views;
mod watched_store;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nexus_broker::{
    Address, AgentStatus, BrokerErrorKind, Envelope, MessagePriority, Payload, PutOutcome, Reach,
    SendOptions, Views,
};
use nexus_core::ErrorKind;
use serde_json::{Map, Value, json};

use kit::{Kit, Scripts, agent, caller, git, inbox, inbox_in_time, manager, reporting, until_status};

fn message(content: &str) -> Payload {
    Payload::Message { content: content.to_owned(), in_reply_to: None, other: Map::new() }
}

fn task(definition: &str) -> Payload {
    Payload::TaskAssignment {
        task_id: "t1".to_owned(),
        definition: definition.to_owned(),
        inputs: Map::new(),
        working_directory: None,
        required_tools: Vec::new(),
        other: Map::new(),
    }
}

fn named(name: &str) -> Address {
    Address::agent(name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_answered_and_the_conversation_goes_on() {
    let scripts = Scripts::default().with("echo", |puppet| async move {
        let before = puppet.prompt.matches("[message from caller:me").count();
        Ok(format!("{before}: {}", puppet.prompt.lines().last().unwrap_or_default()))
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let sent =
        running.broker.send(&caller(), &named("echo"), message("one"), SendOptions::default()).await.unwrap();
    assert_eq!((sent.outcome, sent.reach), (PutOutcome::Stored, Reach::Now));
    let answers = inbox(&running.broker, 1).await;
    assert_eq!(answers[0].source_agent_id, named("echo"));
    let Payload::Message { content, in_reply_to, .. } = &answers[0].payload else { panic!("{answers:?}") };
    assert_eq!((content.as_str(), in_reply_to.as_ref()), ("1: one", Some(&sent.message_id)));
    // The second turn is shown the first: a backend without a handle is given the transcript.
    running.broker.send(&caller(), &named("echo"), message("two"), SendOptions::default()).await.unwrap();
    let Payload::Message { content, .. } = &inbox(&running.broker, 1).await[0].payload else { panic!() };
    assert_eq!(content, "2: two");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_asks_in_mid_task_and_its_work_is_landed() {
    let scripts = Scripts::default()
        .with("manager", |mut puppet| async move {
            if puppet.handles().starts_with("[query from poet") {
                return Ok("The second line is: two.".to_owned());
            }
            if puppet.handles().starts_with("[result from poet") {
                let landed = puppet.done("land_worker", json!({ "name": "poet" })).await;
                let cleaned = puppet.done("clean_worker", json!({ "name": "poet" })).await;
                puppet.done("send_message_to_agent", json!({ "to": "caller:me", "content": format!("{landed}; {cleaned}") })).await;
                return Ok("landed".to_owned());
            }
            let order = json!({ "name": "poet", "kind": "worker", "task": "Write the second line.", "inputs": { "poem": "poem.txt" } });
            puppet.done("start_worker", order).await;
            Ok("given away".to_owned())
        })
        .with("worker", |mut puppet| async move {
            assert!(puppet.system.contains("Your manager is manager"), "{}", puppet.system);
            assert!(puppet.prompt.contains("Write the second line.") && puppet.prompt.contains("Input poem:\npoem.txt"));
            let ask = json!({ "to": "manager-of:poet", "content": "Which line?", "expects_answer": true });
            puppet.done("send_message_to_agent", ask).await;
            let answer = puppet.done("wait_for_message", json!({ "seconds": 60 })).await;
            assert!(answer.contains("The second line is: two."), "{answer}");
            puppet.done("report_status", json!({ "status": "in_progress", "percent": 50 })).await;
            std::fs::write(puppet.folder.as_ref().unwrap().join("poem.txt"), "one\ntwo\n").unwrap();
            Ok("It is written.".to_owned())
        });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    running.broker.configure(&reporting(manager(&project))).await.unwrap();
    running
        .broker
        .send(&caller(), &named("manager"), message("A poem, please."), SendOptions::default())
        .await
        .unwrap();
    let mut said = Vec::new();
    for message in inbox(&running.broker, 2).await {
        said.push(message.payload.text());
    }
    assert!(said.iter().any(|text| text.contains("given away")), "{said:?}");
    assert!(
        said.iter().any(|text| text.contains("refs/heads/main is at") && text.contains("poet is removed")),
        "{said:?}"
    );
    assert_eq!(std::fs::read_to_string(project.join("poem.txt")).unwrap(), "one\ntwo\n");
    assert!(git(&project, &["log", "-1", "--format=%B"]).contains("Agent: poet"));
    assert!(git(&project, &["for-each-ref"]).contains("refs/nexus/agents/poet/1"));
    assert!(!kit.folder.path().join("broker/workers/poet").exists());
    let mut views = Views::begin(kit.folder.path().join("views")).unwrap();
    views.refresh(&running.broker).await.unwrap();
    let log = std::fs::read_to_string(kit.folder.path().join("views/AGENT_COMMUNICATIONS.log")).unwrap();
    for part in [
        "[manager] -> [poet] [task_assignment]: Task poet: Write the second line.",
        "[poet] -> [manager-of:poet] [query]: Which line?",
        "[status_update]: Task poet: in_progress, 50 %",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_decides_who_writes_to_whom_and_who_starts_whom() {
    // Workers that end at once would make room for others.
    let (is_full, seen) = tokio::sync::watch::channel(false);
    let scripts = Scripts::default()
        .with("manager", move |mut puppet| {
            let is_full = is_full.clone();
            async move {
            if puppet.handles().starts_with("[result from") {
                return Ok("seen".to_owned());
            }
            let order = |name: &str, kind: &str, max_workers: u32| json!({ "name": name, "kind": kind, "task": "Rest.", "max_workers": max_workers });
            puppet.refused("send_message_to_agent", json!({ "to": "stranger", "content": "x" })).await;
            let unknown = puppet.refused("send_message_to_agent", json!({ "to": "nobody", "content": "x" })).await;
            assert!(unknown.contains("there is no agent \"nobody\"; write to one of manager, stranger"), "{unknown}");
            puppet.refused("start_worker", order("Bad Name", "worker", 0)).await;
            puppet.refused("start_worker", order("w1", "stranger", 0)).await;
            puppet.done("start_worker", order("w1", "worker", 1)).await;
            puppet.refused("start_worker", order("w1", "worker", 0)).await;
            puppet.done("start_worker", order("w2", "worker", 0)).await;
            let full = puppet.refused("start_worker", order("w3", "worker", 0)).await;
            assert!(full.contains("workers, which is the limit"), "{full}");
            puppet.refused("stop_worker", json!({ "name": "stranger" })).await;
            is_full.send_replace(true);
            Ok("done".to_owned())
            }
        })
        .with("worker", move |mut puppet| {
            let mut seen = seen.clone();
            async move {
            seen.wait_for(|is_full| *is_full).await.unwrap();
            if puppet.handles().starts_with("[result from") {
                return Ok("seen".to_owned());
            }
            if puppet.system.contains("You are the agent w1.") {
                let deeper = json!({ "name": "deep", "task": "Rest.", "max_workers": 0 });
                puppet.done("start_worker", deeper).await;
                puppet.refused("start_worker", json!({ "name": "deeper", "task": "x", "max_workers": 1 })).await;
            } else {
                // Neither one without workers of its own nor one at the last depth has the tool at all.
                assert!(!puppet.tools().contains(&"start_worker".to_owned()), "{:?}", puppet.tools());
            }
            puppet.refused("send_message_to_agent", json!({ "to": "stranger", "content": "x" })).await;
            puppet.refused("send_message_to_agent", json!({ "to": "caller:me", "content": "x" })).await;
            Ok("rested".to_owned())
            }
        })
        .with("stranger", |_| async move { Ok("who?".to_owned()) });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    running.broker.configure(&manager(&project)).await.unwrap();
    running.broker.configure(&agent("stranger")).await.unwrap();
    running
        .broker
        .send(&caller(), &named("manager"), task("Test it."), SendOptions::default())
        .await
        .unwrap();
    let results = inbox(&running.broker, 1).await;
    assert!(matches!(results[0].payload, Payload::Result { .. }), "a script failed: {results:?}");
    for name in ["w1", "w2", "deep"] {
        let worker = until_status(&running.broker, name, AgentStatus::Done).await;
        assert_eq!(worker.depth, if name == "deep" { 2 } else { 1 });
    }
    // A message that claims another sender.
    let claimed = Envelope::new(named("w1"), named("manager"), message("I am w1."), &*kit.clock);
    let refused = running.broker.submit(&named("stranger"), claimed).await.unwrap_err();
    assert_eq!(refused.kind, BrokerErrorKind::NotAllowed);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_its_broker_left_is_told_of_and_not_begun_again() {
    let begun = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&begun);
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
        .with("worker", move |puppet| {
            let begun = Arc::clone(&counted);
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                std::fs::write(puppet.folder.as_ref().unwrap().join("poem.txt"), "half\n").unwrap();
                std::future::pending::<()>().await;
                Ok(String::new())
            }
        });
    let kit = Kit::new(scripts);
    let project = kit.repository();
    let running = kit.run().await;
    running.broker.configure(&reporting(manager(&project))).await.unwrap();
    running.broker.send(&caller(), &named("manager"), task("A poem."), SendOptions::default()).await.unwrap();
    inbox(&running.broker, 1).await;
    until_status(&running.broker, "poet", AgentStatus::Working).await;
    while begun.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.kill().await;

    let running = kit.run().await;
    // What comes meanwhile does not make it forgotten which turn was begun.
    let (from, to) = (named("manager"), named("poet"));
    let sent = running.broker.send(&from, &to, message("And?"), SendOptions::default()).await.unwrap();
    assert_eq!(sent.reach, Reach::NextTurn);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 1, "its lease is another's");
    kit.clock.by(Duration::from_secs(120));
    let told = inbox(&running.broker, 1).await;
    let text = told[0].payload.text();
    assert!(text.contains("turn_lost") && text.contains("workers/poet/work"), "{text}");
    let poet = until_status(&running.broker, "poet", AgentStatus::Working).await;
    // That is the other message; the lost one was not begun again.
    while begun.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.broker.stop("poet").await.unwrap();
    assert_eq!(std::fs::read_to_string(poet.folder.unwrap().join("poem.txt")).unwrap(), "half\n");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_one_agents_until_its_turn_ends_or_it_expires() {
    let release = Arc::new(tokio::sync::Notify::new());
    let held = Arc::clone(&release);
    let scripts = Scripts::default()
        .with("holder", move |mut puppet| {
            let release = Arc::clone(&held);
            async move {
                let taken = puppet.done("take_lock", json!({ "name": "schema", "minutes": 30 })).await;
                assert!(taken.contains("you have schema until"), "{taken}");
                release.notified().await;
                Ok("held".to_owned())
            }
        })
        .with("other", |mut puppet| async move {
            let (answer, is_error) = puppet.call("take_lock", json!({ "name": "schema" })).await;
            if !is_error {
                puppet.done("release_lock", json!({ "name": "schema" })).await;
                puppet.refused("release_lock", json!({ "name": "schema" })).await;
            }
            puppet.refused("take_lock", json!({ "name": "../schema" })).await;
            puppet.refused("take_lock", json!({ "name": "foreign" })).await;
            Ok(answer)
        });
    let kit = Kit::new(scripts);
    let folder = kit.folder.path().join("shared");
    std::fs::create_dir_all(folder.join(".nexus_locks")).unwrap();
    std::fs::write(folder.join(".nexus_locks/foreign.lock"), "another tool").unwrap();
    let running = kit.run().await;
    for name in ["holder", "other"] {
        let mut record = agent(name);
        record.folder = Some(folder.clone());
        running.broker.configure(&record).await.unwrap();
    }
    let ask = async |name: &str| {
        running.broker.send(&caller(), &named(name), message("Go."), SendOptions::default()).await.unwrap();
    };
    let answer = async || inbox(&running.broker, 1).await[0].payload.text();
    ask("holder").await;
    let file = folder.join(".nexus_locks/schema.lock");
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let shown: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(shown["agent_id"], "holder");
    ask("other").await;
    assert!(answer().await.contains("holder has the lock \"schema\" until"));
    release.notify_one();
    assert!(answer().await.contains("held"));
    until_status(&running.broker, "holder", AgentStatus::Started).await;
    assert!(!file.exists(), "it is released with the turn");
    ask("other").await;
    assert!(answer().await.contains("you have schema until"));
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_stopped_ends_its_turn_and_takes_nothing_more() {
    let scripts = Scripts::default().with("sleeper", |_| async move {
        std::future::pending::<()>().await;
        Ok(String::new())
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("sleeper")).await.unwrap();
    let send = async |priority| {
        let options = SendOptions::default().with_priority(priority);
        running.broker.send(&caller(), &named("sleeper"), message("Sleep."), options).await
    };
    send(MessagePriority::Normal).await.unwrap();
    until_status(&running.broker, "sleeper", AgentStatus::Working).await;
    assert_eq!(send(MessagePriority::Normal).await.unwrap().reach, Reach::NextTurn);
    running.broker.stop("sleeper").await.unwrap();
    let answers: Vec<_> =
        inbox(&running.broker, 2).await.iter().map(|answer| answer.payload.text()).collect();
    assert!(answers[0].contains("turn_failed") && answers[1].contains("agent_stopped"), "{answers:?}");
    assert_eq!(send(MessagePriority::Urgent).await.unwrap_err().kind, BrokerErrorKind::NotAllowed);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_backend_can_run_yet_is_given_back() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let scripts = Scripts::default().with("busy", move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move { if number == 0 { Err(ErrorKind::Overloaded) } else { Ok("at last".to_owned()) } }
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("busy")).await.unwrap();
    running.broker.send(&caller(), &named("busy"), message("Now?"), SendOptions::default()).await.unwrap();
    until_status(&running.broker, "busy", AgentStatus::Assigned).await;
    let is_back = async || {
        running
            .broker
            .store()
            .queues()
            .await
            .unwrap()
            .iter()
            .any(|queue| queue.waiting.iter().sum::<u64>() == 1)
    };
    while !is_back().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kit.clock.by(Duration::from_secs(3_601));
    assert!(inbox(&running.broker, 1).await[0].payload.text().contains("at last"));
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_message_reaches_a_running_turn_where_its_backend_takes_input() {
    let had = |input: &str| Ok(format!("had: {}", input.lines().last().unwrap_or_default()));
    let (is_sent, sent) = tokio::sync::watch::channel(false);
    let scripts = Scripts::default()
        .with("steered", move |mut puppet: kit::Puppet| async move { had(&puppet.next_input().await) })
        .with("deaf", move |_| {
            let mut sent = sent.clone();
            async move {
                sent.wait_for(|is_sent| *is_sent).await.unwrap();
                // A broker that offered it to this turn would do so meanwhile.
                tokio::time::sleep(Duration::from_secs(2)).await;
                had("none")
            }
        });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    for (name, reach) in [("steered", Reach::RunningTurn), ("deaf", Reach::NextTurn)] {
        running.broker.configure(&agent(name)).await.unwrap();
        let send = async |text: &str, priority| {
            let options = SendOptions::default().with_priority(priority);
            running.broker.send(&caller(), &named(name), message(text), options).await.unwrap()
        };
        let first = send("Begin.", MessagePriority::Normal).await;
        until_status(&running.broker, name, AgentStatus::Working).await;
        assert_eq!(send("Not now.", MessagePriority::High).await.reach, Reach::NextTurn);
        let urgent = send("Turn left.", MessagePriority::Urgent).await;
        assert_eq!(urgent.reach, reach);
        is_sent.send_replace(name == "deaf");
        let answers = inbox(&running.broker, 2).await;
        let answer = |sent: &nexus_broker::Sent| {
            let id = format!("{}@answer", sent.message_id);
            answers.iter().find(|answer| answer.message_id.as_str() == id).map(|answer| answer.payload.text())
        };
        let said = if name == "steered" { "had: Turn left." } else { "had: none" };
        assert!(answer(&first).is_some_and(|text| text.contains(said)), "{answers:?}");
        // It is answered with what the turn that had it said: this one, or the one that came first after it.
        assert!(answer(&urgent).is_some_and(|text| text.contains(said)), "{answers:?}");
        // A turn that is about to begin is put off, and one that runs is ended.
        running.broker.stop(name).await.unwrap();
        inbox_in_time(&kit, &running.broker, 1).await;
    }
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_brokers_are_not_at_one_agent_at_once() {
    let (at_once, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counts = (Arc::clone(&at_once), Arc::clone(&most));
    let scripts = Scripts::default().with("slow", move |_| {
        let (at_once, most) = counts.clone();
        async move {
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(700)).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok("done".to_owned())
        }
    });
    let kit = Kit::new(scripts);
    let (one, two) = (kit.run().await, kit.run().await);
    one.broker.configure(&agent("slow")).await.unwrap();
    for number in 0..4 {
        let text = message(&number.to_string());
        two.broker.send(&caller(), &named("slow"), text, SendOptions::default()).await.unwrap();
    }
    // A broker that finds another at work looks again by the clock.
    let answers = inbox_in_time(&kit, &one.broker, 4).await;
    assert!(answers.iter().all(|answer| answer.payload.text().contains("done")), "{answers:?}");
    assert_eq!(most.load(Ordering::SeqCst), 1);
    one.drain().await;
    two.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_that_wait_leave_room_for_what_they_wait_for() {
    let scripts = Scripts::default()
        .with("asks", |mut puppet| async move {
            let question = json!({ "to": "knows", "content": "What?", "expects_answer": true });
            puppet.done("send_message_to_agent", question).await;
            puppet.done("wait_for_message", json!({ "seconds": 600 })).await;
            Ok("asked".to_owned())
        })
        .with("knows", |_| async move { Ok("This.".to_owned()) });
    let kit = Kit::new(scripts);
    let mut options = kit.broker().await.options().clone();
    options.max_turns_at_once = 1;
    let running = kit.run_with(options).await;
    let mut asks = agent("asks");
    asks.scope.may_write_to = vec!["knows".to_owned()];
    for record in [asks, agent("knows")] {
        running.broker.configure(&record).await.unwrap();
    }
    running.broker.send(&caller(), &named("asks"), task("Ask."), SendOptions::default()).await.unwrap();
    // The inbox is looked at for less time than the turn would wait in vain.
    assert!(inbox(&running.broker, 1).await[0].payload.text().contains("asked"));
    running.drain().await;
}

/// It was offered to the backend, which takes no input, before the turn waited.
#[tokio::test(flavor = "multi_thread")]
async fn an_urgent_message_comes_into_a_turn_that_waits_where_its_backend_takes_no_input() {
    let sent = Arc::new(tokio::sync::Notify::new());
    let is_sent = Arc::clone(&sent);
    let scripts = Scripts::default().with("deaf", move |mut puppet| {
        let sent = Arc::clone(&is_sent);
        async move {
            sent.notified().await;
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            Ok(puppet.done("wait_for_message", json!({ "seconds": 5 })).await)
        }
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("deaf")).await.unwrap();
    let send = async |text: &str, priority| {
        let options = SendOptions::default().with_priority(priority);
        running.broker.send(&caller(), &named("deaf"), message(text), options).await.unwrap()
    };
    send("Begin.", MessagePriority::Normal).await;
    until_status(&running.broker, "deaf", AgentStatus::Working).await;
    assert_eq!(send("Turn left.", MessagePriority::Urgent).await.reach, Reach::NextTurn);
    sent.notify_one();
    for answer in inbox(&running.broker, 2).await {
        assert!(answer.payload.text().contains("Turn left."), "{answer:?}");
    }
    running.drain().await;
}
