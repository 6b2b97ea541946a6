//! The kit itself, before a real server.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectOptions, Event, HeaderMap, Subscriber};
use futures::StreamExt as _;
use nexus_testkit::nats::{CLUSTER_SIZE, NatsCluster};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::support::proxy::Proxy;
use crate::support::relay::{Counts, Faults, Relay};
use nexus_testkit::nats::NatsServer;

const BRIEF: Duration = Duration::from_millis(20);
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// A stream `Q` of all subjects below `q`.
async fn stream_on(client: Client, num_replicas: usize) -> jetstream::Context {
    let context = jetstream::new(client);
    let config =
        stream::Config { name: "Q".into(), subjects: vec!["q.>".into()], num_replicas, ..Default::default() };
    context.create_stream(config).await.expect("the stream is created");
    context
}

/// Publishes until the server has stored the message, once.
///
/// A cluster answers "no stream found" for up to half a second after it has created the stream, and during an election.
async fn publish(context: &jetstream::Context, payload: &'static str) {
    let began = Instant::now();
    loop {
        let message = PublishMessage::build().message_id(payload).payload(payload.into());
        match context.send_publish("q.a", message).await.expect("it is sent").await {
            Ok(_) => return,
            Err(error) => assert!(began.elapsed() < LONG, "it is not stored: {error}"),
        }
        sleep(BRIEF).await;
    }
}

async fn stored_messages(context: &jetstream::Context) -> u64 {
    context.get_stream("Q").await.expect("the stream is there").cached_info().state.messages
}

