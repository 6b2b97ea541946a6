//! What `docs/guide/broker.md` tells those who run a fleet: a user of brokers, beside those of `docs/guide/fleet.md`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{Client, ConnectOptions, Event};
use async_trait::async_trait;
use nexus_broker::{BrokerStore, DocumentKind, ExpectedRevision, JetStreamStore, QueueLimits};
use nexus_core::{Clock, SystemClock};
use nexus_fleet::{Fleet, FleetCredentials, FleetSettings};
use nexus_testkit::nats::{NatsServer, free_port, write_identity};
use serde_json::json;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

use super::{
    jetstream::{overwrite, put_subject},
    kit::{Hands, PATIENCE, Place, drain, id, message, take},
    suite::suite,
};

const FLEET: &str = include_str!("../../../../../docs/guide/fleet.md");
const BROKER: &str = include_str!("../../../../../docs/guide/broker.md");
const USERS: [&str; 5] = ["admin", "alice", "builders", "brokers", "system"];
/// Within which a refusal has to be told.
const SECONDS: Duration = Duration::from_secs(60);

/// The block of a document that begins with these words.
fn block<'d>(document: &'d str, fence: &str) -> &'d str {
    let (_, rest) = document.split_once(&format!("```{fence}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

/// The lines that a broker's user has beside those of a caller.
fn lines() -> &'static str {
    block(BROKER, "conf")
}

/// The configuration of the fleet with the user of brokers, as `docs/guide/broker.md` says.
fn configuration() -> String {
    let text = block(FLEET, "conf");
    let (_, rest) = text.split_once("\nalice_may {\n").expect("the lines of a caller");
    let (alice, _) = rest.split_once("\n}\n").expect("their end");
    let publish = "  publish: [\n";
    assert!(alice.contains(publish));
    let brokers = alice.replace("alice", "brokers").replace(publish, &format!("{publish}{}", lines()));
    let (before, after) = text.split_once("\naccounts {\n").expect("the accounts");
    let user = |name: &str| {
        let mut lines = after.lines().filter(|line| line.contains(&format!("{{ user: \"{name}\"")));
        lines.next().expect("a user").to_owned()
    };
    let accounts = after.replace(
        &user("alice"),
        &format!("{}\n{}", user("alice"), user("alice").replace("alice", "brokers")),
    );
    let mut text = format!("{before}\nbrokers_may {{\n{brokers}\n}}\n\naccounts {{\n{accounts}");
    for user in USERS {
        let placeholder = format!("<password of {user}>");
        assert!(text.contains(&placeholder), "{placeholder}");
        text = text.replace(&placeholder, &format!("of-{user}"));
    }
    text
}

/// Files with the passwords of users.
fn passwords() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for user in USERS {
        std::fs::write(folder.path().join(user), format!("of-{user}\n")).unwrap();
    }
    folder
}

fn fleet(servers: &[NatsServer], authority: PathBuf, passwords: &Path, user: &str, replicas: usize) -> Fleet {
    let file = passwords.join(user);
    let settings = FleetSettings {
        servers: servers.iter().map(NatsServer::url).collect(),
        name: Some(user.to_owned()),
        credentials: Some(FleetCredentials::Password { user: user.to_owned(), file }),
        ca_file: Some(authority),
        replicas: Some(replicas),
        ..FleetSettings::default()
    };
    Fleet::new(settings).unwrap()
}

/// A client of a user, and the errors that the servers report to it.
async fn client(
    server: &NatsServer,
    authority: PathBuf,
    user: &str,
) -> (Client, mpsc::UnboundedReceiver<String>) {
    let (sender, errors) = mpsc::unbounded_channel();
    let client = ConnectOptions::with_user_and_password(user.to_owned(), format!("of-{user}"))
        .add_root_certificates(authority)
        .require_tls(true)
        .custom_inbox_prefix(format!("_INBOX_{user}"))
        .event_callback(move |event| {
            if let Event::ServerError(error) = event {
                let _ = sender.send(error.to_string());
            }
            async {}
        });
    (client.connect(server.url()).await.expect("the user connects"), errors)
}

/// One server with the accounts, users and permissions of the documents.
struct Narrow {
    servers: [NatsServer; 1],
    passwords: TempDir,
}

impl Narrow {
    async fn start() -> Self {
        let text = configuration();
        let (_, users) = text.split_once("\nalice_may {").expect("the permissions");
        let server = NatsServer::with_tls_and_accounts(&format!("alice_may {{{users}")).await;
        let narrow = Self { servers: [server], passwords: passwords() };
        // The stream is made by the one who may.
        narrow.open_as("admin", QueueLimits::default(), Arc::new(SystemClock)).await;
        narrow
    }

    fn server(&self) -> &NatsServer {
        &self.servers[0]
    }

