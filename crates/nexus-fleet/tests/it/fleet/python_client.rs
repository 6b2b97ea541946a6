//! A caller in another language, written from `docs/reference/fleet-protocol.md` alone.

use std::{collections::BTreeMap, process::Stdio, sync::Arc, time::Duration};

use futures::StreamExt as _;
use nexus_core::{BuildContext, Effects, ExecutionBackend};
use nexus_testkit::{
    conformance::{ScriptedModel, Setting, reference::ReferenceBackend},
    nats::{NatsServer, program},
    sim::{Scenario, ToolCall},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::support::remote::WorkerThread;

/// Names a Python that has `nats-py`. Set by `real/servers/install`.
const PYTHON: &str = "NEXUS_REAL_NATS_PYTHON";
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.py");
const POOL: &str = "builders";
/// Maximum time for one turn. An idle machine needs a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A backend whose model plays `script`, in a folder of its own.
pub(crate) fn reference(script: Scenario) -> (Arc<dyn ExecutionBackend>, TempDir) {
    let home = tempfile::tempdir().expect("a folder");
    let setting = Setting::new(script, home.path().to_owned(), BTreeMap::new());
    let model = Arc::new(ScriptedModel::new(&setting));
    (Arc::new(ReferenceBackend::new(model, setting.home, setting.environment)), home)
}

/// A server, and a worker of the pool before a model that plays `script`. The worker is to be dropped first.
async fn fleet(script: Scenario) -> (NatsServer, TempDir, WorkerThread) {
    let server = NatsServer::start().await;
    let (backend, home) = reference(script);
    let context = BuildContext::in_home(home.path());
    let url = server.url();
    let worker =
        tokio::task::spawn_blocking(move || WorkerThread::start(&url, POOL, backend, context)).await.unwrap();
    (server, home, worker)
}

/// What the client says of the turn that `job` describes.
async fn run(server: &NatsServer, job: Value) -> Value {
    let mut whole = json!({
        "server": server.url(), "caller": "alice", "pool": POOL, "backend": "reference",
        "request": { "prompt": [{ "type": "text", "text": "hello" }] },
    });
    let (Value::Object(whole_job), Value::Object(job)) = (&mut whole, job) else { unreachable!() };
    whole_job.extend(job);
    let mut client = tokio::process::Command::new(program(PYTHON))
        .arg(CLIENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the client starts");
    let mut stdin = client.stdin.take().expect("a pipe");
    stdin.write_all(whole.to_string().as_bytes()).await.expect("the job is written");
    drop(stdin);
    let output = tokio::time::timeout(PATIENCE, client.wait_with_output())
        .await
        .expect("the client ends in time")
        .expect("the client ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}. The client says:\n{stderr}"))
}

fn weather() -> Value {
    json!([{
        "name": "weather", "description": "The weather of a place.", "effects": "read", "terminal": false,
        "input_schema": { "type": "object", "properties": { "place": { "type": "string" } } },
    }])
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_client_in_python_runs_a_turn_and_answers_a_call() {
    let call = ToolCall::function("weather", json!({ "place": "Turku" }));
    let (server, _home, _worker) = fleet(Scenario::tool_then_text(call, "It rains.")).await;
    // The first frame with items is lost, and asked for again.
    let said =
        run(&server, json!({ "tools": weather(), "answers": { "weather": "rain" }, "lose": [1] })).await;
    let result = &said["outcome"]["result"];
    assert_eq!(result["text"], "It rains.", "{said}");
    assert_eq!(result["effects"], json!(Effects::Read), "{said}");
    assert_eq!(result["tool_calls"][0]["output"][0]["text"], "rain", "{said}");
    assert_eq!(said["calls"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(said["calls"][0]["arguments"], json!({ "place": "Turku" }), "{said}");
    assert!(said["resends"].as_u64() >= Some(1), "{said}");
    let events = said["events"].as_array().expect("events");
    for event in ["started", "tool_call_started", "tool_call_finished", "message_ended"] {
        assert!(events.contains(&json!(event)), "{event}: {said}");
    }
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn what_is_large_goes_through_the_object_store_both_ways() {
    let large = "x".repeat(300_000);
    let call = ToolCall::function("weather", json!({ "place": "Turku" }));
    let (server, _home, _worker) = fleet(Scenario::tool_then_text(call, &large)).await;
    let said = run(
        &server,
        json!({
            "request": { "prompt": [{ "type": "text", "text": large }] },
            "tools": weather(), "answers": { "weather": large },
        }),
    )
    .await;
    assert_eq!(said["outcome"]["result"]["text"], json!(large));
    assert_eq!(said["outcome"]["result"]["tool_calls"][0]["output"][0]["text"], json!(large));
    // The answer of the tool and the message, as events, and the end.
    assert!(said["large"].as_u64() >= Some(3), "{}", said["large"]);
    // Whoever stored an object, the caller has deleted it.
    let context = async_nats::jetstream::new(server.client().await);
    let objects = context.get_stream("OBJ_NEXUS_OBJECTS").await.expect("the objects");
    let pieces = objects.info_with_subjects("$O.NEXUS_OBJECTS.C.>").await.expect("the pieces");
    assert_eq!(pieces.count().await, 0);
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_later_version_is_refused_by_name_and_an_unknown_field_is_not() {
    let (server, _home, _worker) = fleet(Scenario::text("hello")).await;
    let said = run(&server, json!({ "envelope": { "version": 3 } })).await;
    let error = &said["outcome"]["error"];
    assert_eq!(error["kind"], "unsupported", "{said}");
    assert_eq!(
        error["message"],
        "the turn has version 3 of the fleet's messages, but this worker supports 2: update it"
    );
    assert_eq!(error["partial"]["effects"], "none", "{said}");
    let said = run(&server, json!({ "envelope": { "hue": { "of": "blue" } } })).await;
    assert_eq!(said["outcome"]["result"]["text"], "hello", "{said}");
    // An unknown key of the request may be a restriction.
    let request = json!({ "prompt": [{ "type": "text", "text": "hello" }], "never_write": true });
    let said = run(&server, json!({ "request": request })).await;
    assert_eq!(said["outcome"]["error"]["kind"], "invalid_request", "{said}");
    assert!(said["outcome"]["error"]["message"].as_str().unwrap().contains("never_write"), "{said}");
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_client_in_python_takes_a_turn_back_that_nobody_starts() {
    let (server, _home, worker) = fleet(Scenario::text("hello")).await;
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
    let said = run(&server, json!({ "seconds": 1 })).await;
    assert_eq!(said["outcome"], json!({ "taken_back": true }), "{said}");
}
