//! One call of a tool, from its arguments to its answer.
//!
//! A call of a service runs in a task of its own, to its end. A call of a session runs here, and is dropped when its client leaves.
//! [`RunningCall`] waits for either: it reports progress, asks the client for its roots, and stops waiting when the client does.

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

/// Pause between two progress messages of a call without news. Source: clients that listen at all give up after
/// 300 s of silence; SPAWN asks for 20 s at most.
const PROGRESS_EVERY: Duration = Duration::from_secs(15);
/// The least time between two lines of progress. Source: our own choice: they are for a person.
const PROGRESS_PAUSE: Duration = Duration::from_millis(500);
/// Time after which a call may become a protocol task, so that quick answers are sent directly. Source: our own
/// choice.
const DEFERRED_AFTER: Duration = Duration::from_secs(1);
/// Time that a client has to send its roots. Source: our own choice: clients answer from memory.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);

/// A call that runs, and what is needed to wait for it.
pub(crate) struct RunningCall {
    pub(crate) id: RequestId,
    pub(crate) meta: RequestMeta,
    pub(crate) running: BoxFuture<'static, CallToolResult>,
    /// The task of a service's call.
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

    /// The call has its answer, or its client fetches it later.
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
    /// Waits for the call until it is answered or `end` is cancelled.
    pub(crate) async fn wait(mut self, end: CancelToken) {
        let began = Instant::now();
        let mut last_line = began.checked_sub(PROGRESS_PAUSE).unwrap_or(began);
        let (mut count, mut is_new) = (0, false);
        let mut ended = Box::pin(end.cancelled());
        loop {
            let next_line = last_line + if is_new { PROGRESS_PAUSE } else { PROGRESS_EVERY };
            tokio::select! {
                biased;
                answered = &mut self.running => return self.answer(answered).await,
                () = &mut ended => return,
                Some(question) = self.roots.recv() => {
                    if self.meta.names_itself {
                        // It waits for the roots and does nothing else, so nothing is lost; the client sends the call again.
                        if let Some(task) = &self.task {
                            task.abort();
                        }
                        return send(&self.messages, wire::result_message(self.id.clone(), wire::roots_required())).await;
                    }
                    self.ask_for_roots(question);
                }
                Ok(()) = self.lines.changed() => is_new = true,
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
        self.waiting.disarm();
        let result = wire::in_revision(result, &self.meta);
        send(&self.messages, wire::result_message(self.id.clone(), result)).await;
    }

    fn tell_progress(&mut self, count: u64, elapsed: Duration) {
        let Some(token) = &self.meta.progress_token else { return };
        let line = self.lines.borrow_and_update().clone();
        let line = if line.is_empty() { "at work".to_owned() } else { line };
        let message = wire::progress(token, count, &format!("{line} ({} s)", elapsed.as_secs()));
        // A client that does not read has enough of them.
        let _ = self.messages.try_send(message);
    }

    fn ask_for_roots(&self, question: RootsQuestion) {
        let (questions, messages) = (Arc::clone(&self.questions), self.messages.clone());
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

    /// Has the call go on as a protocol task. `false` if there are too many.
    async fn defer(&mut self) -> bool {
        let Some(deferred) = self.deferred.take() else { return false };
        let Some((id, created)) = deferred.begin(self.context.cancelled().clone(), self.lines.clone()) else {
            return false;
        };
        self.context.defer();
        send(&self.messages, wire::result_message(self.id.clone(), created)).await;
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

/// Sends one message; a client that left has no use for it.
async fn send(messages: &mpsc::Sender<Bytes>, message: Bytes) {
    let _ = messages.send(message).await;
}

/// The answer of a call that ended, within its bound.
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
