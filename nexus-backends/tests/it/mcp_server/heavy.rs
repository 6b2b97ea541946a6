//! Messages that are heavy, or slow, or very many: what they take, and who waits for them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_backends::mcp_server::McpServer;
use nexus_testkit::child_test;
use rmcp::model::CallToolRequestParams;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::flood::{Target, post, status};
use crate::support::party::{Deeds, beside, client, session, until};

/// The largest body that is read, in bytes.
const LARGEST: usize = 4 << 20;

/// A server, and how it is reached.
struct Place {
    server: McpServer,
    target: Target,
    deeds: Arc<Deeds>,
}

impl Place {
    async fn new() -> Self {
        let deeds = Arc::new(Deeds::default());
        let session = session(&deeds);
        let server = McpServer::open(Arc::clone(&session)).await.unwrap();
        let address: SocketAddr =
            server.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        Self { server, target: Target { address, session }, deeds }
    }
}

/// The headers of a client that has begun an MCP session.
async fn greeted(target: &Target) -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25" } });
    let answer = target.say(&hello, "").await;
    let named = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    format!("{}Mcp-Session-Id: {}\r\n", target.good_headers(), named.trim())
}

/// A call of `wait`, with `filling` among its arguments.
fn heavy(id: usize, filling: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"wait","arguments":{{"x":{filling}}}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_would_take_a_hundred_times_its_length_is_refused() {
    let Place { mut server, target, deeds } = Place::new().await;
    let attack = async {
        let headers = greeted(&target).await;
        let many =
            |item: &str, bytes: usize| format!("[{}0]", format!("{item},").repeat(bytes / (item.len() + 1)));
        let large = LARGEST - 1024;
        for filling in [many("0", large), many("[0]", large), many(r#"{"":0}"#, large)] {
            let answer = target.exchange(post("/mcp", &headers, &heavy(1, &filling))).await;
            assert!(matches!(status(&answer), 0 | 413), "{answer}");
        }
        assert_eq!(deeds.called(), 0);
        // As long, and text: it is what a model writes into a file.
        let text = format!(r#""{}""#, "[,{".repeat(large / 3));
        let mut held = target.connect().await;
        held.write_all(post("/mcp", &headers, &heavy(1, &text)).as_bytes()).await.unwrap();
        until(|| deeds.running() == 1).await;
    };
    beside(&mut server, attack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_calls_hold_is_bounded_for_as_long_as_they_run() {
    let Place { mut server, target, deeds } = Place::new().await;
    let attack = async {
        let headers = greeted(&target).await;
        // Each weighs about a third of what there is.
        let filling = format!("[{}0]", "0,".repeat(105_000));
        let mut held = Vec::new();
        for id in 1..=6 {
            let mut stream = target.connect().await;
            stream.write_all(post("/mcp", &headers, &heavy(id, &filling)).as_bytes()).await.unwrap();
            held.push(stream);
            if id <= 3 {
                until(|| deeds.running() as usize == id).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(deeds.running(), 3, "of six heavy calls");
        // Whoever says little is answered all the same.
        let answer = target.answer(target.ping(&(target.good_headers() + "Connection: close\r\n"))).await;
        assert_eq!(status(&answer), 200, "{answer}");
        // With a call its room is given back.
        held.remove(0);
        until(|| deeds.called() == 4).await;
    };
    beside(&mut server, attack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_stall_hold_up_nobody() {
    let Place { mut server, target, .. } = Place::new().await;
    let attack = async {
        let mut held = Vec::new();
        for number in 0..40 {
            let mut stream = target.connect().await;
            let headers = target.good_headers();
            let begun = match number % 2 {
                0 => format!("POST /mcp HTTP/1.1\r\n{headers}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"),
                _ => format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {LARGEST}\r\n\r\n{{"),
            };
            stream.write_all(begun.as_bytes()).await.unwrap();
            held.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let began = Instant::now();
        let answer = target.answer(target.ping(&(target.good_headers() + "Connection: close\r\n"))).await;
        assert_eq!(status(&answer), 200);
        // A body has half a minute.
        assert!(began.elapsed() < Duration::from_secs(28), "a ping waited {:?}", began.elapsed());
    };
    beside(&mut server, attack).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn silent_connections_that_come_again_and_again_hold_newcomers_up_for_moments() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !child_test::runs_alone(silent_connections_that_come_again_and_again_hold_newcomers_up_for_moments) {
        return;
    }
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    let Place { mut server, target, .. } = Place::new().await;
    let is_over = Arc::new(AtomicBool::new(false));
    for _ in 0..2000 {
        let (is_over, address) = (Arc::clone(&is_over), target.address);
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    let _ = stream.read(&mut [0; 16]).await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    let url = server.url();
    let token = target.token().to_owned();
    let work = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let began = Instant::now();
            let client = client(&url, &token).await.expect("a newcomer connects");
            let arguments = json!({ "a": 1, "b": 2 }).as_object().cloned().unwrap();
            client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await.unwrap();
            fastest = fastest.min(began.elapsed());
        }
        fastest
    });
    let fastest = beside(&mut server, work).await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    println!("the fastest of three newcomers took {fastest:?}");
    assert!(fastest < Duration::from_secs(30), "the fastest of three newcomers took {fastest:?}");
}
