//! What a turn costs that goes through the fleet, beside the very same turn run here, and how that grows with turns at once.
//!
//! `NEXUS_REAL_NATS=… cargo bench -p nexus-turn-fleet --bench fleet`, or with `-- --quick` for a first look; `real/servers/install` prints
//! the variable. The server, the callers and eight workers are processes of their own; processor time is that of all callers and
//! workers together, without the server's, which stands beside it. With `--strict` the program ends with 1 if something that must hold
//! does not. See README.md.

mod fleet_kit;

use std::{
    io,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use fleet_kit::{Ended, cpu_of, own_cpu, shown};
use futures::StreamExt as _;
use nexus::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, CancelToken, Capabilities,
    EventEnvelope, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, Registry,
    ResumeHandle, Router, TurnError, TurnHost, TurnRequest, TurnResult, harness::RunningTurn,
    turn::MessageEnded,
};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, Worker, WorkerSettings};
use nexus_testkit::nats::{NATS_PROGRAM, NatsServer};

/// Processor time that a turn may cost more than here, callers and workers together.
const MUST_TURN: Duration = Duration::from_millis(15);
const AIM_TURN: Duration = Duration::from_millis(5);
/// As [`MUST_TURN`], for each event.
const MUST_EVENT: Duration = Duration::from_micros(60);
const AIM_EVENT: Duration = Duration::from_micros(20);
const WORKERS: usize = 8;
/// Turns that one worker runs at once.
const SLOTS: usize = 125;

/// Says as many messages as its prompt names.
#[derive(Debug)]
struct Sayer(BackendId);

#[async_trait]
impl ExecutionBackend for Sayer {
    fn id(&self) -> &BackendId {
        &self.0
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
        let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
        let prompt = turn.request.prompt_text();
        let (count, pause) = prompt.split_once(' ').unwrap_or((&prompt, "0"));
        let (count, pause) = (count.parse().unwrap_or(0), pause.parse().unwrap_or(0));
        for number in 0..count {
            turn.event(MessageEnded::new(format!("m{number}").into(), "x".repeat(100)));
            if pause > 0 && number % 10 == 0 {
                turn.pause(Duration::from_millis(pause))
                    .await
                    .map_err(|failure| failure.into_error(self.0.clone()))?;
            }
        }
        turn.event(MessageEnded::new("last".into(), "said"));
        turn.end(Ok((FinishReason::Stop, None))).await
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.0.clone() })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("worker") => return worker(&arguments[1], &arguments[2]),
        Some("--help") => {
            println!("cargo bench -p nexus-turn-fleet --bench fleet -- [--quick] [--strict]");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if std::env::var_os(NATS_PROGRAM).is_none() {
        println!("{NATS_PROGRAM} names no nats-server: real/servers/install prints where one is");
        return ExitCode::SUCCESS;
    }
    match measure(has("--quick")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if has("--strict") => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn settings(server: &str, worker: &str) -> FleetSettings {
    FleetSettings {
        servers: vec![server.to_owned()],
        max_waiting: Some(10_000),
        worker: WorkerSettings {
            name: Some(worker.to_owned()),
            turns: Some(SLOTS),
            ..WorkerSettings::default()
        },
        ..FleetSettings::default()
    }
}

fn worker(server: &str, name: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
            .backend(Arc::new(Sayer("sayer".into())))
            .from_value(serde_json::json!({}))
            .expect("a router");
        let worker = Worker::connect(settings(server, name), "bench", router).await.expect("a worker");
        let ready = |_: &_| {
            println!("ready");
            let _ = io::stdout().flush();
        };
        worker.run(CancelToken::new(), ready).await.expect("it runs");
    });
    ExitCode::SUCCESS
}

