//! Clients that misuse the network of a sandbox.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

#[tokio::test]
async fn a_request_without_a_version_is_refused() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network =
        OpenedNetwork::new(&[&format!("pages.test:{port}"), &format!("127.0.0.1:{port}")]).here("pages.test");
    for line in ["GET /", "GET x", "FOO http://evil.test/", "GET / RTSP/1.0"] {
        let text =
            network.said(&format!("ask pages.test {port} '{line}\\r\\nHost: evil.test\\r\\n\\r\\n'")).await;
        assert_eq!(text, "", "{line}");
        assert_eq!(server.request(), "", "{line}");
    }
    // A binary protocol without a line break passes at once.
    let start = std::time::Instant::now();
    let text = network.said(&format!("ask pages.test {port} '0\\x0c\\x02\\x01'")).await;
    assert!(text.contains("canary") && start.elapsed() < Duration::from_secs(8), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_run_leave_the_others_theirs() {
    if !has_sandbox().await {
        return;
    }
    let server = CanaryServer::new();
    let port = server.port;
    let network = OpenedNetwork::new(&[&format!("localhost:{port}")]);
    let idle =
        format!("for n in $(seq 70); do exec {{fd}}<>/dev/tcp/localhost/{port}; done; echo open; sleep 60");
    let mut run = network.sandbox().start(bash(&idle)).await.unwrap();
    while !run.output()[0].text().contains("open") {
        assert!(tokio::time::timeout(Duration::from_millis(10), run.wait()).await.is_err());
    }
    let text = network.said(&format!("ask localhost {port} x")).await;
    assert!(text.contains("canary"), "{text}");
    drop(run);
}

#[tokio::test]
async fn with_any_number_of_descriptors_a_program_has_its_whole_network_or_does_not_start() {
    let this = with_any_number_of_descriptors_a_program_has_its_whole_network_or_does_not_start;
    if !has_sandbox().await || !child_test::runs_alone(this) {
        return;
    }
    let names = ["a.test", "b.test", "c.test", "d.test"];
    let network = OpenedNetwork::new(&names);
    let script = format!(
        "for name in {}; do for port in 80 443; do (exec 3<>/dev/tcp/$name/$port) || echo \"no $name:$port\"; done; done",
        names.join(" ")
    );
    let before = getrlimit(Resource::Nofile);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut ran, mut was_refused) = (0, 0);
    let count = open();
    for free in (8..64).step_by(6) {
        setrlimit(Resource::Nofile, Rlimit { current: Some((count + free) as u64), ..before }).unwrap();
        let outcome = network.sandbox().run(bash(&script)).await;
        setrlimit(Resource::Nofile, before).unwrap();
        match outcome {
            Ok(outcome) => {
                let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
                assert!(outcome.is_success() && stdout.is_empty(), "{free}: {stdout}\n{stderr}");
                ran += 1;
            }
            Err(error) => {
                assert!(error.is_scarcity(), "{free}: {error:?}");
                was_refused += 1;
            }
        }
        for _ in 0..6000 {
            if open() == count {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(open(), count, "{free}");
    }
    assert!(ran > 0 && was_refused > 0, "{ran} ran, {was_refused} were refused");
}
