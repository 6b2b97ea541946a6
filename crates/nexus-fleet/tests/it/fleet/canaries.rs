//! No secret is in any message, bucket, object or log: turns of every kind, by programs that hold secrets, and then every file that
//! the server stored and every line that anybody logged is searched for them. Values that are known to be there are found.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_nats::jetstream;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use nexus_backends::generic::Responses;
use nexus_core::{
    BackendId, BackendKind as _, BuildContext, CancelToken, ExecutionBackend, NullSink, Registry, Tool,
    Toolbox, TurnHost, TurnRequest,
};
use nexus_fleet::{Fleet, FleetBackend, FleetCredentials, FleetSettings, Worker};
use nexus_router::Router;
use nexus_testkit::{
    child_test,
    nats::{NATS_PROGRAM, NatsServer, program},
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    checkout::Checkout,
    shell::{POOL, caller_settings, script, shell, worker_settings},
};
/// What nobody may ever say. Passwords hold what JSON escapes.
const SECRETS: [(&str, &str); 6] = [
    ("the caller's password", "pw-caller-Zq81\"\\xJ4mWv"),
    ("the worker's password", "pw-worker-Lk27\"\\yT9nRs"),
    ("the worker's vendor credential", "sk-worker-4f9bD2uXcQ7hPz"),
    ("a variable of the worker's", "env-worker-8sGk3VbNw1Rt"),
    ("the caller's vendor credential", "sk-caller-6nYm0JfEaS5d"),
    ("a variable of the caller's", "env-caller-2wHx9CpLo4Uj"),
];
/// In prompts and files, and so to be found.
const KNOWN: [(&str, &str); 4] = [
    ("a small prompt", "known-small-7Tq\"3"),
    ("a large prompt", "known-large-5Rd\"1"),
    ("an answer of a tool", "known-tool-9Wb\"6"),
    ("what a script prints", "known-said-4Kc\"8"),
];
/// In a file of the base, and in one that the turn wrote.
const IN_FILES: [&str; 2] = ["known-base-1Xv2", "known-change-8Mn4"];

/// Names what a process of this test is.
const ROLE: &str = "NEXUS_TEST_CANARIES";
/// The variable that names a vendor's credential.
const KEY: &str = "NEXUS_TEST_VENDOR_KEY";

/// What a process of this test is.
#[derive(Debug, Serialize, Deserialize)]
struct Role {
    is_caller: bool,
    url: String,
    vendor: String,
    home: PathBuf,
    project: PathBuf,
}

