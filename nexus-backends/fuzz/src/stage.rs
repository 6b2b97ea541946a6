//! Plays scripts: one runtime and one listener for the whole process, and a simulated clock.
//!
//! The clock belongs to the turn. It stands still while the turn or the server makes progress. Without progress every
//! task waits for a timer, so the clock advances. So neither a delay nor a stall takes real time, and the clock of the
//! machine decides nothing.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{
    BackendId, BuildContext, CancelToken, ConversationMode, Effort, EventEnvelope, EventSink,
    ExecutionBackend, Limits, Registry, TurnError, TurnHost, TurnRequest, TurnResult,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime, time::Instant};

use crate::{
    checks,
    script::{Ask, KEY, Kind, Script},
    server::Server,
    tools,
};

/// The deadline of every turn.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// Time limit for the return of a turn.
const PATIENCE: Duration = Duration::from_secs(4);
/// Maximum number of model calls of a turn.
pub const MODEL_CALLS: u32 = 4;
/// Maximum number of repetitions of a model call.
pub const RETRIES: u32 = 1;
/// Longest event of the stream where a script wants it short, in bytes.
const SMALL_EVENT_BYTES: u64 = 300;

/// Step of the clock.
const STEP: Duration = Duration::from_millis(100);
/// Number of rounds of the runtime without progress after which the clock advances.
const QUIET_ROUNDS: u32 = 40;
/// Number of rounds within which all tasks of a turn must end.
const LAST_ROUNDS: u32 = 2_000;

/// A runtime, a listener, and the kinds of backend.
#[derive(Debug)]
pub struct Stage {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    registry: Registry,
    shows: bool,
}

/// Outcome of a turn.
#[derive(Debug)]
pub struct Outcome {
    /// Result of the turn.
    pub result: Result<TurnResult, TurnError>,
    /// Events that the sink received.
    pub events: Vec<EventEnvelope>,
    /// The requests for a model's reply that the server has seen.
    pub requests: Vec<Vec<u8>>,
    /// Duration of the turn, by its clock.
    pub elapsed: Duration,
}

/// Counts steps of progress.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Counts one step of progress.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stage {
    /// Creates a stage. If the variable `NEXUS_FUZZ_SHOW` is set, it prints the outcome of each turn.
    ///
    /// # Panics
    ///
    /// If the loopback address cannot be used.
    #[must_use]
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime can be made");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback is there");
        let address = listener.local_addr().expect("a listener has an address");
        let shows = std::env::var_os("NEXUS_FUZZ_SHOW").is_some();
        Self { runtime, listener, address, registry: nexus_backends::registry(), shows }
    }

    /// Plays a script and checks how it ended.
    ///
    /// # Panics
    ///
    /// A panic is a finding.
    pub fn play(&self, input: &[u8]) {
        let script = Script::read(input);
        let outcome = self.runtime.block_on(self.perform(&script));
        if self.shows {
            show(&outcome);
        }
        checks::check(&script, &outcome);
    }

    async fn perform(&self, script: &Script) -> Outcome {
        let pulse = Pulse::default();
        let server = Server::new(script, &pulse);
        let backend = self.backend(&script.ask);
        let cancel = CancelToken::new();
        let mut sink = Sink::new(&script.ask, &pulse, &cancel);
        let host = TurnHost::new().with_tools(tools::tools()).with_cancel(cancel);
        let started = Instant::now();
        let result = {
            let turn = backend.run_turn(request(&script.ask), host, &mut sink);
            tokio::select! {
                biased;
                result = turn => result,
                () = tokio::time::sleep(PATIENCE) => panic!("the turn has not come back after {PATIENCE:?}"),
                never = server.serve(&self.listener) => match never {},
                never = drive(&pulse) => match never {},
            }
        };
        let elapsed = started.elapsed();
        drop(backend);
        nothing_is_left().await;
        Outcome { result, events: sink.events, requests: server.into_requests(), elapsed }
    }

    fn backend(&self, ask: &Ask) -> Arc<dyn ExecutionBackend> {
        let mut settings = json!({
            "base_url": format!("http://{}/v1", self.address),
            "model": "m",
            "retries": RETRIES,
            "max_wait_seconds": 0,
        });
        if ask.key || ask.kind != Kind::Responses {
            settings["credential"] = json!({ "env": "KEY" });
        }
        if ask.small_events {
            settings["max_event_bytes"] = json!(SMALL_EVENT_BYTES);
        }
        let Value::Object(settings) = settings else { unreachable!("settings are an object") };
        let environment = BTreeMap::from([("KEY".to_owned(), KEY.to_owned())]);
        let context = BuildContext::in_home("/nonexistent")
            .with_base_directory("/nonexistent")
            .with_environment(environment);
        let kind = self.registry.kind(ask.kind.name()).expect("the kind is part of this build");
        kind.build(BackendId::new("hostile"), &settings, &context).expect("the settings are in order")
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

fn request(ask: &Ask) -> TurnRequest {
    let mut limits = Limits::new().with_deadline(DEADLINE).with_model_calls(MODEL_CALLS);
    if let Some(calls) = ask.budget {
        limits = limits.with_tool_calls(calls);
    }
    if let Some(tokens) = ask.tokens {
        limits = limits.with_output_tokens(tokens);
    }
    let mut request =
        TurnRequest::new("Go on.").with_system("Be kind.").with_effort(Effort::High).with_limits(limits);
    if ask.schema {
        request = request.with_output(tools::schema());
    }
    if ask.keep {
        request = request.with_conversation(ConversationMode::Keep);
    }
    request
}

/// Advances the clock whenever there is no other progress.
async fn drive(pulse: &Pulse) -> Infallible {
    let mut seen = pulse.count();
    let mut quiet_rounds = 0;
    loop {
        tokio::task::yield_now().await;
        let count = pulse.count();
        if count != seen {
            seen = count;
            quiet_rounds = 0;
            continue;
        }
        quiet_rounds += 1;
        if quiet_rounds >= QUIET_ROUNDS {
            quiet_rounds = 0;
            tokio::time::advance(STEP).await;
        }
    }
}

/// Checks that no task continues after the turn has returned and its backend is dropped.
async fn nothing_is_left() {
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..LAST_ROUNDS {
        if metrics.num_alive_tasks() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks are left of the turn", metrics.num_alive_tasks());
}

fn show(outcome: &Outcome) {
    let Outcome { result, events, requests, elapsed } = outcome;
    let end = match result {
        Ok(result) => format!("ok {:?}", result.text),
        Err(error) => format!("{:?} {:?}", error.kind(), error.message()),
    };
    eprintln!("{end}; {} events, {} requests, {elapsed:?}", events.len(), requests.len());
}

/// Stores the events.
struct Sink {
    events: Vec<EventEnvelope>,
    slow: bool,
    is_ready: bool,
    cancel_after: Option<usize>,
    cancel: CancelToken,
    pulse: Pulse,
}

impl Sink {
    fn new(ask: &Ask, pulse: &Pulse, cancel: &CancelToken) -> Self {
        if ask.cancel_after == Some(0) {
            cancel.cancel();
        }
        Self {
            events: Vec::new(),
            slow: ask.slow,
            is_ready: false,
            cancel_after: ask.cancel_after,
            cancel: cancel.clone(),
            pulse: pulse.clone(),
        }
    }
}

impl EventSink for Sink {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.is_ready = !self.slow || !self.is_ready;
        if self.is_ready {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn accept(&mut self, event: EventEnvelope) {
        self.pulse.beat();
        self.events.push(event);
        if self.cancel_after == Some(self.events.len()) {
            self.cancel.cancel();
        }
    }
}
