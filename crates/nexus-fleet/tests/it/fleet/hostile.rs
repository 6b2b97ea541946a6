//! What a hostile caller, worker or stranger tries.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nexus_core::{
    BuildContext, ErrorKind, EventEnvelope, ExecutionBackend, ToolAccess, TurnEvent, TurnHost, TurnRequest,
};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, WorkerSettings};
use nexus_testkit::{
    nats::NatsServer,
    scripted::ScriptedBackend,
    sim::{Reply, Scenario},
};
use serde_json::json;

use super::python_client::reference;
use crate::support::remote::WorkerThread;

const POOL: &str = "builders";
/// In every prompt of a test that searches for it, and in what must be nowhere.
const CANARY: &str = "canary-5f2d9c";

fn settings(server: &NatsServer, worker: WorkerSettings) -> FleetSettings {
    FleetSettings { servers: vec![server.url()], worker, ..FleetSettings::default() }
}

fn caller(server: &NatsServer, local: Arc<dyn ExecutionBackend>) -> FleetBackend {
    let fleet = Fleet::new(settings(server, WorkerSettings::default())).expect("a thread");
    FleetBackend::new(local, POOL, fleet)
}

async fn worker(
    server: &NatsServer,
    policy: WorkerSettings,
    script: Scenario,
) -> (WorkerThread, Arc<dyn ExecutionBackend>, tempfile::TempDir) {
    let (backend, home) = reference(script);
    let (settings, context, local) =
        (settings(server, policy), BuildContext::in_home(home.path()), Arc::clone(&backend));
    let started =
        tokio::task::spawn_blocking(move || WorkerThread::start_with(settings, POOL, backend, context));
    (started.await.expect("it starts"), local, home)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn what_is_beyond_the_policy_of_the_pool_is_refused_and_not_run() {
    let server = NatsServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let policy = WorkerSettings { folders: vec![folder.path().to_owned()], ..WorkerSettings::default() };
    let (worker, local, _home) = worker(&server, policy, Scenario::new([Reply::text("Done.")])).await;
    let caller = caller(&server, local);
    for beyond in [
        TurnRequest::new("Go.").with_tool_access(ToolAccess::Unrestricted),
        TurnRequest::new("Go.").in_directory("/"),
        TurnRequest::new("Go.").with_variable("HOME"),
    ] {
        let mut unwatched = |_: EventEnvelope| {};
        let error = caller.run_turn(beyond, TurnHost::new(), &mut unwatched).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
        assert!(error.message().unwrap_or_default().contains("nothing was run"), "{error:?}");
        assert!(error.partial().effects.allow_another_try(), "{error:?}");
    }
    // The model was never asked: its one reply is still there.
    let mut unwatched = |_: EventEnvelope| {};
    let request = TurnRequest::new("Go.").in_directory(folder.path());
    assert_eq!(caller.run_turn(request, TurnHost::new(), &mut unwatched).await.unwrap().text, "Done.");
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_prompt_of_64_mib_is_refused_before_anything_is_stored() {
    let server = NatsServer::start().await;
    let (local, _home) = reference(Scenario::text("Done."));
    let caller = caller(&server, local);
    let mut unwatched = |_: EventEnvelope| {};
    let request = TurnRequest::new("x".repeat(64 << 20));
    let error = caller.run_turn(request, TurnHost::new(), &mut unwatched).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error:?}");
    assert!(stored(&server.store()).iter().all(|(_, bytes)| bytes.len() < 1 << 20));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_forged_event_is_not_heard() {
    let server = NatsServer::start().await;
    let script = Scenario::new([Reply::text("True.").after(Duration::from_millis(800))]);
    let (worker, local, _home) = worker(&server, WorkerSettings::default(), script).await;
    let caller = caller(&server, local);
    let stranger = server.client().await;
    let listens = server.client().await;
    let forging = tokio::spawn(async move {
        use futures::StreamExt as _;
        // Whoever may listen there learns subjects, and with them turns; the key of a turn is in its frames.
        let mut frames = listens.subscribe("nexus.event.>").await.unwrap();
        while let Some(frame) = frames.next().await {
            let Ok(mut forged) = serde_json::from_slice::<serde_json::Value>(&frame.payload) else {
                continue;
            };
            if forged["worker"] == "forger" {
                continue;
            }
            let event = json!({ "sequence": 0, "elapsed": { "secs": 0, "nanos": 0 },
                "event": { "type": "warning", "text": "forged" } });
            // Without the key; and with it, as another worker.
            for key in [json!("0".repeat(32)), forged["key"].clone()] {
                forged["key"] = key;
                forged["worker"] = json!("forger");
                forged["number"] = json!(1);
                forged["items"] = json!([{ "event": event }]);
                stranger
                    .publish(frame.subject.clone(), serde_json::to_vec(&forged).unwrap().into())
                    .await
                    .unwrap();
            }
        }
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&seen);
    let mut sink = move |event: EventEnvelope| keeps.lock().unwrap().push(event.event);
    let result = caller.run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut sink).await.unwrap();
    forging.abort();
    assert_eq!(result.text, "True.");
    let is_forged =
        |event: &TurnEvent| matches!(event, TurnEvent::Warning(warning) if warning.text == "forged");
    assert!(!seen.lock().unwrap().iter().any(is_forged));
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}

/// What the caller says is stored by design, and named in docs/reference/fleet-protocol.md; what a worker is lent is nowhere.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn nothing_of_a_turn_is_left_in_the_store_but_its_result_and_no_prompt() {
    let server = NatsServer::start().await;
    let script = Scenario::new([Reply::text("Done.")]);
    let (worker, local, _home) = worker(&server, WorkerSettings::default(), script).await;
    let caller = caller(&server, local);
    let mut unwatched = |_: EventEnvelope| {};
    let prompt = format!("{CANARY} {}", "x".repeat(600 << 10));
    caller.run_turn(TurnRequest::new(prompt), TurnHost::new(), &mut unwatched).await.unwrap();
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
    drop(caller);
    // Messages that are gone stay in the files of the server until it compacts them; so it is asked what there is.
    let client = server.client().await;
    let jetstream = async_nats::jetstream::new(client);
    let left = async || {
        let mut left = Vec::new();
        for stream in [format!("NEXUS_QUEUE_{POOL}"), "OBJ_NEXUS_OBJECTS".to_owned()] {
            let stream = jetstream.get_stream(&stream).await.unwrap();
            let state = stream.get_info().await.unwrap().state;
            for number in state.first_sequence..=state.last_sequence {
                let Ok(message) = stream.get_raw_message(number).await else { continue };
                if String::from_utf8_lossy(&message.payload).contains(CANARY) {
                    left.push(format!("message {number} of {stream:?}"));
                }
            }
        }
        left
    };
    // What is not needed any more is deleted beside everything else.
    let began = Instant::now();
    while let left = left().await
        && !left.is_empty()
    {
        assert!(began.elapsed() < Duration::from_secs(60), "{left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Every file of a store.
fn stored(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => found.push((entry.path(), fs::read(entry.path()).unwrap_or_default())),
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_server_that_is_too_old_is_refused_by_its_version() {
    let server = NatsServer::old().await;
    let (local, _home) = reference(Scenario::text("Done."));
    let mut unwatched = |_: EventEnvelope| {};
    let turn =
        caller(&server, local).run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut unwatched).await;
    let error = turn.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotInstalled, "{error:?}");
    let message = error.message().unwrap_or_default();
    assert!(message.contains("2.10.26") && message.contains("2.11 or newer"), "{message}");
}

/// A worker of the pool lacks the backend: each turn goes to the other one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_worker_that_lacks_the_backend_leaves_its_turns_to_others() {
    let server = NatsServer::start().await;
    let named = |name: &str| WorkerSettings { name: Some(name.to_owned()), ..WorkerSettings::default() };
    let (lacks, context) = (settings(&server, named("lacks")), BuildContext::in_home("home"));
    let started = move || {
        WorkerThread::start_with(lacks, POOL, Arc::new(ScriptedBackend::playing("other", [])), context)
    };
    let lacking = tokio::task::spawn_blocking(started).await.expect("it starts");
    let script = Scenario::new([Reply::text("Done.")]).per_conversation();
    let (having, local, _home) = worker(&server, named("has"), script).await;
    let caller = caller(&server, local);
    for _ in 0..6 {
        let mut unwatched = |_: EventEnvelope| {};
        let result = caller.run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut unwatched).await.unwrap();
        assert_eq!(result.text, "Done.");
    }
    tokio::task::spawn_blocking(move || drop((lacking, having))).await.unwrap();
}
