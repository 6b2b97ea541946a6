//! Buffers events for a sink that may be slow.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Instant,
};

use crate::turn::{EventEnvelope, EventSink, TurnEvent};

/// Largest delta that results from joining waiting deltas of one message, in bytes.
const MAX_PIECE_BYTES: usize = 16 << 10;

/// Numbers and times the events of one turn, and buffers them while the sink is not ready.
///
/// The outbox never waits and never grows without bound. While the sink is not ready, it joins adjacent deltas of one
/// message. Beyond the bound it drops further deltas, with one warning. A delta is never dropped while no other delta
/// waits, however large it is. Other events are never dropped, because they are the record.
#[derive(Debug)]
pub struct Outbox {
    waiting: VecDeque<TurnEvent>,
    waiting_delta_bytes: usize,
    bound_bytes: usize,
    warned: bool,
    /// True if the sink was not ready at the last check.
    is_sink_slow: bool,
    next_sequence: u64,
    started: Instant,
}

impl Outbox {
    /// Default bound on waiting deltas, in bytes.
    pub const DEFAULT_BOUND_BYTES: usize = 1 << 20;

    /// Creates an empty outbox. `elapsed` counts from now.
    pub fn new() -> Self {
        Self::with_bound(Self::DEFAULT_BOUND_BYTES)
    }

