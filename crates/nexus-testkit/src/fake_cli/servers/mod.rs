//! MCP servers as a fake's harness knows them: connected to before the model is asked, their tools offered, their
//! calls carried over the wire.
//!
//! The client is a real one on a thread of its own, because the fakes are not asynchronous. Which servers there
//! are, and what their tools are called, is each imitation's affair.

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
    /// Where it is.
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
    /// What it is for.
    pub(super) description: String,
    /// What it takes.
    pub(super) schema: Value,
    /// Whether the server says that it only reads.
    pub(super) is_read_only: bool,
    /// What the server says beside.
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
    /// What was answered, if it was.
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

/// What a tool answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The text, or why it failed.
    pub outcome: Result<String, String>,
    /// What a server sent, block by block; empty for the harness's own tools.
    pub content: Vec<Value>,
    /// The structured content that a server sent beside.
    pub structured: Option<Value>,
}

impl Answer {
    /// The text, of an answer as of a failure.
    pub fn text(&self) -> &str {
        let (Ok(text) | Err(text)) = &self.outcome;
        text
    }

    /// How many pictures are in it.
    pub fn images(&self) -> usize {
        self.content.iter().filter(|block| block["type"] == "image").count()
    }
}

impl From<Result<String, String>> for Answer {
    fn from(outcome: Result<String, String>) -> Self {
        Self { outcome, content: Vec::new(), structured: None }
    }
}
