//! Sinks of the suite: they record the events, at the pace of the case.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{EventEnvelope, EventSink};
use tokio::time::Sleep;

/// Speed at which a sink takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SinkPace {
    /// At once.
    Ready,
    /// One event in this time.
    Slow(Duration),
    /// No event, ever.
    Never,
}

/// Events that a sink has received. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Vec<EventEnvelope>>>);

impl Seen {
    /// The events so far.
    pub(super) fn events(&self) -> Vec<EventEnvelope> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<EventEnvelope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sink that records everything in a [`Seen`].
#[derive(Debug)]
pub(super) struct PacedSink {
    seen: Seen,
    pace: SinkPace,
    rest: Option<Pin<Box<Sleep>>>,
}

impl PacedSink {
    pub(super) fn new(seen: Seen, pace: SinkPace) -> Self {
        Self { seen, pace, rest: None }
    }
}

impl EventSink for PacedSink {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.pace {
            SinkPace::Ready => Poll::Ready(()),
            SinkPace::Never => Poll::Pending,
            SinkPace::Slow(each) => {
                let rest = self.rest.get_or_insert_with(|| Box::pin(tokio::time::sleep(each)));
                rest.as_mut().poll(context)
            }
        }
    }

    fn accept(&mut self, event: EventEnvelope) {
        // The next event waits for the full time again.
        self.rest = None;
        self.seen.lock().push(event);
    }
}
