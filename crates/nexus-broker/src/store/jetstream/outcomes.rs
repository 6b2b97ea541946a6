//! Outcomes of handled messages.

use serde::Deserialize as _;
use serde_json::Value;

use super::{
    Hash, JetStreamStore, OVERHEAD,
    index::IndexedMessage,
    queues::{Queued, next_state, unwritable},
    records::{STREAM, Stage},
};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    store::check::{self, StorableMessage},
};

/// Stored outcome of a message.
struct MessageOutcome {
    readable: Vec<StorableMessage>,
    /// The messages that cannot be read, as stored, and the reason.
    unreadable: Option<(Vec<Value>, BrokerError)>,
}

impl JetStreamStore {
    pub(super) fn written_outcome(
        &self,
        outcome: &[StorableMessage],
    ) -> Result<Option<Vec<u8>>, BrokerError> {
        if outcome.is_empty() {
            return Ok(None);
        }
        let queued = |message: &StorableMessage| Queued {
            queue: message.queue.clone(),
            envelope: message.envelope.clone(),
        };
        let queued: Vec<_> = outcome.iter().map(queued).collect();
        let inside = serde_json::to_vec(&queued).map_err(unwritable)?;
        let largest = self.0.requests.connection.nats().max_payload_bytes();
        if inside.len() + OVERHEAD > largest {
            return Err(BrokerError::new(
                BrokerErrorKind::Invalid,
                format!(
                    "the result of the message has {} bytes, but the servers accept only {largest}",
                    inside.len()
                ),
                "raise `max_payload` of the servers, or write large content to files",
            ));
        }
        Ok(Some(inside))
    }

    /// Puts the missing messages of a handled message's outcome, and records that all are put. `known` is the outcome, if
    /// the caller has just finished the message.
    pub(super) async fn put_outcome(
        &self,
        hash: Hash,
        known: Option<&[StorableMessage]>,
    ) -> Result<(), BrokerError> {
        loop {
            let entry = self.0.followed.index().entry(hash).cloned();
            let Some(entry) = entry else { return Ok(()) };
            let is_finishing = entry.state.as_ref().is_some_and(|state| state.stage == Stage::Finishing);
            if !is_finishing {
                return Ok(());
            }
            let mut unreadable = None;
            let read;
            let outcome = match known {
                Some(known) => known,
                None => match self.read_outcome(hash, &entry).await? {
                    Some(found) => {
                        unreadable = found.unreadable;
                        read = found.readable;
                        &read
                    }
                    None => continue,
                },
            };
            for message in outcome {
                Box::pin(self.put_checked(message, false)).await?;
            }
            let now = self.now();
            if let Some((rest, problem)) = unreadable {
                // Store only the unreadable rest. A message that was put may be forgotten later, and must not be put a
                // second time.
                if !outcome.is_empty() {
                    let rest = serde_json::to_vec(&rest).map_err(unwritable)?;
                    let state = next_state(&entry, Stage::Finishing, now, now);
                    if !self.change(hash, &entry, &state, Some(rest)).await? {
                        continue;
                    }
                }
                self.0.followed.index().park(hash);
                self.0.followed.told.warn(&problem);
                return Ok(());
            }
            if self.change(hash, &entry, &next_state(&entry, Stage::Handled, now, now), None).await? {
                return Ok(());
            }
        }
    }

    /// Reads the outcome of a message. `None`: another broker has completed it meanwhile.
    async fn read_outcome(
        &self,
        hash: Hash,
        entry: &IndexedMessage,
    ) -> Result<Option<MessageOutcome>, BrokerError> {
        let what = format!("the result of the message {}", entry.number);
        let unreadable = |reason: &dyn std::fmt::Display| check::unreadable(STREAM, &what, reason);
        let Some(read) = self.0.requests.message(entry.revision).await? else {
            self.catch_up().await?;
            let is_same =
                self.0.followed.index().entry(hash).is_some_and(|now| now.revision == entry.revision);
            let gone = || (Vec::new(), unreadable(&"it was deleted"));
            return Ok(is_same.then(|| MessageOutcome { readable: Vec::new(), unreadable: Some(gone()) }));
        };
        let mut outcome = MessageOutcome { readable: Vec::new(), unreadable: None };
        let all: Vec<Value> = match serde_json::from_slice(&read.payload) {
            Ok(all) => all,
            Err(error) => {
                outcome.unreadable = Some((Vec::new(), unreadable(&error)));
                return Ok(Some(outcome));
            }
        };
        for one in all {
            let read = Queued::deserialize(&one).and_then(|Queued { queue, envelope }| {
                let json = serde_json::to_string(&envelope)?;
                Ok(StorableMessage { queue, envelope, json })
            });
            match read {
                Ok(checked) => outcome.readable.push(checked),
                Err(error) => {
                    let rest = outcome.unreadable.get_or_insert_with(|| (Vec::new(), unreadable(&error)));
                    rest.0.push(one);
                }
            }
        }
        Ok(Some(outcome))
    }

    /// Completes the outcomes of all handled messages. Returns `false` if no outcome was incomplete.
    pub(super) async fn put_all_outcomes(&self) -> Result<bool, BrokerError> {
        let finishing = self.0.followed.index().finishing();
        for hash in &finishing {
            self.put_outcome(*hash, None).await?;
        }
        Ok(!finishing.is_empty())
    }
}
