//! Stores the effects, the end and the large items of a turn.

use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use nexus_core::{BackendId, Effects, ErrorKind, EventEnvelope, TurnEvent, harness::Failure};
use nexus_nats::{NatsError, NatsStoreError};

use crate::{
    error::FleetError,
    link::Link,
    measure::{self, Of},
    objects,
    protocol::{
        INLINE_BYTES, Item, Payload, StoredEffects, StoredResult, WireOutcome, effects_subject,
        result_subject,
    },
};

/// Size below which a delta is estimated and not measured, in bytes.
const SMALL_DELTA: usize = 1_024;
/// First and longest wait before a failed store is repeated.
const STORE_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Stored data of a turn: its effects, its end, and its large items.
#[derive(Clone)]
pub(super) struct TurnStore {
    pub(super) link: Link,
    pub(super) caller: String,
    pub(super) turn: String,
    /// Id of the attempt.
    pub(super) attempt: String,
}

impl TurnStore {
    /// Returns the prefix of the names of the turn's objects.
    pub(super) fn owner(&self) -> String {
        objects::owner(&self.caller, &self.turn)
    }

    /// Stores the effects of the turn, before they are sent.
    pub(super) async fn effects(&self, effects: Effects) {
        let (caller, turn) = (&self.caller, &self.turn);
        let stored = StoredEffects { attempt: self.attempt.clone(), effects };
        let Ok(text) = serde_json::to_vec(&stored) else { return };
        let id = format!("{caller}.{turn}.effects.{effects:?}");
        let message = PublishMessage::build().payload(text.into()).message_id(id);
        store_at_last(&self.link, &effects_subject(caller, turn), message, "effects").await;
    }

