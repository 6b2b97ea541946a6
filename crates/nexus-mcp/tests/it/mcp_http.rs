//! The server over streamable HTTP: through the client of the SDK for Rust, and by hand where that would not do it. The server's
//! defences are tested where it serves a turn: `nexus-backends/tests/it/mcp_server`.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use nexus_mcp::{HttpServer, HttpSettings, HttpToken, TokenError};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, GetTaskParams,
        Implementation, ProtocolVersion, TASKS_EXTENSION_ID, TaskPayload, TaskStatus,
    },
    service::{ClientLifecycleMode, ClientServiceExt as _, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};

use crate::support::Workshop;

struct Site {
    address: SocketAddr,
    token: HttpToken,
    workshop: Workshop,
    server: JoinHandle<()>,
    end: Option<oneshot::Sender<()>>,
    _folder: tempfile::TempDir,
}

impl Site {
    async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let token = HttpToken::load_or_create(&folder.path().join("token")).unwrap();
        let workshop = Workshop::default();
        let settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), token.clone());
        let server = HttpServer::bind(Arc::new(workshop.clone()), settings).await.unwrap();
        let (end, ended) = oneshot::channel();
        let address = server.address();
        let server = tokio::spawn(server.serve(async {
            let _ = ended.await;
        }));
        Self { address, token, workshop, server, end: Some(end), _folder: folder }
    }

    async fn client(&self) -> RunningService<RoleClient, ()> {
        let url = format!("http://{}/mcp", self.address);
        let config =
            StreamableHttpClientTransportConfig::with_uri(url).auth_header(self.token.expose().to_owned());
        ().serve(StreamableHttpClientTransport::from_config(config)).await.expect("the client begins")
    }

    /// The head of a request that is in order, with `changes` in place of its own headers of these names.
    fn head(&self, length: usize, changes: &[(&str, &str)]) -> String {
        let own = [
            ("Host", self.address.to_string()),
            ("Authorization", format!("Bearer {}", self.token.expose())),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Length", length.to_string()),
            ("Connection", "close".to_owned()),
        ];
        let mut head = "POST /mcp HTTP/1.1\r\n".to_owned();
        for (name, value) in own {
            if !changes.iter().any(|(changed, _)| *changed == name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in changes {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    async fn post(&self, message: &Value, changes: &[(&str, &str)]) -> (u16, String) {
        let body = message.to_string();
        self.raw(&format!("{}{body}", self.head(body.len(), changes))).await
    }

    /// Sends bytes, and reads the answer to its end.
    async fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer))
            .await
            .expect("in time");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("a status in {answer:?}")), answer)
    }

    async fn finish(mut self) {
        drop(self.end.take());
        tokio::time::timeout(Duration::from_secs(60), &mut self.server).await.expect("in time").unwrap();
        assert_eq!(self.workshop.deeds.stopped.load(Ordering::SeqCst), 1);
    }
}

