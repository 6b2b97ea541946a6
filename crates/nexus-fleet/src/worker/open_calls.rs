//! Unanswered calls of a turn: sent again until the caller answers.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use nexus_core::ToolResult;
use tokio::{sync::mpsc, time::Instant};

use super::{calls::CallerRequests, stored::TurnStore};
use crate::{
    objects,
    protocol::{CallerAnswer, Item, Payload},
};

/// First and longest wait until an unanswered call is sent again.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Maximum number of answers that are read at once. Each may be as large as a document. Others are requested again.
const MAX_READING: usize = 16;

/// Calls of a turn that its caller has not answered.
pub(super) struct OpenCalls {
    pub(super) requests: CallerRequests,
    /// New calls.
    pub(super) asked: mpsc::UnboundedReceiver<Item>,
    /// Answers that are being read.
    pub(super) reading: FuturesUnordered<BoxFuture<'static, (u64, CallerAnswer)>>,
    asked_at: Instant,
    wait: Duration,
}

impl OpenCalls {
    pub(super) fn new() -> Self {
        let (requests, asked) = CallerRequests::new();
        Self {
            requests,
            asked,
            reading: FuturesUnordered::new(),
            asked_at: Instant::now(),
            wait: ASK_AGAIN.0,
        }
    }

    /// Records that a call was just sent.
    pub(super) fn asked_now(&mut self) {
        (self.asked_at, self.wait) = (Instant::now(), ASK_AGAIN.0);
    }

    /// Begins to read an answer, unless no call waits for it or it is already being read. If too many answers are being
    /// read, it is requested again later.
    pub(super) fn read_answer(&self, store: &TurnStore, id: u64, answer: Payload) {
        if self.reading.len() >= MAX_READING || !self.requests.begin_to_read(id) {
            return;
        }
        let (link, owner) = (store.link.clone(), store.owner());
        let reading = async move {
            let read = objects::unpack::<CallerAnswer>(&link, &owner, &answer).await;
            let unread = |error| {
                let reason = format!("the tool answered, but its answer cannot be read: {error}");
                CallerAnswer::Result(ToolResult::error(reason))
            };
            (id, read.unwrap_or_else(unread))
        };
        self.reading.push(reading.boxed());
    }

    /// Returns the unanswered calls, if it is time to send them again.
    pub(super) fn overdue(&mut self) -> Option<Vec<Item>> {
        let now = Instant::now();
        if now < self.asked_at + self.wait {
            return None;
        }
        self.asked_at = now;
        self.wait = (self.wait * 2).min(ASK_AGAIN.1);
        Some(self.requests.unanswered())
    }
}
