//! Answers the calls that a worker sends back: each once, and a repeated one from memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use nexus_core::{ApprovalRequest, Denial, Session, ToolCall, ToolResult};

use crate::{
    link::Link,
    objects,
    protocol::{CallerAnswer, Payload},
};

/// Maximum number of concurrent calls of a turn. Source: our own bound; models were seen to make tens at once.
const MAX_RUNNING: usize = 1_024;

/// Calls of one turn, and their answers.
pub(super) struct Answers {
    session: Arc<Session>,
    link: Link,
    /// Prefix of the names of the turn's objects.
    owner: String,
    running: FuturesUnordered<BoxFuture<'static, (u64, Option<Payload>)>>,
    aborts: HashMap<u64, AbortHandle>,
    done: BTreeMap<u64, Payload>,
}

impl Answers {
    pub(super) fn new(session: Arc<Session>, link: Link, owner: String) -> Self {
        Self {
            session,
            link,
            owner,
            running: FuturesUnordered::new(),
            aborts: HashMap::new(),
            done: BTreeMap::new(),
        }
    }

    /// Starts a call. Returns the earlier answer if the call is a repetition.
    pub(super) fn call(&mut self, id: u64, call: ToolCall) -> Option<Payload> {
        let session = Arc::clone(&self.session);
        self.begin(id, async move {
            match session.try_call(session.token(), call).await {
                Ok(result) => CallerAnswer::Result(result),
                Err(denial) => CallerAnswer::Denied(denial),
            }
        })
    }

    /// Starts a question about a program's own tool. Returns the earlier answer if the question is a repetition.
    pub(super) fn approve(&mut self, id: u64, request: ApprovalRequest) -> Option<Payload> {
        let session = Arc::clone(&self.session);
        self.begin(id, async move {
            match session.approve(request).await {
                Ok(()) => CallerAnswer::Approved,
                Err(denial) => CallerAnswer::Denied(denial),
            }
        })
    }

    fn begin(
        &mut self,
        id: u64,
        work: impl Future<Output = CallerAnswer> + Send + 'static,
    ) -> Option<Payload> {
        if let Some(answer) = self.done.get(&id) {
            return Some(answer.clone());
        }
        if self.aborts.contains_key(&id) {
            return None;
        }
        let is_refused = self.aborts.len() >= MAX_RUNNING;
        let (abort, registration) = AbortHandle::new_pair();
        self.aborts.insert(id, abort);
        let (link, owner) = (self.link.clone(), self.owner.clone());
        let answering = async move {
            let answer = match is_refused {
                true => CallerAnswer::Denied(Denial::Closed),
                false => work.await,
            };
            packed(&link, &owner, &answer).await
        };
        let answering = Abortable::new(answering, registration);
        self.running.push(async move { (id, answering.await.ok()) }.boxed());
        None
    }

    /// Withdraws a tool from the session, because it cannot be offered to the model.
    pub(super) fn withdraw(&self, tool: &str) {
        self.session.withdraw(tool);
    }

    /// Cancels a call that has no waiting receiver any more.
    pub(super) fn give_up(&mut self, id: u64) {
        if let Some(abort) = self.aborts.get(&id) {
            abort.abort();
        }
    }

    /// Returns the next answer. Waits for ever while no call runs.
    pub(super) async fn next(&mut self) -> (u64, Payload) {
        loop {
            match self.running.next().await {
                Some((id, answer)) => {
                    self.aborts.remove(&id);
                    if let Some(answer) = answer {
                        self.done.insert(id, answer.clone());
                        return (id, answer);
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

/// Returns an answer as it is sent. An answer that cannot be stored is sent as lost.
async fn packed(link: &Link, owner: &str, answer: &CallerAnswer) -> Payload {
    match objects::pack(link, owner, answer).await {
        Ok(payload) => payload,
        Err(error) => {
            tracing::warn!(%error, "the answer of a tool could not be sent");
            let lost =
                ToolResult::error(format!("the tool answered, but its answer was lost in transit: {error}"));
            let lost = serde_json::value::to_raw_value(&CallerAnswer::Result(lost)).unwrap_or_default();
            Payload::Inline(lost)
        }
    }
}
