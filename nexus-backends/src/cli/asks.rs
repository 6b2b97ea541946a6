//! Approval requests and questions to the host in flight.

use std::collections::BTreeMap;

use futures::{
    FutureExt as _, StreamExt as _,
    future::{AbortHandle, BoxFuture, abortable},
    stream::FuturesUnordered,
};
use nexus_core::{Denial, QuestionReply};

/// Approval requests and questions that the host has not answered, each with its number.
#[derive(Default)]
pub(super) struct Asks<'a> {
    open: FuturesUnordered<BoxFuture<'a, (u64, Option<HostReply>)>>,
    handles: BTreeMap<u64, AbortHandle>,
}

/// The host's answer.
#[derive(Debug)]
pub(super) enum HostReply {
    /// To an approval request.
    Approval(Result<(), Denial>),
    /// To a question.
    Question(QuestionReply),
}

impl<'a> Asks<'a> {
    pub(super) fn push(&mut self, number: u64, reply: impl Future<Output = HostReply> + Send + 'a) {
        let (reply, handle) = abortable(reply);
        self.handles.insert(number, handle);
        self.open.push(reply.map(move |reply| (number, reply.ok())).boxed());
    }

    /// Withdraws one: it has no answer any more.
    pub(super) fn withdraw(&mut self, number: u64) {
        if let Some(handle) = self.handles.remove(&number) {
            handle.abort();
        }
    }

    /// Withdraws all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.handles.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the next answer with its number; no answer for one that was withdrawn. Returns `None` if none is open.
    pub(super) async fn next(&mut self) -> Option<(u64, Option<HostReply>)> {
        let next = self.open.next().await;
        if let Some((number, _)) = &next {
            self.handles.remove(number);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn one_that_is_withdrawn_is_dropped_and_has_no_answer() {
        let mut asks = Asks::default();
        let mut senders = Vec::new();
        for number in 0..3 {
            let (sender, receiver) = oneshot::channel::<()>();
            senders.push(sender);
            asks.push(number, async move {
                let _ = receiver.await;
                HostReply::Approval(Ok(()))
            });
        }
        asks.withdraw(1);
        asks.withdraw(7);
        assert!(matches!(asks.next().await, Some((1, None))));
        assert!(senders[1].is_closed() && !senders[0].is_closed());
        senders.remove(0).send(()).unwrap();
        assert!(matches!(asks.next().await, Some((0, Some(HostReply::Approval(Ok(())))))));
        assert!(!asks.is_empty());
        asks.clear();
        assert!(asks.is_empty() && senders[1].is_closed());
        assert!(asks.next().await.is_none());
    }
}