    async fn open_as(&self, user: &str, limits: QueueLimits, clock: Arc<dyn Clock>) -> JetStreamStore {
        let fleet = fleet(&self.servers, self.server().authority(), self.passwords.path(), user, 1);
        let opened = JetStreamStore::open(&fleet, limits, clock).await;
        opened.unwrap_or_else(|error| panic!("{error}\n{}", self.server().log()))
    }

    async fn client(&self, user: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
        client(self.server(), self.server().authority(), user).await
    }
}

#[async_trait]
impl Place for Narrow {
    async fn open(&self, limits: QueueLimits, clock: Arc<dyn Clock>) -> Arc<dyn BrokerStore> {
        Arc::new(self.open_as("brokers", limits, clock).await)
    }

    async fn overwrite_message(&self, id: &str, text: &str) {
        overwrite(self.client("admin").await.0, &put_subject(id), text).await;
    }

    async fn overwrite_agent(&self, key: &str, text: &str) {
        let subject = format!("nexus.broker.document.agent.{key}");
        overwrite(self.client("admin").await.0, &subject, text).await;
    }
}

suite!(Narrow::start().await, #[ignore = "needs a real nats-server"]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn callers_and_workers_reach_nothing_of_the_brokers_and_brokers_nothing_of_the_stream_itself() {
    let narrow = Narrow::start().await;
    let clock = Hands::new();
    let store = narrow.open(QueueLimits::default(), clock.clone()).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let mut refused: Vec<(&str, String)> = Vec::new();
    for user in ["alice", "builders"] {
        for subject in [
            put_subject("x"),
            put_subject("x").replace(".put.", ".state."),
            "nexus.broker.document.agent.a".to_owned(),
            "$JS.API.STREAM.INFO.NEXUS_BROKER".to_owned(),
            "$JS.API.STREAM.MSG.GET.NEXUS_BROKER".to_owned(),
            "$JS.API.STREAM.MSG.DELETE.NEXUS_BROKER".to_owned(),
            format!("$JS.API.DIRECT.GET.NEXUS_BROKER.{}", put_subject("m")),
            "$JS.API.CONSUMER.CREATE.NEXUS_BROKER".to_owned(),
            "$JS.API.CONSUMER.CREATE.NEXUS_BROKER.c".to_owned(),
            "$JS.API.CONSUMER.CREATE.NEXUS_BROKER.c.nexus.broker.>".to_owned(),
            "$JS.API.CONSUMER.DURABLE.CREATE.NEXUS_BROKER.c".to_owned(),
            "$JS.API.CONSUMER.MSG.NEXT.NEXUS_BROKER.c".to_owned(),
        ] {
            refused.push((user, subject));
        }
    }
    for user in ["alice", "builders", "brokers"] {
        for request in ["STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.SNAPSHOT"]
        {
            refused.push((user, format!("$JS.API.{request}.NEXUS_BROKER")));
        }
    }
    // Another inbox: answers to others are not the broker's.
    refused.push(("brokers", "nexus.queue.builders.normal.alice".to_owned()));
    refused.push(("brokers", "nexus.started.alice.t".to_owned()));
    for (user, subject) in refused {
        let (client, mut errors) = narrow.client(user).await;
        client.publish(subject.clone(), "{}".into()).await.expect("the client takes it");
        let error = timeout(SECONDS, errors.recv()).await;
        let error = error.unwrap_or_else(|_| panic!("{user} may use {subject}")).expect("the client runs");
        let wanted = format!("permissions violation for publish to \"{subject}\"").to_lowercase();
        assert!(error.to_lowercase().contains(&wanted), "{user}, {subject}: {error}");
    }
    for (user, subject) in [
        ("alice", "nexus.broker.>"),
        ("alice", "nexus.broker.put.*"),
        ("alice", "_INBOX_brokers.>"),
        ("builders", "nexus.broker.>"),
        ("builders", "_INBOX_brokers.>"),
        ("brokers", "nexus.broker.>"),
        ("brokers", "_INBOX_alice.>"),
    ] {
        let (client, mut errors) = narrow.client(user).await;
        let _subscription = client.subscribe(subject).await.expect("the client takes it");
        let error = timeout(SECONDS, errors.recv()).await;
        let error = error.unwrap_or_else(|_| panic!("{user} hears {subject}")).expect("the client runs");
        assert!(error.contains("Subscription"), "{user}, {subject}: {error}");
    }
    // A caller that is told to be a broker is told what it may not, at once.
    let began = Instant::now();
    let caller = fleet(&narrow.servers, narrow.server().authority(), narrow.passwords.path(), "alice", 1);
    let error = JetStreamStore::open(&caller, QueueLimits::default(), clock.clone()).await.unwrap_err();
    assert!(error.message.contains("NEXUS_BROKER"), "{error}");
    assert!(began.elapsed() < SECONDS, "{:?}", began.elapsed());
    assert_eq!(drain(&*store, "q").await, ["m"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn the_documented_servers_carry_brokers_and_no_line_is_for_nothing() {
    let certificates = tempfile::tempdir().unwrap();
    write_identity(certificates.path()).unwrap();
    let routes: Vec<_> = (0..3).map(|_| free_port()).collect();
    let servers: Vec<_> = (1..=3)
        .map(|index| {
            let mut server = NatsServer::of_file(&format!("n{index}"), |port, monitoring, store| {
                let mut text = configuration();
                for (name, value) in [
                    ("<name>", format!("n{index}")),
                    ("<address>", "127.0.0.1".to_owned()),
                    ("<port>", port.to_string()),
                    ("<cluster-port>", routes[index - 1].to_string()),
                    ("<monitor-port>", monitoring.to_string()),
                    ("<certificates>", certificates.path().display().to_string()),
                    ("<store>", store.display().to_string()),
                    ("<n1>", format!("127.0.0.1:{}", routes[0])),
                    ("<n2>", format!("127.0.0.1:{}", routes[1])),
                    ("<n3>", format!("127.0.0.1:{}", routes[2])),
                ] {
                    text = text.replace(name, &value);
                }
                text
            });
            server.add_arguments(["-V".into()]);
            server.launch();
            server
        })
        .collect();
    for server in &servers {
        server.ready().await;
    }
    let (authority, passwords) = (certificates.path().join("authority.pem"), passwords());
    let fleet = |user: &str| fleet(&servers, authority.clone(), passwords.path(), user, 3);
    let clock = Hands::new();
    let admin = fleet("admin");
    let began = Instant::now();
    while let Err(error) = JetStreamStore::open(&admin, QueueLimits::default(), clock.clone()).await {
        assert!(began.elapsed() < PATIENCE, "the stream is not made: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut hour = QueueLimits::default();
    hour.remembered_for = Duration::from_secs(3_600);
    let brokers = fleet("brokers");
    let store = JetStreamStore::open(&brokers, hour, clock.clone()).await.unwrap();
    for name in ["m", "n"] {
        store.put("q", &message(name, &*clock)).await.unwrap();
    }
    let held = take(&store, "q").await.unwrap();
    store.finish(&held.lease, &[("answers".to_owned(), message("answer", &*clock))]).await.unwrap();
    assert_eq!(drain(&store, "answers").await, ["answer"]);
    store.write(DocumentKind::Agent, "a", ExpectedRevision::Absent, &json!({})).await.unwrap();
    assert_eq!(store.documents(DocumentKind::Agent).await.unwrap().len(), 1);
    store.delete(DocumentKind::Agent, "a", ExpectedRevision::Anything).await.unwrap();
    assert_eq!(store.log(0, 10).await.unwrap().len(), 3);
    // What was handled long ago is deleted with what is put.
    clock.turn(2 * 3_600_000);
    store.put("q", &message("o", &*clock)).await.unwrap();
    assert_eq!(drain(&store, "q").await, ["n", "o"]);
    let other = JetStreamStore::open(&brokers, hour, clock.clone()).await.unwrap();
    assert_eq!(id(&other.log(0, 1).await.unwrap()[0].envelope), "n");
    let (admin_client, _) = client(&servers[0], authority.clone(), "admin").await;
    let stream = async_nats::jetstream::new(admin_client).get_stream("NEXUS_BROKER").await.unwrap();
    assert_eq!(stream.cached_info().config.num_replicas, 3);

    let permitted: Vec<_> = lines()
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .collect();
    assert!(permitted.len() > 5, "{permitted:?}");
    // What follows the stream looks after itself from time to time.
    let began = Instant::now();
    loop {
        let logs: String = servers.iter().map(NatsServer::log).collect();
        let violations: Vec<_> = logs.lines().filter(|line| line.contains("Violation")).collect();
        assert!(violations.is_empty(), "{violations:#?}");
        let used = used(&logs);
        let unused: Vec<_> =
            permitted.iter().filter(|line| !used.iter().any(|subject| includes(line, subject))).collect();
        if unused.is_empty() {
            break;
        }
        assert!(began.elapsed() < SECONDS, "lines that nothing needs: {unused:?}\nused: {used:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The subjects that brokers published on, as the servers log it.
fn used(logs: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for line in logs.lines().filter(|line| line.contains("\"FLEET/user:brokers\"")) {
        let Some((_, what)) = line.split_once("<<- [") else { continue };
        let mut words = what.trim_end_matches(']').split(' ');
        if let (Some("PUB" | "HPUB"), Some(subject)) = (words.next(), words.next()) {
            used.insert(subject.to_owned());
        }
    }
    used
}

/// Whether a pattern includes a subject.
fn includes(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(wanted), Some(token)) if wanted == "*" || wanted == token => {}
            _ => return false,
        }
    }
}
