//! A server that is attacked while somebody works with it.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_backends::mcp_server::McpServer;
use nexus_core::Session;
use rmcp::model::CallToolRequestParams;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::party::{Client, Deeds, client, session, until};

/// How long one call of the well-behaved client may take while others attack. Where more connect at once than the
/// system holds for a server, it lets newcomers try again after 1, 3, 7, 15 and 31 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an attacker knows, and what only a test does.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) session: Arc<Session>,
}

impl Target {
    pub(crate) fn token(&self) -> &str {
        self.session.token().expose()
    }

    /// The headers of a request that is served.
    pub(crate) fn good_headers(&self) -> String {
        format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n",
            self.address,
            self.token()
        )
    }

    /// A `ping`, with these headers.
    pub(crate) fn ping(&self, headers: &str) -> String {
        post("/mcp", headers, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
    }

    /// Sends one message as its client would, and reads the answer to its end.
    pub(crate) async fn say(&self, message: &serde_json::Value, headers: &str) -> String {
        let headers = format!("{}Connection: close\r\n{headers}", self.good_headers());
        let mut stream = self.connect().await;
        stream.write_all(post("/mcp", &headers, &message.to_string()).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the port is open")
    }

    /// Sends something, and reads what comes until the other side closes or is silent for a second.
    pub(crate) async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        // It may be closed while this is written.
        let _ = stream.write_all(request.as_ref()).await;
        let answer = read(&mut stream).await;
        self.assert_tells_nothing(&answer);
        answer
    }

    /// The same for a request that is answered, however long that takes.
    pub(crate) async fn answer(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        let _ = stream.write_all(request.as_ref()).await;
        let readable = tokio::time::timeout(PATIENCE, stream.readable()).await;
        readable.expect("it is answered").unwrap();
        let answer = read(&mut stream).await;
        self.assert_tells_nothing(&answer);
        answer
    }

    /// Nobody who is turned away learns what is behind the server.
    pub(crate) fn assert_tells_nothing(&self, answer: &str) {
        assert!(!answer.contains(self.token()), "the token is in an answer");
        for word in ["\"tools\"", "inputSchema", "Adds two", "clerk", "/mcp"] {
            assert!(!answer.contains(word), "{word:?} is told: {answer}");
        }
    }
}

/// Everything that comes until the other side closes, or is silent for a second.
pub(crate) async fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(count @ 1..)) =
        tokio::time::timeout(Duration::from_secs(1), stream.read(&mut buffer)).await
    {
        answer.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The status of an answer; 0 if there is none.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Runs an attack while a well-behaved client calls a tool over and over. The client is answered all the time, and no
/// call of anybody else reaches a tool.
pub(crate) async fn besieged<F: Future<Output = ()> + Send + 'static>(attack: impl FnOnce(Target) -> F) {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
    let token = session.token().expose().to_owned();
    let is_over = Arc::new(AtomicBool::new(false));
    let attack = attack(Target { address, session });
    let worker = tokio::spawn(work(url, token, Arc::clone(&is_over)));
    let begun = Arc::clone(&deeds);
    let siege = tokio::spawn(async move {
        // The client has begun to work when the attack begins, and goes on when it is over.
        until(|| begun.called() > 0).await;
        attack.await;
        let before = begun.called();
        until(|| begun.called() > before).await;
    });
    tokio::select! {
        never = server.serve() => match never {},
        ended = siege => ended.expect("the attack went as it was meant to"),
    }
    is_over.store(true, Ordering::SeqCst);
    let (calls, slowest) = tokio::select! {
        never = server.serve() => match never {},
        worked = worker => worked.expect("the well-behaved client was answered"),
    };
    println!("the well-behaved client made {calls} calls, and waited {slowest:?} at most");
    assert!(slowest < PATIENCE, "the well-behaved client waited {slowest:?}");
    assert_eq!(deeds.called(), calls, "only the client's calls reached a tool");
}

/// Calls a tool until it is over, and six times at least, however slow the machine is: how often, and how long the slowest call took.
/// Half of the calls come from a client that has just connected.
async fn work(url: String, token: String, is_over: Arc<AtomicBool>) -> (u32, Duration) {
    let client = client(&url, &token).await.expect("the client connects");
    let (mut calls, mut slowest) = (0, Duration::ZERO);
    while calls < 6 || !is_over.load(Ordering::SeqCst) {
        let began = Instant::now();
        add(&client).await;
        let newcomer = self::client(&url, &token).await.expect("a new client connects");
        add(&newcomer).await;
        newcomer.cancel().await.unwrap();
        calls += 2;
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.cancel().await.unwrap();
    (calls, slowest)
}

async fn add(client: &Client) {
    let arguments = json!({ "a": 20, "b": 3 }).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("add").with_arguments(arguments);
    let answer = tokio::time::timeout(PATIENCE, client.call_tool(call)).await;
    let answer = answer.expect("in time").expect("an answer");
    assert_eq!(answer.content[0].as_text().unwrap().text, "23");
}
