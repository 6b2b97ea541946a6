//! Clients that misuse the network of a sandbox.

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
