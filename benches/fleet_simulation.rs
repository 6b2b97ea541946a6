//! A fleet of 1,000 workers that runs 10,000 turns, on one machine.
//!
//! `NEXUS_REAL_NATS=… cargo bench -p nexus-turn-fleet --bench fleet_simulation`, with `-- --quick` for 50 workers and 500 turns, with
//! `--cluster` for three servers in place of one. Servers, workers and callers are processes; each worker is a real one, with the two
//! connections that `nexus worker` has, and a backend whose turns wait and tell events. The program ends with 1 if a turn is lost, is
//! run twice, or ends otherwise than well. See README.md.

mod fleet_kit;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use fleet_kit::{Ended, cpu_of, memory_of, own_cpu, shown};
use futures::StreamExt as _;
use nexus::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, CancelToken, Capabilities,
    EventEnvelope, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, Registry,
    ResumeHandle, Router, TurnError, TurnHost, TurnRequest, TurnResult, harness::RunningTurn,
    hold::HoldStore as _, turn::MessageEnded,
};
use nexus_fleet::{Fleet, FleetBackend, FleetHoldStore, FleetSettings, Worker, WorkerSettings};
use serde_json::{Value, json};

const POOL: &str = "bench";
/// Turns that one worker runs at once.
const SLOTS: usize = 4;
/// Events of a turn beside its start, and the bytes of the last one.
const EVENTS: usize = 20;
const RESULT_BYTES: usize = 4 << 10;
/// How long a turn waits between its events: half a second in all.
const PAUSE: Duration = Duration::from_millis(25);
const PRIORITIES: [(&str, usize); 3] = [("high", 2), ("normal", 6), ("low", 2)];
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// How large a simulation is.
#[derive(Clone, Copy)]
struct Size {
    workers: usize,
    /// Processes that they are in.
    worker_processes: usize,
    turns: usize,
    callers: usize,
    /// Turns that each caller has under way.
    at_once: usize,
    idle: Duration,
}

const FULL: Size = Size {
    workers: 1_000,
    worker_processes: 4,
    turns: 10_000,
    callers: 4,
    at_once: 1_250,
    idle: Duration::from_secs(20),
};
const QUICK: Size = Size {
    workers: 50,
    worker_processes: 2,
    turns: 500,
    callers: 2,
    at_once: 125,
    idle: Duration::from_secs(2),
};

/// Tells its events, and keeps which turns it began.
#[derive(Debug)]
struct Teller {
    id: BackendId,
    begun: Mutex<fs::File>,
}

#[async_trait]
impl ExecutionBackend for Teller {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let number = turn.request.prompt_text();
        // One write: lines of several processes do not mix.
        let line = format!("{number}\n");
        self.begun.lock().expect("no panic").write_all(line.as_bytes()).expect("it is noted");
        for event in 1..EVENTS {
            turn.event(MessageEnded::new(format!("m{event}").into(), "x".repeat(100)));
            turn.pause(PAUSE).await.map_err(|failure| failure.into_error(self.id.clone()))?;
        }
        turn.event(MessageEnded::new("last".into(), format!("{number} {}", "x".repeat(RESULT_BYTES))));
        turn.end(Ok((FinishReason::Stop, None))).await
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }
}

