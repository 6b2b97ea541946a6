//! A server that nobody here wrote, and a backend that is pointed at it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use nexus_core::{
    BuildContext, EventEnvelope, ExecutionBackend, ToolCall, ToolDefinition, ToolResult, ToolRouter,
    TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use serde_json::{Value, json};

/// How the server says where it is.
const ANNOUNCEMENT: &str = "listening on http://";

/// The wires, as kinds of a configuration.
pub(crate) const WIRES: [&str; 4] = ["responses", "chat", "messages", "gemini"];

/// aimock with the replies of `real/servers/aimock.json`, on a port of its own. Dropped, it is gone.
pub(crate) struct Server {
    kind: &'static str,
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(kind: &'static str) -> Self {
        let script = std::env::var("NEXUS_REAL_AIMOCK").expect("NEXUS_REAL_AIMOCK names the server");
        let folder = tempfile::tempdir().unwrap();
        let replies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../real/servers/aimock.json");
        let mut child = Command::new("node")
            .arg(script)
            .args(["--port", "0", "--strict", "--fixtures"])
            .arg(replies)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| Some(line.unwrap().split_once(ANNOUNCEMENT)?.1.trim().to_owned()))
            .expect("the server says where it is");
        // Whoever does not read on lets the server wait, once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { kind, child, address, folder }
    }

    /// The backend of the wire with its defaults, pointed at the server.
    pub(crate) fn backend(&self) -> Arc<dyn ExecutionBackend> {
        let version = if self.kind == "gemini" { "v1beta" } else { "v1" };
        let settings =
            json!({ "base_url": format!("http://{}/{version}", self.address), "model": "gpt-5.5" });
        let context = BuildContext::in_home(self.folder.path()).with_base_directory(self.folder.path());
        let registry = nexus_backends::registry();
        let kind = registry.kind(self.kind).unwrap();
        kind.build("independent".into(), settings.as_object().unwrap(), &context).unwrap()
    }

    /// The address of `path` at the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// A folder that lives as long as the server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the server understood of each request: its own reading, as messages of the chat API.
    pub(crate) fn understood(&self) -> Vec<Value> {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET /__aimock/journal HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// The messages of the request that came last.
    pub(crate) fn last_messages(&self) -> Vec<Value> {
        let last = self.understood().pop().unwrap();
        last["body"]["messages"].as_array().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a turn went: its outcome, and every event of it in order.
pub(crate) struct Ran {
    pub(crate) outcome: Result<TurnResult, TurnError>,
    pub(crate) events: Vec<TurnEvent>,
}

impl Ran {
    /// The deltas, together.
    pub(crate) fn streamed(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            if let TurnEvent::TextDelta(delta) = event {
                text.push_str(&delta.text);
            }
        }
        text
    }
}

/// Runs a turn to its end; `watch` sees each event as it comes.
pub(crate) async fn run_watched(
    server: &Server,
    request: TurnRequest,
    host: TurnHost,
    watch: impl FnMut(&TurnEvent) + Send,
) -> Ran {
    run_backend(&*server.backend(), request, host, watch).await
}

/// Like [`run_watched`], with a backend of the caller.
pub(crate) async fn run_backend(
    backend: &dyn ExecutionBackend,
    request: TurnRequest,
    host: TurnHost,
    mut watch: impl FnMut(&TurnEvent) + Send,
) -> Ran {
    let mut events = Vec::new();
    let mut sink = |envelope: EventEnvelope| {
        watch(&envelope.event);
        events.push(envelope.event);
    };
    let outcome = backend.run_turn(request, host, &mut sink).await;
    Ran { outcome, events }
}

/// Runs a turn without tools to its end.
pub(crate) async fn run(server: &Server, request: TurnRequest) -> Ran {
    run_watched(server, request, TurnHost::new(), |_| ()).await
}

/// A tool that knows the weather of two cities, and remembers who asked.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    pub(crate) asked: Mutex<Vec<String>>,
}

#[async_trait]
impl ToolRouter for Weather {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let schema = json!({
            "type": "object",
            "properties": { "city": { "type": "string", "description": "Its name, in English." } },
            "required": ["city"],
        });
        vec![ToolDefinition::new("weather", "The weather in a city.", schema)]
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let city = call.arguments["city"].as_str().unwrap_or_default().to_owned();
        let answer = match city.as_str() {
            "Paris" => ToolResult::text("18 degrees in Paris"),
            "Rome" => ToolResult::text("21 degrees in Rome"),
            _ => ToolResult::error("no such city"),
        };
        self.asked.lock().unwrap().push(city);
        answer
    }
}
