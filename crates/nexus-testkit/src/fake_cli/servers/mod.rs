//! MCP servers as a fake's harness uses them. It connects to them before the first model call, offers their tools, and
//! carries their calls over the wire.
//!
//! The client is a real one on a thread of its own, because the fakes are not asynchronous. Each imitation decides on its
//! servers and on the names of their tools.

mod client;
pub(super) mod config;
mod http;

use std::sync::mpsc::{Receiver, TryRecvError};

use serde_json::Value;
use tokio::sync::oneshot;

pub(super) use client::{Handshake, Servers};

/// A server, as a configuration names it. Only streamable HTTP is spoken.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// The name in the configuration.
    pub(super) name: String,
    /// URL of the server.
    pub(super) url: String,
    /// Headers that every request has.
    pub(super) headers: Vec<(String, String)>,
}

/// A tool of a server that is connected.
#[derive(Clone, Debug)]
pub(super) struct ServerTool {
    /// The name of the server.
    pub(super) server: String,
    /// The tool's own name.
    pub(super) name: String,
    /// Description of the tool.
    pub(super) description: String,
    /// Schema of its arguments.
    pub(super) schema: Value,
    /// True if the server declares the tool as read-only.
    pub(super) is_read_only: bool,
    /// Metadata from the server.
    pub(super) meta: Value,
}

/// A call of a server's tool, under way.
#[derive(Debug)]
pub struct ServerCall {
    answer: Receiver<Answer>,
    /// Dropped, it takes the call back.
    _alive: oneshot::Sender<()>,
}

impl ServerCall {
    /// Returns the answer, if it has arrived.
    pub(super) fn answer(&self) -> Option<Answer> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Answer::from(Err("MCP error -32000: Connection closed".to_owned())))
            }
        }
    }
}

/// Answer of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The text, or why it failed.
    pub outcome: Result<String, String>,
    /// Content blocks that a server sent; empty for the harness's own tools.
    pub content: Vec<Value>,
    /// Structured content that the server sent in addition.
    pub structured: Option<Value>,
}

impl Answer {
    /// Text of the answer or of the failure.
    pub fn text(&self) -> &str {
        let (Ok(text) | Err(text)) = &self.outcome;
        text
    }

    /// Number of pictures in it.
    pub fn images(&self) -> usize {
        self.content.iter().filter(|block| block["type"] == "image").count()
    }
}

impl From<Result<String, String>> for Answer {
    fn from(outcome: Result<String, String>) -> Self {
        Self { outcome, content: Vec::new(), structured: None }
    }
}
