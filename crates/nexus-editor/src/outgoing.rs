//! Output to the client: lines in order, and requests that wait for answers.

use std::{
    collections::HashMap,
    future::poll_fn,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use agent_client_protocol_schema::v1::Error;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};

/// Size of the unwritten output from which a turn waits, in bytes. Source: our own bound.
pub(crate) const TURN_WAITS_BYTES: usize = 1 << 20;
/// Size of the unwritten output from which no more input is read, in bytes. It bounds the memory for a client that sends
/// requests but does not read answers. Source: our own bound, far above the one for turns, so that a cancellation is read
/// while a turn waits.
pub(crate) const INPUT_WAITS_BYTES: usize = 16 << 20;

/// Sends messages to the client. Clones share one queue.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(Arc<ClientLink>);

/// Queue and open requests, which clones share.
#[derive(Debug)]
struct ClientLink {
    lines: mpsc::UnboundedSender<Option<Vec<u8>>>,
    queue: Mutex<QueuedBytes>,
    /// Requests of Nexus without an answer yet.
    asked: Mutex<HashMap<i64, oneshot::Sender<Result<Value, Error>>>>,
    next_id: AtomicI64,
}

/// Number of unwritten bytes, and the tasks that wait for room.
#[derive(Debug, Default)]
struct QueuedBytes {
    bytes: usize,
    waiting: Vec<Waker>,
    is_closed: bool,
}

/// Request, or notification if it has no id.
#[derive(Serialize)]
struct RequestMessage<'m, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'m Value>,
    method: &'m str,
    params: &'m P,
}

/// Response to a client's request.
#[derive(Serialize)]
struct ResponseMessage<'m> {
    jsonrpc: &'static str,
    id: &'m Value,
    #[serde(flatten)]
    outcome: ResponseOutcome<'m>,
}

/// Result or error of a response.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ResponseOutcome<'m> {
    Result(&'m Value),
    Error(&'m Error),
}

impl Outgoing {
    /// Creates the queue to a client that reads from `output`, and the future that writes there. The future ends after the
    /// last line, or when a line cannot be written.
    pub(crate) fn new(output: impl AsyncWrite + Unpin) -> (Self, impl Future<Output = io::Result<()>>) {
        // Unbounded, because `send` cannot wait: the senders of much output wait in `below` instead.
        let (lines, waiting) = mpsc::unbounded_channel();
        let outgoing = Self(Arc::new(ClientLink {
            lines,
            queue: Mutex::default(),
            asked: Mutex::default(),
            next_id: AtomicI64::new(1),
        }));
        let writing = outgoing.clone().write(output, waiting);
        (outgoing, writing)
    }

    async fn write(
        self,
        mut output: impl AsyncWrite + Unpin,
        mut waiting: mpsc::UnboundedReceiver<Option<Vec<u8>>>,
    ) -> io::Result<()> {
        let mut outcome = Ok(());
        while let Some(Some(line)) = waiting.recv().await {
            outcome = async {
                output.write_all(&line).await?;
                output.flush().await
            }
            .await;
            if outcome.is_err() {
                break;
            }
            let mut queue = lock(&self.0.queue);
            queue.bytes = queue.bytes.saturating_sub(line.len());
            queue.wake();
        }
        let mut queue = lock(&self.0.queue);
        // Nothing reduces the count any more, so let every waiting task continue.
        queue.is_closed = true;
        queue.wake();
        outcome
    }

    /// Ends the writing after the lines in the queue.
    pub(crate) fn finish(&self) {
        let _nobody_writes = self.0.lines.send(None);
    }

    /// Returns `Ready` if fewer than `most` bytes are unwritten. Otherwise wakes the task when this is the case.
    pub(crate) fn poll_below(&self, most: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.0.queue);
        if queue.is_closed || queue.bytes < most {
            return Poll::Ready(());
        }
        // A task may poll often before it is woken, so register it only once.
        if !queue.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            queue.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until fewer than `most` bytes are unwritten.
    pub(crate) async fn below(&self, most: usize) {
        poll_fn(|context| self.poll_below(most, context)).await;
    }

    pub(crate) fn notify(&self, method: &str, params: &impl Serialize) {
        self.send(&RequestMessage { jsonrpc: "2.0", id: None, method, params });
    }

    pub(crate) fn answer(&self, id: &Value, outcome: &Result<Value, Error>) {
        let outcome = match outcome {
            Ok(result) => ResponseOutcome::Result(result),
            Err(error) => ResponseOutcome::Error(error),
        };
        self.send(&ResponseMessage { jsonrpc: "2.0", id, outcome });
    }

    /// Sends a request to the client, and waits for its answer. If the future is dropped, the client learns
    /// that the answer is not needed.
    ///
    /// # Errors
    ///
    /// The client's error, or an answer of the wrong form.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, Error> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        // Register before the request goes out, because its answer may arrive at once.
        lock(&self.0.asked).insert(id, sender);
        let asking = OpenRequest { outgoing: self, id };
        self.send(&RequestMessage { jsonrpc: "2.0", id: Some(&json!(id)), method, params });
        let answer = answer.await.map_err(|_| Error::internal_error())?;
        // The answer has removed the request, so this sends no cancellation.
        drop(asking);
        serde_json::from_value(answer?).map_err(Error::into_internal_error)
    }

    /// Passes an answer to the request that waits for it. Drops an answer without a waiting request.
    pub(crate) fn answered(&self, id: &Value, outcome: Result<Value, Error>) {
        let sender = id.as_i64().and_then(|id| lock(&self.0.asked).remove(&id));
        match sender {
            Some(sender) => drop(sender.send(outcome)),
            None => tracing::debug!("the client answered a request that no longer waits"),
        }
    }

    fn send(&self, message: &impl Serialize) {
        let mut line = match serde_json::to_vec(message) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "a message to the client cannot be written as JSON");
                return;
            }
        };
        line.push(b'\n');
        {
            // Count before sending: the writer subtracts as soon as the line is written.
            let mut queue = lock(&self.0.queue);
            if queue.is_closed {
                return;
            }
            queue.bytes += line.len();
        }
        let _nobody_writes = self.0.lines.send(Some(line));
    }
}

impl QueuedBytes {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Removes a request from the open ones when it is dropped.
struct OpenRequest<'o> {
    outgoing: &'o Outgoing,
    id: i64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        // Still open, so the turn no longer waits: the client can close its question.
        if lock(&self.outgoing.0.asked).remove(&self.id).is_some() {
            self.outgoing.notify("$/cancel_request", &json!({ "requestId": self.id }));
        }
    }
}

/// Locks a mutex even if it is poisoned: no code of this crate panics with a half-made change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
