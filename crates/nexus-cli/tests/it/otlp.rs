//! `nexus run --otlp`: what reaches a collector, and what a collector that is not there costs.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Dialect, Scenario, Sim};

use crate::support::DEAD;

/// Longer than the command waits for a collector, by far.
const BOUND: Duration = Duration::from_secs(30);

/// Runs a turn against a simulated model.
fn run(otlp: &str, headers: Option<&str>) -> Output {
    let model = Sim::start(Dialect::Responses, Scenario::text("the answer").models(["simulated"])).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "groups: {{ main: [local] }}\nmodels: {{ simulated: {{ main: simulated }} }}\n\
         backends:\n  local: {{ kind: responses, base_url: {:?} }}\n\
         types:\n  talker: {{ tier: execution, phase: talk, group: main, model: simulated }}\n",
        model.base_url()
    );
    fs::write(folder.path().join("nexus.yaml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
    command
        .args(["run", "--otlp", otlp, "talker", "a question"])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("NEXUS_HOME", folder.path().join("nexus-home"))
        .env("NEXUS_CONFIG", "nexus.yaml")
        .stdin(Stdio::null());
    if let Some(headers) = headers {
        command.env("OTEL_EXPORTER_OTLP_HEADERS", headers);
    }
    command.output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A collector that takes everything, and what it was sent: the heads of the requests.
fn collector() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || serve(stream.unwrap(), &kept));
        }
    });
    (url, heads)
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if read.len() < end + 4 + length.unwrap_or(0) {
            continue;
        }
        read.clear();
        heads.lock().unwrap().push(head);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn a_turn_reaches_the_collector_with_the_headers_that_the_environment_names() {
    let (url, heads) = collector();
    let output = run(&url, Some("x-collector-key=canary-key"));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(output.stdout, b"the answer\n");
    assert!(!errors(&output).contains("telemetry"), "{}", errors(&output));
    let heads = heads.lock().unwrap();
    for path in ["/v1/traces", "/v1/metrics"] {
        let head = heads.iter().find(|head| head.starts_with(&format!("post {path} http/1.1")));
        let head = head.unwrap_or_else(|| panic!("nothing came to {path}: {heads:?}"));
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        assert!(head.contains("x-collector-key: canary-key"), "{head}");
    }
}

#[test]
fn a_collector_that_is_not_there_costs_a_warning_and_no_turn() {
    let began = Instant::now();
    let output = run(DEAD, Some("x-collector-key=canary-key"));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(output.stdout, b"the answer\n");
    let said = errors(&output);
    assert!(said.contains("did not accept the telemetry"), "{said}");
    assert!(!said.contains("canary"), "{said}");
    assert!(began.elapsed() < BOUND, "took {:?}", began.elapsed());
}

#[test]
fn a_collector_that_never_answers_is_not_waited_for_long() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    let output = run(&format!("http://{}", silent.local_addr().unwrap()), None);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(errors(&output).contains("did not accept the telemetry"), "{}", errors(&output));
    assert!(began.elapsed() < BOUND, "took {:?}", began.elapsed());
}

#[test]
fn what_is_no_collector_is_refused_before_the_turn_and_not_repeated() {
    for (url, place) in [
        ("canary", "--otlp: this is not a URL"),
        ("grpc://canary:4317", "--otlp: this is not an http or https URL"),
        ("http://user:canary@127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://127.0.0.1:4318/?key=canary", "a query"),
    ] {
        let output = run(url, None);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(place) && !said.contains("canary"), "{said}");
        assert!(output.stdout.is_empty());
    }
}
