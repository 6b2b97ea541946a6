//! Processes that take, handle and finish messages, killed with SIGKILL: each message comes to one answer.
//!
//! NEXUS_TEST_ROUNDS says how many kills there are, and NEXUS_TEST_SEED draws other moments.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nexus_broker::{BrokerStore, Envelope, EnvelopeId, MessagePriority, Payload, QueueLimits, SqliteStore};
use nexus_core::SystemClock;
use nexus_testkit::{child_test, effort};

use super::{
    kit::{PATIENCE, message, take},
    sqlite::File,
};

/// Tells the program which store it works on.
const ROLE: &str = "NEXUS_TEST_BROKER_ROLE";
/// How long a process holds a message.
const HELD: Duration = Duration::from_millis(400);
/// Messages that are put before each kill.
const PUT_EACH: usize = 6;

/// What a process does that a test started: it returns at once where none did.
#[test]
fn role() {
    let Ok(at) = env::var(ROLE) else { return };
    // It ends with the test.
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(&at).await;
        println!("ready");
        loop {
            store.wait("q", PATIENCE).await.unwrap();
            let Some(held) = store.take("q", MessagePriority::Low, HELD).await.unwrap() else { continue };
            let (first, second) = (answer(&held.envelope, "answers"), answer(&held.envelope, "more"));
            let handled = match store.extend(&held.lease, HELD).await {
                Ok(()) => store.finish(&held.lease, &[first, second]).await,
                late => late,
            };
            // Late, on a busy machine: another has it then.
            if let Err(error) = handled {
                assert_eq!(error.kind, nexus_broker::BrokerErrorKind::Conflict, "{error}");
            }
        }
    });
}

/// An answer with an id of its own: two to one message would be two.
fn answer(to: &Envelope, queue: &str) -> (String, Envelope) {
    let mut answer = message("answer", &SystemClock);
    answer.message_id = EnvelopeId::random();
    answer.payload = serde_json::from_value(serde_json::json!({
        "type": "message", "payload": { "content": "done", "in_reply_to": to.message_id.as_str() },
    }))
    .unwrap();
    (queue.to_owned(), answer)
}

async fn open(at: &str) -> Arc<dyn BrokerStore> {
    let (limits, clock) = (QueueLimits::default(), Arc::new(SystemClock));
    #[cfg(feature = "jetstream")]
    if at.starts_with("nats://") {
        return Arc::new(super::jetstream::connect(at, limits, clock).await.unwrap());
    }
    Arc::new(SqliteStore::open(at, limits, clock).await.unwrap())
}

struct Process(Child);

impl Process {
    fn start(at: &str) -> Self {
        let mut command = child_test::command(role);
        Self(command.env(ROLE, at).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn is_ready(&mut self) {
        let output = BufReader::new(self.0.stdout.as_mut().unwrap());
        assert!(output.lines().any(|line| line.unwrap().ends_with("ready")), "it ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Numbers that look random and are the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Kills processes on the store at `at`, and counts what came of it.
pub(crate) async fn each_message_has_one_answer(at: &str) {
    let (kills, seed) = (effort::rounds(), effort::seed());
    println!("{kills} kills, NEXUS_TEST_SEED={seed}");
    let mut draw = Draw(seed);
    let store = open(at).await;
    let mut put = 0;
    let mut older = Process::start(at);
    older.is_ready();
    for _ in 0..kills {
        let mut younger = Process::start(at);
        for _ in 0..PUT_EACH {
            store.put("q", &message(&format!("m{put}"), &SystemClock)).await.unwrap();
            put += 1;
        }
        younger.is_ready();
        tokio::time::sleep(Duration::from_micros(draw.below(30_000))).await;
        // Killed in mid-work, or before it has any.
        drop(std::mem::replace(&mut older, younger));
    }
    let began = Instant::now();
    let mut answers: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    loop {
        for (index, queue) in ["answers", "more"].into_iter().enumerate() {
            while let Some(held) = take(&*store, queue).await {
                let Payload::Message { in_reply_to: Some(id), .. } = &held.envelope.payload else {
                    panic!("{:?}", held.envelope)
                };
                answers.entry(id.to_string()).or_default()[index] += 1;
                store.finish(&held.lease, &[]).await.unwrap();
            }
        }
        let queues = store.queues().await.unwrap();
        if queues.is_empty() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "left: {queues:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(answers.len(), put);
    let wrong: Vec<_> = answers.iter().filter(|(_, count)| **count != [1, 1]).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let log = store.log(0, usize::MAX).await.unwrap();
    assert_eq!(log.len(), 3 * put, "each message and each answer is told of once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_on_a_file_are_killed_and_each_message_has_one_answer() {
    let file = File::new();
    each_message_has_one_answer(file.path().to_str().unwrap()).await;
}
