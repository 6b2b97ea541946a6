//! A session with tools that record, its server, and clients.

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use nexus_backends::mcp_server::McpServer;
use nexus_core::{
    Brief, Effects, ParticipantScope, Session, Tool, ToolContent, ToolFault, ToolResult, Toolbox,
};
use rmcp::{
    ServiceExt as _,
    model::ClientConfig,
    service::{RoleClient, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::json;
use tokio::net::{TcpStream, ToSocketAddrs};

/// What the tools did.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// Calls that reached a tool.
    called: AtomicU32,
    /// Tools that run.
    running: AtomicU32,
    /// The most that ran at once.
    most_running: AtomicU32,
    /// Calls of `wait` without a time end.
    is_over: AtomicBool,
}

impl Deeds {
    pub(crate) fn called(&self) -> u32 {
        self.called.load(Ordering::SeqCst)
    }

    pub(crate) fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }

    pub(crate) fn most_running(&self) -> u32 {
        self.most_running.load(Ordering::SeqCst)
    }

    /// Ends the calls of `wait` that were given no time.
    pub(crate) fn end_waits(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn begin(self: &Arc<Self>) -> Running {
        self.called.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        Running(Arc::clone(self))
    }
}

struct Running(Arc<Deeds>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The smallest picture: one pixel.
pub(crate) const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// `look`, `echo`, `add`, `fail`, `wait`, `show`, `table`.
pub(crate) fn toolbox(deeds: &Arc<Deeds>) -> Toolbox {
    let numbers = json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        "required": ["a", "b"],
    });
    let anything = || json!({ "type": "object" });
    let (for_add, for_fail, for_wait) = (Arc::clone(deeds), Arc::clone(deeds), Arc::clone(deeds));
    let add = Tool::with_schema("add", "Adds two numbers.", numbers, move |arguments| {
        let running = for_add.begin();
        async move {
            let _running = running;
            let number = |name: &str| arguments[name].as_i64().unwrap();
            (number("a") + number("b")).to_string()
        }
    });
    let fail = Tool::with_schema("fail", "Fails.", anything(), move |_| {
        let running = for_fail.begin();
        async move {
            let _running = running;
            Err::<ToolResult, _>(ToolFault::new("it is broken"))
        }
    });
    let wait = Tool::with_schema(
        "wait",
        "Waits for `seconds`, or until it is ended.",
        anything(),
        move |arguments| {
            let running = for_wait.begin();
            async move {
                match arguments["seconds"].as_f64() {
                    Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
                    None => {
                        while !running.0.is_over.load(Ordering::SeqCst) {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                }
                "waited"
            }
        },
    );
    let show = Tool::without_arguments("show", "Shows a picture.", || async {
        ToolResult::ok(vec![ToolContent::image(PIXEL).unwrap(), ToolContent::text("a pixel")])
    });
    let table = Tool::without_arguments("table", "Answers with JSON.", || async { json!({ "cranes": 3 }) });
    let echo = Tool::with_schema("echo", "Says `text` again.", anything(), |arguments| async move {
        arguments["text"].as_str().unwrap_or_default().to_owned()
    });
    let for_look = Arc::clone(deeds);
    let look = Tool::with_schema("look", "Looks at `path`.", anything(), move |arguments| {
        let running = for_look.begin();
        async move {
            let _running = running;
            arguments["path"].as_str().unwrap_or_default().to_owned()
        }
    });
    Toolbox::new()
        .with(look.reading("/path"))
        .with(echo)
        .with(add.with_effects(Effects::None))
        .with(fail)
        .with(wait)
        .with(show)
        .with(table)
}

/// A session of those whose names fit one of these patterns. It may read `docs` below `root`.
pub(crate) fn scoped(deeds: &Arc<Deeds>, tools: &[&str], root: &Path) -> Arc<Session> {
    let patterns = tools.iter().map(|pattern| pattern.parse().unwrap());
    let brief = patterns.fold(Brief::new(root), Brief::tool).reading("docs");
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    Session::mint("clerk", scope, Arc::new(toolbox(deeds)))
}

/// Waits until something holds.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), waiting).await.expect("it comes to hold");
}

/// Waits until connections are refused at a port. Another test may have got it meanwhile, and closes it again.
pub(crate) async fn until_refused(address: impl ToSocketAddrs) {
    let refused = async {
        loop {
            match TcpStream::connect(&address).await {
                Err(error) => return error,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(90), refused).await.expect("the port is closed");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// A session of all of them.
pub(crate) fn session(deeds: &Arc<Deeds>) -> Arc<Session> {
    Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(toolbox(deeds)))
}

/// Does `work` while the server is served.
pub(crate) async fn beside<T>(server: &mut McpServer, work: impl Future<Output = T>) -> T {
    let work = pin!(work);
    tokio::select! {
        biased;
        done = work => done,
        never = server.serve() => match never {},
    }
}

/// The client of an implementation that is not ours.
pub(crate) type Client = RunningService<RoleClient, ClientConfig>;

/// Connects one, with this token.
pub(crate) async fn client(url: &str, token: &str) -> Result<Client, Box<dyn std::error::Error>> {
    // Its HTTP client wants a provider of cryptography even for plain HTTP. A second installation changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned()).auth_header(token.to_owned());
    let transport = StreamableHttpClientTransport::from_config(config);
    Ok(ClientConfig::default().serve(transport).await?)
}
