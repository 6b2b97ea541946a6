//! Requests to the servers that the account may not make: each is told at once, with its subject.

use std::time::{Duration, Instant};

use nexus_core::{
    BuildContext, CancelToken, ErrorKind, ExecutionBackend, NullSink, Registry, TurnHost, TurnRequest,
};
use nexus_fleet::{
    Fleet, FleetBackend, FleetCredentials, FleetError, FleetHoldStore, FleetSettings, NatsError, Worker,
    WorkerSettings,
};
use nexus_router::{Router, hold::HoldStore as _};
use nexus_testkit::{nats::NatsServer, sim::Scenario};
use serde_json::json;
use tempfile::TempDir;

use super::python_client::reference;
use crate::support::remote::WorkerThread;

const POOL: &str = "builders";
/// Longer than anything takes that is told at once. After a wait without an answer, errors name no subject.
const AT_ONCE: Duration = Duration::from_secs(30);

/// A server at which `eve` may publish on these subjects, and listen to those.
async fn server(publish: &[&str], subscribe: &[&str]) -> (NatsServer, TempDir) {
    let list = |subjects: &[&str]| {
        subjects.iter().map(|subject| format!("{subject:?}")).collect::<Vec<_>>().join(", ")
    };
    with_permissions(&format!("publish: [{}], subscribe: [{}]", list(publish), list(subscribe))).await
}

async fn with_permissions(permissions: &str) -> (NatsServer, TempDir) {
    let server = NatsServer::with_config(&format!(
        "accounts {{ FLEET {{ jetstream: enabled, users: [\n\
         {{ user: admin, password: \"of-admin\" }}\n\
         {{ user: eve, password: \"of-eve\", permissions {{ {permissions} }} }} ] }} }}\n"
    ))
    .await;
    let secrets = tempfile::tempdir().expect("a folder");
    for user in ["admin", "eve"] {
        std::fs::write(secrets.path().join(user), format!("of-{user}")).expect("a password");
    }
    Fleet::new(settings(&server, &secrets, "admin"))
        .expect("a thread")
        .set_up(&[POOL])
        .await
        .expect("streams");
    (server, secrets)
}

fn settings(server: &NatsServer, secrets: &TempDir, user: &str) -> FleetSettings {
    FleetSettings {
        servers: vec![server.url()],
        name: Some(user.to_owned()),
        credentials: Some(FleetCredentials::Password {
            user: user.to_owned(),
            file: secrets.path().join(user),
        }),
        worker: WorkerSettings { name: Some("w".to_owned()), ..WorkerSettings::default() },
        ..FleetSettings::default()
    }
}

