//! The caller's session, for the worker's backend: forwards calls to the caller, and waits for the answers.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use nexus_core::{ApprovalRequest, Denial, RemoteSession, ToolCall, ToolResult};
use tokio::sync::{mpsc, oneshot};

use crate::protocol::{CallerAnswer, Item};

/// Requests to the caller, and the tasks that wait for answers. Clones share them.
#[derive(Clone)]
pub(super) struct CallerRequests(Arc<RequestQueue>);

/// Open requests, and the queue of items to send.
struct RequestQueue {
    state: Mutex<UnansweredRequests>,
    /// Items for the caller.
    outgoing: mpsc::UnboundedSender<Item>,
}

/// Requests without an answer, by id.
#[derive(Default)]
struct UnansweredRequests {
    last_id: u64,
    waiting: HashMap<u64, UnansweredRequest>,
}

/// Request without an answer.
struct UnansweredRequest {
    item: Item,
    answer: oneshot::Sender<CallerAnswer>,
    /// True while an answer is being read.
    is_read: bool,
}

impl CallerRequests {
    /// Creates the requests of one turn. Returns the receiver of the items to send.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Item>) {
        let (outgoing, queue) = mpsc::unbounded_channel();
        (Self(Arc::new(RequestQueue { state: Mutex::default(), outgoing })), queue)
    }

    /// Passes an answer to the call that waits for it.
    pub(super) fn answer(&self, id: u64, answer: CallerAnswer) {
        let waiting = self.lock().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // A failed send means that the call was cancelled meanwhile.
            let _ = waiting.answer.send(answer);
        }
    }

    /// Returns true if an answer should be read: a call waits for it, and no answer to it is being read. Marks the answer as
    /// being read.
    pub(super) fn begin_to_read(&self, id: u64) -> bool {
        self.lock().waiting.get_mut(&id).is_some_and(|waiting| !std::mem::replace(&mut waiting.is_read, true))
    }

    /// Returns the unanswered calls and questions, to be sent again.
    pub(super) fn unanswered(&self) -> Vec<Item> {
        let state = self.lock();
        state
            .waiting
            .values()
            .filter(|waiting| !waiting.is_read)
            .map(|waiting| waiting.item.clone())
            .collect()
    }

    async fn ask(&self, item: impl FnOnce(u64) -> Item) -> CallerAnswer {
        let (sender, answer) = oneshot::channel();
        let (id, item) = {
            let mut state = self.lock();
            state.last_id += 1;
            let id = state.last_id;
            let item = item(id);
            state
                .waiting
                .insert(id, UnansweredRequest { item: item.clone(), answer: sender, is_read: false });
            (id, item)
        };
        let _unless_answered = GiveUp { calls: self, id };
        // The receiver lives as long as the turn. A failed send means that the turn has ended.
        let _ = self.0.outgoing.send(item);
        answer.await.unwrap_or(CallerAnswer::Denied(Denial::Closed))
    }

    fn lock(&self) -> MutexGuard<'_, UnansweredRequests> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a cancelled call to the caller when dropped.
struct GiveUp<'c> {
    calls: &'c CallerRequests,
    id: u64,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.calls.lock().waiting.remove(&self.id).is_some() {
            // If this fails, the turn has ended, and no caller waits for the report.
            let _ = self.calls.0.outgoing.send(Item::GivenUp { id: self.id });
        }
    }
}

#[async_trait]
impl RemoteSession for CallerRequests {
    async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial> {
        match self.ask(|id| Item::Call { id, call: Box::new(call) }).await {
            CallerAnswer::Result(result) => Ok(result),
            CallerAnswer::Denied(denial) => Err(denial),
            CallerAnswer::Approved => Err(Denial::Closed),
        }
    }

    async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial> {
        match self.ask(|id| Item::Approval { id, request: Box::new(request) }).await {
            CallerAnswer::Approved => Ok(()),
            CallerAnswer::Denied(denial) => Err(denial),
            CallerAnswer::Result(_) => Err(Denial::Closed),
        }
    }

    fn withdraw(&self, tool: &str) {
        let _ = self.0.outgoing.send(Item::Withdraw { tool: tool.to_owned() });
    }
}

impl fmt::Debug for CallerRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerRequests").field("waiting", &self.lock().waiting.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_read_once_and_only_if_it_is_waited_for() {
        let (calls, mut asked) = CallerRequests::new();
        assert!(!calls.begin_to_read(1), "nobody asked");
        let asking = calls.clone();
        let asking = tokio::spawn(async move { asking.ask(|id| Item::GivenUp { id }).await });
        assert!(matches!(asked.recv().await, Some(Item::GivenUp { id: 1 })));
        assert_eq!(calls.unanswered().len(), 1);
        assert!(calls.begin_to_read(1) && !calls.begin_to_read(1) && !calls.begin_to_read(2));
        assert!(calls.unanswered().is_empty(), "what is being read is not asked for again");
        calls.answer(1, CallerAnswer::Approved);
        assert_eq!(asking.await.unwrap(), CallerAnswer::Approved);
        assert!(!calls.begin_to_read(1), "it is answered");
    }
}
