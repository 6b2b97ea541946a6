//! The client of other people's servers: programs, and servers over HTTP that want a credential.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use http::{HeaderName, header::AUTHORIZATION};
use nexus_auth::{
    StaticToken,
    http::{ClientPlan, Network},
};
use nexus_core::{
    BuildContext, ToolCall, ToolContent, ToolResult, ToolRouter as _, Toolbox, redact::Redactor,
};
use nexus_mcp::{
    HttpServer, HttpSettings, HttpToken,
    client::{
        ClientServer, ClientServers, HeaderContent, HttpEndpoint, PreparedProcess, PreparedServer,
        ServerFault, ServerSource, ToolOffer,
    },
};
use nexus_process::{environment::Environment, executable::Executable, spawn::Invocation};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::Mutex,
};

use crate::support::Workshop;

const CANARY: &str = "canary-0123456789abcdef0123456789abcdef";

/// A program in the shell.
#[derive(Debug)]
struct Script {
    text: String,
    folder: PathBuf,
}

#[async_trait]
impl ServerSource for Script {
    async fn prepare(&self) -> Result<PreparedServer, String> {
        let shell = Executable::find("/bin/sh", None).map_err(|error| error.to_string())?;
        let environment = Environment::from_host(std::env::vars_os()).with("TOKEN", CANARY).build();
        let invocation = Invocation::new(shell, &self.folder).arguments(["-c", &self.text]);
        let invocation = invocation.environment(environment.map_err(|error| error.to_string())?);
        Ok(PreparedProcess::new(invocation).with_redactor(Redactor::new([CANARY])).into())
    }
}

/// A server that lists `tools`, the members of a JSON list, and answers a call with `call`.
fn serving(tools: &str, call: &str) -> String {
    format!(
        r#"echo >> starts
        while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
            *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
            *'"tools/list"'*) {tools};;
            *'"tools/call"'*) {call};;
            esac
        done"#
    )
}

fn listing(tools: &str) -> String {
    format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{{"tools":[%s]}}}}\n' "$id" '{tools}'"#)
}

fn saying(text: &str) -> String {
    format!(
        r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"%s"}}]}}}}\n' "$id" "{text}""#
    )
}

const LOOK: &str = r#"{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}"#;

fn program(folder: &Path, text: String) -> ClientServer {
    ClientServer::new("s", Arc::new(Script { text, folder: folder.to_owned() }))
}

async fn offered(servers: &ClientServers) -> (Toolbox, Vec<ServerFault>) {
    let mut offer = ToolOffer::new();
    let faults = servers.offer(&mut offer).await;
    (offer.into_tools(), faults)
}

async fn opened(server: ClientServer) -> (ClientServers, Toolbox, Vec<ServerFault>) {
    let servers = ClientServers::new(vec![server], "it is not started again");
    let (tools, faults) = offered(&servers).await;
    (servers, tools, faults)
}

fn names(tools: &Toolbox) -> Vec<String> {
    tools.definitions().into_iter().map(|tool| tool.name).collect()
}

async fn call(tools: &Toolbox, name: &str) -> ToolResult {
    tools.call(ToolCall::new("1", name, json!({}))).await
}

fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|content| match content {
        ToolContent::Text { text } => text.clone(),
        ToolContent::Json { value } => value.to_string(),
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_an_error_for_the_model_and_is_started_again_for_the_next_turn() {
    let folder = tempfile::tempdir().unwrap();
    let dying = serving(&listing(LOOK), "if [ -e mended ]; then text=back; else exit 3; fi; SAY");
    let dying = dying.replace("SAY", &saying("$text"));
    let (servers, tools, faults) = opened(program(folder.path(), dying)).await;
    assert_eq!(faults, []);
    let answer = call(&tools, "s_look").await;
    assert!(answer.is_error, "{answer:?}");
    std::fs::write(folder.path().join("mended"), "").unwrap();
    let (tools, faults) = offered(&servers).await;
    assert_eq!(faults, []);
    assert_eq!(text(&call(&tools, "s_look").await), "back");
    assert_eq!(std::fs::read(folder.path().join("starts")).unwrap().len(), 2);
    servers.stop().await;
    assert_eq!(servers.count().await, (1, 0));
}

#[tokio::test]
async fn a_credential_of_a_server_reaches_neither_the_model_nor_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let describing =
        listing(r#"{"name":"look","description":"I know '"$TOKEN"'.","inputSchema":{"type":"object"}}"#);
    let (servers, tools, _) =
        opened(program(folder.path(), serving(&describing, &saying("it is $TOKEN")))).await;
    assert_eq!(tools.definitions()[0].description, "I know [redacted].");
    assert_eq!(text(&call(&tools, "s_look").await), "it is [redacted]");
    servers.stop().await;
    let (_, _, faults) = opened(program(folder.path(), "echo no $TOKEN >&2; exit 1".to_owned())).await;
    let fault = faults[0].to_string();
    assert!(fault.contains("(no [redacted])") && !fault.contains("canary"), "{fault}");
}

#[tokio::test]
async fn names_and_definitions_of_a_hostile_server_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(300);
    let tools = format!(
        r#"{{"name":"../../etc/passwd","inputSchema":{{"type":"object"}}}},
        {{"name":"","inputSchema":{{"type":"object"}}}},
        {{"name":"a b","inputSchema":{{"type":"object"}}}},{{"name":"a.b","inputSchema":{{"type":"object"}}}},
        {{"name":"{long}","inputSchema":{{"type":"object"}}}},
        {{"name":"ok","inputSchema":{{"type":"string"}}}},
        {{"name":"\u001b[2J","inputSchema":{{"type":"object"}}}}"#
    );
    let tools = tools.replace('\n', " ");
    let (servers, tools, faults) = opened(program(folder.path(), serving(&listing(&tools), "true"))).await;
    assert_eq!(names(&tools), ["s_______etc_passwd", "s_", "s_a_b", "s_a_b_2", "s___2J"]);
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(told[0].contains("1 of its tools are left out"), "{told:?}");
    assert!(told[1].contains("\"s_ok\" is left out"), "{told:?}");
    servers.stop().await;

    // Ten megabytes of a description and of a schema.
    let huge = r#"long=$(head -c 10000000 /dev/zero | tr '\0' x)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"wordy","description":"%s","inputSchema":{"type":"object"}},{"name":"huge","inputSchema":{"type":"object","description":"%s"}}]}}\n' "$id" "$long" "$long""#;
    let (servers, tools, faults) = opened(program(folder.path(), serving(huge, "true"))).await;
    assert_eq!(names(&tools), ["s_wordy"]);
    assert!(tools.definitions()[0].description.len() < 11_000);
    assert!(faults[0].to_string().contains("\"s_huge\" is left out"), "{faults:?}");
    servers.stop().await;
}

#[tokio::test]
async fn an_endless_list_of_tools_ends() {
    let folder = tempfile::tempdir().unwrap();
    let endless = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}}],"nextCursor":"%s"}}\n' "$id" "$id""#;
    let (servers, tools, _) = opened(program(folder.path(), serving(endless, "true"))).await;
    assert!(names(&tools).len() <= 512);
    servers.stop().await;
}

#[tokio::test]
async fn an_entry_narrows_the_tools_and_decides_on_approvals() {
    let folder = tempfile::tempdir().unwrap();
    let tools = format!(r#"{LOOK},{{"name":"write","inputSchema":{{"type":"object"}}}}"#);
    let script = serving(&listing(&tools), "true");
    let narrow = program(folder.path(), script.clone())
        .with_tools(["look".to_owned(), "gone".to_owned()])
        .without_approval();
    let (servers, tools, faults) = opened(narrow).await;
    assert_eq!(names(&tools), ["s_look"]);
    assert!(!tools.definitions()[0].needs_approval);
    assert_eq!(faults[0].to_string(), "s: it has no tool \"gone\", which `tools` names");
    servers.stop().await;
    let (servers, tools, _) = opened(program(folder.path(), script)).await;
    assert!(tools.definitions().iter().all(|tool| tool.needs_approval));
    servers.stop().await;
}

#[tokio::test]
async fn a_required_server_that_is_missing_is_reported_with_each_offer() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, _, faults) = opened(program(folder.path(), "exit 1".to_owned()).required()).await;
    assert!(faults[0].is_required && faults[0].is_missing);
    assert_eq!(offered(&servers).await.1.len(), 1);
    let (servers, _, faults) = opened(program(folder.path(), "exit 1".to_owned())).await;
    assert!(!faults[0].is_required && faults[0].is_missing);
    assert_eq!(offered(&servers).await.1, []);
}