fn holds(folder: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(folder).expect("the folder is read").any(|entry| {
        let path = entry.expect("the entry is read").path();
        if path.is_dir() {
            return holds(&path, needle);
        }
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|part| part == needle))
    })
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn messages_are_in_the_store_and_stay_over_a_kill() {
    let server = NatsServer::start().await;
    let context = stream_on(server.client().await, 1).await;
    publish(&context, "canary").await;
    assert!(holds(&server.store(), b"canary"));
    assert!(!holds(&server.store(), b"absent"));
    let (url, pid) = (server.url(), server.pid());
    server.kill();
    assert_eq!(server.pid(), None);
    async_nats::connect(&url).await.expect_err("nothing listens");
    server.restart().await;
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(stored_messages(&jetstream::new(server.client().await)).await, 1);
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn servers_do_not_share_a_store() {
    let (first, second) = tokio::join!(NatsServer::start(), NatsServer::start());
    stream_on(first.client().await, 1).await;
    let context = jetstream::new(second.client().await);
    context.get_stream("Q").await.expect_err("another server has no such stream");
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_dropped_server_has_ended() {
    let server = NatsServer::start().await;
    let (url, store) = (server.url(), server.store());
    drop(server);
    async_nats::connect(&url).await.expect_err("nothing listens");
    assert!(!store.exists());
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_paused_server_answers_after_it_is_resumed() {
    let server = NatsServer::start().await;
    let client = server.client().await;
    client.flush().await.unwrap();
    let context = jetstream::new(client);
    for _ in 0..20 {
        server.pause();
        timeout(BRIEF, context.query_account()).await.expect_err("nothing answers");
        server.resume();
        context.query_account().await.expect("the server answers");
    }
    // One that is paused twice is resumed once, and a paused one can be killed.
    server.pause();
    server.pause();
    server.resume();
    context.query_account().await.expect("the server answers");
    server.pause();
    server.kill();
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_configuration_holds() {
    let server = NatsServer::with_config("max_payload: 4096\njetstream { max_file_store: 1MB }").await;
    let client = server.client().await;
    assert_eq!(client.server_info().max_payload, 4096);
    let config = stream::Config {
        name: "Q".into(),
        subjects: vec!["q.>".into()],
        max_bytes: 2_000_000,
        ..Default::default()
    };
    jetstream::new(client).create_stream(config).await.expect_err("it is larger than the server's limit");
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn an_old_server_says_its_version() {
    let server = NatsServer::old().await;
    let client = server.client().await;
    let version = client.server_info().version;
    assert!(version.starts_with("2.10."), "{version}");
    assert!(!client.is_server_compatible(2, 11, 0));
    assert!(NatsServer::start().await.client().await.is_server_compatible(2, 11, 0));
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn tls_passwords_and_permissions_hold() {
    let server = NatsServer::with_tls_and_accounts(
        r#"
        accounts { FLEET {
            jetstream: enabled
            users: [
                { user: admin, password: "of-admin" }
                { user: caller, password: "of-caller"
                  permissions { publish: ["q.>"], subscribe: ["_INBOX_caller.>"] } }
            ]
        } }
        "#,
    )
    .await;
    let (events, mut received) = mpsc::unbounded_channel();
    let options = |user: &str, password: &str| {
        ConnectOptions::with_user_and_password(user.into(), password.into()).require_tls(true)
    };
    let trusted = |user: &str, password: &str| {
        options(user, password)
            .add_root_certificates(server.authority())
            .custom_inbox_prefix(format!("_INBOX_{user}"))
    };
    options("admin", "of-admin").connect(server.url()).await.expect_err("the authority is not trusted");
    trusted("admin", "wrong").connect(server.url()).await.expect_err("the password is wrong");

    let admin = trusted("admin", "of-admin").connect(server.url()).await.expect("the admin connects");
    let context = stream_on(admin, 1).await;
    let caller = trusted("caller", "of-caller").event_callback(move |event| {
        let _ = events.send(event);
        async {}
    });
    let caller = caller.connect(server.url()).await.expect("the caller connects");
    publish(&jetstream::new(caller.clone()), "allowed").await;
    assert_eq!(stored_messages(&context).await, 1);
    caller.publish("elsewhere", "denied".into()).await.unwrap();
    let denied = async {
        while let Some(event) = received.recv().await {
            if let Event::ServerError(error) = event {
                return error.to_string();
            }
        }
        panic!("the client has ended");
    };
    let denied = timeout(LONG, denied).await.expect("the server reports it");
    assert!(denied.to_lowercase().contains("permissions violation for publish to \"elsewhere\""), "{denied}");
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_cluster_elects_another_leader_and_loses_nothing() {
    let cluster = NatsCluster::start().await;
    assert_eq!(cluster.urls().len(), CLUSTER_SIZE);
    let context = stream_on(cluster.client().await, CLUSTER_SIZE).await;
    publish(&context, "before").await;
    let first = cluster.elected_leader_of("Q").await;
    assert_eq!(cluster.leader_of("no such stream").await, None);
    cluster.kill(first);
    let second = cluster.elected_leader_of("Q").await;
    assert_ne!(first, second);

    let others: Vec<String> =
        (0..CLUSTER_SIZE).filter(|index| *index != first).map(|index| cluster.server(index).url()).collect();
    let context = jetstream::new(async_nats::connect(others).await.expect("two servers accept clients"));
    publish(&context, "meanwhile").await;
    cluster.restart(first).await;
    assert_eq!(stored_messages(&context).await, 2);
    cluster.kill(second);
    let third = cluster.elected_leader_of("Q").await;
    assert_ne!(second, third);
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_client_comes_back_through_a_proxy_that_was_cut() {
    let server = NatsServer::start().await;
    let proxy = Proxy::in_front_of(server.address()).await;
    let (events, mut received) = mpsc::unbounded_channel();
    let options = ConnectOptions::new().event_callback(move |event| {
        let _ = events.send(event);
        async {}
    });
    let client = options.connect(proxy.url()).await.expect("the client connects");
    let context = stream_on(client.clone(), 1).await;
    publish(&context, "before").await;
    assert_eq!(proxy.connections(), 1);

    proxy.refuse().await;
    proxy.cut().await;
    let mut next = async |expected: Event| {
        while timeout(LONG, received.recv()).await.expect("an event").expect("a client") != expected {}
    };
    next(Event::Disconnected).await;
    assert_eq!(proxy.connections(), 0);
    proxy.admit().await;
    next(Event::Connected).await;
    publish(&context, "after").await;
    assert_eq!(stored_messages(&context).await, 2);
    assert!(client.server_info().connect_urls.is_empty());
}

/// Publishes the numbers from 1 on the subject. Returns what a client receives through a relay with these faults.
async fn relayed(subject: &'static str, count: u64, faults: Faults, expected: usize) -> (Vec<u64>, Counts) {
    let server = NatsServer::start().await;
    let relay = Relay::in_front_of(server.address(), "nexus.ev.").await;
    relay.set_faults(faults);
    let client = async_nats::connect(relay.url()).await.expect("the client connects");
    let subscriber = client.subscribe(subject).await.unwrap();
    client.flush().await.unwrap();
    // Past the relay, with headers on every other message.
    let sender = server.client().await;
    for number in 1..=count {
        let payload = number.to_string().into();
        if number % 2 == 0 {
            let mut headers = HeaderMap::new();
            headers.insert("Number", number.to_string());
            sender.publish_with_headers(subject, headers, payload).await.unwrap();
        } else {
            sender.publish(subject, payload).await.unwrap();
        }
    }
    sender.flush().await.unwrap();
    let numbers = received(subscriber, expected).await;
    assert!(relay.counts().others >= 2, "INFO and PONG pass");
    (numbers, Counts { others: 0, ..relay.counts() })
}

/// What is received: so many messages, and those that come soon after them.
async fn received(mut subscriber: Subscriber, expected: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Ok(Some(message)) =
        timeout(if numbers.len() < expected { LONG } else { SHORT }, subscriber.next()).await
    {
        let number = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        let header = message.headers.as_ref().and_then(|headers| headers.get("Number"));
        assert_eq!(
            header.map(|header| header.as_str().parse::<u64>().unwrap()),
            (number % 2 == 0).then_some(number)
        );
        numbers.push(number);
    }
    numbers
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_relay_without_faults_changes_nothing() {
    let (numbers, counts) = relayed("nexus.ev.a", 1_000, Faults::default(), 1_000).await;
    assert_eq!(numbers, (1..=1_000).collect::<Vec<_>>());
    assert_eq!(counts, Counts { matched: 1_000, ..Counts::default() });
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_relay_drops_every_third() {
    let (numbers, counts) = relayed("nexus.ev.a", 7, Faults { drop_every: 3, ..Faults::default() }, 5).await;
    assert_eq!(numbers, [1, 2, 4, 5, 7]);
    assert_eq!(counts, Counts { matched: 7, dropped: 2, ..Counts::default() });
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_relay_duplicates_every_second() {
    let (numbers, counts) =
        relayed("nexus.ev.a", 5, Faults { duplicate_every: 2, ..Faults::default() }, 7).await;
    assert_eq!(numbers, [1, 2, 2, 3, 4, 4, 5]);
    assert_eq!(counts, Counts { matched: 5, duplicated: 2, ..Counts::default() });
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_relay_swaps_every_third_with_the_next_and_keeps_the_last() {
    let (numbers, counts) = relayed("nexus.ev.a", 6, Faults { swap_every: 3, ..Faults::default() }, 6).await;
    assert_eq!(numbers, [1, 2, 4, 3, 5, 6]);
    assert_eq!(counts, Counts { matched: 6, swapped: 1, ..Counts::default() });
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_relay_leaves_other_subjects_alone() {
    let faults = Faults { drop_every: 1, duplicate_every: 1, swap_every: 1 };
    let (numbers, counts) = relayed("nexus.tool.a", 5, faults, 5).await;
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(counts, Counts::default());
}