impl Role {
    fn user(&self) -> &'static str {
        if self.is_caller { "alice" } else { "builders" }
    }

    fn settings(&self) -> FleetSettings {
        let settings = match self.is_caller {
            true => caller_settings(&self.url, &self.home),
            false => worker_settings(&self.url, &self.home),
        };
        let (user, file) = (self.user().to_owned(), self.home.join(format!("{}.password", self.user())));
        FleetSettings { credentials: Some(FleetCredentials::Password { user, file }), ..settings }
    }

    fn responses(&self) -> Arc<dyn ExecutionBackend> {
        let settings = json!({ "model": "simulated", "base_url": self.vendor, "credential": { "env": KEY } });
        let environment: BTreeMap<_, _> = std::env::vars().collect();
        let context = BuildContext::in_home(self.home.join(self.user())).with_environment(environment);
        let settings = settings.as_object().expect("an object");
        Responses.build(BackendId::new("responses"), settings, &context).expect("a backend")
    }

    async fn work(self) {
        let context = BuildContext::in_home(self.home.join("builders"));
        let router = Router::builder(Registry::new(), context).backend(shell()).backend(self.responses());
        let router = router.from_value(json!({})).expect("a router");
        let worker = Worker::connect(self.settings(), POOL, router).await.expect("a worker");
        let told = self.home.join("ready");
        worker.run(CancelToken::new(), |_| fs::write(told, "").expect("a file")).await.expect("it runs");
    }

    async fn call(self) {
        let fleet = Fleet::new(self.settings()).expect("a thread");
        let responses = FleetBackend::new(self.responses(), POOL, fleet.clone());
        let shell = FleetBackend::new(shell(), POOL, fleet);
        let [small, large, tool, said] = KNOWN.map(|(_, known)| known);
        let encoded = STANDARD.encode(large);
        let turns: [(&dyn ExecutionBackend, TurnRequest); 9] = [
            (&responses, TurnRequest::new(format!("small {small} {encoded}"))),
            (&responses, TurnRequest::new(format!("large {large} {}", "x".repeat(400 << 10)))),
            (&responses, TurnRequest::new("tools")),
            (&responses, TurnRequest::new("breaks")),
            (&responses, TurnRequest::new("denied")),
            (&responses, TurnRequest::new("wider").with_variable(KEY)),
            (&shell, script(&self.project, &format!("printf '%s' '{said}'; echo {} > b", IN_FILES[1]))),
            (&shell, script(&self.project, "echo more >> b; exit 3")),
            (&shell, script(&self.project, "mkfifo pipe")),
        ];
        let mut told = String::new();
        for (backend, request) in turns {
            let schema = json!({ "type": "object", "properties": { "place": { "type": "string" } } });
            let weather =
                Tool::with_schema("weather", "The weather of a place.", schema, move |_| async move {
                    format!("{tool} {}", "y".repeat(300 << 10))
                });
            let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(weather.read_only())));
            let outcome = backend.run_turn(request, host, &mut NullSink).await;
            told += &format!("{outcome:?}\n");
            if let Err(error) = &outcome {
                told += &serde_json::to_string(&error.report()).expect("it is data");
            }
        }
        fs::write(self.home.join("told"), told).expect("a file");
    }
}

/// A process that another test starts: without its variable it ends at once.
#[test]
fn role_of_a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role: Role = serde_json::from_str(&role).expect("a role");
    // It ends with the test.
    std::thread::spawn(|| {
        let _ = io::Read::read(&mut io::stdin(), &mut [0]);
        std::process::exit(0);
    });
    let log = File::create(role.home.join(format!("{}.log", role.user()))).expect("a log");
    tracing::subscriber::set_global_default(Log(Mutex::new(log))).expect("the first");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match role.is_caller {
        true => runtime.block_on(role.call()),
        false => runtime.block_on(role.work()),
    }
}

