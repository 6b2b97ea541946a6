//! `nexus run --otlp` with panels and fallbacks, before servers that repeat secrets and collectors that misbehave.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, Usage};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::any_value::Value,
    metrics::v1::metric::Data,
    trace::v1::Span,
};
use prost::Message as _;

use crate::support::Folder;

/// Longer than the command waits for a collector, by far.
const BOUND: Duration = Duration::from_secs(30);

/// How a collector answers a request.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// A head, and an empty body.
    Head(&'static str),
    /// The beginning of an answer, and the end of the connection.
    Half,
    /// Nothing.
    Nothing,
}

/// A path and a body.
type Request = (String, Vec<u8>);

/// What a collector was sent.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Request>>>);

impl Received {
    fn of(&self, path: &str) -> Vec<Vec<u8>> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|(known, _)| known == path).map(|(_, body)| body.clone()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.of("/v1/traces");
        let requests = requests.iter().map(|body| ExportTraceServiceRequest::decode(&**body).unwrap());
        let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|spans| spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// The sum of a histogram at the end.
    fn sum(&self, name: &str) -> f64 {
        let last = self.of("/v1/metrics").pop().unwrap();
        let request = ExportMetricsServiceRequest::decode(&*last).unwrap();
        let scopes = request.resource_metrics.into_iter().flat_map(|metrics| metrics.scope_metrics);
        let mut metrics = scopes.flat_map(|scope| scope.metrics).filter(|metric| metric.name == name);
        match metrics.next().and_then(|metric| metric.data) {
            Some(Data::Histogram(histogram)) => {
                histogram.data_points.iter().filter_map(|point| point.sum).sum()
            }
            other => panic!("{name} is {other:?}"),
        }
    }
}

fn collector(says: Says) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let kept = received.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || serve(stream, &kept, says));
        }
    });
    (url, received)
}

fn serve(mut stream: TcpStream, kept: &Received, says: Says) {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if read.len() < end + 4 + length.unwrap_or(0_usize) {
            continue;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        kept.0.lock().unwrap().push((path, read.split_off(end + 4)));
        read.clear();
        let answered = match says {
            Says::Head(head) => write!(stream, "HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n"),
            Says::Half => {
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
                return;
            }
            Says::Nothing => Ok(()),
        };
        if answered.is_err() {
            return;
        }
    }
}

fn model(reply: Reply) -> Sim {
    Sim::start(Dialect::Responses, Scenario::new(vec![reply; 8]).models(["simulated"])).unwrap()
}

fn answer() -> Reply {
    Reply::text("the answer").usage(Usage {
        input: 100,
        cached: 0,
        cache_write: 0,
        output: 7,
        reasoning: 0,
        cost_ticks: None,
    })
}

/// Three backends of three vendors at these addresses, of which each kind of work names some.
fn folder(urls: [&str; 3]) -> Folder {
    Folder::with(&format!(
        "groups: {{ chain: [one, two], first: [one], second: [two], third: [three] }}\n\
         models: {{ simulated: {{ chain: simulated, first: simulated, second: simulated, third: simulated }} }}\n\
         backends:\n  one: {{ kind: responses, base_url: {:?}, vendor: one, credential: {{ env: TOKEN }} }}\n  \
         two: {{ kind: responses, base_url: {:?}, vendor: two }}\n  \
         three: {{ kind: responses, base_url: {:?}, vendor: three }}\n\
         panels:\n  jury:\n    - {{ group: first, model: simulated }}\n    - {{ group: second, model: simulated }}\n    \
         - {{ group: third, model: simulated }}\n\
         types:\n  talker: {{ tier: execution, phase: talk, group: chain, model: simulated }}\n  \
         judges: {{ tier: advisory, phase: review, panel: jury }}\n",
        urls[0], urls[1], urls[2]
    ))
}

