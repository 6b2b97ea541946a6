//! The store in JetStream, before a real server.

use std::{sync::Arc, time::Duration};

use async_nats::HeaderMap;
use async_trait::async_trait;
use nexus_broker::{
    BrokerError, BrokerErrorKind, BrokerStore, DocumentKind, ExpectedRevision, JetStreamStore, PutOutcome,
    QueueLimits,
};
use nexus_core::{Clock, SystemClock};
use nexus_fleet::{Fleet, FleetSettings};
use nexus_testkit::{effort, nats::NatsServer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    kills,
    kit::{Hands, PATIENCE, Place, drain, id, kind, limits, message, take},
    suite::suite,
};

pub(crate) async fn connect(
    url: &str,
    limits: QueueLimits,
    clock: Arc<dyn Clock>,
) -> Result<JetStreamStore, BrokerError> {
    let settings = FleetSettings { servers: vec![url.to_owned()], ..FleetSettings::default() };
    JetStreamStore::open(&Fleet::new(settings).unwrap(), limits, clock).await
}

#[async_trait]
impl Place for NatsServer {
    async fn open(&self, limits: QueueLimits, clock: Arc<dyn Clock>) -> Arc<dyn BrokerStore> {
        Arc::new(connect(&self.url(), limits, clock).await.unwrap())
    }

    async fn overwrite_message(&self, id: &str, text: &str) {
        overwrite(self.client().await, &put_subject(id), text).await;
    }

    async fn overwrite_agent(&self, key: &str, text: &str) {
        overwrite(self.client().await, &format!("nexus.broker.document.agent.{key}"), text).await;
    }
}

fn hash(id: &str) -> String {
    Sha256::digest(id)[..20].iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn put_subject(id: &str) -> String {
    format!("nexus.broker.put.{}", hash(id))
}

fn state_subject(id: &str) -> String {
    format!("nexus.broker.state.{}", hash(id))
}

/// Stores a message of the stream anew, with another text.
pub(crate) async fn overwrite(client: async_nats::Client, subject: &str, text: &str) {
    let jetstream = async_nats::jetstream::new(client);
    let stream = jetstream.get_stream("NEXUS_BROKER").await.unwrap();
    let last = stream.get_last_raw_message_by_subject(subject).await.unwrap();
    publish(&jetstream, subject, ours(&last.headers), text).await;
}

/// The headers that the store wrote.
fn ours(all: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, values) in all.iter().filter(|(name, _)| name.to_string().starts_with("Nexus-")) {
        headers.insert(name.clone(), values[0].clone());
    }
    headers
}

async fn publish(jetstream: &async_nats::jetstream::Context, subject: &str, headers: HeaderMap, text: &str) {
    let stored = jetstream.publish_with_headers(subject.to_owned(), headers, text.to_owned().into()).await;
    stored.unwrap().await.unwrap();
}

suite!(NatsServer::start().await, #[ignore = "needs a real nats-server"]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn processes_on_a_server_are_killed_and_each_message_has_one_answer() {
    let server = NatsServer::start().await;
    kills::each_message_has_one_answer(&server.url()).await;
}

