//! What a collector does not get is counted and told, and what it does to a request holds up no other.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_otlp::{ExportError, Exporter};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tracing_subscriber::layer::SubscriberExt as _;

const PATIENCE: Duration = Duration::from_secs(60);

/// How a collector answers its requests for traces, by their number from 0.
type Answer = dyn Fn(usize, &mut TcpStream) -> bool + Send + Sync;

/// A collector that counts the spans of the requests that `answer` says it took, and takes all metrics.
struct Collector {
    url: String,
    asked: Arc<AtomicUsize>,
    taken: Arc<AtomicU64>,
}

impl Collector {
    fn start(answer: impl Fn(usize, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answer, taken, requests) = (Arc::new(answer), Arc::default(), Arc::default());
        let collector = Self { url, asked: Arc::clone(&requests), taken: Arc::clone(&taken) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, taken, requests) =
                    (Arc::clone(&answer), Arc::clone(&taken), Arc::clone(&requests));
                std::thread::spawn(move || serve(stream, &*answer, &taken, &requests));
            }
        });
        collector
    }

    fn exporter(&self) -> Exporter {
        Exporter::start(&self.url.parse().unwrap(), "losses").unwrap()
    }

    /// Waits until there was a request for traces.
    async fn is_asked(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.asked.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < deadline, "no request came");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How many spans it took, once there are `expected`: it counts a batch when it has answered, which the exporter may learn first.
    fn taken_at_least(&self, expected: u64) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let taken = self.taken.load(Ordering::SeqCst);
            if taken >= expected || Instant::now() >= deadline {
                return taken;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, taken: &AtomicU64, requests: &AtomicUsize) {
    let mut read = Vec::new();
    let mut piece = [0; 65_536];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let whole = end + 4 + length.unwrap_or(0_usize);
        if read.len() < whole {
            continue;
        }
        let is_taken = match head.starts_with("post /v1/traces ") {
            true => answer(requests.fetch_add(1, Ordering::SeqCst), &mut stream),
            false => say(&mut stream, "200 OK", &[]),
        };
        if is_taken && head.starts_with("post /v1/traces ") {
            let request = ExportTraceServiceRequest::decode(&read[end + 4..whole]).unwrap();
            let scopes = request.resource_spans.iter().flat_map(|spans| &spans.scope_spans);
            taken.fetch_add(scopes.map(|scope| scope.spans.len() as u64).sum(), Ordering::SeqCst);
        }
        read.clear();
    }
}

fn say(stream: &mut TcpStream, status: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).is_ok() && status.starts_with("200")
}

/// Spans that end, one after the other.
fn end(exporter: &Exporter, spans: usize) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
        (0..spans).for_each(|_| drop(tracing::info_span!("one")));
    });
}

/// Asserts that it was told of as many lost spans as are not there, and returns the reason.
fn told(collector: &Collector, outcome: Result<(), ExportError>, ended: u64) -> String {
    let ExportError::SpansLost { lost, spans, reason } = outcome.unwrap_err() else { panic!("no loss") };
    assert_eq!((lost, spans), (ended - collector.taken_at_least(ended - lost), ended), "{reason}");
    reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_all_arrives_is_no_loss() {
    let collector = Collector::start(|_, stream| say(stream, "200 OK", &[]));
    let exporter = collector.exporter();
    end(&exporter, 1_500);
    exporter.shut_down(PATIENCE).await.unwrap();
    assert_eq!(collector.taken_at_least(1_500), 1_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_spans_than_may_wait_are_counted() {
    let collector = Collector::start(|_, stream| {
        std::thread::sleep(Duration::from_millis(200));
        say(stream, "200 OK", &[])
    });
    let exporter = collector.exporter();
    end(&exporter, 10_000);
    let outcome = exporter.shut_down(PATIENCE).await;
    assert!(collector.taken_at_least(2_048) >= 2_048);
    let reason = told(&collector, outcome, 10_000);
    assert!(reason.contains("OTEL_BSP_MAX_QUEUE_SIZE"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_never_answered_holds_up_no_other_and_is_told_of() {
    let collector = Collector::start(|number, stream| {
        if number == 0 {
            std::thread::sleep(10 * PATIENCE);
        }
        say(stream, "200 OK", &[])
    });
    let exporter = collector.exporter();
    // A whole batch goes at once.
    end(&exporter, 512);
    collector.is_asked().await;
    end(&exporter, 100);
    let begun = Instant::now();
    let outcome = exporter.shut_down(PATIENCE).await;
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    let reason = told(&collector, outcome, 612);
    assert!(reason.contains("does not answer in time"), "{reason}");
    assert_eq!(collector.taken_at_least(100), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_was_refused_is_lost_although_the_next_is_taken() {
    for refusal in
        ["400 Bad Request", "503 Busy\r\nretry-after: 30", "307 Moved\r\nlocation: http://127.0.0.1:9/"]
    {
        let collector = Collector::start(move |number, stream| match number {
            0 => say(stream, refusal, &[]),
            _ => say(stream, "200 OK", &[]),
        });
        let exporter = collector.exporter();
        end(&exporter, 512);
        collector.is_asked().await;
        end(&exporter, 100);
        let reason = told(&collector, exporter.shut_down(PATIENCE).await, 612);
        assert!(reason.contains(&format!("the collector answers {}", &refusal[..3])), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_busy_for_a_moment_is_asked_again() {
    let collector = Collector::start(|number, stream| match number {
        0 => say(stream, "429 Slow\r\nretry-after: 1", &[]),
        _ => say(stream, "200 OK", &[]),
    });
    let exporter = collector.exporter();
    end(&exporter, 100);
    exporter.shut_down(PATIENCE).await.unwrap();
    assert_eq!(collector.taken_at_least(100), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_dies_in_mid_answer_has_taken_nothing_that_is_known() {
    let collector = Collector::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nab");
        let _ = stream.shutdown(std::net::Shutdown::Both);
        false
    });
    let exporter = collector.exporter();
    end(&exporter, 10);
    let reason = told(&collector, exporter.shut_down(PATIENCE).await, 10);
    assert!(reason.contains("lost in the middle of the answer"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_collector_rejects_of_a_request_is_counted_and_its_reason_told() {
    let collector = Collector::start(|_, stream| {
        let partial = ExportTracePartialSuccess {
            rejected_spans: 4,
            error_message: format!("too old\u{1b}[2J{}", "x".repeat(10_000)),
        };
        say(stream, "200 OK", &ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
    });
    let exporter = collector.exporter();
    end(&exporter, 10);
    let ExportError::SpansLost { lost: 4, spans: 10, reason } =
        exporter.shut_down(PATIENCE).await.unwrap_err()
    else {
        panic!("4 of 10 are lost")
    };
    assert!(reason.contains("too old") && !reason.contains('\u{1b}') && reason.len() < 1_000, "{reason}");
}
