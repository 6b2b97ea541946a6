//! One call of a tool, from its arguments to its answer.
//!
//! A call of a service runs in a task of its own, to its end. A call of a session runs in the future of the turn, and is dropped
//! when its client leaves. [`RunningCall`] waits for either: it reports progress, requests the client's roots, and stops waiting
//! when the client does.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use nexus_core::CancelToken;
use rmcp::model::{CallToolResult, RequestId};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{
    context::CallContext,
    deferred::SharedDeferredCalls,
    questions::Questions,
    roots::{ClientRoots, RootsQuestion},
    service::{CallAnswer, JsonObject},
    wire::{self, RequestMeta},
};

/// Pause between two progress messages of a call without news. Source: clients that accept progress give up after 300 s of silence;
/// SPAWN requires 20 s at most.
const PROGRESS_EVERY: Duration = Duration::from_secs(15);
/// Shortest time between two progress lines. Source: our own choice, because people read them.
const PROGRESS_PAUSE: Duration = Duration::from_millis(500);
/// Time after which a call may become a protocol task. Quicker answers are sent directly. Source: our own choice.
const DEFERRED_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for a client's roots. Source: our own choice: clients answer from memory.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);

/// A running call, with the state for waiting for it.
pub(crate) struct RunningCall {
    pub(crate) id: RequestId,
    pub(crate) meta: RequestMeta,
    pub(crate) running: BoxFuture<'static, CallToolResult>,
    /// Task of a service's call.
    pub(crate) task: Option<AbortHandle>,
    pub(crate) context: CallContext,
    pub(crate) waiting: WaitGuard,
    pub(crate) lines: watch::Receiver<String>,
    pub(crate) roots: mpsc::Receiver<RootsQuestion>,
    pub(crate) questions: Arc<Questions>,
    /// Store in which the call continues if its client wants to fetch the answer later.
    pub(crate) deferred: Option<SharedDeferredCalls>,
    pub(crate) messages: mpsc::Sender<Bytes>,
}

/// Cancels the wait for a call when dropped.
pub(crate) struct WaitGuard(Option<CancelToken>);

impl WaitGuard {
    pub(crate) fn new(context: &CallContext) -> Self {
        Self(Some(context.cancelled().clone()))
    }

    /// Disarms the guard: the call has its answer, or its client fetches the answer later.
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.cancel();
        }
    }
}

impl RunningCall {
    /// Waits until the call is answered or `end` is cancelled.
    pub(crate) async fn wait(mut self, end: CancelToken) {
        let began = Instant::now();
        // In the past, so that the first news is reported at once.
        let mut last_line = began.checked_sub(PROGRESS_PAUSE).unwrap_or(began);
        let (mut count, mut is_new) = (0, false);
        let mut ended = Box::pin(end.cancelled());
        loop {
            let next_line = last_line + if is_new { PROGRESS_PAUSE } else { PROGRESS_EVERY };
            tokio::select! {
                // `biased`: a call that is complete is answered, even if it is cancelled at the same time.
                biased;
                answered = &mut self.running => return self.answer(answered).await,
                () = &mut ended => return,
                Some(question) = self.roots.recv() => {
                    if self.meta.names_itself {
                        // A call that waits for the roots has done nothing yet, so abort it. The client sends the call again with
                        // the roots.
                        if let Some(task) = &self.task {
                            task.abort();
                        }
                        return send(&self.messages, wire::result_message(self.id.clone(), wire::roots_required())).await;
                    }
                    self.ask_for_roots(question);
                }
                Ok(()) = self.lines.changed() => is_new = true,
                // The protocol allows progress only for a request that has a token.
                () = sleep_until(next_line), if self.meta.progress_token.is_some() => {
                    (count, is_new, last_line) = (count + 1, false, Instant::now());
                    self.tell_progress(count, began.elapsed());
                }
                () = sleep_until(began + DEFERRED_AFTER), if self.deferred.is_some() => {
                    if self.defer().await {
                        return;
                    }
                }
            }
        }
    }

    async fn answer(mut self, result: CallToolResult) {
        // Before the send, which may wait: the call is complete and must no longer count as cancelled.
        self.waiting.disarm();
        let result = wire::in_revision(result, &self.meta);
        send(&self.messages, wire::result_message(self.id.clone(), result)).await;
    }

    fn tell_progress(&mut self, count: u64, elapsed: Duration) {
        let Some(token) = &self.meta.progress_token else { return };
        let line = self.lines.borrow_and_update().clone();
        let line = if line.is_empty() { "at work".to_owned() } else { line };
        let message = wire::progress(token, count, &format!("{line} ({} s)", elapsed.as_secs()));
        // If the channel is full, the client does not read, so drop the message.
        let _ = self.messages.try_send(message);
    }

    fn ask_for_roots(&self, question: RootsQuestion) {
        let (questions, messages) = (Arc::clone(&self.questions), self.messages.clone());
        // In a task of its own, because `wait` must poll the call meanwhile.
        tokio::spawn(async move {
            let mut asked = questions.begin();
            let ask = async {
                messages.send(wire::roots_request(&asked.id)).await.ok()?;
                asked.answer().await
            };
            let result = tokio::time::timeout(ROOTS_TIMEOUT, ask).await.ok().flatten();
            let roots = result.map_or(ClientRoots::NoAnswer, |result| ClientRoots::read(&result));
            let _the_call_ended = question.send(roots);
        });
    }

    /// Turns the call into a protocol task that continues without the wait. Returns false if too many tasks exist.
    async fn defer(&mut self) -> bool {
        let Some(deferred) = self.deferred.take() else { return false };
        let Some((id, created)) = deferred.begin(self.context.cancelled().clone(), self.lines.clone()) else {
            return false;
        };
        self.context.defer();
        send(&self.messages, wire::result_message(self.id.clone(), created)).await;
        // Only now: a client without the id could neither fetch the answer nor cancel the call.
        self.waiting.disarm();
        let running = std::mem::replace(&mut self.running, Box::pin(std::future::pending()));
        let meta = self.meta.clone();
        tokio::spawn(async move {
            let result = wire::in_revision(running.await, &meta);
            let result = match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                _ => JsonObject::new(),
            };
            deferred.answered(&id, result);
        });
        true
    }
}

/// Sends one message. Ignores a client that has left.
async fn send(messages: &mpsc::Sender<Bytes>, message: Bytes) {
    let _ = messages.send(message).await;
}

/// Returns the answer of a call that ended, limited to the largest size.
pub(crate) fn answer_of(ended: Result<CallAnswer, tokio::task::JoinError>, tool: &str) -> CallAnswer {
    let answer = ended.unwrap_or_else(|error| {
        tracing::error!(tool, %error, "a call of a tool ended without an answer");
        CallAnswer::error(format!(
            "{tool} ended without an answer, because of a fault in the server. Its work may be done: check \
             before you call it again"
        ))
    });
    answer.bounded(tool)
}