fn request(method: &str, params: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params.into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_list_and_call_side_by_side() {
    let site = Site::open().await;
    let (one, other) = (site.client().await, site.client().await);
    for client in [&one, &other] {
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools[0].name, "echo");
    }
    let calls = (0..20).map(|index| {
        let client = if index % 2 == 0 { &one } else { &other };
        async move {
            let arguments = json!({ "text": index.to_string() }).as_object().cloned().unwrap();
            let result =
                client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await.unwrap();
            assert_eq!(result.structured_content, Some(json!({ "text": index.to_string() })));
        }
    });
    futures::future::join_all(calls).await;
    one.cancel().await.unwrap();
    other.cancel().await.unwrap();
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_the_rust_sdk_fetches_a_long_call_as_a_task() {
    let site = Site::open().await;
    let url = format!("http://{}/mcp", site.address);
    let config =
        StreamableHttpClientTransportConfig::with_uri(url).auth_header(site.token.expose().to_owned());
    let mut capabilities = ClientCapabilities::default();
    capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())].into());
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = ClientConfig::new(capabilities, Implementation::new("test", "1"))
        .serve_with_lifecycle(StreamableHttpClientTransport::from_config(config), lifecycle)
        .await
        .expect("the client begins");
    let answer = client.call_tool_once(CallToolRequestParams::new("hold")).await.unwrap();
    let CallToolResponse::Task(created) = answer else { panic!("a task, not {answer:?}") };
    let fetch =
        async || client.get_task(GetTaskParams::new(created.task.task_id.clone())).await.unwrap().task;
    assert_eq!(fetch().await.status(), TaskStatus::Working);
    let deeds = &site.workshop.deeds;
    deeds.reaches(&deeds.begun, 1).await;
    site.workshop.release.notify_waiters();
    let until = Instant::now() + Duration::from_secs(60);
    let fetched = loop {
        let task = fetch().await;
        if task.status() != TaskStatus::Working {
            break task;
        }
        assert!(Instant::now() < until, "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let TaskPayload::Completed { result } = fetched.payload else { panic!("done, not {fetched:?}") };
    assert_eq!(result["structuredContent"], json!({ "deferred": true }));
    client.cancel().await.unwrap();
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_by_a_wrong_token_host_or_origin() {
    let site = Site::open().await;
    let call = request("tools/call", json!({ "name": "wait", "arguments": { "seconds": 0 } }));
    let port = site.address.port();
    let own = format!("http://localhost:{port}");
    let (elsewhere, local) = (format!("rebound.example:{port}"), format!("localhost:{port}"));
    let almost = format!("Bearer {}", &site.token.expose()[1..]);
    for (changes, expected) in [
        (&[("Authorization", "Bearer guess")][..], 401),
        (&[("Authorization", &almost)], 401),
        (&[("Host", &elsewhere)], 403),
        (&[("Origin", &own), ("Host", &elsewhere)], 403),
        (&[("MCP-Protocol-Version", "1999-01-01")], 400),
    ] {
        let (status, answer) = site.post(&call, changes).await;
        assert_eq!(status, expected, "{changes:?}: {answer}");
        assert!(!answer.contains(site.token.expose()) && !answer.contains("echo"), "{answer}");
    }
    assert_eq!(site.workshop.deeds.begun.load(Ordering::SeqCst), 0);
    for changes in
        [&[("Origin", own.as_str())][..], &[("Host", &local)], &[("MCP-Protocol-Version", "2025-03-26")]]
    {
        assert_eq!(site.post(&call, changes).await.0, 200, "{changes:?}");
    }
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_opens_at_once_and_tells_progress() {
    let site = Site::open().await;
    let mut call = request("tools/call", json!({ "name": "step" }));
    call["params"]["_meta"] = json!({ "progressToken": "p" });
    let body = call.to_string();
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(format!("{}{body}", site.head(body.len(), &[])).as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut seen = String::new();
    while !seen.contains("notifications/progress") {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("in time");
        seen += &line.unwrap().expect("the stream is open");
    }
    assert!(seen.contains("text/event-stream") && seen.contains("planing"), "{seen}");
    let deeds = &site.workshop.deeds;
    deeds.reaches(&deeds.begun, 1).await;
    assert_eq!(deeds.done.load(Ordering::SeqCst), 0, "the call still runs");
    site.workshop.release.notify_waiters();
    while !seen.contains("\"done\":true") {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("in time");
        seen += &line.unwrap().expect("the answer comes");
    }
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_goes_on_when_its_client_leaves_or_cancels() {
    let site = Site::open().await;
    let deeds = site.workshop.deeds.clone();
    let body = request("tools/call", json!({ "name": "step" })).to_string();
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    stream.write_all(format!("{}{body}", site.head(body.len(), &[])).as_bytes()).await.unwrap();
    deeds.reaches(&deeds.begun, 1).await;
    drop(stream);

    // By its session and id, by another connection.
    let session = [("Mcp-Session-Id", "mine")];
    let waits = request("tools/call", json!({ "name": "wait" }));
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let waiting = site.post(&waits, &session);
    let cancelling = async {
        deeds.reaches(&deeds.begun, 2).await;
        // Another session's request of the same id is another one.
        assert_eq!(site.post(&cancel, &[("Mcp-Session-Id", "other")]).await.0, 202);
        assert_eq!(deeds.left.load(Ordering::SeqCst), 0);
        assert_eq!(site.post(&cancel, &session).await.0, 202);
    };
    let ((status, answer), ()) = tokio::join!(waiting, cancelling);
    assert_eq!(status, 200);
    assert!(!answer.contains("result"), "{answer}");
    deeds.reaches(&deeds.left, 1).await;

    assert_eq!(deeds.done.load(Ordering::SeqCst), 0);
    site.workshop.release.notify_waiters();
    deeds.reaches(&deeds.done, 1).await;
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_hangs_on_a_session() {
    let site = Site::open().await;
    let initialize = request("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let (status, answer) = site.post(&initialize, &[]).await;
    assert!(status == 200 && answer.to_ascii_lowercase().contains("mcp-session-id: "), "{answer}");
    for changes in [&[][..], &[("Mcp-Session-Id", "of a server that is gone")]] {
        let (status, answer) = site.post(&request("tools/list", json!({})), changes).await;
        assert!(status == 200 && answer.contains("echo"), "{answer}");
    }
    let end = site.head(0, &[("Mcp-Session-Id", "any")]).replace("POST", "DELETE");
    assert_eq!(site.raw(&end).await.0, 204);
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_streams_gets_its_answer_as_json() {
    let site = Site::open().await;
    let call = request("tools/call", json!({ "name": "echo", "arguments": { "text": "a" } }));
    let (status, answer) = site.post(&call, &[("Accept", "application/json")]).await;
    assert!(
        status == 200 && answer.contains("application/json") && answer.contains("structuredContent"),
        "{answer}"
    );
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_revision_is_spoken_without_a_handshake() {
    let site = Site::open().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let discover = request("server/discover", json!({ "_meta": meta }));
    let (status, answer) = site.post(&discover, &[version, ("Mcp-Method", "server/discover")]).await;
    assert!(status == 200 && answer.contains("\"ttlMs\":") && answer.contains("\"cacheScope\":"), "{answer}");
    let (status, answer) = site.post(&discover, &[version, ("Mcp-Method", "tools/list")]).await;
    assert!(status == 400 && answer.contains("-32020"), "{answer}");
    let (status, answer) = site.post(&discover, &[("MCP-Protocol-Version", "2025-11-25")]).await;
    assert!(status == 400 && answer.contains("-32020"), "{answer}");
    let unknown = request("resources/list", json!({ "_meta": meta }));
    let (status, answer) = site.post(&unknown, &[version]).await;
    assert!(status == 404 && answer.contains("-32601"), "{answer}");
    let future = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2031-01-01" } });
    let (status, answer) =
        site.post(&request("server/discover", future), &[("MCP-Protocol-Version", "2031-01-01")]).await;
    assert!(status == 400 && answer.contains("2026-07-28"), "{answer}");
    site.finish().await;
}

#[test]
fn a_token_is_made_once_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let token = HttpToken::load_or_create(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(HttpToken::load_or_create(&path).unwrap().expose(), token.expose());
    assert!(!format!("{token:?}").contains(token.expose()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(HttpToken::load_or_create(&path), Err(TokenError::Open { .. })));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "short\n").unwrap();
    let damaged = HttpToken::load_or_create(&path).unwrap_err();
    assert!(matches!(damaged, TokenError::Damaged { .. }) && damaged.to_string().contains("delete it"));
}