fn measure(is_quick: bool) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = runtime.block_on(NatsServer::start());
    let url = server.url();
    let fleet = Fleet::new(settings(&url, "none"))?;
    runtime.block_on(fleet.set_up(&["bench"])).map_err(io::Error::other)?;
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &url, &format!("w{number}")])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        workers.push(Ended(child));
        if line.trim() != "ready" {
            return Err(io::Error::other("a worker did not start"));
        }
    }
    let local: Arc<dyn ExecutionBackend> = Arc::new(Sayer("sayer".into()));
    let remote: Arc<dyn ExecutionBackend> = Arc::new(FleetBackend::new(Arc::clone(&local), "bench", fleet));
    let pids: Vec<u32> = workers.iter().map(|worker| worker.0.id()).collect();
    let bench = Bench { runtime, pids, server: server.pid().unwrap_or_default() };

    println!("turns of one event, {WORKERS} workers of {SLOTS} turns, one server");
    println!(
        "{:>8} {:>8} {:>14} {:>14} {:>14} {:>12}",
        "turns", "at once", "here, CPU", "fleet, CPU", "server, CPU", "fleet, time"
    );
    let mut holds = true;
    let mut per_turn = Vec::new();
    let scale = if is_quick { 1 } else { 4 };
    bench.run(&remote, 100, 10, 0, 0);
    for at_once in [1, 10, 100, 1_000] {
        let turns = match at_once {
            1 => 100 * scale,
            1_000 => 1_000 * scale,
            _ => 500 * scale,
        };
        let here = bench.run(&local, turns, at_once, 0, 0);
        let there = bench.run(&remote, turns, at_once, 0, 0);
        let cost = there.cpu.saturating_sub(here.cpu);
        per_turn.push((at_once, cost));
        holds &= cost <= MUST_TURN && there.lost == 0;
        println!(
            "{turns:>8} {at_once:>8} {:>14} {:>14} {:>14} {:>12}",
            shown(here.cpu),
            shown(there.cpu),
            shown(there.server),
            shown(there.time)
        );
    }
    println!(
        "a turn costs {} more than here (must {}, aim {})",
        shown(per_turn[1].1),
        shown(MUST_TURN),
        shown(AIM_TURN)
    );

    let events = 1_000;
    let turns = 20 * scale;
    let few = bench.run(&remote, turns, 4, 0, 0);
    let many = bench.run(&remote, turns, 4, events, 0);
    let here = bench.run(&local, turns, 4, events, 0);
    let each = |run: &Run| run.cpu.saturating_sub(few.cpu) / events as u32;
    let cost = each(&many).saturating_sub(here.cpu / events as u32);
    holds &= cost <= MUST_EVENT && many.lost == 0;
    println!(
        "an event costs {} more than here, in bursts (must {}, aim {})",
        shown(cost),
        shown(MUST_EVENT),
        shown(AIM_EVENT)
    );
    let slow = bench.run(&remote, turns, 4, 200, 2);
    let slow_here = bench.run(&local, turns, 4, 200, 2);
    let cost = slow.cpu.saturating_sub(few.cpu).saturating_sub(slow_here.cpu) / 200;
    holds &= cost <= MUST_EVENT && slow.lost == 0;
    println!("an event costs {} more than here, ten each 2 ms", shown(cost));

    let flight = bench.run(&remote, 1_000, 1_000, 20, 50);
    holds &= flight.lost == 0;
    println!(
        "1,000 turns of 20 events in flight at once: {} lost or doubled, {} in all",
        flight.lost,
        shown(flight.whole)
    );
    println!("{}", if holds { "all that must hold holds" } else { "not all that must hold holds" });
    drop(workers);
    drop(server);
    Ok(holds)
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    pids: Vec<u32>,
    server: u32,
}

/// What some turns took.
struct Run {
    /// Processor time for each turn, of caller and workers.
    cpu: Duration,
    /// As `cpu`, of the server.
    server: Duration,
    /// Time for each turn, from its beginning to its end: the mean.
    time: Duration,
    whole: Duration,
    /// Turns that failed, and events that are missing, doubled or out of order.
    lost: u64,
}

impl Bench {
    fn run(
        &self,
        backend: &Arc<dyn ExecutionBackend>,
        turns: usize,
        at_once: usize,
        events: usize,
        pause: u64,
    ) -> Run {
        let before = (self.cpu(), cpu_of(self.server), Instant::now());
        let outcomes: Vec<(Duration, u64)> = self.runtime.block_on(async {
            let turns = futures::stream::iter(0..turns).map(|_| async {
                let begun = Instant::now();
                let mut seen = 0;
                let mut lost = 0;
                let mut sink = |envelope: EventEnvelope| {
                    lost += u64::from(envelope.sequence != seen);
                    seen += 1;
                };
                let request = TurnRequest::new(format!("{events} {pause}"));
                let outcome = backend.run_turn(request, TurnHost::new(), &mut sink).await;
                // The start, the messages, and the last one.
                lost += u64::from(outcome.is_err()) + (seen).abs_diff(events as u64 + 2);
                (begun.elapsed(), lost)
            });
            turns.buffer_unordered(at_once).collect().await
        });
        let whole = before.2.elapsed();
        let count = u32::try_from(turns).unwrap_or(u32::MAX);
        let time: Duration = outcomes.iter().map(|(time, _)| *time).sum();
        Run {
            cpu: self.cpu().saturating_sub(before.0) / count,
            server: cpu_of(self.server).saturating_sub(before.1) / count,
            time: time / count,
            whole,
            lost: outcomes.iter().map(|(_, lost)| lost).sum(),
        }
    }

    /// Processor time of this process and the workers so far.
    fn cpu(&self) -> Duration {
        own_cpu() + self.pids.iter().map(|pid| cpu_of(*pid)).sum::<Duration>()
    }
}
