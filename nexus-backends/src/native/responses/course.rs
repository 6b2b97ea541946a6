//! What goes on beside every wait of a turn: cancellation, limits of time, and events on their way to the sink.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use nexus_core::{CancelToken, ErrorKind, EventSink, Phase, TurnEvent};
use tokio::time::Instant;

use super::{
    reader::ResponseReader,
    sse::{EventSplitter, EventTooLong},
};
use crate::{
    native::transport::{Body, TransportError},
    turn::{Failure, TurnLog, Watch, out_of_time, sleep_until},
};

/// How long the end of a body may take once its last event came: a connection that was read to its end is used
/// again.
const CLOSING: Duration = Duration::from_millis(50);

/// What a turn waits with.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) cancel: CancelToken,
    pub(super) watch: Watch,
    pub(super) log: TurnLog,
}

/// How the reading of a body ended.
#[derive(Debug)]
pub(super) enum BodyEnd {
    /// With the terminal event, or with nothing left to read.
    Over,
    /// In an error.
    Broken(TransportError),
    /// With an event that is longer than allowed.
    TooLong(EventTooLong),
}

/// Why a poll of the body came back.
enum Woke {
    Cancelled,
    Time,
    End(BodyEnd),
}

impl Course {
    /// Waits for `future`, unless the turn is cancelled or out of time before.
    pub(super) async fn attend<F: Future>(
        &mut self,
        events: &mut dyn EventSink,
        future: F,
    ) -> Result<F::Output, Failure> {
        let mut future = pin!(future);
        let mut cancelled = pin!(self.cancel.cancelled());
        loop {
            tokio::select! {
                biased;
                () = &mut cancelled => return Err(by_the_caller()),
                output = &mut future => return Ok(output),
                () = sleep_until(self.watch.next()) => {
                    if let Some(kind) = self.watch.ran_out() {
                        return Err(out_of_time(kind, self.watch.elapsed()));
                    }
                }
                () = self.log.outbox.flush(events), if !self.log.outbox.is_empty() => {}
            }
        }
    }

    /// Waits for `delay`, which is no silence of anybody's: only the deadline and the caller end it early.
    pub(super) async fn pause(&mut self, events: &mut dyn EventSink, delay: Duration) -> Result<(), Failure> {
        self.watch.rest();
        self.attend(events, tokio::time::sleep(delay)).await
    }

    /// Reads a body into `reader`, an event at a time: the next one is read once the sink has taken what came
    /// of this one, so that nothing piles up here.
    pub(super) async fn read(
        &mut self,
        events: &mut dyn EventSink,
        body: &mut Body,
        splitter: &mut EventSplitter,
        reader: &mut ResponseReader,
    ) -> Result<BodyEnd, Failure> {
        let mut cancelled = pin!(self.cancel.cancelled());
        let mut news = Vec::new();
        let mut timer = pin!(tokio::time::sleep_until(self.next_wake()));
        let mut is_over = false;
        loop {
            let mut is_sink_slow = false;
            let woke = poll_fn(|context| {
                if cancelled.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Woke::Cancelled);
                }
                let mut turn =
                    BodyTurn { course: self, splitter, reader, news: &mut news, is_over: &mut is_over };
                match turn.poll(body, events, context) {
                    Poll::Ready(end) => Poll::Ready(Woke::End(end)),
                    Poll::Pending => {
                        is_sink_slow = !self.log.outbox.is_empty();
                        timer.as_mut().poll(context).map(|()| Woke::Time)
                    }
                }
            });
            match woke.await {
                Woke::Cancelled => return Err(by_the_caller()),
                Woke::End(end) => return Ok(end),
                Woke::Time => {
                    match self.watch.ran_out() {
                        // It is the sink that is slow; the model waits for it, as we do.
                        Some(ErrorKind::Starved(phase)) if is_sink_slow => self.watch.heard(phase),
                        Some(kind) => return Err(out_of_time(kind, self.watch.elapsed())),
                        None => {}
                    }
                    timer.as_mut().reset(self.next_wake());
                }
            }
        }
    }

    /// Reads the little that may stand behind the last event, so that the connection can be used again.
    pub(super) async fn close(&mut self, body: &mut Body) -> Result<(), Failure> {
        let rest = poll_fn(|context| {
            loop {
                match body.poll_chunk(context) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        tokio::select! {
            biased;
            () = rest => Ok(()),
            () = self.cancel.cancelled() => Err(by_the_caller()),
            () = tokio::time::sleep(CLOSING) => Ok(()),
        }
    }

    fn next_wake(&self) -> Instant {
        // A time so far off that it never comes, as the timer has no other way to say so.
        self.watch.next().unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }
}

/// One poll of a body.
struct BodyTurn<'a> {
    course: &'a mut Course,
    splitter: &'a mut EventSplitter,
    reader: &'a mut ResponseReader,
    news: &'a mut Vec<TurnEvent>,
    is_over: &'a mut bool,
}

impl BodyTurn<'_> {
    fn poll(
        &mut self,
        body: &mut Body,
        events: &mut dyn EventSink,
        context: &mut Context<'_>,
    ) -> Poll<BodyEnd> {
        loop {
            if self.course.log.outbox.poll_flush(events, context).is_pending() {
                return Poll::Pending;
            }
            let next = if *self.is_over { self.splitter.finish() } else { self.splitter.next() };
            match next {
                Err(too_long) => return Poll::Ready(BodyEnd::TooLong(too_long)),
                Ok(Some(event)) => {
                    self.reader.event(event, self.news);
                    self.course.watch.heard(Phase::Model);
                    for event in self.news.drain(..) {
                        self.course.log.event(event);
                    }
                    continue;
                }
                Ok(None) if *self.is_over || self.reader.is_finished() => {
                    return Poll::Ready(BodyEnd::Over);
                }
                Ok(None) => {}
            }
            match body.poll_chunk(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(chunk))) => self.splitter.push(chunk),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(BodyEnd::Broken(error)),
                Poll::Ready(None) => *self.is_over = true,
            }
        }
    }
}

/// The failure of a turn that the caller stopped.
pub(super) fn by_the_caller() -> Failure {
    Failure::new(ErrorKind::Cancelled, "by the caller")
}
