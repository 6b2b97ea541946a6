//! The caller's session, as the worker's backend sees them.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use nexus_core::{ApprovalRequest, Denial, RemoteSession, ToolCall, ToolResult};
use tokio::sync::{mpsc, oneshot};

use crate::protocol::{Answer, Item};

/// What is asked of the caller, and who waits for the answer. Clones share it.
#[derive(Clone)]
pub(super) struct Calls(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// What is to be sent to the caller.
    outgoing: mpsc::UnboundedSender<Item>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    waiting: HashMap<u64, (Item, oneshot::Sender<Answer>)>,
}

impl Calls {
    /// The calls of one turn, and what they send.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Item>) {
        let (outgoing, queue) = mpsc::unbounded_channel();
        (Self(Arc::new(Shared { state: Mutex::default(), outgoing })), queue)
    }

    /// Hands an answer to whoever waits for it.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let waiting = self.lock().waiting.remove(&id);
        if let Some((_, waiting)) = waiting {
            // It was given up meanwhile.
            let _ = waiting.send(answer);
        }
    }

    /// What is asked and not answered, to be asked again.
    pub(super) fn unanswered(&self) -> Vec<Item> {
        self.lock().waiting.values().map(|(item, _)| item.clone()).collect()
    }

    async fn ask(&self, item: impl FnOnce(u64) -> Item) -> Answer {
        let (sender, answer) = oneshot::channel();
        let (id, item) = {
            let mut state = self.lock();
            state.last_id += 1;
            let id = state.last_id;
            let item = item(id);
            state.waiting.insert(id, (item.clone(), sender));
            (id, item)
        };
        let _unless_answered = GiveUp { calls: self, id };
        // The other end goes with the turn.
        let _ = self.0.outgoing.send(item);
        answer.await.unwrap_or(Answer::Denied(Denial::Closed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the caller of a call that nobody waits for any more.
struct GiveUp<'c> {
    calls: &'c Calls,
    id: u64,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.calls.lock().waiting.remove(&self.id).is_some() {
            let _ = self.calls.0.outgoing.send(Item::GivenUp { id: self.id });
        }
    }
}

#[async_trait]
impl RemoteSession for Calls {
    async fn call(&self, call: ToolCall) -> Result<ToolResult, Denial> {
        match self.ask(|id| Item::Call { id, call: Box::new(call) }).await {
            Answer::Result(result) => Ok(result),
            Answer::Denied(denial) => Err(denial),
            Answer::Approved => Err(Denial::Closed),
        }
    }

    async fn approve(&self, request: ApprovalRequest) -> Result<(), Denial> {
        match self.ask(|id| Item::Approval { id, request: Box::new(request) }).await {
            Answer::Approved => Ok(()),
            Answer::Denied(denial) => Err(denial),
            Answer::Result(_) => Err(Denial::Closed),
        }
    }

    fn withdraw(&self, tool: &str) {
        let _ = self.0.outgoing.send(Item::Withdraw { tool: tool.to_owned() });
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("waiting", &self.lock().waiting.len()).finish()
    }
}
