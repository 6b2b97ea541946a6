//! The HTTP client of the exporters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use nexus_auth::http::{ClientPlan, HttpProblem, Network, ReadError, read_whole};
use nexus_core::BuildContext;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::Client;
use tokio::runtime::Handle;

use crate::{Collector, span_count::SpanCount};

/// Time limit of connecting to the collector.
const CONNECT: Duration = Duration::from_secs(2);

/// Time limit of one request to the collector. The exporters limit only their retries, so a request that never ends
/// would block all later requests.
pub(crate) const REQUEST: Duration = Duration::from_secs(2);

/// Maximum number of bytes to read of a collector's answer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Maximum number of characters of the collector's own reason in a log line.
const MAX_REASON_CHARS: usize = 200;

/// Sends requests from the exporters' threads on the program's runtime, and stores the last problem of each signal.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    client: Client,
    runtime: Handle,
    problems: Arc<Mutex<Problems>>,
    count: Arc<SpanCount>,
}

/// Reasons why the collector did not accept requests.
#[derive(Debug, Default)]
struct Problems {
    /// Current problems, by the path to which the signal is sent. A successful request removes the entry.
    present: BTreeMap<String, String>,
    /// The last problem, even if the next request succeeded.
    last: Option<String>,
}

impl Sender {
    pub(crate) fn new(runtime: Handle, collector: &Collector, count: Arc<SpanCount>) -> Result<Self, String> {
        let mut context = BuildContext::in_home(".");
        context.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let plan = ClientPlan::new(&Network::default(), &context, CONNECT);
        let plan = plan.map_err(|error| error.to_string())?;
        // A proxy on another machine could not reach a collector on this one.
        let plan = if collector.is_loopback() { plan.without_proxies() } else { plan };
        let client = plan.build(collector.is_tls()).map_err(|error| error.to_string())?;
        Ok(Self { client, runtime, problems: Arc::default(), count })
    }

    /// Returns the problem of each signal's latest request, if it failed.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problems().present.values().next().cloned()
    }

    /// Returns the latest problem of any request.
    pub(crate) fn last_problem(&self) -> Option<String> {
        self.problems().last.clone()
    }

    fn problems(&self) -> MutexGuard<'_, Problems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the part of an accepted request that the collector rejected.
    fn rejected(&self, path: &str, answer: &[u8]) -> Option<String> {
        // The answer to metrics has the same fields with the same numbers, so one type decodes both.
        let answer = ExportTraceServiceResponse::decode(answer).ok()?;
        let partial = answer.partial_success?;
        let rejected = u64::try_from(partial.rejected_spans).ok().filter(|rejected| *rejected > 0)?;
        if path.ends_with("/traces") {
            self.count.rejected(rejected);
        }
        let reason: String = partial.error_message.chars().take(MAX_REASON_CHARS).collect();
        Some(format!("the collector rejects a part: {reason:?}"))
    }

    fn note(&self, path: String, problem: Option<String>) {
        let mut problems = self.problems();
        match problem {
            Some(problem) => {
                problems.last = Some(problem.clone());
                problems.present.insert(path, problem)
            }
            None => problems.present.remove(&path),
        };
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let path = request.uri().path().to_owned();
        let sent = send(self.client.clone(), request);
        // The SDK calls this function on a thread of its own, outside of any Tokio runtime.
        let outcome = match self.runtime.spawn(async { tokio::time::timeout(REQUEST, sent).await }).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_late)) => Err("the collector does not answer in time".into()),
            Err(_stopped) => Err("the program ended".into()),
        };
        let problem = match &outcome {
            Ok(response) if !response.status().is_success() => {
                Some(format!("the collector answers {}", response.status()))
            }
            Ok(response) if is_page(response) => Some("a web page answers instead of a collector".to_owned()),
            Ok(response) => self.rejected(&path, response.body()),
            Err(error) => Some(error.to_string()),
        };
        self.note(path, problem);
        outcome
    }
}

/// Returns true if the answer is a page for a browser, as from a login portal or a proxy that answers every
/// request.
fn is_page<T>(response: &Response<T>) -> bool {
    let kind = response.headers().get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.len() >= 9 && kind[..9].eq_ignore_ascii_case(b"text/html"))
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = request.try_into()?;
    let answer = client.execute(request).await.map_err(|error| HttpProblem::before_answer(&error, false))?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = answer.headers().clone();
    }
    let body = match read_whole(answer, MAX_ANSWER_BYTES).await {
        Ok(body) => Bytes::copy_from_slice(&body),
        // The status alone shows if the request succeeded.
        Err(ReadError::TooLarge) => Bytes::new(),
        Err(ReadError::Broken(problem)) => return Err(problem.into()),
    };
    Ok(response.body(body)?)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers requests, one after the other, with these heads.
    fn collector(answers: [&'static str; 3]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for head in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
                write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        });
        format!("http://{address}").parse().unwrap()
    }

    #[tokio::test]
    async fn what_one_signal_meets_with_is_told_whatever_becomes_of_the_other() {
        let collector = collector([
            "500 Oh",
            "200 OK\r\ncontent-type: Text/HTML; charset=utf-8",
            "200 OK\r\ncontent-type: application/x-protobuf",
        ]);
        let sender = Sender::new(Handle::current(), &collector, Arc::default()).unwrap();
        let send = async |signal: &str| {
            let request = Request::post(collector.of(signal)).body(Bytes::new()).unwrap();
            sender.send_bytes(request).await.unwrap();
            sender.problem()
        };
        assert_eq!(send("traces").await.unwrap(), "the collector answers 500 Internal Server Error");
        assert_eq!(send("metrics").await.unwrap(), "a web page answers instead of a collector");
        assert_eq!(send("metrics").await.unwrap(), "the collector answers 500 Internal Server Error");
    }
}
