//! What an authorised caller can make a worker hold.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use nexus_core::{BuildContext, EventEnvelope, ExecutionBackend as _, Forgotten, TurnHost, TurnRequest};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, WorkerSettings};
use nexus_testkit::{nats::NatsServer, scripted::ScriptedBackend};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::remote::WorkerThread;

const POOL: &str = "builders";
const LONG: Duration = Duration::from_secs(60);
/// More than a worker does at once.
const FLOOD: usize = 300;

/// How many conversations are forgotten now, and the most at once.
#[derive(Debug, Default)]
struct Forgetting {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A backend that runs turns until they are cancelled, and forgets slowly.
fn slow(forgetting: &Arc<Forgetting>) -> ScriptedBackend {
    let forgetting = Arc::clone(forgetting);
    let backend = ScriptedBackend::new("slow", |turn| {
        Box::pin(async {
            turn.pause(LONG).await?;
            Ok((nexus_core::FinishReason::Stop, None))
        })
    });
    backend.forgetting(move |_| {
        let forgetting = Arc::clone(&forgetting);
        Box::pin(async move {
            let now = forgetting.now.fetch_add(1, Ordering::SeqCst) + 1;
            forgetting.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(500)).await;
            forgetting.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Forgotten::WasGone)
        })
    })
}

fn settings(server: &NatsServer) -> FleetSettings {
    FleetSettings {
        servers: vec![server.url()],
        worker: WorkerSettings { name: Some("w".to_owned()), ..WorkerSettings::default() },
        ..FleetSettings::default()
    }
}

async fn worker(server: &NatsServer) -> (Arc<ScriptedBackend>, Arc<Forgetting>, WorkerThread) {
    let forgetting = Arc::default();
    let slow = Arc::new(slow(&forgetting));
    let (settings, backend) = (settings(server), Arc::clone(&slow));
    let start = move || WorkerThread::start_with(settings, POOL, backend, BuildContext::in_home("home"));
    (slow, forgetting, tokio::task::spawn_blocking(start).await.expect("a worker"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn conversations_that_are_forgotten_at_once_are_bounded_and_the_others_are_refused_by_name() {
    let server = NatsServer::start().await;
    let (_, forgetting, worker) = worker(&server).await;
    let client = server.client().await;
    let forget = json!({ "forget": { "backend": "slow", "handle": { "backend": "slow", "state": {} } } });
    let asking = (0..FLOOD).map(|_| {
        let (client, text) = (client.clone(), forget.to_string());
        async move {
            let answer = client.request(format!("nexus.control.{POOL}.w"), text.into()).await;
            serde_json::from_slice::<Value>(&answer.expect("an answer").payload).expect("an outcome")
        }
    });
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in futures::future::join_all(asking).await {
        *outcomes.entry(outcome.to_string()).or_default() += 1;
    }
    let done = outcomes.get("{\"done\":\"was_gone\"}").copied().unwrap_or_default();
    assert!((1..=FLOOD / 4).contains(&done), "{outcomes:?}");
    assert!(
        forgetting.most.load(Ordering::SeqCst) <= 32,
        "{} at once",
        forgetting.most.load(Ordering::SeqCst)
    );
    let refused = outcomes.iter().find(|(outcome, _)| outcome.contains("no_backend")).expect("some are");
    assert!(refused.0.contains("at once") && refused.1 + done == FLOOD, "{outcomes:?}");
    // The next one is done.
    let answer = client.request(format!("nexus.control.{POOL}.w"), forget.to_string().into()).await.unwrap();
    assert_eq!(&answer.payload[..], b"{\"done\":\"was_gone\"}");
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn answers_that_nobody_waits_for_are_not_read_and_a_flood_of_commands_keeps_no_turn_from_its_end() {
    let server = NatsServer::start().await;
    let (slow, _, worker) = worker(&server).await;
    let fleet = Fleet::new(settings(&server)).expect("a thread");
    let caller = FleetBackend::new(slow.clone(), POOL, fleet);
    let client = server.client().await;
    let mut frames = client.subscribe("nexus.event.>").await.unwrap();
    // What the worker asks of the object store.
    let mut reads = client.subscribe("$JS.API.DIRECT.GET.OBJ_NEXUS_OBJECTS.>").await.unwrap();
    let cancel = nexus_core::CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let turn = tokio::spawn(async move {
        caller.run_turn(TurnRequest::new("Go."), host, &mut |_: EventEnvelope| {}).await
    });
    let (name, key) = loop {
        let frame = timeout(LONG, frames.next()).await.expect("a frame").expect("a client");
        let Ok(read) = serde_json::from_slice::<Value>(&frame.payload) else { continue };
        if read["worker"] == "w" {
            let turn = frame.subject.rsplit('.').next().expect("a turn").to_owned();
            break (turn, read["key"].as_str().expect("a key").to_owned());
        }
    };
    let say =
        |command: Value| json!({ "turn": { "turn": name, "key": key, "command": command } }).to_string();
    let object = json!({ "object": { "name": format!("nexus.{name}.x"), "bytes": 300_000, "sha256": "0".repeat(64) } });
    for id in 0..FLOOD {
        let answer = say(json!({ "answer": { "id": id, "answer": object } }));
        client.publish(format!("nexus.control.{POOL}.w"), answer.into()).await.unwrap();
    }
    // One that is larger than any that the protocol has is dropped unread; so is nonsense.
    let large = say(json!({ "answer": { "id": 1, "answer": { "inline": "x".repeat(900_000) } } }));
    for _ in 0..FLOOD / 10 {
        client.publish(format!("nexus.control.{POOL}.w"), large.clone().into()).await.unwrap();
    }
    for _ in 0..FLOOD * 100 {
        client
            .publish(format!("nexus.control.{POOL}.w"), say(json!({ "ack": { "number": 0 } })).into())
            .await
            .unwrap();
    }
    client.flush().await.unwrap();
    assert!(
        timeout(Duration::from_secs(2), reads.next()).await.is_err(),
        "an answer is read that nobody wants"
    );
    cancel.cancel();
    let error = timeout(LONG, turn).await.expect("it ends").unwrap().unwrap_err();
    assert_eq!(error.kind(), nexus_core::ErrorKind::Cancelled, "{error:?}");
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}
