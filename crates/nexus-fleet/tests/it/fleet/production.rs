//! What `docs/guide/fleet.md` tells those who run it: servers with exactly its configuration, and its users.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{Client, ConnectOptions, Event, HeaderMap};
use nexus_core::{
    BackendId, BuildContext, CancelToken, ConversationMode, CredentialSource, ErrorKind, ExecutionBackend,
    Limits, NullSink, Registry, Tool, Toolbox, TurnHost, TurnRequest,
};
use nexus_fleet::{
    Fleet, FleetBackend, FleetCredentials, FleetHoldStore, FleetKey, FleetPools, FleetSettings, LoginOwner,
    Worker, WorkerSettings,
};
use nexus_router::{
    Router,
    hold::{HoldStore as _, Slot},
};
use nexus_testkit::{
    nats::{NatsServer, free_port, write_identity},
    sim::{Reply, Scenario, ToolCall},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

use super::{
    holds::{hold_because, turn, until},
    python_client::reference,
    shared_login::Vault,
};
use crate::support::remote::WorkerThread;

const DOCUMENT: &str = include_str!("../../../../../docs/guide/fleet.md");
const POOL: &str = "builders";
/// Within which a refusal has to be told.
const SECONDS: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

/// The configuration of the document, without a word changed but its placeholders.
fn configuration(places: &[(&str, &str)]) -> String {
    let (_, rest) = DOCUMENT.split_once("```conf\n").expect("a configuration");
    let (text, rest) = rest.split_once("```").expect("its end");
    assert!(!rest.contains("```conf"), "there is one");
    let mut text = text.to_owned();
    for (name, value) in places {
        assert!(text.contains(name), "{name} is in the configuration");
        assert!(
            DOCUMENT.contains(&format!("`{name}`")) || name.starts_with("<password of "),
            "{name} is explained"
        );
        text = text.replace(name, value);
    }
    let left = text.lines().find(|line| !line.trim_start().starts_with('#') && line.contains('<'));
    assert_eq!(left, None, "a placeholder is left");
    text
}

/// The servers of the document.
struct Production {
    servers: Vec<NatsServer>,
    certificates: TempDir,
    /// Files with passwords.
    secrets: TempDir,
    login_owner: LoginOwner,
}

impl Production {
    /// Starts them.
    async fn start(trace: bool) -> Self {
        let certificates = tempfile::tempdir().expect("a folder");
        write_identity(certificates.path()).expect("a certificate");
        let routes: Vec<_> = (0..3).map(|_| free_port()).collect();
        let nodes: Vec<_> = routes.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let servers: Vec<_> = (0..3)
            .map(|index| {
                let name = format!("n{}", index + 1);
                let mut server = NatsServer::of_file(&name, |port, monitoring, store| {
                    configuration(&[
                        ("<name>", &name),
                        ("<address>", "127.0.0.1"),
                        ("<port>", &port.to_string()),
                        ("<cluster-port>", &routes[index].to_string()),
                        ("<monitor-port>", &monitoring.to_string()),
                        ("<certificates>", &certificates.path().display().to_string()),
                        ("<store>", &store.display().to_string()),
                        ("<n1>", &nodes[0]),
                        ("<n2>", &nodes[1]),
                        ("<n3>", &nodes[2]),
                        ("<password of admin>", "of-admin"),
                        ("<password of alice>", "of-alice"),
                        ("<password of builders>", "of-builders"),
                        ("<password of system>", "of-system"),
                    ])
                });
                if trace {
                    server.add_arguments(["-V".into()]);
                }
                server.launch();
                server
            })
            .collect();
        for server in &servers {
            server.ready().await;
        }
        let secrets = tempfile::tempdir().expect("a folder");
        for user in ["admin", "alice", "builders"] {
            std::fs::write(secrets.path().join(user), format!("of-{user}\n")).expect("a password");
        }
        let keys =
            ["owner.key", "borrower.key"].map(|name| FleetKey::read_or_make(&secrets.path().join(name)));
        let [owner, borrower] = keys.map(|key| key.expect("a key").public().to_owned());
        let login_owner = LoginOwner {
            pool: POOL.to_owned(),
            worker: "w1".to_owned(),
            key: owner,
            shared_with: vec![borrower],
            ..LoginOwner::default()
        };
        let production = Self { servers, certificates, secrets, login_owner };
        let admin = Fleet::new(FleetSettings { replicas: Some(3), ..production.settings("admin", "admin") });
        let admin = admin.expect("a thread");
        let began = Instant::now();
        while let Err(error) = admin.set_up(&[POOL]).await {
            assert!(began.elapsed() < LONG, "the streams are not made: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        production
    }

    fn authority(&self) -> std::path::PathBuf {
        self.certificates.path().join("authority.pem")
    }

    /// Settings of one who calls itself `name`, as `user`.
    fn settings(&self, user: &str, name: &str) -> FleetSettings {
        FleetSettings {
            servers: self.servers.iter().map(NatsServer::url).collect(),
            name: Some(name.to_owned()),
            credentials: Some(FleetCredentials::Password {
                user: user.to_owned(),
                file: self.secrets.path().join(user),
            }),
            ca_file: Some(self.authority()),
            worker: WorkerSettings { name: Some("w1".to_owned()), ..WorkerSettings::default() },
            login_owner: [("codex".to_owned(), self.login_owner.clone())].into(),
            key_file: Some(self.secrets.path().join("owner.key")),
            ..FleetSettings::default()
        }
    }

    /// What lends the login at another machine of this user's.
    fn borrower(&self, user: &str) -> Arc<dyn CredentialSource> {
        let key_file = Some(self.secrets.path().join("borrower.key"));
        let fleet = Fleet::new(FleetSettings { key_file, ..self.settings(user, user) }).expect("a thread");
        fleet.shared_logins().remove("codex").expect("it is another's")
    }

    /// A backend of `pool`, asked by `user` who calls itself `name`.
    fn backend(&self, user: &str, name: &str, pool: &str) -> (FleetBackend, TempDir) {
        let (local, home) = reference(Scenario::text("it ran here"));
        let fleet = Fleet::new(self.settings(user, name)).expect("a thread");
        (FleetBackend::new(local, pool, fleet), home)
    }

    async fn worker(&self, script: Scenario) -> (WorkerThread, TempDir) {
        let (backend, home) = reference(script);
        let (settings, context) = (self.settings("builders", "builders"), BuildContext::in_home(home.path()));
        let builder = Router::builder(Registry::new(), context).backend(backend);
        let login: Arc<dyn CredentialSource> = Arc::new(Vault::default());
        let start = move || WorkerThread::start_lending(settings, POOL, builder, vec![("codex", login)]);
        (tokio::task::spawn_blocking(start).await.expect("a worker"), home)
    }

    /// A client of `user`, and the errors that the servers report to it.
    async fn client(&self, user: &str) -> (Client, mpsc::UnboundedReceiver<String>) {
        let (sender, errors) = mpsc::unbounded_channel();
        let client = ConnectOptions::with_user_and_password(user.to_owned(), format!("of-{user}"))
            .add_root_certificates(self.authority())
            .require_tls(true)
            .custom_inbox_prefix(format!("_INBOX_{user}"))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    let _ = sender.send(error.to_string());
                }
                async {}
            });
        (client.connect(self.servers[0].url()).await.expect("the user connects"), errors)
    }

    /// What the servers refused, as they log it.
    fn violations(&self) -> BTreeSet<String> {
        let lines = |server: &NatsServer| server.log().lines().map(str::to_owned).collect::<Vec<_>>();
        let violations = self.servers.iter().flat_map(lines).filter(|line| line.contains("Violation"));
        violations.map(|line| line.split(" - ").skip(2).collect::<Vec<_>>().join(" - ")).collect()
    }

    async fn waiting(&self) -> u64 {
        let (admin, _) = self.client("admin").await;
        let stream = async_nats::jetstream::new(admin).get_stream(format!("NEXUS_QUEUE_{POOL}")).await;
        stream.expect("the queue").cached_info().state.messages
    }
}