    /// Creates an empty outbox with another bound on waiting deltas, in bytes.
    pub fn with_bound(bound_bytes: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_delta_bytes: 0,
            bound_bytes,
            warned: false,
            is_sink_slow: false,
            next_sequence: 0,
            started: Instant::now(),
        }
    }

    /// Adds an event. Never waits.
    // Inlined because every event passes here: it saves one move of the event.
    #[inline(always)]
    pub fn push(&mut self, event: impl Into<TurnEvent>) {
        let event = event.into();
        let bytes = delta_bytes(&event);
        // The first condition lets a delta of any size pass while no other waits. The second lets other events pass.
        if self.waiting_delta_bytes > 0 && bytes > 0 && self.waiting_delta_bytes + bytes > self.bound_bytes {
            if !self.warned {
                self.warned = true;
                let why = match self.is_sink_slow {
                    true => "the event sink is slow",
                    false => "more text arrived at once than the event sink's buffer holds",
                };
                let text = "some text deltas are missing from the events; the result is complete";
                // The warning stands at the position of the first missing delta. Later gaps do not repeat it.
                self.waiting.push_back(TurnEvent::warning(format!("{why}: {text}")));
            }
            return;
        }
        // Joining two deltas changes the number of events but not of bytes, so count before it.
        self.waiting_delta_bytes += bytes;
        // Joined deltas need one event, so many small ones cost little memory.
        let is_joined = self.waiting.back_mut().is_some_and(|last| join(last, &event));
        if !is_joined {
            self.waiting.push_back(event);
        }
    }

    /// Returns true if the sink should be polled before more events are added.
    pub fn is_half_full(&self) -> bool {
        self.waiting_delta_bytes >= self.bound_bytes / 2
    }

    /// Returns true if every event has reached the sink.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends the events that the sink takes now. Returns `Ready` when none is left. A further call continues at the next
    /// event.
    pub fn poll_flush(&mut self, sink: &mut dyn EventSink, context: &mut Context<'_>) -> Poll<()> {
        while !self.waiting.is_empty() {
            let readiness = sink.poll_ready(context);
            self.is_sink_slow = readiness.is_pending();
            ready!(readiness);
            // Remove an event only when the sink is ready, so that a dropped `flush` loses none.
            if let Some(event) = self.waiting.pop_front() {
                self.waiting_delta_bytes -= delta_bytes(&event);
                // Number the event now and not in `push`, so that joined and dropped deltas leave no gap in
                // the sequence.
                sink.accept(EventEnvelope::new(self.next_sequence, self.started.elapsed(), event));
                self.next_sequence += 1;
            }
        }
        Poll::Ready(())
    }

    /// Sends all events, and waits for the sink. Dropping the future loses no event.
    pub async fn flush(&mut self, sink: &mut dyn EventSink) {
        poll_fn(|context| self.poll_flush(sink, context)).await;
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

fn delta_bytes(event: &TurnEvent) -> usize {
    match event {
        TurnEvent::TextDelta(delta) => delta.text.len(),
        TurnEvent::ThinkingDelta(delta) => delta.text.len(),
        _ => 0,
    }
}

/// Appends a delta to a waiting delta of the same message. Returns true if it could.
fn join(last: &mut TurnEvent, event: &TurnEvent) -> bool {
    let (text, more) = match (last, event) {
        (TurnEvent::TextDelta(last), TurnEvent::TextDelta(next)) if last.message == next.message => {
            (&mut last.text, &next.text)
        }
        (TurnEvent::ThinkingDelta(last), TurnEvent::ThinkingDelta(next)) if last.message == next.message => {
            (&mut last.text, &next.text)
        }
        _ => return false,
    };
    let fits = text.len() + more.len() <= MAX_PIECE_BYTES;
    if fits {
        text.push_str(more);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{MessageEnded, TextDelta};

    struct GatedSink {
        open: bool,
        seen: Vec<EventEnvelope>,
    }

    impl EventSink for GatedSink {
        fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
            if self.open { Poll::Ready(()) } else { Poll::Pending }
        }

        fn accept(&mut self, event: EventEnvelope) {
            self.seen.push(event);
        }
    }

    fn flush_now(outbox: &mut Outbox, sink: &mut GatedSink) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _ = outbox.poll_flush(sink, &mut context);
    }

    #[test]
    fn a_slow_sink_costs_deltas_and_nothing_else() {
        let mut sink = GatedSink { open: false, seen: Vec::new() };
        let mut outbox = Outbox::with_bound(100);
        for _ in 0..50 {
            outbox.push(TextDelta::new("m".into(), "0123456789"));
            flush_now(&mut outbox, &mut sink);
        }
        outbox.push(MessageEnded::new("m".into(), "whole"));
        sink.open = true;
        flush_now(&mut outbox, &mut sink);

        let events: Vec<_> = sink.seen.iter().map(|envelope| &envelope.event).collect();
        assert!(matches!(events[0], TurnEvent::TextDelta(delta) if delta.text.len() == 100));
        assert!(matches!(events[1], TurnEvent::Warning(_)));
        assert!(matches!(events[2], TurnEvent::MessageEnded(ended) if ended.text == "whole"));
        assert_eq!(events.len(), 3);
        assert_eq!(sink.seen.iter().map(|envelope| envelope.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_delta_beyond_the_bound_is_delivered_whole() {
        let mut sink = GatedSink { open: true, seen: Vec::new() };
        let mut outbox = Outbox::with_bound(10);
        outbox.push(TextDelta::new("m".into(), "0123456789 and more"));
        outbox.push(TextDelta::new("m".into(), "!"));
        flush_now(&mut outbox, &mut sink);
        let events: Vec<_> = sink.seen.iter().map(|envelope| &envelope.event).collect();
        assert!(matches!(events[0], TurnEvent::TextDelta(delta) if delta.text == "0123456789 and more"));
        let TurnEvent::Warning(warning) = events[1] else { panic!("{events:?}") };
        assert!(warning.text.starts_with("more text arrived at once"), "{}", warning.text);
    }

    #[test]
    fn room_comes_back_when_the_sink_does() {
        let mut sink = GatedSink { open: true, seen: Vec::new() };
        let mut outbox = Outbox::with_bound(10);
        for _ in 0..5 {
            outbox.push(TextDelta::new("m".into(), "0123456789"));
            flush_now(&mut outbox, &mut sink);
        }
        assert_eq!(sink.seen.len(), 5);
    }
}