fn teller(begun: &Path) -> io::Result<Arc<Teller>> {
    let file = fs::OpenOptions::new().create(true).append(true).open(begun)?;
    Ok(Arc::new(Teller { id: "teller".into(), begun: Mutex::new(file) }))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let done = match arguments.first().map(String::as_str) {
        Some("workers") => workers(&arguments[1..]).map(|()| true),
        Some("caller") => caller(&arguments[1..]).map(|()| true),
        Some("--help") => {
            println!("cargo bench -p nexus-turn-fleet --bench fleet_simulation -- [--quick] [--cluster]");
            return ExitCode::SUCCESS;
        }
        _ => match std::env::var_os("NEXUS_REAL_NATS") {
            Some(program) => {
                let size = if has("--quick") { QUICK } else { FULL };
                simulate(Path::new(&program), size, if has("--cluster") { 3 } else { 1 })
            }
            None => {
                println!("NEXUS_REAL_NATS names no nats-server: real/servers/install prints where one is");
                return ExitCode::SUCCESS;
            }
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(servers: &str, name: &str) -> FleetSettings {
    let servers: Vec<_> = servers.split(',').map(str::to_owned).collect();
    FleetSettings {
        replicas: Some(servers.len()),
        servers,
        name: Some(name.to_owned()),
        max_waiting: Some(10_000),
        ..FleetSettings::default()
    }
}

/// Some workers in one process: `workers SERVERS FIRST COUNT FILE`.
fn workers(arguments: &[String]) -> io::Result<()> {
    let [servers, first, count, begun] = arguments else { return Err(io::Error::other("four arguments")) };
    let (first, count): (usize, usize) = (first.parse().unwrap_or(0), count.parse().unwrap_or(0));
    let teller = teller(Path::new(begun))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let drain = CancelToken::new();
        let (ready, mut is_ready) = tokio::sync::mpsc::unbounded_channel();
        let mut running = Vec::new();
        for number in first..first + count {
            let (teller, servers, drain, ready) =
                (Arc::clone(&teller), servers.clone(), drain.clone(), ready.clone());
            running.push(tokio::spawn(async move {
                let mut settings = settings(&servers, "workers");
                settings.worker = WorkerSettings {
                    name: Some(format!("w{number}")),
                    turns: Some(SLOTS),
                    ..WorkerSettings::default()
                };
                // As `nexus worker` has it: holds of all machines, by a connection of their own.
                let holds = Fleet::new(settings.clone()).map_err(io::Error::other)?;
                let holds = FleetHoldStore::new(&holds);
                // It begins to listen.
                drop(holds.known());
                let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
                    .hold_store(Arc::new(holds))
                    .backend(teller)
                    .from_value(json!({}))
                    .map_err(io::Error::other)?;
                let worker = Worker::connect(settings, POOL, router).await.map_err(io::Error::other)?;
                worker.run(drain, |_| ready.send(()).unwrap_or_default()).await.map_err(io::Error::other)
            }));
            // All at once would be more than the backlog of the server's port takes.
            if number % 25 == 24 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        for _ in 0..count {
            if tokio::time::timeout(PATIENCE, is_ready.recv()).await.is_err() {
                return Err(io::Error::other("not all workers began"));
            }
        }
        println!("ready");
        io::stdout().flush()?;
        // The other end says when it is over.
        tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
        drain.cancel();
        for worker in running {
            worker.await??;
        }
        Ok(())
    })
}

/// The turns of one caller: `caller SERVERS NAME FIRST COUNT AT_ONCE`. It begins when it is told, and prints what came of them.
fn caller(arguments: &[String]) -> io::Result<()> {
    let [servers, name, first, count, at_once] = arguments else {
        return Err(io::Error::other("five arguments"));
    };
    let (first, count): (usize, usize) = (first.parse().unwrap_or(0), count.parse().unwrap_or(0));
    let at_once: usize = at_once.parse().unwrap_or(1);
    let fleet = Fleet::new(settings(servers, name))?;
    let local = teller(Path::new("/dev/null"))?;
    let backend = FleetBackend::new(local, POOL, fleet);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lines().next();
    let shares: Vec<&str> =
        PRIORITIES.iter().flat_map(|(priority, share)| std::iter::repeat_n(*priority, *share)).collect();
    let outcomes: Vec<(&str, Duration, Option<String>)> = runtime.block_on(async {
        let turns = futures::stream::iter(first..first + count).map(|number| {
            let (backend, priority) = (&backend, shares[number % shares.len()]);
            async move {
                let begun = Instant::now();
                let mut seen = 0;
                let mut fault = None;
                let mut sink = |envelope: EventEnvelope| {
                    if envelope.sequence != seen {
                        fault = Some(format!("event {} came as {seen}", envelope.sequence));
                    }
                    seen += 1;
                };
                let request = TurnRequest::new(number.to_string()).with_label("nexus.priority", priority);
                let outcome = backend.run_turn(request, TurnHost::new(), &mut sink).await;
                let time = begun.elapsed();
                let fault = match outcome {
                    Err(error) => Some(format!("{:?}: {:?}", error.kind(), error.message())),
                    Ok(result) if !result.text.contains(&format!("{number} x")) => {
                        Some("the result of another turn".to_owned())
                    }
                    // Its start, and what it told.
                    Ok(_) if seen != EVENTS as u64 + 1 => Some(format!("{seen} events")),
                    Ok(_) => fault,
                };
                (priority, time, fault)
            }
        });
        turns.buffer_unordered(at_once).collect().await
    });
    let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for (priority, time, fault) in &outcomes {
        times.entry(priority).or_default().push(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        if let Some(fault) = fault {
            *faults.entry(fault).or_default() += 1;
        }
    }
    let cpu = own_cpu().as_secs_f64();
    println!("{}", json!({ "times": times, "faults": faults, "ended": outcomes.len(), "cpu": cpu }));
    Ok(())
}

/// A process of the simulation, and how it is spoken with.
struct Role {
    process: Ended,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Role {
    fn start(arguments: &[String]) -> io::Result<Self> {
        let mut child: Child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or_else(|| io::Error::other("no output"))?);
        Ok(Self { process: Ended(child), input, output })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() { Err(io::Error::other("a process ended before its time")) } else { Ok(line) }
    }

    fn cpu(&self) -> Duration {
        cpu_of(self.process.0.id())
    }
}

/// One server, or a cluster.
struct Servers {
    processes: Vec<Ended>,
    urls: String,
    monitoring: Vec<u16>,
    _store: tempfile::TempDir,
}

impl Servers {
    fn start(program: &Path, count: usize) -> io::Result<Self> {
        let store = tempfile::tempdir()?;
        let mut ports = Vec::new();
        // Held until all are chosen, so that they differ.
        let held: Vec<_> =
            (0..count * 3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        for listener in &held {
            ports.push(listener.local_addr()?.port());
        }
        drop(held);
        let (clients, rest) = ports.split_at(count);
        let (routes, monitoring) = rest.split_at(count);
        let others: Vec<_> = routes.iter().map(|port| format!("nats-route://127.0.0.1:{port}")).collect();
        let mut processes = Vec::new();
        for index in 0..count {
            let mut command = Command::new(program);
            command
                .args([
                    "-n",
                    &format!("n{index}"),
                    "-a",
                    "127.0.0.1",
                    "-js",
                    "-p",
                    &clients[index].to_string(),
                ])
                .args(["-m", &monitoring[index].to_string(), "-sd"])
                .arg(store.path().join(format!("n{index}")))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if count > 1 {
                let own = format!("nats://127.0.0.1:{}", routes[index]);
                command.args(["--cluster_name", "bench", "--cluster", &own, "--routes", &others.join(",")]);
            }
            processes.push(Ended(command.spawn()?));
        }
        let urls =
            clients.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
        let servers = Self { processes, urls, monitoring: monitoring.to_vec(), _store: store };
        let began = Instant::now();
        while !servers
            .monitoring
            .iter()
            .all(|port| get(*port, "/healthz").is_some_and(|said| said["status"] == "ok"))
        {
            if began.elapsed() > Duration::from_secs(60) {
                return Err(io::Error::other("the servers are not ready"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(servers)
    }

    fn cpu(&self) -> Duration {
        self.processes.iter().map(|server| cpu_of(server.0.id())).sum()
    }

    fn memory(&self) -> u64 {
        self.processes.iter().map(|server| memory_of(server.0.id())).max().unwrap_or(0)
    }

    /// Bytes and messages of each stream at the first server.
    fn streams(&self) -> BTreeMap<String, (u64, u64)> {
        let report = get(self.monitoring[0], "/jsz?streams=true").unwrap_or_default();
        let accounts = report["account_details"].as_array().cloned().unwrap_or_default();
        let streams =
            accounts.iter().flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
        streams
            .filter_map(|stream| {
                let state = &stream["state"];
                Some((
                    stream["name"].as_str()?.to_owned(),
                    (state["bytes"].as_u64()?, state["messages"].as_u64()?),
                ))
            })
            .collect()
    }
}

/// A document of a monitoring port.
fn get(port: u16, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn simulate(program: &Path, size: Size, count: usize) -> io::Result<bool> {
    let servers = Servers::start(program, count)?;
    let folder = tempfile::tempdir()?;
    let begun: PathBuf = folder.path().join("begun");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fleet = Fleet::new(settings(&servers.urls, "admin"))?;
    runtime.block_on(fleet.set_up(&[POOL])).map_err(io::Error::other)?;
    println!(
        "{} workers of {SLOTS} turns, {} turns of {EVENTS} events, {count} server(s)",
        size.workers, size.turns
    );

    let (began, before) = (Instant::now(), servers.cpu());
    let each = size.workers / size.worker_processes;
    let mut workers = Vec::new();
    for index in 0..size.worker_processes {
        let (first, begun) = ((index * each).to_string(), begun.display().to_string());
        workers.push(Role::start(&[
            "workers".to_owned(),
            servers.urls.clone(),
            first,
            each.to_string(),
            begun,
        ])?);
    }
    for role in &mut workers {
        role.line()?;
    }
    let registered = servers.cpu().saturating_sub(before);
    println!("registered after {}: {} of the servers", shown(began.elapsed()), shown(registered));

    let cpu = |roles: &[Role]| roles.iter().map(Role::cpu).sum::<Duration>();
    let (began, before) = (Instant::now(), (servers.cpu(), cpu(&workers)));
    std::thread::sleep(size.idle);
    let per_second = |spent: Duration| spent.as_secs_f64() / began.elapsed().as_secs_f64();
    println!(
        "waiting: {:.3} of a core of the servers, {:.3} of the workers; {} MB at a server",
        per_second(servers.cpu().saturating_sub(before.0)),
        per_second(cpu(&workers).saturating_sub(before.1)),
        servers.memory() >> 20
    );

    let looks = 5;
    let (began, before) = (Instant::now(), (servers.cpu(), own_cpu()));
    for _ in 0..looks {
        let status = runtime.block_on(fleet.status()).map_err(io::Error::other)?;
        let seen = status.pools.get(POOL).map_or(0, |pool| pool.workers.len());
        if seen != size.workers {
            return Err(io::Error::other(format!("{seen} workers are seen")));
        }
    }
    println!(
        "status: {}, {} of the servers, {} of who looks",
        shown(began.elapsed() / looks),
        shown(servers.cpu().saturating_sub(before.0) / looks),
        shown(own_cpu().saturating_sub(before.1) / looks)
    );

    let stored = servers.streams();
    let share = size.turns / size.callers;
    let mut callers = Vec::new();
    for index in 0..size.callers {
        let arguments = ["caller", &servers.urls, &format!("c{index}"), &(index * share).to_string()];
        let more = [share.to_string(), size.at_once.to_string()];
        callers.push(Role::start(&arguments.into_iter().map(str::to_owned).chain(more).collect::<Vec<_>>())?);
    }
    for role in &mut callers {
        role.line()?;
    }
    let (began, before) = (Instant::now(), (servers.cpu(), cpu(&workers)));
    for role in &mut callers {
        if let Some(input) = &mut role.input {
            input.write_all(b"go\n")?;
        }
    }
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let (mut ended, mut callers_cpu) = (0, 0.0);
    for role in &mut callers {
        let said: Value = serde_json::from_str(&role.line()?)?;
        ended += said["ended"].as_u64().unwrap_or(0);
        callers_cpu += said["cpu"].as_f64().unwrap_or(0.0);
        for (priority, list) in said["times"].as_object().into_iter().flatten() {
            let list = list.as_array().into_iter().flatten().filter_map(Value::as_u64);
            times.entry(priority.clone()).or_default().extend(list);
        }
        for (fault, count) in said["faults"].as_object().into_iter().flatten() {
            *faults.entry(fault.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
    }
    let took = began.elapsed();
    let spent = (servers.cpu().saturating_sub(before.0), cpu(&workers).saturating_sub(before.1));
    let memory = servers.memory();
    // What is not needed any more is deleted within a moment.
    std::thread::sleep(Duration::from_secs(2));
    let turns = u32::try_from(size.turns).unwrap_or(u32::MAX);
    println!("ran in {}: {:.0} turns a second", shown(took), size.turns as f64 / took.as_secs_f64());
    println!(
        "a turn: {} of the servers, {} of the workers, {} of the callers; {} MB at a server at most",
        shown(spent.0 / turns),
        shown(spent.1 / turns),
        shown(Duration::from_secs_f64(callers_cpu) / turns),
        memory >> 20
    );
    for (stream, (bytes, messages)) in servers.streams() {
        let (bytes_before, messages_before) = stored.get(&stream).copied().unwrap_or_default();
        let bytes = bytes.saturating_sub(bytes_before) / u64::from(turns);
        let messages = messages.saturating_sub(messages_before);
        if messages > 0 {
            println!("stored in {stream}: {bytes} bytes for each turn, {messages} messages");
        }
    }
    for (priority, _) in PRIORITIES {
        let list = times.entry(priority.to_owned()).or_default();
        list.sort_unstable();
        let at = |part: usize| {
            list.get((list.len() * part / 100).min(list.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        println!(
            "{priority}: {} turns, from beginning to end {} ms at the median, {} ms at 99 %",
            list.len(),
            at(50),
            at(99)
        );
    }

    // The workers end before what they noted is counted: none begins anything any more.
    let (drain, mut is_drained) = (Instant::now(), true);
    for role in &mut workers {
        role.input = None;
    }
    for role in &mut workers {
        is_drained &= role.process.0.wait()?.success();
    }
    println!("drained after {}", shown(drain.elapsed()));
    let mut counts: HashMap<String, u64> = HashMap::new();
    for line in fs::read_to_string(&begun)?.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    let lost = (0..size.turns).filter(|number| !counts.contains_key(&number.to_string())).count();
    let twice = counts.values().filter(|count| **count > 1).count();
    println!("{lost} turns lost, {twice} begun twice, {ended} ended; faults: {faults:?}");
    let holds = lost == 0 && twice == 0 && ended == size.turns as u64 && faults.is_empty() && is_drained;
    println!("{}", if holds { "all that must hold holds" } else { "not all that must hold holds" });
    Ok(holds)
}
