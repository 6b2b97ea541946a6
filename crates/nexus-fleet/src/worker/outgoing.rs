//! Items of a turn on their way to its caller, in numbered frames.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use nexus_core::Effects;
use tokio::time::Instant;

use super::{
    job::TakenTurn,
    measured::Figures,
    stored::{TurnStore, effects_of, size_of},
    window::Window,
};
use crate::{
    protocol::{Frame, INLINE_BYTES, Item, frames_subject},
    wait::done,
};

/// Shortest time between two repetitions that the caller requests.
const RESEND_AFTER: Duration = Duration::from_millis(100);
/// Longest time between two messages to a caller.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Maximum number of events in one message.
const MAX_ITEMS: usize = 64;

/// Items of a turn on their way to its caller.
pub(super) struct Outgoing {
    store: TurnStore,
    figures: Figures,
    worker: Arc<str>,
    /// Secret of the turn, which each frame contains.
    key: String,
    subject: String,
    window: Window,
    /// Items that are sent next.
    items: VecDeque<Item>,
    /// Items that are being prepared: their effects are stored, and large items become objects.
    preparing: Option<BoxFuture<'static, Vec<Item>>>,
    /// Effects that are already stored.
    effects: Effects,
    repeated_at: Instant,
    last_sent: Instant,
}

impl Outgoing {
    pub(super) fn new(job: &TakenTurn, store: TurnStore) -> Self {
        let now = Instant::now();
        Self {
            store,
            figures: job.figures.clone(),
            worker: Arc::clone(&job.worker.name),
            key: job.queued.key.clone(),
            subject: frames_subject(&job.caller, &job.queued.instance, &job.queued.turn),
            window: Window::new(),
            items: VecDeque::new(),
            preparing: None,
            effects: Effects::None,
            repeated_at: now - RESEND_AFTER,
            last_sent: now,
        }
    }

    /// Returns true if the caller has acknowledged enough for a further frame.
    pub(super) fn has_room(&self) -> bool {
        self.window.has_room()
    }

    pub(super) fn is_preparing(&self) -> bool {
        self.preparing.is_some()
    }

    /// Returns true if all items were sent.
    pub(super) fn is_empty(&self) -> bool {
        self.preparing.is_none() && self.items.is_empty()
    }

    /// Queues items, without sending them.
    pub(super) fn queue(&mut self, items: impl IntoIterator<Item = Item>) {
        self.items.extend(items);
    }

    /// Queues items, and sends the items that need no preparation.
    pub(super) fn say(&mut self, items: impl IntoIterator<Item = Item>) {
        self.queue(items);
        self.prepare();
    }

    /// Drops the queue, and reports to the caller that the turn no longer runs.
    pub(super) fn abandon(&mut self) {
        self.items.clear();
        self.preparing = None;
        self.send(vec![Item::Abandoned]);
    }

    /// Prepares the next items. Sends them at once if nothing has to be stored for them.
    pub(super) fn prepare(&mut self) {
        while self.preparing.is_none() && !self.items.is_empty() {
            // Prepare one batch at a time, so that frames leave in the order of their items.
            let count = self.items.len().min(MAX_ITEMS);
            let items: Vec<_> = self.items.drain(..count).collect();
            let effects = items.iter().map(effects_of).fold(self.effects, Effects::and);
            let raised = (effects > self.effects).then_some(effects);
            self.effects = effects;
            let is_large = items.iter().any(|item| size_of(item) > INLINE_BYTES);
            if raised.is_none() && !is_large {
                self.send(items);
                continue;
            }
            let store = self.store.clone();
            let preparing = async move {
                // Store the effects before the event is sent. After a crash they decide if the turn may be repeated.
                if let Some(effects) = raised {
                    store.effects(effects).await;
                }
                let mut ready = Vec::with_capacity(items.len());
                for item in items {
                    ready.push(store.packed(item).await);
                }
                ready
            };
            self.preparing = Some(preparing.boxed());
        }
    }

    /// Waits until items are prepared, and sends them. Pending for ever if none are.
    pub(super) async fn prepared(&mut self) {
        let items = done(&mut self.preparing).await;
        self.preparing = None;
        self.send(items);
        // Prepare the items that arrived meanwhile.
        self.prepare();
    }

    /// Sends items as the next frames. Each frame fits into a message.
    fn send(&mut self, items: Vec<Item>) {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for item in items {
            let size = size_of(&item);
            if bytes + size > INLINE_BYTES && !batch.is_empty() {
                self.send_frame(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += size;
            batch.push(item);
        }
        if !batch.is_empty() {
            self.send_frame(batch);
        }
    }

    fn send_frame(&mut self, items: Vec<Item>) {
        let number = self.window.next_number();
        if let Some(text) = self.frame(number, items) {
            self.store.link.nats.send(&self.subject, text.clone());
            self.window.add(text);
            self.last_sent = Instant::now();
        }
    }

    /// Sends a frame without items: the name of the worker and the number of its last frame.
    pub(super) fn say_where(&mut self) {
        if let Some(text) = self.frame(self.window.last_number(), Vec::new()) {
            self.store.link.nats.send(&self.subject, text);
            self.last_sent = Instant::now();
        }
    }

    /// Calls [`say_where`](Self::say_where) if nothing was sent for a while.
    pub(super) fn heartbeat(&mut self) {
        if self.last_sent.elapsed() >= HEARTBEAT {
            self.say_where();
        }
    }

    fn frame(&self, number: u64, items: Vec<Item>) -> Option<Vec<u8>> {
        let frame = Frame {
            key: self.key.clone(),
            worker: self.worker.to_string(),
            attempt: self.store.attempt.clone(),
            number,
            items,
        };
        serde_json::to_vec(&frame)
            .inspect_err(|error| tracing::warn!(%error, "a message to a caller cannot be written"))
            .ok()
    }

    /// Forgets the frames up to a number, which have arrived.
    pub(super) fn acknowledge(&mut self, number: u64) {
        self.window.acknowledge(number);
    }

    /// Sends the frames from a number on again, unless this was just done.
    pub(super) fn repeat_from(&mut self, number: u64) {
        if self.repeated_at.elapsed() >= RESEND_AFTER {
            self.repeated_at = Instant::now();
            let again = self.window.from(number).cloned().collect();
            self.repeat(again);
        }
    }

    /// Sends the last frame again.
    pub(super) fn repeat_last(&mut self) {
        let again = self.window.from(self.window.last_number()).cloned().collect();
        self.repeat(again);
    }

    /// Sends the frames again that the caller should have acknowledged by now.
    pub(super) fn repeat_overdue(&mut self) {
        let again: Vec<_> = self.window.overdue().cloned().collect();
        if !again.is_empty() {
            self.repeat(again);
        }
    }

    fn repeat(&mut self, frames: Vec<Vec<u8>>) {
        // The connection is behind. More frames would make it worse, and the caller requests missing ones.
        if self.store.link.nats.is_behind() {
            return;
        }
        self.figures.repeated(frames.len());
        for frame in frames {
            self.store.link.nats.send(&self.subject, frame);
        }
        self.last_sent = Instant::now();
    }
}