fn run(folder: &Folder, kind: &str, collector: &str) -> Output {
    let mut command = folder.command(&["run", "--otlp", collector, kind, "a question"]);
    command.env("TOKEN", TOKEN).output().unwrap()
}

const TOKEN: &str = "canary-token-0123456789";

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|known| known.key == key)?.value.as_ref()?.value.as_ref()?;
    match value {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The spans below `parent` whose names begin with `name`.
fn below<'s>(spans: &'s [Span], parent: &Span, name: &str) -> Vec<&'s Span> {
    let is_such = |span: &&Span| span.parent_span_id == parent.span_id && span.name.starts_with(name);
    spans.iter().filter(is_such).collect()
}

fn turns(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.parent_span_id.is_empty() && span.name.starts_with("turn ")).collect()
}

#[test]
fn each_seat_of_a_panel_is_a_tree_of_its_own_and_counts_once() {
    let (url, received) = collector(Says::Head("200 OK"));
    let [one, two, three] = [model(answer()), model(answer()), model(Reply::status(400))];
    let folder = folder([&one.base_url(), &two.base_url(), &three.base_url()]);
    let output = run(&folder, "judges", &url);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(!errors(&output).contains("telemetry"), "{}", errors(&output));
    let spans = received.spans();
    let turns = turns(&spans);
    assert_eq!(turns.len(), 3);
    let traces: std::collections::BTreeSet<_> = turns.iter().map(|turn| &turn.trace_id).collect();
    assert_eq!(traces.len(), 3);
    let mut failed = 0;
    for turn in &turns {
        let agents = below(&spans, turn, "invoke_agent");
        let [agent] = agents.as_slice() else { panic!("{} agents", agents.len()) };
        let [chat] = *below(&spans, agent, "chat") else { panic!("not one chat below {}", agent.name) };
        for span in [agent, &chat] {
            assert_eq!(span.trace_id, turn.trace_id);
        }
        match text(turn, "error.type") {
            Some(_) => failed += 1,
            None => assert_eq!(text(agent, "gen_ai.usage.input_tokens").as_deref(), Some("100")),
        }
    }
    assert_eq!(failed, 1);
    // Two seats with 100 and 7 tokens each.
    assert!((received.sum("gen_ai.client.token.usage") - 214.0).abs() < 0.5);
    assert_eq!(spans.iter().filter(|span| text(span, "gen_ai.operation.name").is_some()).count(), 6);
}

#[test]
fn a_turn_that_fell_back_is_one_tree_with_both_attempts() {
    let (url, received) = collector(Says::Head("200 OK"));
    let [one, two] = [model(Reply::status(401)), model(answer())];
    let folder = folder([&one.base_url(), &two.base_url(), &two.base_url()]);
    let output = run(&folder, "talker", &url);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"the answer\n"[..]),
        "{}",
        errors(&output)
    );
    let spans = received.spans();
    let turns = turns(&spans);
    let [turn] = turns.as_slice() else { panic!("{} turns", turns.len()) };
    assert_eq!(text(turn, "nexus.backend").as_deref(), Some("two"));
    assert_eq!(text(turn, "nexus.skipped").as_deref(), Some("1"));
    assert_eq!(text(turn, "error.type"), None);
    let mut agents = below(&spans, turn, "invoke_agent");
    agents.sort_by_key(|span| span.start_time_unix_nano);
    let names: Vec<_> = agents.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["invoke_agent one", "invoke_agent two"]);
    let kinds: Vec<_> = agents.iter().map(|span| text(span, "error.type")).collect();
    assert_eq!(kinds, [Some("Unauthenticated".to_owned()), None]);
    assert!((received.sum("gen_ai.client.token.usage") - 107.0).abs() < 0.5);
}

