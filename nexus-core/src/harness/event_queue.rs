//! A queue of events between a turn and its reader.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::turn::{EventEnvelope, EventSink};

/// Number of events at which the queue reports that it is not ready.
const CAPACITY: usize = 64;

/// A bounded queue of events: the sink of a turn at one end, a reader at the other. Clones share it.
///
/// It serves code that polls the turn itself and takes its events directly, such as a stream, or a panel that
/// runs several turns at once.
#[derive(Clone, Debug, Default)]
pub struct EventQueue(Arc<Mutex<QueuedEvents>>);

/// Events that the reader has not taken yet.
#[derive(Debug, Default)]
struct QueuedEvents {
    events: VecDeque<EventEnvelope>,
    waiting_for_room: Option<Waker>,
}

impl EventQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes and returns the next event, which frees its slot.
    pub fn pop(&self) -> Option<EventEnvelope> {
        let mut state = self.lock();
        let event = state.events.pop_front()?;
        // The sink reported `Pending` while the queue was full, and its task polls again only after a wake.
        if let Some(waker) = state.waiting_for_room.take() {
            waker.wake();
        }
        Some(event)
    }

    /// Returns true if the queue has no event.
    pub fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        // Ignore poisoning: each operation changes the queue in one step, so a panic leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for EventQueue {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.events.len() < CAPACITY {
            return Poll::Ready(());
        }
        // One waker suffices, because the queue is the sink of one turn and one task polls it.
        state.waiting_for_room = Some(context.waker().clone());
        Poll::Pending
    }

    fn accept(&mut self, event: EventEnvelope) {
        // Accept an event above the capacity too: the contract has no error, and `Outbox` polls `poll_ready` first.
        self.lock().events.push_back(event);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::turn::TurnEvent;

    #[test]
    fn a_full_queue_is_not_ready_until_somebody_reads() {
        let mut queue = EventQueue::new();
        let mut context = Context::from_waker(Waker::noop());
        let mut accepted = 0;
        while queue.poll_ready(&mut context).is_ready() {
            queue.accept(EventEnvelope::new(accepted, Duration::ZERO, TurnEvent::warning("x")));
            accepted += 1;
        }
        assert_eq!(accepted, CAPACITY as u64);
        assert_eq!(queue.clone().pop().map(|event| event.sequence), Some(0));
        assert!(queue.poll_ready(&mut context).is_ready());
    }
}
