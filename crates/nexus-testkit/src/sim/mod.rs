//! The vendor simulator: loopback servers that answer as the vendors' model APIs do, from a script.
//!
//! A [`Scenario`] describes the model's answers and faults, independent of the vendor. A [`Dialect`] writes them
//! as Anthropic Messages, as OpenAI Responses the way Codex uses it, as xAI's variant, as Chat Completions, or as the Gemini
//! API. The same script serves all of them. Every request of the clients is recorded.
//!
//! ```
//! use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
//!
//! let sim = Sim::start(
//!     Dialect::Anthropic,
//!     Scenario::tool_then_text(ToolCall::shell("date"), "It is late."),
//! )?;
//! println!("ANTHROPIC_BASE_URL={}", sim.base_url());
//! assert!(sim.main_calls().is_empty());
//! # std::io::Result::Ok(())
//! ```
//!
//! A simulator runs on its own thread, so it answers even if the caller's runtime is busy or
//! absent; dropping it stops the thread and closes every connection. The script makes the decisions of a real
//! service, such as the existence of a model or the validity of a token. With [`Scenario::strict`], the simulator
//! refuses the requests that the real service is known to refuse.

mod anthropic;
mod chat;
mod cloud;
mod conversation;
mod fault;
mod gallery;
mod gemini;
mod mangle;
mod model;
mod own_loop;
mod playing;
mod rate_limit;
mod recording;
mod reply;
mod responder;
mod responses;
mod running;
mod scenario;
mod server;
mod socket;
#[cfg(feature = "tls")]
mod tls;
mod tool_call;
mod wire;
mod xai;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use conversation::{Conversation, Item, OfferedTool};
pub use fault::{Cut, Fault, Lie, StatusFault};
pub use gallery::{GALLERY, Named};
pub use model::Model;
pub use rate_limit::{RateLimit, Standing, Window};
pub use recording::{Ended, Purpose, RecordedRequest, Scripted};
pub use reply::{Finish, Odd, Pace, Part, Reply, Usage, long_text};
pub use scenario::{Count, Rule, Scenario};
pub use tool_call::ToolCall;

use responder::Responder;
use running::Running;
use server::Core;

/// Model API that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages, as Claude Code uses it, also in the forms of Amazon Bedrock and Vertex AI. Base URL: the server's
    /// root.
    Anthropic,
    /// OpenAI Responses, as Codex uses it, in its classic and its lite shape. Base URL: `/v1`.
    Responses,
    /// xAI's Responses, as Grok uses it. Base URL: `/v1`.
    Xai,
    /// Chat Completions, as servers of many vendors speak it. Base URL: `/v1`.
    Chat,
    /// The Gemini API of Google. Base URL: `/v1beta`.
    Gemini,
    /// All of them on one port: the path and the headers of each request identify its dialect.
    All,
}

/// A running simulator. Dropping it stops it.
#[derive(Debug)]
pub struct Sim {
    core: Arc<Core>,
    running: Running,
}

impl Sim {
    /// Serves `scenario` in `dialect` on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// No port or no thread is available.
    pub fn start(dialect: Dialect, scenario: impl Into<Scenario>) -> io::Result<Self> {
        Self::builder(dialect, scenario).start()
    }

    /// Sets a simulator up in more detail.
    pub fn builder(dialect: Dialect, scenario: impl Into<Scenario>) -> SimBuilder {
        SimBuilder {
            dialect,
            scenario: scenario.into(),
            responder: None,
            // Port 0 lets the system choose a free port, so that tests can run in parallel.
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            log: false,
            #[cfg(feature = "tls")]
            host: None,
        }
    }

    /// Base URL for a client: with `/v1` or `/v1beta` where the dialect's clients expect it.
    pub fn base_url(&self) -> String {
        match self.core.dialect {
            Dialect::Anthropic | Dialect::All => self.root_url(),
            Dialect::Responses | Dialect::Xai | Dialect::Chat => format!("{}/v1", self.root_url()),
            Dialect::Gemini => format!("{}/v1beta", self.root_url()),
        }
    }

    /// The server's root, without a slash at the end. Over TLS it names the host of the certificate.
    pub fn root_url(&self) -> String {
        self.running.root_url()
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// The certificate authority that signed the server's certificate, in PEM; `None` without TLS.
    #[cfg(feature = "tls")]
    pub fn ca_pem(&self) -> Option<&str> {
        self.running.ca_pem()
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.core.recording.requests()
    }

    /// The main model calls so far, in order.
    pub fn main_calls(&self) -> Vec<RecordedRequest> {
        let mut requests = self.requests();
        requests.retain(RecordedRequest::is_main_call);
        requests
    }

    /// Number of open connections.
    pub fn open_connections(&self) -> usize {
        self.core.open_connections()
    }

    /// Replaces the script. Counts restart; the recorded requests stay.
    pub fn set_scenario(&self, scenario: impl Into<Scenario>) {
        self.core.set_scenario(scenario.into());
    }

    /// Waits until `ready` returns true, for at most `timeout`. Checks again after each change.
    /// Returns true if it did.
    ///
    /// Needs a Tokio runtime with its timer; [`wait_until_blocking`](Self::wait_until_blocking) needs none.
    pub async fn wait_until(&self, timeout: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let mut changes = self.core.recording.subscribe();
        let waiting = async {
            while !ready(self) {
                // The sender lives in `self`, so this ends only with a change.
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        tokio::time::timeout(timeout, waiting).await.is_ok() || ready(self)
    }

    /// Like [`wait_until`](Self::wait_until), but blocks the calling thread.
    pub fn wait_until_blocking(&self, timeout: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let deadline = std::time::Instant::now() + timeout;
        while !ready(self) {
            if std::time::Instant::now() >= deadline {
                return false;
            }
            // Poll, because the change notification needs a runtime.
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// Settings of a simulator.
#[derive(Clone, Debug)]
#[must_use]
pub struct SimBuilder {
    dialect: Dialect,
    scenario: Scenario,
    responder: Option<Responder>,
    address: SocketAddr,
    log: bool,
    #[cfg(feature = "tls")]
    host: Option<String>,
}

impl SimBuilder {
    /// Listens on `port` in place of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.address.set_port(port);
        self
    }

    /// Computes the reply to a call from its conversation, for a model whose next call depends on a tool result. If `reply` returns
    /// `None`, the scenario answers.
    pub fn answered_by(
        mut self,
        reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.responder = Some(Responder::new(reply));
        self
    }

    /// Prints one line per request to stdout.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Serves TLS, under a certificate for `host` that an authority made for this run signs.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// When the port is taken, or no thread can be had.
    pub fn start(self) -> io::Result<Sim> {
        let core = Arc::new(Core::new(self.dialect, self.scenario, self.responder, self.log));
        #[cfg(feature = "tls")]
        let identity = match &self.host {
            Some(host) => Some(tls::Identity::for_host(host)?),
            None => None,
        };
        let running = Running::start(
            Arc::clone(&core),
            self.address,
            #[cfg(feature = "tls")]
            identity,
        )?;
        Ok(Sim { core, running })
    }
}

/// A port of 127.0.0.1 at which connections are refused. It stays reserved until this is dropped.
#[derive(Debug)]
pub struct RefusedPort {
    address: SocketAddr,
    _socket: tokio::net::TcpSocket,
}

impl RefusedPort {
    /// Takes a free port and does not listen on it.
    ///
    /// # Errors
    ///
    /// No port is available.
    pub fn bind() -> io::Result<Self> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        // A bound socket that does not listen refuses connections, and no other program can take its port.
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// A URL at which connections are refused.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }
}
