//! The thread that speaks to servers.

use std::{collections::HashMap, sync::mpsc, thread::JoinHandle, time::Duration};

use hyper::header::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
        Implementation, ProtocolVersion,
    },
    service::{ClientLifecycleMode, Peer, RunningService, ServiceError, serve_client_with_lifecycle},
    transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig},
};
use serde_json::{Value, json};
use tokio::sync::{mpsc as orders, oneshot};

use super::{Answer, Server, ServerCall, ServerTool, http::Plain};

/// Time limit for the thread to close its connections.
const FAREWELL: Duration = Duration::from_millis(500);

/// Maximum number of calls of one server that are on the wire at once.
const MAX_CALLS: usize = 256;

/// Parameters of a program's first requests to a server.
#[derive(Clone, Debug)]
pub(in crate::fake_cli) struct Handshake {
    /// The name that it gives.
    pub(in crate::fake_cli) client: &'static str,
    /// The newest version of the protocol that it knows.
    pub(in crate::fake_cli) version: ProtocolVersion,
    /// True if it requests `server/discover` first.
    pub(in crate::fake_cli) discovers: bool,
    /// Time limit for a server to connect.
    pub(in crate::fake_cli) patience: Duration,
}

/// The servers of one program.
#[derive(Debug, Default)]
pub(in crate::fake_cli) struct Servers {
    tools: Vec<ServerTool>,
    failures: Vec<(String, String)>,
    names: Vec<String>,
    thread: Option<(orders::UnboundedSender<Order>, JoinHandle<()>)>,
}

/// A call for the thread to make.
#[derive(Debug)]
struct Order {
    server: String,
    tool: String,
    arguments: Value,
    answer: mpsc::Sender<Answer>,
    taken_back: oneshot::Receiver<()>,
}

type Connection = RunningService<RoleClient, ClientConfig>;

impl Servers {
    /// Connects to `servers` and lists their tools. Returns when each is there, or has failed.
    pub(in crate::fake_cli) fn connect(servers: Vec<Server>, handshake: &Handshake) -> Self {
        if servers.is_empty() {
            return Self::default();
        }
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let (order, orders) = orders::unbounded_channel();
        let (report, reports) = mpsc::channel();
        let handshake = handshake.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(serve(servers, &handshake, &report, orders));
                    runtime.shutdown_timeout(FAREWELL);
                }
                Err(error) => {
                    // Ignore an error: no one receives the report if the fake CLI has ended.
                    let _ = report.send(("*".to_owned(), Err(error.to_string())));
                }
            }
        });
        let mut connected = Self::default();
        (connected.names, connected.thread) = (names, Some((order, thread)));
        // Each server reports exactly once, so this many reports complete the start.
        for _ in 0..connected.names.len() {
            match reports.recv() {
                Ok((_, Ok(tools))) => connected.tools.extend(tools),
                Ok((name, Err(reason))) => connected.failures.push((name, reason)),
                Err(_) => break,
            }
        }
        connected
    }

    /// Servers of which none is reached.
    pub(in crate::fake_cli) fn out_of_reach(servers: Vec<Server>) -> Self {
        let mut lost = Self::default();
        lost.names = servers.into_iter().map(|server| server.name).collect();
        lost.failures = lost.names.iter().map(|name| (name.clone(), "out of reach".to_owned())).collect();
        lost
    }

    /// The tools of the connected servers.
    pub(in crate::fake_cli) fn tools(&self) -> &[ServerTool] {
        &self.tools
    }

    /// Names in the configuration, each with the reason why it is not connected, if it is not.
    pub(in crate::fake_cli) fn states(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let failure = |name: &str| {
            let failure = self.failures.iter().find(|(failed, _)| failed == name || failed == "*");
            failure.map(|(_, reason)| reason.as_str())
        };
        self.names.iter().map(move |name| (name.as_str(), failure(name)))
    }

    /// Returns the tool of this name, if it exists.
    pub(in crate::fake_cli) fn find(&self, server: &str, tool: &str) -> Option<&ServerTool> {
        self.tools.iter().find(|known| known.server == server && known.name == tool)
    }

    /// Begins a call. It is taken back when what is returned is dropped.
    pub(in crate::fake_cli) fn call(&self, server: &str, tool: &str, arguments: &Value) -> ServerCall {
        let (sender, answer) = mpsc::channel();
        // Dropping the sender ends the task of the call, which cancels the call at the server.
        let (alive, taken_back) = oneshot::channel();
        if let Some((orders, _)) = &self.thread {
            let order = Order {
                server: server.to_owned(),
                tool: tool.to_owned(),
                arguments: arguments.clone(),
                answer: sender,
                taken_back,
            };
            // If the thread has ended, the call gets no answer, and reports that.
            let _ = orders.send(order);
        }
        ServerCall { answer, _alive: alive }
    }

    /// Takes leave of every server.
    pub(in crate::fake_cli) fn close(&mut self) {
        if let Some((orders, thread)) = self.thread.take() {
            drop(orders);
            // The thread panics only if the fake does.
            let _ = thread.join();
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.close();
    }
}