fn start(role: &Role) -> std::process::Child {
    let [_, _, worker_key, worker_variable, caller_key, caller_variable] = SECRETS.map(|(_, secret)| secret);
    let (key, variable) =
        if role.is_caller { (caller_key, caller_variable) } else { (worker_key, worker_variable) };
    child_test::command(role_of_a_process)
        .env(ROLE, serde_json::to_string(role).expect("it is data"))
        .env(KEY, key)
        .env("NEXUS_TEST_SECRET", variable)
        .stdin(Stdio::piped())
        .stdout(File::create(role.home.join(format!("{}.out", role.user()))).expect("a file"))
        .stderr(File::create(role.home.join(format!("{}.err", role.user()))).expect("a file"))
        .spawn()
        .expect("it starts")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn no_secret_is_in_what_the_server_stores_or_in_what_anybody_logs() {
    let (home, checkout) = (tempfile::tempdir().unwrap(), Checkout::with(&[("a", IN_FILES[0])]));
    let users = [("alice", SECRETS[0].1), ("builders", SECRETS[1].1)];
    // Objects are not deleted when their turns are over, so that the store has them.
    let deny = "permissions: { publish: { deny: [\"$JS.API.STREAM.PURGE.OBJ_NEXUS_OBJECTS\"] } }";
    let lines = users.map(|(user, password)| format!("{{ user: {user}, password: {password:?}, {deny} }}"));
    let config = format!("authorization {{ users: [ {} ] }}", lines.join(", "));
    let mut server = NatsServer::new(&program(NATS_PROGRAM), "canaries", &config);
    server.add_arguments(["-DV".into()]);
    server.restart().await;
    for (user, password) in users {
        fs::write(home.path().join(format!("{user}.password")), format!("{password}\n")).unwrap();
    }
    keep_what_is_queued(&server).await;
    let worker_key = SECRETS[2].1;
    let weather = ToolCall::function("weather", json!({ "place": "Turku" }));
    // As vendors were seen to do.
    let broken = format!("Incorrect API key provided: {worker_key}");
    let scenario = Scenario::text("Done.")
        .when_prompt("large", [Reply::long(400 << 10)])
        .when_prompt("tools", [Reply::call(weather), Reply::text("Rain.")])
        .when_prompt("breaks", [Reply::text("half").broken("invalid_api_key", broken)])
        .when_prompt("denied", [Reply::status(401)])
        .per_conversation();
    let vendor = Sim::start(Dialect::Responses, scenario).expect("a vendor");
    let role = |is_caller| Role {
        is_caller,
        url: server.url(),
        vendor: vendor.base_url(),
        home: home.path().to_owned(),
        project: checkout.path(),
    };
    let mut worker = start(&role(false));
    wait("the worker", home.path(), &mut worker, || home.path().join("ready").exists());
    let mut caller = start(&role(true));
    let told = home.path().join("told");
    wait("the caller", home.path(), &mut caller, || told.exists());
    caller.wait().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    server.kill();

    let (stored, logs) = (texts(&server.store()), texts(home.path()));
    let mut everything = stored.clone();
    everything.extend(logs);
    everything.insert(PathBuf::from("the log of the server"), server.log());
    everything.extend(unpacked(&server.store(), home.path()));

    // The search sees: what is known to be there is found, in each form in which it was put there.
    for (what, known) in KNOWN {
        let (_, escaped) = forms(known).remove(1);
        assert!(stored.values().any(|text| text.contains(&escaped)), "{what}");
    }
    let [_, _, base64, ..] = &forms(KNOWN[1].1)[..] else { unreachable!() };
    assert!(stored.values().any(|text| text.contains(&base64.1)), "what is encoded");
    for known in IN_FILES {
        assert!(everything.values().any(|text| text.contains(known)), "{known}, in a bundle");
    }
    let log = server.log();
    assert!(
        log.contains("[TRC]") && log.contains("CONNECT") && log.contains("nexus.queue."),
        "the server traces"
    );
    for log in ["alice.log", "builders.log"] {
        let found = everything.iter().find(|(path, _)| path.ends_with(log)).expect("a log").1;
        assert!(found.contains("async_nats") && found.len() > 1_000, "{log}: {found}");
    }
    let outcomes = fs::read_to_string(&told).unwrap();
    assert_eq!(outcomes.matches("Ok(TurnResult").count(), 4, "{outcomes:.20000}");
    // The vendor did see the worker's credential, and nobody the caller's.
    let seen: Vec<_> = vendor.requests().iter().map(|request| format!("{request:?}")).collect();
    assert!(seen.iter().any(|request| request.contains(worker_key)), "{:?}", seen.first());
    assert!(!seen.iter().any(|request| request.contains(SECRETS[4].1)));

    let mut leaks = Vec::new();
    for (what, secret) in SECRETS {
        for (form, needle) in forms(secret) {
            let found = everything.iter().filter(|(path, text)| {
                path.extension().is_none_or(|end| end != "password") && text.contains(&needle)
            });
            leaks.extend(found.map(|(path, text)| {
                let at = text.find(&needle).unwrap_or_default();
                format!("{what}, {form}, in {}: {:?}", path.display(), around(text, at))
            }));
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// Makes the queue so that what was taken out of it stays in the store.
async fn keep_what_is_queued(server: &NatsServer) {
    let (_, password) = SECRETS[1];
    let client =
        async_nats::ConnectOptions::with_user_and_password("builders".to_owned(), password.to_owned());
    let client = client.connect(server.url()).await.expect("the server accepts the worker");
    let queue = jetstream::stream::Config {
        name: format!("NEXUS_QUEUE_{POOL}"),
        subjects: vec![format!("nexus.queue.{POOL}.>")],
        allow_message_ttl: true,
        ..jetstream::stream::Config::default()
    };
    jetstream::new(client).create_stream(queue).await.expect("a queue");
}

/// What stands before and at a place of a text.
fn around(text: &str, at: usize) -> String {
    let before: String = text[..at].chars().rev().take(200).collect();
    before.chars().rev().chain(text[at..].chars().take(60)).collect()
}

fn wait(what: &str, home: &Path, process: &mut std::process::Child, is_there: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_there() {
        let ended = process.try_wait().expect("its state").is_some();
        let late = began.elapsed() > Duration::from_secs(120);
        assert!(
            (!ended || is_there()) && !late,
            "{what}: {:?}",
            texts(home).into_iter().find(|(path, text)| {
                path.extension().is_some_and(|end| end == "err") && !text.is_empty()
            })
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How a value may be written: as it is, as JSON escapes it, as base64 at each of three places, and as hexadecimal. The ends of
/// base64 depend on what is beside it, and are left out.
fn forms(value: &str) -> Vec<(&'static str, String)> {
    let escaped = serde_json::to_string(value).expect("text").trim_matches('"').to_owned();
    let escaped = if escaped.is_empty() { value.to_owned() } else { escaped };
    let mut forms = vec![("as it is", value.to_owned()), ("escaped", escaped.clone())];
    for offset in 0..3 {
        let padded = [&b"\0\0"[..offset], value.as_bytes()].concat();
        let text = STANDARD.encode(padded);
        let text = text.trim_end_matches('=');
        let begin = if offset == 0 { 0 } else { 4 };
        let middle = &text[begin..text.len() - 2];
        forms.push(("base64", middle.to_owned()));
        let urls = middle.replace('+', "-").replace('/', "_");
        if urls != middle {
            forms.push(("base64 of URLs", urls));
        }
    }
    forms.push(("hexadecimal", value.bytes().map(|byte| format!("{byte:02x}")).collect()));
    // Escaped once more, as JSON in JSON.
    forms
        .push(("escaped twice", serde_json::to_string(&escaped).expect("text").trim_matches('"').to_owned()));
    forms
}

/// Every file below a folder, as text, but for the checkouts and trees.
fn texts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).unwrap_or_default();
                    found.insert(entry.path(), String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }
    found
}

/// What is in the bundles that were stored, whose contents are compressed: git unpacks them.
fn unpacked(store: &Path, home: &Path) -> BTreeMap<PathBuf, String> {
    const HEAD: &[u8] = b"# v2 git bundle\n";
    let repository = home.join("unpacked.git");
    let git = |arguments: &[&str], input: &[u8]| {
        let mut child = Command::new("git")
            .args(arguments)
            .env("GIT_DIR", &repository)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("git runs");
        let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
        let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("git ends");
        writing.join().unwrap();
        output.stdout
    };
    git(&["init", "-q", "--bare"], b"");
    let mut packs = Vec::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).unwrap_or_default();
            for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(HEAD)) {
                let head = bytes[at..].windows(2).position(|two| two == b"\n\n").expect("a head");
                packs.push((bytes[at..at + head].contains(&b'-'), bytes[at + head + 2..].to_vec()));
            }
        }
    }
    assert!(packs.len() >= 4, "{} bundles were stored", packs.len());
    // Those of changes build upon those of bases.
    packs.sort_by_key(|(is_change, _)| *is_change);
    for (_, pack) in &packs {
        git(&["unpack-objects", "-q"], pack);
    }
    let all = git(&["cat-file", "--batch-all-objects", "--batch"], b"");
    BTreeMap::from([(PathBuf::from("the bundles"), String::from_utf8_lossy(&all).into_owned())])
}

/// Writes everything that anybody says into a file.
struct Log(Mutex<File>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut text = Text(format!("span {}", attributes.metadata().name()));
        attributes.record(&mut text);
        self.write(&text);
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        let mut text = Text("span".to_owned());
        values.record(&mut text);
        self.write(&text);
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut text);
        self.write(&text);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

impl Log {
    fn write(&self, text: &Text) {
        let _ = writeln!(self.0.lock().expect("no panic"), "{}", text.0);
    }
}

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}
