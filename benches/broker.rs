//! What a message costs that is put, taken and finished through each store, over each tenth of 100,000 messages.
//!
//! `cargo bench -p nexus-turn-broker --features jetstream --bench broker`, or with `-- --quick` for a first look. The store in JetStream is measured where NEXUS_REAL_NATS names a server,
//! as `real/servers/install` prints. With `--strict` the program ends with 1 if a message of the last window costs more than it may beside one of
//! the first. See README.md.

mod fleet_kit;

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use fleet_kit::{cpu_of, own_cpu, shown};
use nexus_broker::{
    Address, BrokerStore, Envelope, JetStreamStore, MessagePriority, Payload, QueueLimits, SqliteStore,
};
use nexus_core::SystemClock;
use nexus_fleet::{Fleet, FleetSettings};
use nexus_testkit::nats::{NATS_PROGRAM, NatsServer};

/// Windows of the whole run, each with a figure of its own.
const WINDOWS: usize = 10;
/// What a message of the last window may cost in processor time, in those of the first.
const MUST_GROWTH: f64 = 1.5;
const QUEUES: usize = 10;
const LEASE: Duration = Duration::from_secs(3_600);

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--help") {
        println!(
            "cargo bench -p nexus-turn-broker --features jetstream --bench broker -- [--quick | --messages N] [--only sqlite | jetstream] [--strict]"
        );
        return ExitCode::SUCCESS;
    }
    let value = |flag: &str| arguments.iter().skip_while(|argument| *argument != flag).nth(1);
    let messages = match value("--messages").map(|count| count.parse::<usize>()) {
        _ if has("--quick") => 1_000,
        None => 100_000,
        Some(Ok(count)) if count >= 1_000 => count - count % WINDOWS,
        Some(_) => {
            eprintln!("--messages takes a number from 1000 on");
            return ExitCode::FAILURE;
        }
    };
    let only = value("--only").map(String::as_str);
    match measure(messages, only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if has("--strict") => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(messages: usize, only: Option<&str>) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let mut limits = QueueLimits::default();
    limits.max_waiting = 1_000_000;
    println!("{messages} messages; for one of them: time elapsed, and this process's processor time");
    let mut holds = true;
    if only != Some("jetstream") {
        holds &= runtime.block_on(async {
            let file = folder.path().join("messages.sqlite");
            let store = SqliteStore::open(&file, limits, Arc::new(SystemClock)).await?;
            let holds = through(&store, "SQLite", messages).await?;
            println!("  {:.0} bytes on the disk for one message", size(&file) / messages as f64);
            Ok::<_, Failure>(holds)
        })?;
    }
    if only == Some("sqlite") {
        return Ok(holds);
    }
    if std::env::var_os(NATS_PROGRAM).is_none() {
        println!("JetStream: {NATS_PROGRAM} names no nats-server: real/servers/install prints where one is");
        return Ok(holds);
    }
    holds &= runtime.block_on(async {
        let server = NatsServer::start().await;
        let settings = FleetSettings { servers: vec![server.url()], ..FleetSettings::default() };
        let fleet = Fleet::new(settings)?;
        let store = JetStreamStore::open(&fleet, limits, Arc::new(SystemClock)).await?;
        let holds = through(&store, "JetStream", messages).await?;
        println!(
            "  {} of the server's processor for one message",
            shown(cpu_of(server.pid().unwrap_or_default()) / messages as u32)
        );
        let began = (Instant::now(), own_cpu());
        JetStreamStore::open(&fleet, limits, Arc::new(SystemClock)).await?;
        println!(
            "  {} until a broker that starts knows them all, {} of its processor",
            shown(began.0.elapsed()),
            shown(own_cpu().saturating_sub(began.1))
        );
        Ok::<_, Failure>(holds)
    })?;
    Ok(holds)
}

fn size(file: &Path) -> f64 {
    std::fs::metadata(file).map_or(0.0, |metadata| metadata.len() as f64)
}

/// Puts so many messages, then takes and finishes them, each with an answer.
async fn through(store: &dyn BrokerStore, name: &str, messages: usize) -> Result<bool, Failure> {
    let began = Instant::now();
    let mut put = Windows::new(messages);
    for number in 0..messages {
        let message = message(&format!("m{number}"))?;
        let queue = format!("agent:a{}:main", number % QUEUES);
        store.put(&queue, &message).await?;
        put.count();
    }
    let mut handled = Windows::new(messages);
    for number in 0..messages {
        let answer = message(&format!("answer to m{number}"))?;
        let queue = format!("agent:a{}:main", number % QUEUES);
        let held = store.take(&queue, MessagePriority::Low, LEASE).await?.ok_or("a message was lost")?;
        store.finish(&held.lease, &[("caller:c".to_owned(), answer)]).await?;
        handled.count();
        if held.envelope.message_id.as_str() != format!("m{number}") || held.deliveries != 1 {
            return Err(format!("{name}: another message came in place of m{number}").into());
        }
    }
    let answers = store.queues().await?.iter().map(|queue| queue.waiting.iter().sum::<u64>()).sum::<u64>();
    if answers != messages as u64 {
        return Err(format!("{name}: {answers} answers to {messages} messages").into());
    }
    println!("{name}: {messages} messages in {:.0?}, none lost or doubled", began.elapsed());
    println!("  {:>12}  {:>22}  {:>22}", "up to", "put", "take, finish");
    for (index, (put, handled)) in put.ended.iter().zip(&handled.ended).enumerate() {
        let cell = |(elapsed, cpu): &(Duration, Duration)| format!("{}, {}", shown(*elapsed), shown(*cpu));
        println!("  {:>12}  {:>22}  {:>22}", (index + 1) * messages / WINDOWS, cell(put), cell(handled));
    }
    Ok(put.is_flat("put") & handled.is_flat("take and finish with an answer"))
}

fn message(id: &str) -> Result<Envelope, Failure> {
    let content = "x".repeat(1_500);
    let payload: Payload =
        serde_json::from_value(serde_json::json!({ "type": "message", "payload": { "content": content } }))?;
    let mut envelope = Envelope::new(Address::agent("a")?, Address::agent("b")?, payload, &SystemClock);
    envelope.message_id = id.parse()?;
    Ok(envelope)
}

/// Time elapsed and processor time of a message, in each window.
struct Windows {
    size: usize,
    counted: usize,
    began: (Instant, Duration),
    ended: Vec<(Duration, Duration)>,
}

impl Windows {
    fn new(messages: usize) -> Self {
        let began = (Instant::now(), own_cpu());
        Self { size: messages / WINDOWS, counted: 0, began, ended: Vec::new() }
    }

    /// One message more has passed.
    fn count(&mut self) {
        self.counted += 1;
        if self.counted.is_multiple_of(self.size) {
            let now = (Instant::now(), own_cpu());
            let each = |time: Duration| time / u32::try_from(self.size).unwrap_or(u32::MAX);
            self.ended.push((each(now.0 - self.began.0), each(now.1.saturating_sub(self.began.1))));
            self.began = now;
        }
    }

    /// Shows how much more a message of the last window costs than one of the first. `false`: more than it may.
    fn is_flat(&self, what: &str) -> bool {
        let cpu = |window: Option<&(Duration, Duration)>| window.map_or(0.0, |window| window.1.as_secs_f64());
        let growth = cpu(self.ended.last()) / cpu(self.ended.first()).max(1e-9);
        let verdict = if growth <= MUST_GROWTH { "met" } else { "missed" };
        println!(
            "  {what}: last window to first {growth:.2} in processor time (must {MUST_GROWTH}: {verdict})"
        );
        growth <= MUST_GROWTH
    }
}
