//! `nexus worker` and `nexus fleet`, before a real `nats-server`, each in a process of its own.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    process::{Child, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Folder, PATIENCE,
    collector::{Figure, collector},
    nats::NatsServer,
    text,
};

const BRIEF: Duration = Duration::from_millis(20);

/// A machine with this backend, and this of its keys.
fn machine(model: &Sim, server: &str, pool: &str) -> Folder {
    Folder::with(&format!(
        "fleet: {{ servers: [{server:?}] }}\n\
         groups: {{ main: [local] }}\nmodels: {{ simulated: {{ main: simulated }} }}\n\
         backends: {{ local: {{ kind: responses, base_url: {:?}, vendor: one{pool} }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: main, model: simulated }} }}\n",
        model.base_url()
    ))
}

const POOL: &str = ", max_turns_at_once: 1, pool: builders";

/// A worker that takes turns. Dropped, it is killed.
struct Worker {
    child: Child,
    offer: Vec<String>,
}

impl Worker {
    fn start(folder: &Folder) -> Self {
        Self::start_with(folder, &[])
    }

    fn start_with(folder: &Folder, more: &[&str]) -> Self {
        let arguments = ["worker", "--pool", "builders", "--name", "m1", "--turns", "2"];
        let mut child = folder
            .command(&[&arguments[..], more].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let offer: Vec<_> = lines.map(Result::unwrap).take(2).collect();
        assert_eq!(offer.len(), 2, "{}", said(&mut child));
        Self { child, offer }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> (ExitStatus, String) {
        let status = ended(&mut self.child);
        (status, said(&mut self.child))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "it goes on");
        thread::sleep(BRIEF);
    }
}

fn said(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

fn status(folder: &Folder) -> Value {
    let output = folder.nexus(&["fleet", "status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
#[ignore = "needs a real nats-server"]
fn a_turn_runs_on_another_machine_and_its_worker_is_seen_and_drained() {
    let server = NatsServer::start();
    let model =
        Sim::start(Dialect::Responses, Scenario::new(vec![Reply::text("Titan."); 4]).models(["simulated"]));
    let model = model.unwrap();
    // One file, on both machines.
    let (here, there) = (machine(&model, &server.url, POOL), machine(&model, &server.url, POOL));
    let set_up = here.nexus(&["fleet", "setup", "--pool", "builders"]);
    assert!(set_up.status.success(), "{set_up:?}");
    assert_eq!(text(&set_up.stdout), "the streams and buckets exist\nthe queue of builders exists\n");
    assert!(here.nexus(&["fleet", "setup", "--json"]).status.success());
    let nobody = here.nexus(&["fleet", "status"]);
    assert!(
        text(&nobody.stdout).contains("no worker: start one with `nexus worker --pool builders`"),
        "{nobody:?}"
    );

    let mut worker = Worker::start(&there);
    assert_eq!(worker.offer, ["m1 takes turns of builders", "  local"]);
    // Two of them would wait half a minute each for a slot that was not given back.
    let began = Instant::now();
    for _ in 0..3 {
        let run = here.nexus(&["run", "talker", "Which is the largest moon of Saturn?"]);
        assert!(run.status.success() && text(&run.stdout) == "Titan.\n", "{run:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());

    let seen = status(&here);
    let m1 = &seen["pools"]["builders"]["workers"]["m1"];
    assert_eq!((&m1["slots"], &m1["is_draining"]), (&2.into(), &false.into()), "{seen:#}");
    assert!(m1["backends"].get("local").is_some(), "{seen:#}");
    let shown = here.nexus(&["fleet", "status"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("builders: nothing waits\n  m1  0 of 2 turns  local\n"), "{shown}");
    let doctor = here.nexus(&["doctor"]);
    assert!(text(&doctor.stdout).contains("ok    fleet: nats-server 2."), "{doctor:?}");
    assert!(text(&doctor.stdout).contains(", 1 worker\n"), "{doctor:?}");

    worker.send(Signal::TERM);
    let (ended, said) = worker.ended();
    assert_eq!(ended.code(), Some(0), "{said}");
    assert!(said.contains("no further turn is taken"), "{said}");
    assert_eq!(status(&here)["pools"]["builders"]["workers"], serde_json::json!({}));

    let url = server.url.clone();
    drop(server);
    let complaint = format!("no server of the fleet answers at {url}");
    for (command, code) in [
        (&["fleet", "status"][..], 1),
        (&["fleet", "setup"], 1),
        (&["worker", "--pool", "builders"], 1),
        (&["run", "talker", "Hello"], 1),
    ] {
        let output = here.nexus(command);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(text(&output.stderr).contains(&complaint), "{output:?}");
    }
    let doctor = here.nexus(&["doctor"]);
    assert!(text(&doctor.stdout).contains(&format!("FAIL  fleet: {complaint}")), "{doctor:?}");
}

#[test]
#[ignore = "needs a real nats-server"]
fn a_worker_that_drains_ends_its_turn_and_a_second_signal_ends_it_at_once() {
    let server = NatsServer::start();
    let model = Sim::start(Dialect::Responses, Reply::text("Half of an ans").stalled()).unwrap();
    let (here, there) = (machine(&model, &server.url, POOL), machine(&model, &server.url, ""));
    let mut worker = Worker::start(&there);
    let mut turn = here
        .command(&["run", "talker", "Hello", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(turn.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("Half of an ans")), "the model speaks");

    worker.send(Signal::TERM);
    let began = Instant::now();
    while status(&here)["pools"]["builders"]["workers"]["m1"]["is_draining"] != true {
        assert!(began.elapsed() < PATIENCE, "it does not drain");
        thread::sleep(BRIEF);
    }
    assert!(worker.child.try_wait().unwrap().is_none(), "its turn runs");
    worker.send(Signal::TERM);
    let (ended, said) = worker.ended();
    assert_eq!(ended.code(), Some(143), "{said}");
    turn.kill().unwrap();
    turn.wait().unwrap();
}

#[test]
fn what_runs_here_goes_on_without_the_servers_and_says_so() {
    let model =
        Sim::start(Dialect::Responses, Scenario::new(vec![Reply::text("Titan.")]).models(["simulated"]));
    let model = model.unwrap();
    let folder = machine(&model, "nats://127.0.0.1:1", ", max_turns_at_once: 1");
    let run = folder.nexus(&["run", "talker", "Which is the largest moon of Saturn?"]);
    assert!(run.status.success() && text(&run.stdout) == "Titan.\n", "{run:?}");
    let said = text(&run.stderr);
    assert!(said.contains("warning: the limit of parallel turns applies to this machine only"), "{said}");
    assert!(said.matches("warning").count() < 8, "{said}");
}

#[test]
fn a_login_that_cannot_be_shared_is_told_at_its_place() {
    const KEY: &str = "XBUJMZHVOPQ2SK5VD3TY4VNBPVU2YFGRLK6EFPEPSMVDUYEBSROWZCEA";
    let owner = |login: &str, key: &str| {
        format!(
            "fleet:\n  servers: [nats://127.0.0.1:1]\n  login_owner:\n    {login}: {{ pool: builders, worker: m1, key: {key} }}\ntypes: {{}}\n"
        )
    };
    #[cfg(feature = "login")]
    for (login, key, place, words) in [
        ("codexx", KEY, "login_owner.codexx", "Nexus has no login `codexx`: write `codex`"),
        ("codex", "XABC", "login_owner.codex.key", "`nexus fleet key`"),
        (
            "codex",
            "SXAKIYZX2POLIHZ5W5YZEWVTH24NLEUETBW3TKIVYRSS3GNHFXO5D4JJZM",
            "login_owner.codex.key",
            "secret half",
        ),
    ] {
        let folder = Folder::with(&owner(login, key));
        let said = folder.nexus(&["check"]);
        let said = [said.stdout, said.stderr].concat();
        let said = text(&said);
        assert!(said.contains("nexus.yaml:4:") && said.contains(place) && said.contains(words), "{said}");
        assert!(!said.contains("SXAK"), "{said}");
    }
    // The worker that is named as the owner, on a machine that has no key, and with another one.
    let folder = Folder::with(&owner("codex", KEY));
    let worker = || {
        let output = folder.nexus(&["worker", "--pool", "builders", "--name", "m1"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr).to_owned()
    };
    let said = worker();
    assert!(said.contains("fleet.key does not exist: run `nexus fleet key`"), "{said}");
    let key = folder.nexus(&["fleet", "key"]);
    let key = text(&key.stdout).trim();
    assert!(key.len() == 56 && key.starts_with('X'), "{key}");
    assert!(text(&folder.nexus(&["fleet", "key", "--json"]).stdout).contains(key));
    let said = worker();
    assert!(said.contains(&format!("the key of this machine is {key}: write it as `key`")), "{said}");
}

#[test]
fn without_a_fleet_in_the_configuration_each_command_says_how_to_name_one() {
    let folder = Folder::with("types: {}\n");
    for command in
        [&["worker", "--pool", "builders"][..], &["fleet", "status"], &["fleet", "setup"], &["fleet", "key"]]
    {
        let output = folder.nexus(command);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("names no fleet: name its servers, such as `fleet: { servers:"), "{said}");
    }
}

#[test]
fn a_name_that_cannot_be_one_is_a_wrong_argument() {
    let folder = Folder::with("fleet: { servers: [\"nats://127.0.0.1:1\"] }\n");
    for command in [
        &["worker", "--pool", "a.b"][..],
        &["worker", "--pool", ""],
        &["worker", "--pool", "builders", "--name", "*"],
        &["fleet", "setup", "--pool", "a b"],
        &["fleet", "status", "--watch", "0"],
    ] {
        let output = folder.nexus(command);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("invalid value"), "{output:?}");
    }
}

/// A model that answers so many turns.
fn model_of(turns: usize) -> Sim {
    let replies = (0..turns).map(|_| Reply::text("Titan.")).collect::<Vec<_>>();
    Sim::start(Dialect::Responses, Scenario::new(replies).models(["simulated"])).unwrap()
}

#[test]
#[ignore = "needs a real nats-server"]
fn what_a_collector_is_sent_of_a_fleet_is_what_was_run() {
    const GOOD: u64 = 5;
    const BEYOND: u64 = 2;
    let (server, model, (url, received)) = (NatsServer::start(), model_of(GOOD as usize), collector());
    let (here, there) = (machine(&model, &server.url, POOL), machine(&model, &server.url, POOL));
    let mut worker = Worker::start_with(&there, &["--otlp", &url]);
    for _ in 0..GOOD {
        let run = here.nexus(&["run", "talker", "canary-4d", "--otlp", &url]);
        assert!(run.status.success() && text(&run.stdout) == "Titan.\n", "{run:?}");
    }
    for _ in 0..BEYOND {
        // No folder is in the worker's policy.
        let run = here.nexus(&["run", "talker", "canary-4d", "--cd", "/", "--otlp", &url]);
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(text(&run.stderr).contains("the worker rejects this turn"), "{run:?}");
    }
    // The worker tells of what runs within two seconds.
    let began = Instant::now();
    while status(&here)["pools"]["builders"]["workers"]["m1"]["running"] != serde_json::json!([]) {
        assert!(began.elapsed() < PATIENCE, "a turn still runs");
        thread::sleep(BRIEF);
    }
    let look = here.nexus(&["fleet", "status", "--otlp", &url]);
    assert!(look.status.success() && !text(&look.stderr).contains("telemetry"), "{look:?}");
    worker.send(Signal::TERM);
    let (ended, said) = worker.ended();
    assert!(ended.code() == Some(0) && !said.contains("telemetry"), "{said}");

    let pool = ("nexus.fleet.pool", "builders");
    let backend = ("gen_ai.agent.name", "local");
    let lane = ("nexus.fleet.lane", "normal");
    let forbidden = ("error.type", "Forbidden");
    let nats = ("messaging.system", "nats");
    let all = GOOD + BEYOND;
    let mut expected: BTreeMap<(String, Figure), u64> = BTreeMap::new();
    let mut expect = |name: &str, attributes: &[(&str, &str)], count: u64| {
        let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        expected.insert((name.to_owned(), attributes.collect()), count);
    };
    expect(
        "messaging.client.consumed.messages",
        &[pool, lane, nats, ("messaging.operation.name", "receive")],
        all,
    );
    expect("messaging.client.sent.messages", &[pool, lane, nats, ("messaging.operation.name", "send")], all);
    expect("nexus.fleet.queue.time", &[pool, lane], all);
    expect("nexus.fleet.worker.slots", &[pool], 0);
    expect("nexus.fleet.worker.running", &[pool, backend], 0);
    expect("nexus.fleet.worker.begun", &[pool, backend], all);
    expect("nexus.fleet.worker.turn.duration", &[pool, backend], GOOD);
    expect("nexus.fleet.worker.turn.duration", &[pool, backend, forbidden], BEYOND);
    expect("nexus.fleet.worker.declined", &[pool, backend, ("nexus.fleet.reason", "policy")], BEYOND);
    expect("nexus.fleet.caller.turn.duration", &[pool, backend], GOOD);
    expect("nexus.fleet.caller.turn.duration", &[pool, backend, forbidden], BEYOND);
    expect("nexus.fleet.caller.wait.time", &[pool, backend], all);
    for waiting in ["high", "normal", "low", "kept"] {
        expect("nexus.fleet.queue.depth", &[pool, ("nexus.fleet.lane", waiting)], 0);
    }
    expect("nexus.fleet.workers", &[pool, ("nexus.fleet.state", "ready")], 1);
    expect("nexus.fleet.workers", &[pool, ("nexus.fleet.state", "draining")], 0);
    expect("nexus.fleet.pool.slots", &[pool], 2);
    expect("nexus.fleet.pool.running", &[pool], 0);
    expect("nexus.fleet.holds", &[], 0);
    let mut figures = received.figures();
    figures.retain(|(name, _), _| !name.starts_with("gen_ai."));
    // On a slow machine frames are sent again, and a turn that came just when no further one was wanted is given again.
    figures.retain(|(name, _), _| !name.contains(".frames.") && !name.ends_with(".redelivered"));
    assert_eq!(figures, expected);
    assert!(!received.holds("canary-4d") && !received.holds("m1"));

    // The spans of a worker are in the traces of its callers: below them, one of each turn.
    let spans = received.spans();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let processed = named("process builders");
    assert_eq!(processed.len() as u64, GOOD, "what is refused by policy is not run");
    for span in &processed {
        let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
        assert_eq!(parent.map(|parent| parent.name.as_str()), Some("invoke_agent local"));
        assert_eq!(parent.map(|parent| &parent.trace_id), Some(&span.trace_id));
    }
    // That of the caller and that of the worker.
    assert_eq!(named("invoke_agent local").len() as u64, 2 * GOOD + BEYOND);
}

#[test]
#[ignore = "needs a real nats-server"]
fn a_collector_that_never_answers_holds_up_no_turn_and_no_drain() {
    let (server, model) = (NatsServer::start(), model_of(3));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (here, there) = (machine(&model, &server.url, POOL), machine(&model, &server.url, POOL));
    let mut worker = Worker::start_with(&there, &["--otlp", &url]);
    for _ in 0..3 {
        let run = here.nexus(&["run", "talker", "Hello"]);
        assert!(run.status.success() && text(&run.stdout) == "Titan.\n", "{run:?}");
    }
    worker.send(Signal::TERM);
    let (ended, said) = worker.ended();
    assert_eq!(ended.code(), Some(0), "{said}");
    assert!(said.contains("did not accept the telemetry"), "{said}");
}

#[test]
#[ignore = "needs a real nats-server"]
fn a_status_that_is_watched_goes_on_until_it_is_ended_also_while_the_server_is_gone() {
    let server = NatsServer::start();
    let model = model_of(0);
    let here = machine(&model, &server.url, POOL);
    assert!(here.nexus(&["fleet", "setup", "--pool", "builders"]).status.success());
    let (url, received) = collector();
    let mut watching = here
        .command(&["fleet", "status", "--watch", "0.2", "--otlp", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It would end with its reader.
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().filter(|line| line == "builders: nothing waits").take(3).count(), 3);
    drop(server);
    thread::sleep(Duration::from_secs(1));
    assert!(watching.try_wait().unwrap().is_none(), "it ended with the server");
    kill_process(Pid::from_child(&watching), Signal::INT).unwrap();
    assert_eq!(ended(&mut watching).code(), Some(0), "{}", said(&mut watching));
    drop(lines);
    assert!(received.figures().keys().any(|(name, _)| name == "nexus.fleet.queue.depth"));
}
