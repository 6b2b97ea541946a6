//! Three servers, each with the stream, of which the leader is killed while messages go through: none is lost, none handled twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_broker::{
    BrokerError, BrokerErrorKind, BrokerStore, EnvelopeId, JetStreamStore, MessagePriority, Payload,
    QueueLimits,
};
use nexus_core::SystemClock;
use nexus_fleet::{Fleet, FleetSettings};
use nexus_testkit::{
    effort,
    nats::{CLUSTER_SIZE, NatsCluster},
};
use serde_json::json;

use super::kit::message;

/// What is awaited happens within this time: elections of a busy machine are among it.
const PATIENCE: Duration = Duration::from_secs(180);
/// For how long a message is held. What was taken by a call without an answer is given out again after it.
const LEASE: Duration = Duration::from_secs(5);
/// Messages that are handled between a kill and the next.
const HANDLED_EACH: usize = 15;
const HANDLERS: usize = 2;

async fn broker(cluster: &NatsCluster) -> Arc<dyn BrokerStore> {
    let settings =
        FleetSettings { servers: cluster.urls(), replicas: Some(CLUSTER_SIZE), ..FleetSettings::default() };
    let fleet = Fleet::new(settings).unwrap();
    let began = Instant::now();
    loop {
        let opened = JetStreamStore::open(&fleet, QueueLimits::default(), Arc::new(SystemClock)).await;
        match opened {
            Ok(store) => return Arc::new(store),
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Calls until the servers answer.
async fn answered<T, F: Future<Output = Result<T, BrokerError>>>(
    call: impl Fn() -> F,
) -> Result<T, BrokerError> {
    let began = Instant::now();
    loop {
        match call().await {
            Err(error) if error.kind == BrokerErrorKind::Unavailable => {
                assert!(began.elapsed() < PATIENCE, "{error}");
            }
            done => return done,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Takes messages and answers each, until it is told to end.
async fn handle(store: Arc<dyn BrokerStore>, handled: Arc<AtomicUsize>, ends: Arc<AtomicBool>) {
    while !ends.load(Ordering::SeqCst) {
        if answered(|| store.wait("q", Duration::from_millis(500))).await.is_err() {
            continue;
        }
        let taken = answered(|| store.take("q", MessagePriority::Low, LEASE)).await;
        let Some(held) = taken.unwrap() else { continue };
        let mut answer = message("answer", &SystemClock);
        // An id of its own: two answers to one message would be two.
        answer.message_id = EnvelopeId::random();
        answer.payload = serde_json::from_value(json!({
            "type": "message",
            "payload": { "content": "done", "in_reply_to": held.envelope.message_id.as_str() },
        }))
        .unwrap();
        let outcome = [("answers".to_owned(), answer)];
        match answered(|| store.finish(&held.lease, &outcome)).await {
            Ok(()) => {
                handled.fetch_add(1, Ordering::SeqCst);
            }
            // It took too long, and another has it.
            Err(error) => assert_eq!(error.kind, BrokerErrorKind::Conflict, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn the_leader_of_three_servers_is_killed_while_messages_go_through_and_each_is_handled_once() {
    let cluster = NatsCluster::start().await;
    let store = broker(&cluster).await;
    let stream = async_nats::jetstream::new(cluster.client().await).get_stream("NEXUS_BROKER").await.unwrap();
    assert_eq!(stream.cached_info().config.num_replicas, CLUSTER_SIZE);

    let (handled, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut handlers = Vec::new();
    for _ in 0..HANDLERS {
        let store = broker(&cluster).await;
        handlers.push(tokio::spawn(handle(store, Arc::clone(&handled), Arc::clone(&ends))));
    }
    let (putting, put_ends) = (Arc::clone(&store), Arc::clone(&ends));
    let putter = tokio::spawn(async move {
        let mut put = 0_usize;
        while !put_ends.load(Ordering::SeqCst) {
            let message = message(&format!("m{put}"), &SystemClock);
            answered(|| putting.put("q", &message)).await.unwrap();
            put += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        put
    });
    let until_handled = async |count: usize| {
        let began = Instant::now();
        while handled.load(Ordering::SeqCst) < count {
            assert!(began.elapsed() < PATIENCE, "{} of {count}", handled.load(Ordering::SeqCst));
            assert!(handlers.iter().all(|handler| !handler.is_finished()), "a handler has failed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until_handled(HANDLED_EACH).await;
    for _ in 0..effort::rounds() {
        let leader = cluster.elected_leader_of("NEXUS_BROKER").await;
        let before = handled.load(Ordering::SeqCst);
        cluster.kill(leader);
        // By the two that are left, and then by all.
        until_handled(before + HANDLED_EACH).await;
        cluster.restart(leader).await;
        until_handled(before + 2 * HANDLED_EACH).await;
    }
    ends.store(true, Ordering::SeqCst);
    let put = putter.await.unwrap();
    for handler in handlers {
        handler.await.unwrap();
    }
    // What is left is handled here.
    let began = Instant::now();
    loop {
        let queues = answered(|| store.queues()).await.unwrap();
        if queues.iter().all(|queue| queue.queue != "q") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "left: {queues:?}");
        let ends = Arc::new(AtomicBool::new(false));
        let handler = tokio::spawn(handle(Arc::clone(&store), Arc::clone(&handled), Arc::clone(&ends)));
        tokio::time::sleep(Duration::from_millis(500)).await;
        ends.store(true, Ordering::SeqCst);
        handler.await.unwrap();
    }
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(held) = answered(|| store.take("answers", MessagePriority::Low, LEASE)).await.unwrap() {
        let Payload::Message { in_reply_to: Some(id), .. } = &held.envelope.payload else {
            panic!("{:?}", held.envelope)
        };
        *answers.entry(id.to_string()).or_default() += 1;
        answered(|| store.finish(&held.lease, &[])).await.unwrap();
    }
    let missing: Vec<_> =
        (0..put).map(|number| format!("m{number}")).filter(|id| !answers.contains_key(id)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    let twice: Vec<_> = answers.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "handled twice: {twice:?}");
    assert_eq!(answers.len(), put);
    let log = answered(|| store.log(0, usize::MAX)).await.unwrap();
    assert_eq!(log.len(), 2 * put, "each message and each answer is told of once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_stream_without_a_majority_is_told_as_unavailable_and_not_as_missing() {
    let cluster = NatsCluster::start().await;
    drop(broker(&cluster).await);
    let leader = cluster.elected_leader_of("NEXUS_BROKER").await;
    let (other, left) = ((leader + 1) % CLUSTER_SIZE, (leader + 2) % CLUSTER_SIZE);
    cluster.kill(leader);
    cluster.kill(other);
    // As programs that start now see the one server that is left. Reads may still be answered, but nothing is stored.
    for _ in 0..3 {
        let settings =
            FleetSettings { servers: vec![cluster.server(left).url()], ..FleetSettings::default() };
        let fleet = Fleet::new(settings).unwrap();
        let answer = match JetStreamStore::open(&fleet, QueueLimits::default(), Arc::new(SystemClock)).await {
            Ok(store) => store.put("q", &message("m", &SystemClock)).await.map(drop),
            Err(error) => Err(error),
        };
        let error = answer.expect_err("one of three servers stores nothing");
        assert_eq!(error.kind, BrokerErrorKind::Unavailable, "{error}");
    }
}
