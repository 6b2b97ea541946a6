//! Context of one turn: cancellation, time limits and the event outbox, which are all polled during every wait.

use std::{
    future::{Future, poll_fn},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use nexus_core::{
    CancelToken, ErrorKind, EventSink, Phase, TurnEvent,
    harness::{Failure, TurnLog, Watch, sleep_until},
};

use super::frame_splitter::StreamFault;
use super::stream_splitter::StreamSplitter;
use super::transport::{Body, TransportError};
use super::wire_reader::WireReader;

/// Time limit for the end of a body after its last event. Only a connection that was read to its end can be reused.
const CLOSING: Duration = Duration::from_millis(50);

/// Cancellation, time limits and recorded events of one turn.
#[derive(Debug)]
pub(super) struct TurnContext {
    pub(super) cancel: CancelToken,
    pub(super) watch: Watch,
    pub(super) log: TurnLog,
}

/// Longest wait for an addition to the end of a response, such as the reason of a failure.
const REST_PATIENCE: Duration = Duration::from_secs(2);

/// End of reading a body.
#[derive(Debug)]
pub(super) enum BodyEnd {
    /// The terminal event arrived, or nothing is left to read.
    Over,
    /// Reading failed.
    Broken(TransportError),
    /// An event is longer than allowed, or the stream is damaged.
    Faulty(StreamFault),
}

/// Maximum number of chunks read in one poll, so that cancellation and time limits are checked even while a server
/// floods the connection.
const CHUNKS_PER_POLL: usize = 32;

/// Reason why a wait for the body ended.
enum Woke {
    Cancelled,
    Time,
    /// No addition to the end arrived in time.
    NoRest,
    End(BodyEnd),
}

impl TurnContext {
    /// Creates the context of a turn that begins now.
    pub(super) fn new(cancel: CancelToken, watch: Watch, log: TurnLog) -> Self {
        Self { cancel, watch, log }
    }

    /// Waits for `future`, unless the turn is cancelled or runs out of time first.
    pub(super) async fn attend<F: Future>(
        &mut self,
        events: &mut dyn EventSink,
        future: F,
    ) -> Result<F::Output, Failure> {
        self.log.wait_for(future, &self.watch, &self.cancel, events).await
    }

    /// Waits for `delay`, during which the limits on silence are suspended. Only the deadline and a cancellation end it
    /// early.
    pub(super) async fn pause(&mut self, events: &mut dyn EventSink, delay: Duration) -> Result<(), Failure> {
        self.watch.rest();
        self.attend(events, tokio::time::sleep(delay)).await
    }

    /// Reads a body into `reader`, one event at a time. Reads the next event only after the sink has taken the turn
    /// events of the previous one, so memory stays bounded.
    pub(super) async fn read(
        &mut self,
        events: &mut dyn EventSink,
        body: &mut Body,
        splitter: &mut StreamSplitter,
        reader: &mut dyn WireReader,
    ) -> Result<BodyEnd, Failure> {
        // These futures have their own wakers, so an arriving chunk does not poll them.
        let mut interruptions = FuturesUnordered::from_iter([cancellation(&self.cancel), self.alarm()]);
        let mut arrived = Vec::new();
        let mut is_over = false;
        let mut is_answering = false;
        // Number of events so far, and that number when the reader began to wait for an event after the end.
        let mut heard = 0_u64;
        let mut awaiting_since = None;
        loop {
            let mut is_sink_slow = false;
            let woke = poll_fn(|context| {
                if let Poll::Ready(Some(woke)) = interruptions.poll_next_unpin(context) {
                    return Poll::Ready(woke);
                }
                let mut turn = BodyTurn {
                    context: self,
                    splitter,
                    reader,
                    arrived: &mut arrived,
                    is_over: &mut is_over,
                    heard: &mut heard,
                };
                if let Poll::Ready(end) = turn.poll(body, events, context) {
                    return Poll::Ready(Woke::End(end));
                }
                is_sink_slow = !self.log.outbox.is_empty();
                if awaiting_since.is_none() && reader.awaits_rest() {
                    awaiting_since = Some(heard);
                    interruptions.push(Box::pin(async {
                        tokio::time::sleep(REST_PATIENCE).await;
                        Woke::NoRest
                    }));
                    if let Poll::Ready(Some(woke)) = interruptions.poll_next_unpin(context) {
                        return Poll::Ready(woke);
                    }
                }
                if !is_answering && self.watch.is_in(Phase::Model) {
                    // Another time limit applies from now on, which may end before the earlier one.
                    is_answering = true;
                    interruptions.push(self.alarm());
                    if let Poll::Ready(Some(woke)) = interruptions.poll_next_unpin(context) {
                        return Poll::Ready(woke);
                    }
                }
                Poll::Pending
            });
            match woke.await {
                Woke::Cancelled => return Err(Failure::cancelled()),
                Woke::End(end) => return Ok(end),
                Woke::NoRest if awaiting_since == Some(heard) => return Ok(BodyEnd::Over),
                // Something arrived after all, so the wait begins again if the addition is still missing.
                Woke::NoRest => awaiting_since = None,
                Woke::Time => {
                    match self.watch.ran_out() {
                        // The sink is slow, not the model, so the model was not silent.
                        Some(ErrorKind::Starved(phase)) if is_sink_slow => self.watch.heard(phase),
                        Some(kind) => return Err(self.log.out_of_time(kind, &self.watch)),
                        None => {}
                    }
                    interruptions.push(self.alarm());
                }
            }
        }
    }

    /// Reads the rest after the last event, so that the connection can be reused.
    pub(super) async fn close(&mut self, body: &mut Body) -> Result<(), Failure> {
        let rest = poll_fn(|context| {
            for _ in 0..CHUNKS_PER_POLL {
                let Some(Ok(_)) = ready!(body.poll_chunk(context)) else { return Poll::Ready(()) };
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        tokio::select! {
            // `biased`: a body that is read to its end counts, even if the turn is cancelled at the same time.
            biased;
            () = rest => Ok(()),
            () = self.cancel.cancelled() => Err(Failure::cancelled()),
            () = tokio::time::sleep(CLOSING) => Ok(()),
        }
    }

    /// Returns a future that completes when the next known time limit may have expired.
    fn alarm(&self) -> BoxFuture<'static, Woke> {
        let at = self.watch.next();
        Box::pin(async move {
            sleep_until(at).await;
            Woke::Time
        })
    }
}

fn cancellation(cancel: &CancelToken) -> BoxFuture<'static, Woke> {
    let cancelled = cancel.cancelled();
    Box::pin(async move {
        cancelled.await;
        Woke::Cancelled
    })
}

/// State of one poll of a body.
struct BodyTurn<'a> {
    context: &'a mut TurnContext,
    splitter: &'a mut StreamSplitter,
    reader: &'a mut dyn WireReader,
    arrived: &'a mut Vec<TurnEvent>,
    is_over: &'a mut bool,
    heard: &'a mut u64,
}

impl BodyTurn<'_> {
    /// Reads as far as the body and the sink allow.
    fn poll(
        &mut self,
        body: &mut Body,
        events: &mut dyn EventSink,
        context: &mut Context<'_>,
    ) -> Poll<BodyEnd> {
        let mut has_heard = false;
        let end = self.read(body, events, context, &mut has_heard);
        if has_heard {
            self.context.watch.heard(Phase::Model);
        }
        end
    }

    fn read(
        &mut self,
        body: &mut Body,
        events: &mut dyn EventSink,
        context: &mut Context<'_>,
        has_heard: &mut bool,
    ) -> Poll<BodyEnd> {
        for _ in 0..CHUNKS_PER_POLL {
            // Send all events of a chunk before reading the next chunk.
            loop {
                if self.context.log.outbox.poll_flush(events, context).is_pending() {
                    return Poll::Pending;
                }
                let next = if *self.is_over { self.splitter.finish() } else { self.splitter.next() };
                let event = match next {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(fault) => return Poll::Ready(BodyEnd::Faulty(fault)),
                };
                *has_heard = true;
                *self.heard += 1;
                self.reader.event(event, self.arrived);
                for event in self.arrived.drain(..) {
                    self.context.log.event(event);
                }
            }
            if *self.is_over || self.reader.is_finished() {
                return Poll::Ready(BodyEnd::Over);
            }
            match ready!(body.poll_chunk(context)) {
                Some(Ok(chunk)) => {
                    self.reader.received(&chunk);
                    self.splitter.push(chunk);
                }
                Some(Err(error)) => return Poll::Ready(BodyEnd::Broken(error)),
                None => *self.is_over = true,
            }
        }
        // More chunks may be available. Check limits and cancellation first.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
