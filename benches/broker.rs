//! What a message costs that is put, taken and finished through each store, after 1,000, 10,000 and 100,000 of them.
//!
//! `cargo bench --bench broker`, or with `-- --quick` for a first look. The store in JetStream is measured where NEXUS_REAL_NATS names a server,
//! as `real-servers/install` prints. With `--strict` the program ends with 1 if a message costs more than it may at the last mark. See README.md.

mod fleet_kit;

use std::{
    error::Error,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use fleet_kit::{Ended, cpu_of, own_cpu, shown};
use nexus_broker::{
    Address, BrokerStore, Envelope, JetStreamStore, MessagePriority, Payload, QueueLimits, SqliteStore,
};
use nexus_core::SystemClock;
use nexus_fleet::{Fleet, FleetSettings};

/// Messages whose cost is that at a mark: the last before it.
const WINDOW: usize = 200;
/// What a message may cost at the last mark, in those at the first.
const MUST_GROWTH: f64 = 2.0;
const QUEUES: usize = 10;
const LEASE: Duration = Duration::from_secs(3_600);

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--help") {
        println!("cargo bench --bench broker -- [--quick | --messages N] [--strict]");
        return ExitCode::SUCCESS;
    }
    let named = arguments.iter().skip_while(|argument| *argument != "--messages").nth(1);
    let marks = match named.map(|count| count.parse::<usize>()) {
        _ if has("--quick") => [200, 400, 800],
        None => [1_000, 10_000, 100_000],
        Some(Ok(count)) if count >= 20_000 => [count / 100, count / 10, count],
        Some(Ok(count)) if count >= 2_000 => [count / 10, count / 2, count],
        Some(_) => {
            eprintln!("--messages takes a number from 2000 on");
            return ExitCode::FAILURE;
        }
    };
    match measure(marks) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if has("--strict") => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(marks: [usize; 3]) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let mut limits = QueueLimits::default();
    limits.max_waiting = 1_000_000;
    println!("elapsed time and this process's processor time for one message, at each mark");
    let mut holds = runtime.block_on(async {
        let file = folder.path().join("messages.sqlite");
        let store = SqliteStore::open(&file, limits, Arc::new(SystemClock)).await?;
        let holds = through(&store, "SQLite", marks).await?;
        println!("  {:.0} bytes on the disk for one message", size(&file) / marks[2] as f64);
        Ok::<_, Failure>(holds)
    })?;
    let Some(program) = std::env::var_os("NEXUS_REAL_NATS") else {
        println!("JetStream: NEXUS_REAL_NATS names no nats-server: real-servers/install prints where one is");
        return Ok(holds);
    };
    let (server, url) = start(Path::new(&program), folder.path())?;
    holds &= runtime.block_on(async {
        let settings = FleetSettings { servers: vec![url.clone()], ..FleetSettings::default() };
        let fleet = Fleet::new(settings)?;
        let began = Instant::now();
        let store = loop {
            match JetStreamStore::open(&fleet, limits, Arc::new(SystemClock)).await {
                Ok(store) => break store,
                Err(error) if began.elapsed() > Duration::from_secs(30) => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let holds = through(&store, "JetStream", marks).await?;
        println!(
            "  {} of the server's processor for one message",
            shown(cpu_of(server.0.id()) / marks[2] as u32)
        );
        let began = Instant::now();
        JetStreamStore::open(&fleet, limits, Arc::new(SystemClock)).await?;
        println!("  {} until a broker that starts knows them all", shown(began.elapsed()));
        Ok::<_, Failure>(holds)
    })?;
    Ok(holds)
}

fn size(file: &Path) -> f64 {
    std::fs::metadata(file).map_or(0.0, |metadata| metadata.len() as f64)
}

/// Puts as many messages as the last mark says, then takes and finishes them, each with an answer.
async fn through(store: &dyn BrokerStore, name: &str, marks: [usize; 3]) -> Result<bool, Failure> {
    let began = Instant::now();
    let mut put = Marks::new(marks);
    for number in 0..marks[2] {
        let message = message(&format!("m{number}"))?;
        let queue = format!("agent:a{}:main", number % QUEUES);
        put.begin(number);
        store.put(&queue, &message).await?;
        put.end(number);
    }
    let mut handled = Marks::new(marks);
    for number in 0..marks[2] {
        let answer = message(&format!("answer to m{number}"))?;
        let queue = format!("agent:a{}:main", number % QUEUES);
        handled.begin(number);
        let held = store.take(&queue, MessagePriority::Low, LEASE).await?.ok_or("a message was lost")?;
        store.finish(&held.lease, &[("caller:c".to_owned(), answer)]).await?;
        handled.end(number);
        if held.envelope.message_id.as_str() != format!("m{number}") || held.deliveries != 1 {
            return Err(format!("{name}: another message came in place of m{number}").into());
        }
    }
    let answers = store.queues().await?.iter().map(|queue| queue.waiting.iter().sum::<u64>()).sum::<u64>();
    if answers != marks[2] as u64 {
        return Err(format!("{name}: {answers} answers to {} messages", marks[2]).into());
    }
    println!("{name}: {} messages in {:.0?}, none lost or doubled", marks[2], began.elapsed());
    Ok(put.show("put") & handled.show("take, finish with an answer"))
}

fn message(id: &str) -> Result<Envelope, Failure> {
    let content = "x".repeat(1_500);
    let payload: Payload =
        serde_json::from_value(serde_json::json!({ "type": "message", "payload": { "content": content } }))?;
    let mut envelope = Envelope::new(Address::agent("a")?, Address::agent("b")?, payload, &SystemClock);
    envelope.message_id = id.parse()?;
    Ok(envelope)
}

/// What was measured before each mark.
struct Marks {
    marks: [usize; 3],
    spent: [(Duration, Duration); 3],
    began: (Instant, Duration),
}

impl Marks {
    fn new(marks: [usize; 3]) -> Self {
        Self { marks, spent: Default::default(), began: (Instant::now(), Duration::ZERO) }
    }

    fn begin(&mut self, number: usize) {
        if self.marks.iter().any(|mark| number + WINDOW == *mark) {
            self.began = (Instant::now(), own_cpu());
        }
    }

    fn end(&mut self, number: usize) {
        if let Some(index) = self.marks.iter().position(|mark| number + 1 == *mark) {
            self.spent[index] = (self.began.0.elapsed(), own_cpu().saturating_sub(self.began.1));
        }
    }

    /// Shows it. `false`: a message costs too much more at the last mark, in processor time.
    fn show(&self, what: &str) -> bool {
        let each = |time: Duration| shown(time / u32::try_from(WINDOW).unwrap_or(1));
        for (mark, (elapsed, cpu)) in self.marks.iter().zip(self.spent) {
            println!("  {what}, at {mark}: {} elapsed, {} of the processor", each(elapsed), each(cpu));
        }
        let growth = self.spent[2].1.as_secs_f64() / self.spent[0].1.as_secs_f64().max(1e-9);
        println!("  {what}: {growth:.2} times the processor time of the first mark (must: {MUST_GROWTH})");
        growth <= MUST_GROWTH
    }
}

/// Starts a server, and tells where it is.
fn start(program: &Path, folder: &Path) -> Result<(Ended, String), Failure> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let child = Command::new(program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(folder.join("nats"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((Ended(child), format!("nats://127.0.0.1:{port}")))
}