/// Result of connecting to one server.
type Report = (String, Result<Vec<ServerTool>, String>);

async fn serve(
    servers: Vec<Server>,
    handshake: &Handshake,
    report: &mpsc::Sender<Report>,
    mut orders: orders::UnboundedReceiver<Order>,
) {
    let mut connections: HashMap<String, Connection> = HashMap::new();
    for server in servers {
        let name = server.name.clone();
        let connected = tokio::time::timeout(handshake.patience, connect(server, handshake)).await;
        let outcome = match connected {
            Ok(Ok((connection, tools))) => {
                connections.insert(name.clone(), connection);
                Ok(tools)
            }
            Ok(Err(reason)) => Err(reason),
            Err(_elapsed) => Err(format!("no connection after {:?}", handshake.patience)),
        };
        // An error means that the fake CLI has ended.
        let _ = report.send((name, outcome));
    }
    while let Some(order) = orders.recv().await {
        if let Some(connection) = connections.get(&order.server) {
            // Calls run beside each other, because a program may start several at once.
            tokio::spawn(carry(connection.peer().clone(), order));
        }
    }
    for (_, connection) in connections {
        // A server that does not listen any more has been taken leave of.
        let _ = tokio::time::timeout(FAREWELL, connection.cancel()).await;
    }
}

async fn connect(server: Server, handshake: &Handshake) -> Result<(Connection, Vec<ServerTool>), String> {
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
        headers.insert(name, HeaderValue::try_from(value).map_err(|error| error.to_string())?);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str())
        .custom_headers(headers)
        .max_concurrent_requests(MAX_CALLS);
    let transport = StreamableHttpClientTransport::with_client(Plain, config);
    let who = Implementation::new(handshake.client, "1.0.0");
    let client = ClientConfig::new(ClientCapabilities::default(), who)
        .with_protocol_version(handshake.version.clone());
    let lifecycle = match handshake.discovers {
        true => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(handshake.version.clone()),
        },
        false => ClientLifecycleMode::Initialize,
    };
    let connection = serve_client_with_lifecycle(client, transport, lifecycle);
    let connection = connection.await.map_err(|error| error.to_string())?;
    let tools = connection.list_all_tools().await.map_err(|error| error.to_string())?;
    let tools = tools.into_iter().map(|tool| ServerTool {
        server: server.name.clone(),
        name: tool.name.into_owned(),
        description: tool.description.map(Into::into).unwrap_or_default(),
        schema: Value::Object((*tool.input_schema).clone()),
        is_read_only: tool.annotations.and_then(|hints| hints.read_only_hint).unwrap_or(false),
        meta: tool.meta.map_or(Value::Null, |meta| json!(meta)),
    });
    Ok((connection, tools.collect()))
}

/// Makes a call and waits for its answer. If the call is taken back, dropping the request notifies the server.
async fn carry(peer: Peer<RoleClient>, order: Order) {
    let mut params = CallToolRequestParams::new(order.tool);
    params.arguments = match order.arguments {
        Value::Object(arguments) => Some(arguments),
        _ => None,
    };
    let answered = tokio::select! {
        answered = peer.call_tool_once(params) => answered,
        _ = order.taken_back => return,
    };
    // An error means that the fake CLI has ended.
    let _ = order.answer.send(answer(answered));
}

fn answer(answered: Result<CallToolResponse, ServiceError>) -> Answer {
    let result = match answered {
        Ok(CallToolResponse::Complete(result)) => result,
        Ok(_) => return Answer::from(Err("the server asks for what a fake does not have".to_owned())),
        Err(ServiceError::McpError(error)) => {
            return Answer::from(Err(format!("MCP error {}: {}", error.code.0, error.message)));
        }
        Err(error) => return Answer::from(Err(error.to_string())),
    };
    let is_error = result.is_error == Some(true);
    let CallToolResult { content, structured_content, .. } = result;
    let content: Vec<Value> = content.into_iter().map(|block| json!(block)).collect();
    let texts: Vec<&str> = content.iter().filter_map(|block| block["text"].as_str()).collect();
    let text = texts.join("\n");
    Answer { outcome: if is_error { Err(text) } else { Ok(text) }, content, structured: structured_content }
}