#[test]
fn a_server_that_repeats_the_token_everywhere_puts_it_into_no_span() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut read, mut piece) = (Vec::new(), [0; 65_536]);
                while !read.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut piece) {
                        Ok(count @ 1..) => read.extend_from_slice(&piece[..count]),
                        _ => return,
                    }
                }
                let name = format!(r#""name":"{TOKEN}","call_id":"{TOKEN}","id":"{TOKEN}""#);
                let call =
                    format!(r#"{{"type":"function_call",{name},"arguments":"{{}}","status":"completed"}}"#);
                let response = format!(
                    r#"{{"id":"{TOKEN}","object":"response","model":"{TOKEN}","status":"completed","output":[{call}],"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
                );
                let events = [
                    format!(
                        r#"{{"type":"response.created","response":{{"id":"{TOKEN}","model":"{TOKEN}"}}}}"#
                    ),
                    format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{call}}}"#),
                    format!(r#"{{"type":"response.completed","response":{response}}}"#),
                ];
                let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nopenai-model: {TOKEN}\r\n\
                     x-request-id: {TOKEN}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    let (url, received) = collector(Says::Head("200 OK"));
    let two = model(answer());
    let output = run(&folder([&base, &two.base_url(), &two.base_url()]), "judges", &url);
    let spans = received.spans();
    assert!(spans.iter().any(|span| span.name.starts_with("execute_tool")), "{}", errors(&output));
    for (path, body) in received.0.lock().unwrap().iter() {
        assert!(!body.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()), "{path}");
    }
    assert!(!errors(&output).contains(TOKEN), "{}", errors(&output));
}

#[test]
fn no_collector_costs_more_than_a_warning_with_the_number_of_spans() {
    for (says, words) in [
        (Says::Head("429 Slow\r\nretry-after: 30"), "answers 429"),
        (Says::Head("503 Busy\r\nretry-after: 86400"), "answers 503"),
        (Says::Head("302 Found\r\nlocation: http://127.0.0.1:9/"), "answers 302"),
        (Says::Head("200 OK\r\ncontent-type: text/html"), "a web page answers"),
        (Says::Half, "lost in the middle"),
        (Says::Nothing, "does not answer in time"),
    ] {
        for (reply, code, said) in [(answer(), 0, "the answer\n"), (Reply::status(400), 1, "")] {
            let (url, _) = collector(says);
            let one = model(reply);
            let folder = folder([&one.base_url(), &one.base_url(), &one.base_url()]);
            let begun = Instant::now();
            let output = run(&folder, "talker", &url);
            let complaint = errors(&output);
            assert!(begun.elapsed() < BOUND, "{says:?} took {:?}", begun.elapsed());
            assert_eq!(output.status.code(), Some(code), "{says:?} {complaint}");
            assert_eq!(output.stdout, said.as_bytes(), "{says:?}");
            assert!(complaint.contains("did not accept the telemetry"), "{says:?} {complaint}");
            assert!(complaint.contains(words), "{says:?} {complaint}");
            match words {
                "a web page answers" => {}
                _ => assert!(complaint.contains("of 3 spans are lost"), "{says:?} {complaint}"),
            }
        }
    }
}

#[test]
fn the_answer_does_not_wait_for_the_collector() {
    let (url, _) = collector(Says::Nothing);
    let one = model(answer());
    let folder = folder([&one.base_url(), &one.base_url(), &one.base_url()]);
    let mut command = folder.command(&["run", "--quiet", "--otlp", &url, "talker", "a question"]);
    let answer = folder.path().join("answer");
    command.env("TOKEN", TOKEN).stdout(File::create(&answer).unwrap()).stderr(Stdio::null());
    assert!(command.status().unwrap().success());
    let ended = SystemTime::now();
    assert_eq!(fs::read_to_string(&answer).unwrap(), "the answer\n");
    // The file system noted when it was written, however late this test runs.
    let answered = fs::metadata(&answer).unwrap().modified().unwrap();
    let given = ended.duration_since(answered).unwrap_or_default();
    assert!(given > Duration::from_secs(1), "the collector is given {given:?}");
}