#[track_caller]
fn is_forbidden(error: &FleetError, subject: &str, began: Instant) {
    assert!(
        matches!(error, FleetError::Nats(NatsError::Forbidden { subject: named }) if named.starts_with(subject)),
        "{error:?}"
    );
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_look_at_the_workers_or_the_holds_that_is_not_permitted_is_told_at_once_with_its_subject() {
    let info = "$JS.API.STREAM.INFO.KV_NEXUS_WORKERS";
    for (may, denied) in [
        (&["nothing"][..], info),
        (&[info], "$JS.API.CONSUMER.CREATE.KV_NEXUS_WORKERS"),
        (&[info, "$JS.API.CONSUMER.CREATE.KV_NEXUS_WORKERS"], "$JS.API.STREAM.NAMES"),
    ] {
        let (server, secrets) = server(may, &["_INBOX_eve.>", "nexus.event.eve.*.*"]).await;
        let fleet = Fleet::new(settings(&server, &secrets, "eve")).expect("a thread");
        let began = Instant::now();
        is_forbidden(&fleet.status().await.unwrap_err(), denied, began);
        if denied == info {
            let (local, _home) = reference(Scenario::text("Done."));
            let backend = FleetBackend::new(local, POOL, fleet.clone());
            let began = Instant::now();
            let availability = format!("{:?}", backend.probe().await);
            assert!(availability.contains(info) && began.elapsed() < AT_ONCE, "{availability}");
            let store = FleetHoldStore::new(&fleet);
            let began = Instant::now();
            let error = store.list().await.unwrap_err().to_string();
            assert!(error.contains("$JS.API.STREAM.INFO.KV_NEXUS_HOLDS"), "{error}");
            let error = store.get(&"alpha".into()).await.unwrap_err().to_string();
            assert!(error.contains("$JS.API.STREAM.MSG.GET.KV_NEXUS_HOLDS"), "{error}");
            assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn answers_that_may_not_be_heard_are_told_with_the_inbox() {
    let (server, secrets) = server(&["$JS.API.>"], &["_INBOX_alice.>"]).await;
    let fleet = Fleet::new(settings(&server, &secrets, "eve")).expect("a thread");
    let began = Instant::now();
    is_forbidden(&fleet.status().await.unwrap_err(), "_INBOX_eve.", began);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_caller_that_may_not_hear_of_its_turns_is_told_before_one_is_sent() {
    let (server, secrets) = server(&[">"], &["_INBOX_eve.>"]).await;
    let fleet = Fleet::new(settings(&server, &secrets, "eve")).expect("a thread");
    let (local, _home) = reference(Scenario::text("Done."));
    let backend = FleetBackend::new(local, POOL, fleet);
    let began = Instant::now();
    let error = backend.run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut NullSink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
    assert!(error.message().is_some_and(|message| message.contains("nexus.event.eve.")), "{error:?}");
    assert!(began.elapsed() < AT_ONCE && error.partial().effects.allow_another_try(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_worker_that_may_not_have_a_consumer_is_told_at_once_with_its_subject() {
    let streams = ["NEXUS_RESULTS", "NEXUS_STARTED", "KV_NEXUS_WORKERS", "KV_NEXUS_HOLDS", "KV_NEXUS_SLOTS"];
    let mut may: Vec<String> = streams.iter().map(|stream| format!("$JS.API.STREAM.INFO.{stream}")).collect();
    may.push("$JS.API.STREAM.INFO.OBJ_NEXUS_OBJECTS".to_owned());
    let queue = format!("$JS.API.STREAM.INFO.NEXUS_QUEUE_{POOL}");
    let consumer = format!("$JS.API.CONSUMER.INFO.NEXUS_QUEUE_{POOL}.high");
    for (more, denied) in [(None, queue.clone()), (Some(queue.clone()), consumer)] {
        may.extend(more);
        let subjects: Vec<_> = may.iter().map(String::as_str).collect();
        let (server, secrets) = server(&subjects, &["_INBOX_eve.>"]).await;
        let (backend, home) = reference(Scenario::text("Done."));
        let router = Router::builder(Registry::new(), BuildContext::in_home(home.path())).backend(backend);
        let router = router.from_value(json!({})).expect("a router");
        let worker =
            Worker::connect(settings(&server, &secrets, "eve"), POOL, router).await.expect("a worker");
        let began = Instant::now();
        let error = worker.run(CancelToken::new(), |_| panic!("it takes turns")).await.unwrap_err();
        is_forbidden(&error, &denied, began);
    }
}

/// The turn is not begun again and again, nor is its place lost.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_worker_that_may_not_store_what_is_large_says_so_in_place_of_the_end() {
    let (server, secrets) = with_permissions("publish: { deny: [\"$O.NEXUS_OBJECTS.>\"] }").await;
    let (backend, home) = reference(Scenario::text("x".repeat(600 << 10)));
    let (local, context) = (backend.clone(), BuildContext::in_home(home.path()));
    let of_worker = settings(&server, &secrets, "eve");
    let start = move || WorkerThread::start_with(of_worker, POOL, backend, context);
    let worker = tokio::task::spawn_blocking(start).await.expect("a worker");
    let fleet = Fleet::new(settings(&server, &secrets, "admin")).expect("a thread");
    let caller = FleetBackend::new(local, POOL, fleet);
    let began = Instant::now();
    let error = caller.run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut NullSink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
    assert!(error.message().is_some_and(|message| message.contains("$O.NEXUS_OBJECTS.")), "{error:?}");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}