/// Tries until the servers answer.
async fn patiently<T, F: Future<Output = Result<T, BrokerError>>>(call: impl Fn() -> F) -> T {
    let began = std::time::Instant::now();
    loop {
        match call().await {
            Ok(done) => return done,
            Err(error) if error.kind == BrokerErrorKind::Unavailable => {
                assert!(began.elapsed() < PATIENCE, "{error}");
            }
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_server_that_is_killed_and_restarted_while_messages_are_held_loses_none() {
    let server = NatsServer::start().await;
    let clock = Hands::new();
    let store = server.open(QueueLimits::default(), clock.clone()).await;
    let other = server.open(QueueLimits::default(), clock.clone()).await;
    for round in 0..effort::rounds() {
        for number in 0..5 {
            store.put("q", &message(&format!("r{round}m{number}"), &*clock)).await.unwrap();
        }
        let held = take(&*store, "q").await.unwrap();
        server.kill();
        assert_eq!(kind(other.waiting("q", 10).await), BrokerErrorKind::Unavailable);
        server.restart().await;
        let answer = [("answers".to_owned(), message(&format!("a{round}"), &*clock))];
        patiently(|| store.finish(&held.lease, &answer)).await;
        let late = message(&format!("r{round}late"), &SystemClock);
        patiently(|| other.put("q", &late)).await;
        let left = patiently(|| other.waiting("q", 10)).await;
        assert_eq!(left.len(), 5);
        assert_eq!(drain(&*other, "q").await.len(), 5);
        assert_eq!(drain(&*store, "answers").await, [format!("a{round}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_server_that_stops_for_a_while_is_unavailable_and_then_goes_on() {
    let server = NatsServer::start().await;
    let store = server.open(QueueLimits::default(), Arc::new(SystemClock)).await;
    store.put("q", &message("m", &SystemClock)).await.unwrap();
    server.pause();
    assert_eq!(kind(store.put("q", &message("n", &SystemClock)).await), BrokerErrorKind::Unavailable);
    server.resume();
    // It may have been stored. The same call again is safe.
    let again = message("n", &SystemClock);
    patiently(|| store.put("q", &again)).await;
    assert_eq!(drain(&*store, "q").await, ["m", "n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn what_a_killed_broker_began_to_finish_is_finished_by_another() {
    let server = NatsServer::start().await;
    let clock = Hands::new();
    let store = server.open(QueueLimits::default(), clock.clone()).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&*store, "q").await.unwrap();
    // The one write by which it is handled, and nothing after it: as of a process that was killed then.
    let jetstream = async_nats::jetstream::new(server.client().await);
    let mut stream = jetstream.get_stream("NEXUS_BROKER").await.unwrap();
    let last = stream.info().await.unwrap().state.last_sequence;
    let taken = stream.get_raw_message(last).await.unwrap();
    assert!(taken.subject.starts_with("nexus.broker.state."));
    let mut headers = ours(&taken.headers);
    headers.insert("Nexus-State", "finishing");
    let inside = json!([{ "queue": "answers", "envelope": message("answer", &*clock) }]);
    publish(&jetstream, &taken.subject, headers, &inside.to_string()).await;
    let other = server.open(QueueLimits::default(), clock.clone()).await;
    assert_eq!(id(&other.waiting("answers", 10).await.unwrap()[0]), "answer");
    assert!(take(&*other, "q").await.is_none());
    // Also by the one who finished it, who asks again.
    store.finish(&held.lease, &[("answers".to_owned(), message("answer", &*clock))]).await.unwrap();
    assert_eq!(drain(&*store, "answers").await, ["answer"]);
    assert_eq!(store.log(0, 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_stream_that_is_deleted_or_emptied_is_told_of_or_begun_anew() {
    let server = NatsServer::start().await;
    let clock = Hands::new();
    let store = server.open(QueueLimits::default(), clock.clone()).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let jetstream = async_nats::jetstream::new(server.client().await);
    // Emptied: what waited is gone, and nothing hangs.
    jetstream.get_stream("NEXUS_BROKER").await.unwrap().purge().await.unwrap();
    assert!(take(&*store, "q").await.is_none());
    let fresh = server.open(QueueLimits::default(), clock.clone()).await;
    assert!(fresh.queues().await.unwrap().is_empty());
    store.put("q", &message("n", &*clock)).await.unwrap();
    assert_eq!(drain(&*fresh, "q").await, ["n"]);
    jetstream.delete_stream("NEXUS_BROKER").await.unwrap();
    assert_eq!(kind(store.put("q", &message("o", &*clock)).await), BrokerErrorKind::Failed);
    // Who starts makes it, and the one who was there goes on.
    let again = server.open(QueueLimits::default(), clock.clone()).await;
    again.put("q", &message("p", &*clock)).await.unwrap();
    let waiting = patiently(|| store.waiting("q", 10)).await;
    assert_eq!(waiting.iter().map(id).collect::<Vec<_>>(), ["p"]);
    // A version that is not known.
    let mut config = jetstream.get_stream("NEXUS_BROKER").await.unwrap().info().await.unwrap().config.clone();
    config.metadata.insert("nexus-broker".to_owned(), "7".to_owned());
    jetstream.update_stream(config).await.unwrap();
    let error = connect(&server.url(), QueueLimits::default(), clock).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert!(error.message.contains('7'), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_server_without_room_is_told_of_and_loses_nothing() {
    let server = NatsServer::with_config("jetstream { max_file_store: 2MB }").await;
    let clock = Hands::new();
    let store = server.open(QueueLimits::default(), clock.clone()).await;
    let mut stored = 0;
    let error = loop {
        let mut message = message(&format!("m{stored}"), &*clock);
        message.other.insert("fill".to_owned(), "x".repeat(20_000).into());
        match store.put("q", &message).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "it is never full");
    };
    assert_eq!(error.kind, BrokerErrorKind::NoSpace, "{error}");
    assert!(stored > 10);
    assert_eq!(store.waiting("q", 1_000).await.unwrap().len(), stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn servers_that_take_less_than_the_limits_or_do_not_answer_are_named() {
    let server = NatsServer::with_config("max_payload: 100000").await;
    let error = connect(&server.url(), QueueLimits::default(), Hands::new()).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid);
    assert!(error.message.contains("100000") && error.advice.contains("max_payload"), "{error}");
    let clock = Hands::new();
    let small = limits(|limits| limits.max_message_bytes = 60_000);
    let store = connect(&server.url(), small, clock.clone()).await.unwrap();
    store.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&store, "q").await.unwrap();
    let mut large = message("large", &*clock);
    large.other.insert("fill".to_owned(), "x".repeat(50_000).into());
    let mut second = large.clone();
    second.message_id = "second".parse().unwrap();
    let outcome = [("answers".to_owned(), large), ("answers".to_owned(), second)];
    assert_eq!(kind(store.finish(&held.lease, &outcome).await), BrokerErrorKind::Invalid);
    store.finish(&held.lease, &outcome[..1]).await.unwrap();
    store.write(DocumentKind::Agent, "a", ExpectedRevision::Absent, &json!(1)).await.unwrap();
    let url = server.url();
    drop(server);
    assert_eq!(kind(connect(&url, small, clock).await), BrokerErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn what_came_of_a_message_and_cannot_be_read_keeps_the_rest_of_it_from_nobody() {
    let server = NatsServer::start().await;
    let clock = Hands::new();
    let hour = limits(|limits| limits.remembered_for = Duration::from_secs(3_600));
    let store = server.open(hour, clock.clone()).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    take(&*store, "q").await.unwrap();
    let jetstream = async_nats::jetstream::new(server.client().await);
    let stream = jetstream.get_stream("NEXUS_BROKER").await.unwrap();
    let taken = stream.get_last_raw_message_by_subject(&state_subject("m")).await.unwrap();
    let mut headers = ours(&taken.headers);
    headers.insert("Nexus-State", "finishing");
    let mut newer = serde_json::to_value(message("gossip", &*clock)).unwrap();
    newer["type"] = json!("gossip");
    let inside = json!([
        { "queue": "answers", "envelope": newer },
        { "queue": "answers", "envelope": message("answer", &*clock) },
    ]);
    publish(&jetstream, &state_subject("m"), headers, &inside.to_string()).await;
    let other = server.open(hour, clock.clone()).await;
    assert_eq!(drain(&*other, "answers").await, ["answer"]);
    for store in [&store, &other] {
        let aside = store.set_aside(10).await.unwrap();
        assert_eq!((aside.len(), aside[0].message.as_str()), (1, "m"), "{aside:?}");
        assert!(aside[0].stored.contains("gossip") && !aside[0].stored.contains("\"answer\""), "{aside:?}");
    }
    // Once it is forgotten, it is not put again.
    clock.turn(2 * 3_600_000);
    for name in ["x", "y"] {
        other.put("q", &message(name, &*clock)).await.unwrap();
    }
    let fresh = server.open(hour, clock.clone()).await;
    assert!(take(&*fresh, "answers").await.is_none());
    assert_eq!(drain(&*fresh, "q").await, ["x", "y"]);
    assert_eq!(fresh.put("q", &message("answer", &*clock)).await.unwrap(), PutOutcome::Stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn headers_that_cannot_be_read_keep_nobody_from_the_others() {
    let server = NatsServer::start().await;
    let clock = Hands::new();
    let store = server.open(QueueLimits::default(), clock.clone()).await;
    for name in ["state", "headers", "aside", "m"] {
        store.put("q", &message(name, &*clock)).await.unwrap();
    }
    let jetstream = async_nats::jetstream::new(server.client().await);
    let stream = jetstream.get_stream("NEXUS_BROKER").await.unwrap();
    let number =
        async |id: &str| stream.get_last_raw_message_by_subject(&put_subject(id)).await.unwrap().sequence;
    // A stage of a newer version: it may be handled.
    let mut headers = HeaderMap::new();
    headers.insert("Nexus-State", "pondered");
    headers.insert("Nexus-Of", number("state").await.to_string().as_str());
    publish(&jetstream, &state_subject("state"), headers, "").await;
    // A message without a queue.
    let json = serde_json::to_string(&message("headers", &*clock)).unwrap();
    publish(&jetstream, &put_subject("headers"), HeaderMap::new(), &json).await;
    assert_eq!(drain(&*store, "q").await, ["aside", "m"]);
    let aside = store.set_aside(10).await.unwrap();
    let found: Vec<_> = aside.iter().map(|aside| (&*aside.message, &*aside.queue)).collect();
    assert_eq!(found, [("state", "q"), ("headers", "")], "{aside:?}");
    for name in ["state", "headers"] {
        assert_eq!(store.put("q", &message(name, &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    }
    // What an older version has set aside waits where this one opens the stream.
    store.put("q", &message("older", &*clock)).await.unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("Nexus-State", "set-aside"),
        ("Nexus-Of", &*number("older").await.to_string()),
        ("Nexus-Receipt", ""),
        ("Nexus-Deliveries", "0"),
        ("Nexus-At", "1"),
        ("Nexus-Until", "1"),
    ] {
        headers.insert(name, value);
    }
    publish(&jetstream, &state_subject("older"), headers, "").await;
    assert!(take(&*store, "q").await.is_none());
    assert_eq!(store.set_aside(10).await.unwrap().len(), 3);
    let fresh = server.open(QueueLimits::default(), clock.clone()).await;
    assert_eq!(drain(&*fresh, "q").await, ["older"]);
}
