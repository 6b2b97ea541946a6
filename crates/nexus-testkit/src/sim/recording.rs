//! The simulator's record of requests, in order, with everything a test may want to compare.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::Dialect;
use super::conversation::Conversation;

/// One request as it arrived, and the end of its answer. Cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Index among all requests, from zero.
    pub number: usize,
    /// Time at which it was read in full, counted from the start of the simulator.
    pub at: Duration,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, if any.
    pub query: Option<String>,
    /// All headers, names in lower case, `authorization` as sent.
    pub headers: Arc<[(String, String)]>,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The body as JSON; null if it is not JSON.
    pub json: Arc<Value>,
    /// Dialect that handled it.
    pub dialect: Dialect,
    /// Purpose of the request.
    pub purpose: Purpose,
    /// The model request in neutral words; empty for other requests.
    pub conversation: Arc<Conversation>,
    /// Position of a main call in the script: its rule, if any, and the index of its reply.
    pub scripted: Option<Scripted>,
    /// Status of the answer, once it was sent.
    pub status: Option<u16>,
    /// End of the answer, once it ended.
    pub ended: Option<Ended>,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A model call of a turn: it consumes a reply of the scenario.
    MainCall,
    /// A model call outside of the turn, such as a title or a summary; answered, not scripted.
    SideCall,
    /// A known endpoint other than the model's.
    Housekeeping,
    /// A path that the dialect does not know, answered with 404.
    Unknown,
}

/// Position of a main call in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// The rule that took it; `None` for the scenario's own replies.
    pub rule: Option<usize>,
    /// Number of earlier calls that the same script took.
    pub index: usize,
}

/// End of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every byte was passed to the connection.
    Sent,
    /// The simulator cut it, as scripted.
    Cut,
    /// The client disconnected before the end, or in the middle of a stall.
    HungUp,
}

impl RecordedRequest {
    /// The value of the header `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The token of `Authorization: Bearer`, or the key of `x-api-key` or `x-goog-api-key`.
    pub fn bearer(&self) -> Option<&str> {
        match self.header("authorization") {
            Some(value) => value.strip_prefix("Bearer "),
            None => self.header("x-api-key").or_else(|| self.header("x-goog-api-key")),
        }
    }

    /// Returns true if this was a main model call.
    pub fn is_main_call(&self) -> bool {
        self.purpose == Purpose::MainCall
    }
}

/// Record of all requests.
#[derive(Debug)]
pub(super) struct Recording {
    started: Instant,
    requests: Mutex<Vec<RecordedRequest>>,
    changes: watch::Sender<u64>,
    log: bool,
}

impl Recording {
    pub(super) fn new(log: bool) -> Self {
        Self { started: Instant::now(), requests: Mutex::default(), changes: watch::Sender::new(0), log }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Adds a request; returns its number.
    pub(super) fn add(&self, mut request: RecordedRequest) -> usize {
        let number = {
            // Number and insert under one lock, so that the number is the index in the list.
            let mut requests = self.lock();
            request.number = requests.len();
            requests.push(request.clone());
            request.number
        };
        if self.log {
            println!("{}", line(&request));
        }
        self.changed();
        number
    }

    pub(super) fn answered(&self, number: usize, status: u16) {
        if let Some(request) = self.lock().get_mut(number) {
            request.status = Some(status);
        }
        self.changed();
    }

    pub(super) fn ended(&self, number: usize, ended: Ended) {
        if let Some(request) = self.lock().get_mut(number) {
            // The first end counts: after a scripted cut, the client also disconnects.
            request.ended.get_or_insert(ended);
        }
        self.changed();
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Wakes the tasks that wait for a change.
    pub(super) fn changed(&self) {
        // `send_modify` changes the value even without receivers, unlike `send`.
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line about a request, for a person who watches.
fn line(request: &RecordedRequest) -> String {
    let seconds = request.at.as_secs_f64();
    let mut line = format!(
        "{seconds:9.3} s  {:?}  {} {}  {:?}",
        request.dialect, request.method, request.path, request.purpose
    );
    if let Some(model) = &request.conversation.model {
        line.push_str(&format!(
            "  model {model}, {} tools, {} items",
            request.conversation.tools.len(),
            request.conversation.items.len()
        ));
    }
    if let Some(scripted) = request.scripted {
        match scripted.rule {
            Some(rule) => line.push_str(&format!("  → rule {rule}, reply {}", scripted.index)),
            None => line.push_str(&format!("  → reply {}", scripted.index)),
        }
    }
    line
}
