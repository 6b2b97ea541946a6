//! Receivers of events.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use async_trait::async_trait;

use super::EventEnvelope;

/// Receives the events of a turn.
///
/// A sink that needs time returns `Pending` from [`EventSink::poll_ready`]; the turn continues meanwhile. Any
/// closure that takes an [`EventEnvelope`] is a sink that is always ready:
///
/// ```
/// use nexus_core::{EventEnvelope, EventSink};
///
/// let mut seen = 0;
/// let mut sink = |_event: EventEnvelope| seen += 1;
/// let _: &mut dyn EventSink = &mut sink;
/// ```
pub trait EventSink: Send {
    /// Returns `Ready` if the sink can take one more event. After `Pending` the sink must wake the task once
    /// it can.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Takes one event. The turn calls it only after [`EventSink::poll_ready`] returned `Ready`. Must not
    /// block.
    fn accept(&mut self, event: EventEnvelope);
}

impl<F> EventSink for F
where
    F: FnMut(EventEnvelope) + Send,
{
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        self(event);
    }
}

/// An [`EventSink`] that drops every event, for a caller that needs only the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullSink;

impl EventSink for NullSink {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn accept(&mut self, _event: EventEnvelope) {}
}

/// Extension methods for [`EventSink`].
#[async_trait]
pub trait EventSinkExt: EventSink {
    /// Waits until the sink is ready, then passes the event to it.
    async fn send(&mut self, event: EventEnvelope) {
        poll_fn(|context| self.poll_ready(context)).await;
        self.accept(event);
    }
}

impl<S: EventSink + ?Sized> EventSinkExt for S {}