    /// Stores the end of the turn, and returns its payload.
    pub(super) async fn result(&self, outcome: &WireOutcome) -> Payload {
        let (caller, turn) = (&self.caller, &self.turn);
        let mut wait = STORE_AGAIN.0;
        let owner = self.owner();
        let outcome = loop {
            match objects::pack(&self.link, &owner, outcome).await {
                Ok(outcome) => break outcome,
                // These errors are permanent: the outcome stays too large, or the account stays without permission.
                Err(
                    error @ (FleetError::TooLarge { .. } | FleetError::Nats(NatsError::Forbidden { .. })),
                ) => {
                    let error = untold(outcome, &error);
                    match objects::pack(&self.link, &owner, &error).await {
                        Ok(outcome) => break outcome,
                        Err(error) => tracing::warn!(%error, turn, "the end of a turn could not be stored"),
                    }
                }
                Err(error) => {
                    unstored("result");
                    tracing::warn!(%error, turn, "the end of a turn could not be stored; the worker tries \
                        again");
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(STORE_AGAIN.1);
        };
        let stored = StoredResult { attempt: self.attempt.clone(), outcome };
        if let Ok(text) = serde_json::to_vec(&stored) {
            let message =
                PublishMessage::build().payload(text.into()).message_id(format!("{caller}.{turn}.result"));
            store_at_last(&self.link, &result_subject(caller, turn), message, "result").await;
        }
        stored.outcome
    }

    /// Returns an item in a form that fits into a message.
    pub(super) async fn packed(&self, item: Item) -> Item {
        if size_of(&item) <= INLINE_BYTES {
            return item;
        }
        let mut wait = STORE_AGAIN.0;
        loop {
            match objects::pack(&self.link, &self.owner(), &item).await {
                Ok(Payload::Inline(_)) => return item,
                Ok(payload) => return Item::Large(payload),
                Err(
                    error @ (FleetError::TooLarge { .. } | FleetError::Nats(NatsError::Forbidden { .. })),
                ) => {
                    return left_out(&item, &error);
                }
                Err(error) => {
                    unstored("item");
                    tracing::warn!(%error, turn = self.turn, "an event could not be stored; the worker tries \
                        again");
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(STORE_AGAIN.1);
        }
    }
}

/// Stores a message, and repeats the attempt until it succeeds. The message id prevents a duplicate.
async fn store_at_last(link: &Link, subject: &str, message: PublishMessage, what: &'static str) {
    let mut wait = STORE_AGAIN.0;
    while let Err(error) = link.nats.store(subject, message.clone()).await {
        unstored(what);
        if let NatsStoreError::Forbidden(subject) = error {
            tracing::error!(
                subject,
                "this worker may not store the effects of a turn: check its permissions"
            );
            return;
        }
        tracing::warn!(?error, subject, "the effects of a turn could not be stored; the worker tries again");
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(STORE_AGAIN.1);
    }
}

/// Counts a failed store.
fn unstored(what: &'static str) {
    measure::UNSTORED.add(1, Of { reason: Some(what), ..Of::default() });
}

/// Returns the end of a turn whose own outcome cannot be sent.
fn untold(outcome: &WireOutcome, why: &FleetError) -> WireOutcome {
    let (backend, effects) = outcome.of_whom().unwrap_or_else(|| (BackendId::new("fleet"), Effects::Unknown));
    let (kind, reason) = match why {
        FleetError::TooLarge { bytes, most, .. } => {
            let reason = format!(
                "the end of the turn has {bytes} bytes, more than the limit of {most} for another \
                    machine"
            );
            (ErrorKind::Protocol, reason)
        }
        why => (ErrorKind::Forbidden, format!("the turn has ended, but its end cannot be stored: {why}")),
    };
    let mut error = Failure::new(kind, reason).into_error(backend);
    error.partial_mut().effects = effects;
    WireOutcome::from(Err(error)).with_change(outcome.change.clone())
}

/// Returns the warning that replaces an item which cannot be sent.
fn left_out(item: &Item, why: &FleetError) -> Item {
    match item {
        Item::Event(envelope) => {
            let text = match why {
                FleetError::TooLarge { bytes, most, .. } => {
                    format!("an event of {bytes} bytes is left out: the limit for another machine is {most}")
                }
                why => format!("a large event is left out: {why}"),
            };
            Item::Event(Box::new(EventEnvelope::new(
                envelope.sequence,
                envelope.elapsed,
                TurnEvent::warning(text),
            )))
        }
        // A call cannot be replaced: it is sent again until another limit ends the turn. No model was seen to write
        // arguments of that size.
        other => other.clone(),
    }
}

/// Returns the effects that an item reports.
pub(super) fn effects_of(item: &Item) -> Effects {
    match item {
        Item::Event(envelope) => match &envelope.event {
            TurnEvent::ToolCallStarted(started) => started.effects,
            TurnEvent::Unrecognized(unknown) if !unknown.is_harmless => Effects::Unknown,
            _ => Effects::None,
        },
        _ => Effects::None,
    }
}

/// Returns the approximate size of an item as JSON, in bytes. Measures it if it may be large.
pub(super) fn size_of(item: &Item) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    match item {
        Item::Event(envelope) => match &envelope.event {
            // Upper bound, even if every byte has to be escaped.
            TurnEvent::TextDelta(delta) if delta.text.len() < SMALL_DELTA => delta.text.len() * 6 + 256,
            TurnEvent::ThinkingDelta(delta) if delta.text.len() < SMALL_DELTA => delta.text.len() * 6 + 256,
            _ => {
                let mut count = Count(0);
                // Ignore the result: `Count` accepts every write.
                let _ = serde_json::to_writer(&mut count, item);
                count.0
            }
        },
        Item::Large(_) | Item::End(_) | Item::Withdraw { .. } | Item::GivenUp { .. } | Item::Abandoned => 512,
        Item::Call { .. } | Item::Approval { .. } => {
            let mut count = Count(0);
            let _ = serde_json::to_writer(&mut count, item);
            count.0
        }
    }
}