impl Drop for Production {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("refused: {:#?}", self.violations());
        }
    }
}

async fn stop(worker: WorkerThread) {
    tokio::task::spawn_blocking(move || drop(worker)).await.expect("the worker ends");
}

fn host(answer: String) -> TurnHost {
    let schema = json!({ "type": "object", "properties": { "place": { "type": "string" } } });
    let weather = Tool::with_schema("weather", "The weather of a place.", schema, move |_| {
        let answer = answer.clone();
        async move { answer }
    });
    TurnHost::new().with_tools(Arc::new(Toolbox::new().with(weather.read_only())))
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn the_documented_servers_and_users_run_turns_and_no_line_is_for_nothing() {
    let production = Production::start(true).await;
    // Beyond 1 MB the server asks whoever reads an object to say that it keeps up.
    let large = "x".repeat(1_500_000);
    let call = ToolCall::function("weather", json!({ "place": "Turku" }));
    let script = Scenario::new([Reply::call(call), Reply::text(&large), Reply::text("And again.")]);
    // The second one of the same name finds the mark that the first one left.
    let (worker, _first_home) = production.worker(script.clone()).await;
    stop(worker).await;
    let (worker, _home) = production.worker(script).await;
    let (backend, _local_home) = production.backend("alice", "alice", POOL);
    let availability = backend.probe().await;
    assert!(availability.is_ready(), "{availability:?}");

    let request = TurnRequest::new(&large).with_conversation(ConversationMode::Keep);
    let result = backend.run_turn(request, host(large.clone()), &mut NullSink).await.expect("a result");
    assert!(result.text == large, "{} bytes", result.text.len());
    let handle = result.resume.expect("a handle");
    let request = TurnRequest::new("again").with_conversation(ConversationMode::resume(handle));
    let result = backend.run_turn(request, host(large), &mut NullSink).await.expect("a result");
    assert_eq!(result.text, "And again.");
    backend.forget(&result.resume.expect("a handle")).await.expect("it is forgotten");

    share_holds(&production).await;
    let lent = production.borrower("builders").credential(SECONDS).await;
    assert!(lent.unwrap_or_else(|error| panic!("{error}")).expires_at.is_some());

    // What is needed only where something went wrong.
    let (alice, mut errors) = production.client("alice").await;
    for subject in [
        "$JS.API.DIRECT.GET.NEXUS_RESULTS.nexus.result.alice.t.result",
        "$JS.API.DIRECT.GET.NEXUS_STARTED.nexus.started.alice.t",
        "nexus.started.alice.t",
    ] {
        alice.request(subject, "".into()).await.unwrap_or_else(|error| panic!("{subject}: {error}"));
    }
    let (builders, mut others) = production.client("builders").await;
    let key = "$JS.API.DIRECT.GET.NEXUS_STARTED.nexus.started.alice.t";
    builders.request(key, "".into()).await.expect("a started key");
    assert!(errors.try_recv().is_err() && others.try_recv().is_err());
    stop(worker).await;
    drop(backend);
    assert_eq!(production.violations(), BTreeSet::new());

    let used = used(&production);
    for (user, permissions) in [("alice", "alice_may"), ("builders", "builders_may")] {
        let unused: Vec<_> = permitted(permissions)
            .into_iter()
            .filter(|permission| !used[user].iter().any(|subject| includes(permission, subject)))
            .collect();
        assert_eq!(unused, Vec::<String>::new(), "permissions of {user} that nothing needs");
    }
}

/// What a program of each user does with the holds and slots of all, and hears of the other's.
async fn share_holds(production: &Production) {
    let stores = ["alice", "builders"]
        .map(|user| FleetHoldStore::new(&Fleet::new(production.settings(user, user)).expect("a thread")));
    let alpha = BackendId::from("alpha");
    for store in &stores {
        assert_eq!(store.list().await.expect("the holds"), []);
        assert!(store.known().is_empty());
    }
    for (index, (one, other)) in [(&stores[0], &stores[1]), (&stores[1], &stores[0])].into_iter().enumerate()
    {
        let reason = format!("slow down, {index}");
        assert!(one.swap(&alpha, None, Some(hold_because("alpha", &reason))).await.expect("it is armed"));
        until("the other knows the hold", SECONDS, || other.known().iter().any(|hold| hold.reason == reason))
            .await;
        let held = other.get(&alpha).await.expect("an answer").expect("a hold");
        assert_eq!(other.list().await.expect("the holds"), std::slice::from_ref(&held));

        let probe = one.claim(&Slot::Probe(alpha.clone())).await.expect("an answer").expect("it is free");
        until("the other knows the probe", SECONDS, || other.known().iter().any(|hold| hold.probing)).await;
        drop(probe);
        until("the probe is over", SECONDS, || other.known().iter().all(|hold| !hold.probing)).await;
        let taken = one.claim(&turn("alpha", 0)).await.expect("an answer").expect("it is free");
        assert!(other.claim(&turn("alpha", 0)).await.expect("an answer").is_none());
        drop(taken);
        one.settle().await;
        assert!(other.claim(&turn("alpha", 0)).await.expect("an answer").is_some());
        other.settle().await;

        assert!(other.swap(&alpha, Some(held.revision), None).await.expect("it is let go"));
        until("its end is known", SECONDS, || one.known().is_empty()).await;
        assert_eq!(one.list().await.expect("the holds"), []);
    }
}

/// The subjects that each user published on or subscribed to, as the servers trace it.
fn used(production: &Production) -> BTreeMap<String, BTreeSet<String>> {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for server in &production.servers {
        for line in server.log().lines() {
            let Some((head, what)) = line.split_once("<<- [") else { continue };
            let Some((_, user)) = head.split_once("\"FLEET/user:") else { continue };
            let user = user.split('"').next().unwrap_or_default().to_owned();
            let mut words = what.trim_end_matches(']').split(' ');
            if let (Some("PUB" | "HPUB" | "SUB"), Some(subject)) = (words.next(), words.next()) {
                used.entry(user).or_default().insert(subject.to_owned());
            }
        }
    }
    used
}

/// The subjects within a block of permissions.
fn permitted(block: &str) -> Vec<String> {
    let (_, rest) = DOCUMENT.split_once(&format!("\n{block} {{\n")).expect("the block");
    let (block, _) = rest.split_once("\n}\n").expect("its end");
    let lines = block.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
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

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_caller_who_takes_the_name_of_another_is_refused_and_nothing_is_run() {
    let production = Production::start(false).await;
    let (worker, _home) = production.worker(Scenario::text("it ran")).await;
    for (name, pool, subject) in [
        ("bob", POOL, "nexus.event.bob.".to_owned()),
        ("alice", "testers", "nexus.queue.testers.normal.alice".to_owned()),
    ] {
        let (backend, _local_home) = production.backend("alice", name, pool);
        let began = Instant::now();
        let error =
            backend.run_turn(TurnRequest::new("hello"), TurnHost::new(), &mut NullSink).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        assert!(error.message().is_some_and(|message| message.contains(&subject)), "{error:?}");
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    }
    assert_eq!(production.waiting().await, 0);
    let (backend, _local_home) = production.backend("alice", "alice", POOL);
    let result =
        backend.run_turn(TurnRequest::new("hello"), TurnHost::new(), &mut NullSink).await.expect("a result");
    assert_eq!(result.text, "it ran");
    stop(worker).await;
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn who_may_not_ask_the_owner_of_a_login_is_told_so_at_once() {
    let production = Production::start(false).await;
    let (worker, _home) = production.worker(Scenario::text("it ran")).await;
    let began = Instant::now();
    let error = production.borrower("alice").credential(SECONDS).await.unwrap_err().to_string();
    assert!(error.contains("may not use nexus.login.builders.w1"), "{error}");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    stop(worker).await;
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn nobody_may_do_what_is_anothers() {
    let production = Production::start(false).await;
    for (user, subject) in [
        ("alice", "nexus.queue.builders.normal.bob"),
        ("alice", "nexus.queue.testers.normal.alice"),
        ("alice", "nexus.started.bob.t"),
        ("alice", "nexus.event.alice.i.t"),
        ("alice", "nexus.result.alice.t.result"),
        ("alice", "$KV.NEXUS_WORKERS.builders.w2"),
        ("alice", "$JS.API.DIRECT.GET.NEXUS_RESULTS.nexus.result.bob.t.result"),
        ("alice", "$JS.API.CONSUMER.MSG.NEXT.NEXUS_QUEUE_builders.normal"),
        ("alice", "$JS.API.STREAM.DELETE.NEXUS_QUEUE_builders"),
        ("alice", "$JS.API.STREAM.MSG.DELETE.NEXUS_QUEUE_builders"),
        ("alice", "$JS.API.STREAM.PURGE.KV_NEXUS_HOLDS"),
        ("alice", "$JS.API.CONSUMER.DELETE.KV_NEXUS_HOLDS.c"),
        ("builders", "nexus.queue.builders.normal.alice"),
        ("builders", "$JS.API.CONSUMER.MSG.NEXT.NEXUS_QUEUE_testers.normal"),
        ("builders", "$JS.API.CONSUMER.CREATE.NEXUS_QUEUE_testers.at-w1.nexus.queue.testers.at-w1.*"),
        ("builders", "$KV.NEXUS_WORKERS.testers.w1"),
        ("alice", "nexus.login.builders.w1"),
        ("builders", "nexus.login.testers.w1"),
        ("builders", "$JS.API.STREAM.CREATE.NEXUS_QUEUE_testers"),
        ("builders", "$JS.API.STREAM.PURGE.NEXUS_RESULTS"),
    ] {
        let (client, mut errors) = production.client(user).await;
        client.publish(subject, "{}".into()).await.expect("the client takes it");
        let error = timeout(LONG, errors.recv()).await.unwrap_or_else(|_| panic!("{user} may use {subject}"));
        let wanted = format!("Permissions Violation for Publish to \"{subject}\"");
        let error = error.expect("the client runs");
        assert!(error.to_lowercase().contains(&wanted.to_lowercase()), "{error}");
    }
    for (user, subject) in [
        ("alice", "nexus.event.bob.i.t"),
        ("alice", "_INBOX_builders.x"),
        ("alice", "nexus.queue.>"),
        ("alice", "nexus.control.builders.w1"),
        ("alice", "nexus.login.builders.w1"),
        ("builders", "nexus.login.testers.w1"),
        ("builders", "nexus.event.alice.i.t"),
        ("builders", "nexus.control.testers.w1"),
    ] {
        let (client, mut errors) = production.client(user).await;
        let _subscription = client.subscribe(subject).await.expect("the client takes it");
        let error = timeout(LONG, errors.recv()).await.unwrap_or_else(|_| panic!("{user} hears {subject}"));
        assert!(error.expect("the client runs").contains("Subscription"));
    }
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_worker_of_another_pool_takes_nothing() {
    let production = Production::start(false).await;
    let (admin, _) = production.client("admin").await;
    let admin_fleet =
        Fleet::new(FleetSettings { replicas: Some(3), ..production.settings("admin", "admin") });
    admin_fleet.expect("a thread").set_up(&["testers"]).await.expect("a second pool");
    let mut headers = HeaderMap::new();
    headers.insert("Nats-TTL", "60");
    let context = async_nats::jetstream::new(admin);
    let waiting = context.publish_with_headers("nexus.queue.testers.normal.bob", headers, "{}".into());
    waiting.await.expect("it is sent").await.expect("it waits");
    let (backend, home) = reference(Scenario::text("it ran"));
    let router = Router::builder(Registry::new(), BuildContext::in_home(home.path())).backend(backend);
    let router = router.from_value(json!({})).expect("a router");
    let worker = Worker::connect(production.settings("builders", "builders"), "testers", router).await;
    let began = Instant::now();
    let ran = worker.expect("it connects").run(CancelToken::new(), |_| panic!("it takes turns")).await;
    let error = ran.expect_err("it may not").to_string();
    assert!(error.contains("NEXUS_QUEUE_testers") && began.elapsed() < LONG, "{error}");
    let state = context.get_stream("NEXUS_QUEUE_testers").await.expect("the queue");
    assert_eq!(state.cached_info().state.messages, 1);
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_turn_that_waits_is_taken_back_by_its_caller() {
    let production = Production::start(false).await;
    let (backend, _local_home) = production.backend("alice", "alice", POOL);
    let limits = Limits::new().with_deadline(Duration::from_secs(1));
    let request = TurnRequest::new("hello").with_limits(limits);
    let error = backend.run_turn(request, TurnHost::new(), &mut NullSink).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(_)), "{error}");
    assert_eq!(error.partial().effects, nexus_core::Effects::None);
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn holds_are_heard_of_whichever_server_was_lost_and_nobody_needs_to_delete_a_consumer() {
    let production = Production::start(false).await;
    let stores = ["alice", "builders"]
        .map(|user| FleetHoldStore::new(&Fleet::new(production.settings(user, user)).expect("a thread")));
    let alpha = BackendId::from("alpha");
    for store in &stores {
        assert_eq!(store.list().await.expect("the holds"), []);
    }
    for (index, server) in production.servers.iter().enumerate() {
        server.kill();
        let reason = format!("without n{}", index + 1);
        let began = Instant::now();
        loop {
            let revision = match stores[0].get(&alpha).await {
                Ok(stored) => stored.map(|stored| stored.revision),
                Err(error) => {
                    assert!(began.elapsed() < LONG, "{error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let hold = hold_because("alpha", &reason);
            if let Ok(true) = stores[0].swap(&alpha, revision, Some(hold)).await {
                break;
            }
            assert!(began.elapsed() < LONG, "it cannot be armed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        until("the other knows the hold", LONG, || {
            stores[1].known().iter().any(|hold| hold.reason == reason)
        })
        .await;
        server.restart().await;
    }
    assert_eq!(production.violations(), BTreeSet::new());
}

#[test]
fn the_documented_files_of_callers_and_workers_are_taken() {
    let blocks: Vec<_> =
        DOCUMENT.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let registry = nexus_backends::registry().with_pools(Arc::new(FleetPools::new()));
        let router = Router::from_str(block, registry, BuildContext::in_home("home"));
        router.unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}

#[test]
fn patterns_include_what_the_server_says() {
    assert!(includes("a.*.c", "a.b.c") && includes("a.>", "a.b.c") && includes("a", "a"));
    assert!(!includes("a.>", "a") && !includes("a.*", "a.b.c") && !includes("a.*.c", "a.b.d"));
    assert!(permitted("alice_may").iter().any(|subject| subject == "_INBOX_alice.>"));
}