/// An endpoint without a proxy, with `token` as its credential.
#[derive(Debug)]
struct Site {
    url: String,
    token: String,
    header: (HeaderName, &'static str),
}

#[async_trait]
impl ServerSource for Site {
    async fn prepare(&self) -> Result<PreparedServer, String> {
        let environment = BTreeMap::from([("TOKEN".to_owned(), self.token.clone())]);
        let source = Arc::new(StaticToken::from_environment("TOKEN", &environment));
        let (name, prefix) = self.header.clone();
        let header = (name, HeaderContent::Credential { source, prefix });
        let context = BuildContext::in_home("/nowhere");
        let plan = ClientPlan::new(&Network::default(), &context, Duration::from_secs(5)).unwrap();
        Ok(HttpEndpoint::new(self.url.parse().unwrap(), [header], plan).into())
    }
}

fn site(url: impl Into<String>, token: &str) -> ClientServer {
    let site = Site { url: url.into(), token: token.to_owned(), header: (AUTHORIZATION, "Bearer ") };
    ClientServer::new("web", Arc::new(site))
}

#[tokio::test]
async fn a_server_over_http_gets_its_credential_and_its_tools_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let token = HttpToken::load_or_create(&folder.path().join("token")).unwrap();
    let settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), token.clone());
    let server = HttpServer::bind(Arc::new(Workshop::default()), settings).await.unwrap();
    let url = format!("http://{}/mcp", server.address());
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let (servers, tools, faults) = opened(site(&url, token.expose())).await;
    assert_eq!(faults, []);
    assert!(names(&tools).iter().all(|name| name.starts_with("web_")) && !names(&tools).is_empty());
    servers.stop().await;

    let (_, tools, faults) = opened(site(&url, CANARY)).await;
    assert!(names(&tools).is_empty());
    assert!(faults[0].to_string().contains("refused the credential (HTTP 401)"), "{faults:?}");
    assert!(!faults[0].to_string().contains("canary"));
    serving.abort();

    let (_, _, faults) = opened(site("http://127.0.0.1:9/mcp?key=canary", CANARY)).await;
    assert_eq!(faults[0].to_string(), "web: nothing listens at the server's address");
}

/// Answers every request with `answer`, and remembers the requests.
async fn answering(answer: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 64 << 10];
            let read = stream.read(&mut head).await.unwrap_or_default();
            requests.lock().await.push(String::from_utf8_lossy(&head[..read]).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, seen)
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_takes_no_credential_along() {
    let (target, reached) = answering("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    for status in ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let redirect = format!("HTTP/1.1 {status}\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        let (url, seen) = answering(redirect).await;
        let (_, _, faults) = opened(site(url, CANARY)).await;
        assert_eq!(faults.len(), 1, "{status}");
        assert!(seen.lock().await.iter().any(|request| request.contains(CANARY)));
    }
    assert!(reached.lock().await.is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn a_page_of_a_server_that_repeats_the_credential_is_cut_and_redacted() {
    let page = format!("your key {CANARY} is wrong {}", "x".repeat(50_000));
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Oops", "200 OK"] {
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        );
        let (url, _) = answering(answer).await;
        let (_, _, faults) = opened(site(url, CANARY)).await;
        let fault = faults[0].to_string();
        assert!(!fault.contains("canary"), "{status}: {fault}");
        assert!(fault.len() < 1_000, "{status}: {} bytes", fault.len());
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_for_ever() {
    let endless = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900000000\r\n\r\n\"{}",
        "x".repeat(40 << 20)
    );
    let (url, _) = answering(endless).await;
    let (_, _, faults) = opened(site(url, CANARY)).await;
    assert!(faults[0].to_string().contains("exceeded the maximum size"), "{faults:?}");
}
