//! Events of one backend's attempt. Renumbers them for the whole turn and records the output that the caller
//! saw.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    task::{Context, Poll, ready},
};

use nexus_core::{
    CallId, EventEnvelope, EventSink, Message, MessageId, Recorder, ToolCallRecord, TurnEvent,
    turn::{MessageVoided, VoidCause},
};
use tokio::time::Instant;

/// The events of a whole turn, sent to the caller's sink, across any number of attempts.
///
/// Sequence numbers and times count from the start of the turn. Names of messages and calls stay unique: a
/// name that an earlier attempt used gets the attempt's number.
pub(crate) struct TurnEvents<'a> {
    sink: &'a mut dyn EventSink,
    started: Instant,
    next_sequence: u64,
    waiting: VecDeque<TurnEvent>,
    attempt: u32,
    names_before: BTreeSet<String>,
    names_now: BTreeSet<String>,
    shown: Vec<MessageId>,
    /// Events of the attempt without its deltas. If the backend panics, this is the only record of its work.
    record: Recorder,
    /// Steering input that was delivered to the agents of all attempts.
    inputs: Vec<String>,
}

impl<'a> TurnEvents<'a> {
    pub(crate) fn new(sink: &'a mut dyn EventSink, started: Instant) -> Self {
        Self {
            sink,
            started,
            next_sequence: 0,
            waiting: VecDeque::new(),
            attempt: 0,
            names_before: BTreeSet::new(),
            names_now: BTreeSet::new(),
            shown: Vec::new(),
            record: Recorder::new(),
            inputs: Vec::new(),
        }
    }

    /// Returns the steering input to the agents of the attempts so far, in order, without the secrets of the
    /// turn.
    pub(crate) fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// Starts the attempt of the next backend.
    pub(crate) fn begin_attempt(&mut self) {
        self.attempt += 1;
        self.names_before.append(&mut self.names_now);
        self.shown.clear();
        self.record = Recorder::new();
    }

    /// Returns the record of the attempt, with its completed messages.
    pub(crate) fn take_record(&mut self) -> Recorder {
        mem::take(&mut self.record)
    }

    /// Sends the event that withdraws every message of the attempt that is still shown.
    pub(crate) fn void_attempt(&mut self) {
        for message in mem::take(&mut self.shown) {
            self.push(MessageVoided::new(message, VoidCause::Fallback));
        }
    }

    /// Adds an event that the router itself creates. Never waits.
    pub(crate) fn push(&mut self, event: impl Into<TurnEvent>) {
        self.waiting.push_back(event.into());
    }

    /// Sends the router's own events as far as the sink accepts them now.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.waiting.is_empty() {
            ready!(self.sink.poll_ready(context));
            if let Some(event) = self.waiting.pop_front() {
                self.hand_over(event);
            }
        }
        Poll::Ready(())
    }

    /// Replaces a message's name in the attempt by its name in the turn.
    pub(crate) fn rename_message(&self, message: &mut Message) {
        self.rename(&mut message.id);
        if let Some(parent) = &mut message.parent {
            self.rename(parent);
        }
    }

    /// Replaces a call's name in the attempt by its name in the turn.
    pub(crate) fn rename_call(&self, record: &mut ToolCallRecord) {
        self.rename(&mut record.call);
        if let Some(parent) = &mut record.parent {
            self.rename(parent);
        }
    }

    fn hand_over(&mut self, event: TurnEvent) {
        self.sink.accept(EventEnvelope::new(self.next_sequence, self.started.elapsed(), event));
        self.next_sequence += 1;
    }

    fn rename<N: AsRef<str> + From<String>>(&self, name: &mut N) {
        if self.names_before.contains(name.as_ref()) {
            *name = N::from(format!("{}~{}", name.as_ref(), self.attempt));
        }
    }

    fn rename_parent(&self, parent: &mut Option<CallId>) {
        if let Some(parent) = parent {
            self.rename(parent);
        }
    }

    /// Replaces the names in an event by their names in the turn, and records which messages are shown.
    fn take_in(&mut self, event: &mut TurnEvent) {
        match event {
            TurnEvent::TextDelta(delta) => {
                self.rename(&mut delta.message);
                self.rename_parent(&mut delta.parent);
                self.show(&delta.message);
            }
            TurnEvent::ThinkingDelta(delta) => {
                self.rename(&mut delta.message);
                self.rename_parent(&mut delta.parent);
                self.show(&delta.message);
            }
            TurnEvent::MessageEnded(ended) => {
                self.rename(&mut ended.message);
                self.rename_parent(&mut ended.parent);
                self.show(&ended.message);
            }
            TurnEvent::MessageVoided(voided) => {
                self.rename(&mut voided.message);
                self.shown.retain(|shown| *shown != voided.message);
            }
            TurnEvent::ToolCallStarted(started) => {
                self.rename(&mut started.call);
                self.rename_parent(&mut started.parent);
                self.names_now.insert(started.call.as_str().to_owned());
            }
            TurnEvent::ToolCallArguments(arguments) => self.rename(&mut arguments.call),
            TurnEvent::ToolCallFinished(finished) => self.rename(&mut finished.call),
            _ => {}
        }
    }

    fn show(&mut self, message: &MessageId) {
        // Most deltas belong to the last message, so compare that one first.
        if self.shown.last() != Some(message) && !self.shown.contains(message) {
            self.shown.push(message.clone());
            self.names_now.insert(message.as_str().to_owned());
        }
    }
}

impl EventSink for TurnEvents<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The router's own events come before those of the backend.
        ready!(self.poll_flush(context));
        self.sink.poll_ready(context)
    }

    fn accept(&mut self, envelope: EventEnvelope) {
        let mut event = envelope.event;
        // Record the event with the attempt's own names, because the chain renames the record later.
        if !event.is_display_only() {
            self.record.observe(&event);
        }
        if let TurnEvent::InputReceived(input) = &event {
            self.inputs.push(input.text.clone());
        }
        self.take_in(&mut event);
        // A backend may send an event without checking that the sink is ready. Such an event must not
        // overtake waiting events.
        if self.waiting.is_empty() { self.hand_over(event) } else { self.waiting.push_back(event) }
    }
}
