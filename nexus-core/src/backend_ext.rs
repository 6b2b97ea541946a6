//! Conveniences over [`ExecutionBackend`], written once.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use futures::{
    future::BoxFuture,
    stream::{FusedStream, Stream},
};

use crate::{
    backend::{ExecutionBackend, TurnHost},
    error::TurnError,
    turn::{EventEnvelope, EventSink, TurnRequest, TurnResult},
};

/// Events that a stream holds before the turn's sink says that it is not ready.
const STREAM_CAPACITY: usize = 64;

/// Ways to run a turn that every backend has.
pub trait ExecutionBackendExt: ExecutionBackend {
    /// Runs a turn whose events nobody wants to see, and returns its result.
    ///
    /// # Errors
    ///
    /// As [`ExecutionBackend::run_turn`].
    fn run_text(
        &self,
        request: TurnRequest,
    ) -> impl Future<Output = Result<TurnResult, TurnError>> + Send + '_ {
        async move {
            let mut nobody = |_event: EventEnvelope| {};
            self.run_turn(request, TurnHost::new(), &mut nobody).await
        }
    }

    /// Runs a turn as a stream of its events, which ends with the outcome. Dropping the stream stops the turn.
    fn stream_turn(self: Arc<Self>, request: TurnRequest, host: TurnHost) -> TurnStream
    where
        Self: Sized,
    {
        TurnStream::new(self, request, host)
    }
}

impl<B: ExecutionBackend + ?Sized> ExecutionBackendExt for B {}

/// One item of a [`TurnStream`].
#[derive(Debug)]
pub enum StreamItem {
    /// Something happened.
    Event(EventEnvelope),
    /// The turn ended. The last item.
    Outcome(Result<TurnResult, TurnError>),
}

/// The events of a running turn, then its outcome. The turn advances only while the stream is polled.
pub struct TurnStream {
    turn: Option<BoxFuture<'static, Result<TurnResult, TurnError>>>,
    shared: Arc<Mutex<Shared>>,
    outcome: Option<Result<TurnResult, TurnError>>,
}

#[derive(Default)]
struct Shared {
    events: VecDeque<EventEnvelope>,
    waiting_for_room: Option<Waker>,
}

struct StreamSink(Arc<Mutex<Shared>>);

impl EventSink for StreamSink {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.events.len() < STREAM_CAPACITY {
            return Poll::Ready(());
        }
        shared.waiting_for_room = Some(context.waker().clone());
        Poll::Pending
    }

    fn accept(&mut self, event: EventEnvelope) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).events.push_back(event);
    }
}

impl TurnStream {
    /// Starts nothing yet: work begins with the first poll.
    pub fn new(backend: Arc<dyn ExecutionBackend>, request: TurnRequest, host: TurnHost) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut sink = StreamSink(Arc::clone(&shared));
        let turn = Box::pin(async move { backend.run_turn(request, host, &mut sink).await });
        Self { turn: Some(turn), shared, outcome: None }
    }

    fn pop(&self) -> Option<EventEnvelope> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let event = shared.events.pop_front()?;
        if let Some(waker) = shared.waiting_for_room.take() {
            waker.wake();
        }
        Some(event)
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("ended", &self.is_terminated()).finish_non_exhaustive()
    }
}

impl Stream for TurnStream {
    type Item = StreamItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Polling the turn also while events wait keeps its limits and its cancellation alive.
        if let Some(turn) = self.turn.as_mut()
            && let Poll::Ready(outcome) = turn.as_mut().poll(context)
        {
            self.turn = None;
            self.outcome = Some(outcome);
        }
        if let Some(event) = self.pop() {
            return Poll::Ready(Some(StreamItem::Event(event)));
        }
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(Some(StreamItem::Outcome(outcome))),
            None if self.turn.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl FusedStream for TurnStream {
    fn is_terminated(&self) -> bool {
        self.turn.is_none()
            && self.outcome.is_none()
            && self.shared.lock().unwrap_or_else(PoisonError::into_inner).events.is_empty()
    }
}
