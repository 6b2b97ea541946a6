//! Messages in the stream.
//!
//! One write marks a message as handled: it replaces the state by compare-and-set, and contains the outcome. Afterwards any
//! broker puts the messages of the outcome. Each has its own id, so it is put once. A last write of the state records that
//! all are put. A reader that would otherwise miss some of these messages puts them first.

use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Hash, JetStreamStore, fault,
    index::{IndexedMessage, Outdated},
    records::{self, MessageProgress, Put, STREAM, Stage, StreamRecord},
};
use crate::{
    error::BrokerError,
    message::{Envelope, EnvelopeId, MessagePriority},
    store::{
        Delivery, HandlingLease, LoggedEnvelope, LoggedEvent, PutOutcome, QueueStatus,
        check::{self, StorableMessage, millis},
    },
};

/// Maximum number of messages that one call expires. The next call expires the others.
const EXPIRE_AT_ONCE: usize = 100;
/// Number of old messages that each `put` forgets. More than one, so that a backlog shrinks.
const FORGET_AT_ONCE: usize = 4;
/// Distance from the limit of a queue, in messages, from which its size is read from the stream instead of the
/// index.
const NEAR_FULL: usize = 1_000;

/// Message inside a record of the stream: a part of an outcome, or the copy of an expired message.
#[derive(Serialize, Deserialize)]
pub(super) struct Queued {
    pub(super) queue: String,
    pub(super) envelope: Envelope,
}

/// Content of a stored message.
pub(super) enum StoredBody {
    Read(Box<Envelope>),
    Unreadable(BrokerError),
    /// The message was deleted from the stream.
    Gone,
}

impl JetStreamStore {
    /// Stores a message. Fails if its queue is full and `minds_full` is true.
    pub(super) async fn put_checked(
        &self,
        message: &StorableMessage,
        minds_full: bool,
    ) -> Result<PutOutcome, BrokerError> {
        let hash = Hash::of(&message.envelope.message_id);
        let before = self.now().saturating_sub(self.remembered());
        let known = {
            let index = self.0.followed.index();
            let is_outdated = index.is_outdated(hash, before);
            index.entry(hash).is_some().then(|| is_outdated.then(|| index.numbers(hash)).flatten())
        };
        match known {
            Some(None) => return Ok(PutOutcome::AlreadyThere),
            // The write below expects an empty subject, so delete the old message with this id first.
            Some(Some(outdated)) => self.forget(&outdated).await?,
            None => {}
        }
        if minds_full && let Some(there) = self.make_room(&message.queue, hash).await? {
            return Ok(there);
        }
        let envelope = &message.envelope;
        let put = Put {
            queue: message.queue.clone(),
            priority: envelope.priority as u8,
            made_at: millis(envelope.timestamp),
            expires_at: envelope.expires_at.map(millis),
            at: self.now(),
        };
        let what = format!("the message {}", envelope.message_id);
        let stored = put.message().payload(message.json.clone().into());
        // The server rejects the write if the subject has a message: another broker was first.
        let Some(number) = self.0.requests.store(&what, &hash.put_subject(), stored, Some(0)).await? else {
            return Ok(PutOutcome::AlreadyThere);
        };
        // Wait until the index has this message, so that the next call of this process sees it.
        self.0.followed.reach(number).await?;
        let outdated = self.0.followed.index().outdated(before, FORGET_AT_ONCE);
        for outdated in &outdated {
            self.forget(outdated).await?;
        }
        Ok(PutOutcome::Stored)
    }

    fn remembered(&self) -> i64 {
        i64::try_from(self.0.limits.remembered_for.as_millis()).unwrap_or(i64::MAX)
    }

    async fn forget(&self, outdated: &Outdated) -> Result<(), BrokerError> {
        for number in &outdated.numbers {
            self.0.requests.delete(*number).await?;
        }
        self.0.followed.index().forget(outdated);
        Ok(())
    }

    /// Fails if a queue is full. Returns `Some` if the message already exists.
    async fn make_room(&self, queue: &str, hash: Hash) -> Result<Option<PutOutcome>, BrokerError> {
        let limit = self.0.limits.max_waiting;
        // The index may lag behind the stream. Far from the limit this does not matter, and saves a request.
        if self.0.followed.index().open(queue) + NEAR_FULL < limit {
            return Ok(None);
        }
        self.catch_up().await?;
        if self.0.followed.index().entry(hash).is_some() {
            return Ok(Some(PutOutcome::AlreadyThere));
        }
        if self.0.followed.index().open(queue) >= limit {
            self.expire(queue, false).await?;
            if self.0.followed.index().open(queue) >= limit {
                return Err(check::full(queue, &self.0.limits));
            }
        }
        Ok(None)
    }

    /// Writes the progress of a message, if no other record was written since `entry` was read. Returns `false` if one was.
    pub(super) async fn change(
        &self,
        hash: Hash,
        entry: &IndexedMessage,
        state: &MessageProgress,
        inside: Option<Vec<u8>>,
    ) -> Result<bool, BrokerError> {
        let message = state.message();
        let message = match inside {
            Some(inside) => message.payload(inside.into()),
            None => message,
        };
        self.write_state(hash, entry, message).await
    }

    async fn write_state(
        &self,
        hash: Hash,
        entry: &IndexedMessage,
        message: PublishMessage,
    ) -> Result<bool, BrokerError> {
        let what = "the stored state of a message";
        let written =
            self.0.requests.store(what, &hash.state_subject(), message, Some(entry.revision)).await?;
        if let Some(number) = written {
            self.0.followed.reach(number).await?;
            return Ok(true);
        }
        self.catch_up().await?;
        let is_same = self
            .0
            .followed
            .index()
            .entry(hash)
            .is_some_and(|now| now.revision == entry.revision && now.number == entry.number);
        if is_same {
            // The last progress record belongs to another message: it may describe a forgotten message with the same id.
            let last = self.0.requests.last(&hash.state_subject()).await?;
            self.0.followed.index().correct(hash, last.map_or(0, |last| last.sequence));
        }
        Ok(false)
    }

    /// Ends expired messages of a queue, at most [`EXPIRE_AT_ONCE`]. If `is_taking`, it also ends expired messages whose
    /// lease has lapsed. The owner of a lapsed lease may finish its message until the next broker takes it.
    async fn expire(&self, queue: &str, is_taking: bool) -> Result<(), BrokerError> {
        let now = self.now();
        let expired: Vec<(Hash, IndexedMessage)> = {
            let index = self.0.followed.index();
            let may_end = |entry: &IndexedMessage| is_taking || !entry.is_taken();
            let waiting =
                index.waiting(queue, now).filter(|(_, entry)| entry.is_expired(now) && may_end(entry));
            waiting.take(EXPIRE_AT_ONCE).map(|(hash, entry)| (hash, entry.clone())).collect()
        };
        for (hash, entry) in expired {
            // The copy goes into the record, so that the log can show the message after it was deleted.
            let envelope = match self.body(hash, entry.number).await? {
                StoredBody::Read(envelope) => *envelope,
                StoredBody::Unreadable(error) => {
                    self.put_aside(hash, &entry, &error).await?;
                    continue;
                }
                StoredBody::Gone => continue,
            };
            let inside =
                serde_json::to_vec(&Queued { queue: queue.to_owned(), envelope }).map_err(unwritable)?;
            let state = next_state(&entry, Stage::Expired, now, now);
            // If the write finds a newer record, another broker has taken the message: skip it.
            self.change(hash, &entry, &state, Some(inside)).await?;
        }
        Ok(())
    }

    /// Reads the content of a message.
    pub(super) async fn body(&self, hash: Hash, number: u64) -> Result<StoredBody, BrokerError> {
        match self.0.requests.message(number).await? {
            Some(read) => Ok(match stored(&read) {
                Ok(envelope) => StoredBody::Read(Box::new(envelope)),
                Err(error) => StoredBody::Unreadable(error),
            }),
            None => {
                self.0.followed.index().remove(hash);
                Ok(StoredBody::Gone)
            }
        }
    }

    /// Returns a message by its id.
    pub(super) async fn message_of(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError> {
        self.catch_up().await?;
        let hash = Hash::of(id);
        let Some(number) = self.0.followed.index().entry(hash).map(|entry| entry.number) else {
            return Ok(None);
        };
        match self.body(hash, number).await? {
            StoredBody::Read(envelope) => Ok(Some(*envelope)),
            StoredBody::Unreadable(error) => Err(error),
            StoredBody::Gone => Ok(None),
        }
    }

    pub(super) async fn take_checked(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: i64,
    ) -> Result<Option<Delivery>, BrokerError> {
        self.catch_up().await?;
        let mut has_helped = false;
        loop {
            let now = self.now();
            let (first, has_expired) = {
                let index = self.0.followed.index();
                let mut waiting = index.waiting(queue, now);
                let mut has_expired = false;
                let first = waiting.find(|(_, entry)| {
                    has_expired |= entry.is_expired(now);
                    !entry.is_expired(now)
                });
                let first = first.filter(|(_, entry)| entry.priority >= at_least as u8);
                (first.map(|(hash, entry)| (hash, entry.clone())), has_expired)
            };
            if has_expired {
                self.expire(queue, true).await?;
            }
            let Some((hash, entry)) = first else {
                // A handled message may have an incomplete outcome with a message for this queue: complete it and look
                // again.
                if has_helped || !self.put_all_outcomes().await? {
                    return Ok(None);
                }
                has_helped = true;
                continue;
            };
            let envelope = match self.body(hash, entry.number).await? {
                StoredBody::Read(envelope) => *envelope,
                StoredBody::Unreadable(error) => {
                    self.put_aside(hash, &entry, &error).await?;
                    continue;
                }
                StoredBody::Gone => continue,
            };
            let state = MessageProgress {
                receipt: uuid::Uuid::new_v4().simple().to_string(),
                deliveries: entry.deliveries() + 1,
                ..next_state(&entry, Stage::Taken, now, now.saturating_add(lease))
            };
            // Another broker changed the message first. Look again with the newer index.
            if !self.change(hash, &entry, &state, None).await? {
                continue;
            }
            let lease = HandlingLease {
                queue: queue.to_owned(),
                message: envelope.message_id.clone(),
                receipt: state.receipt,
            };
            return Ok(Some(Delivery { envelope, lease, deliveries: state.deliveries }));
        }
    }

    /// Returns a message if this lease is its last one, according to the index.
    fn last_held(&self, held: &HandlingLease) -> Option<(Hash, IndexedMessage, MessageProgress)> {
        let hash = Hash::of(&held.message);
        let entry = self.0.followed.index().entry(hash)?.clone();
        let state = entry.state.clone()?;
        (state.receipt == held.receipt && *entry.queue == *held.queue && !held.receipt.is_empty())
            .then_some((hash, entry, state))
    }

    /// Returns a message if this lease is its last one. If the index disagrees, it first catches up with the stream. Fails
    /// if the message has a newer lease.
    async fn held(
        &self,
        held: &HandlingLease,
    ) -> Result<(Hash, IndexedMessage, MessageProgress), BrokerError> {
        if let Some(found) = self.last_held(held) {
            return Ok(found);
        }
        self.catch_up().await?;
        self.last_held(held).ok_or_else(|| check::lapsed(held))
    }

    pub(super) async fn extend_checked(&self, held: &HandlingLease, lease: i64) -> Result<(), BrokerError> {
        loop {
            let (hash, entry, state) = self.held(held).await?;
            let now = self.now();
            // A lapsed lease still belongs to its owner until another broker takes the message and writes another receipt.
            if state.stage != Stage::Taken {
                return Err(check::lapsed(held));
            }
            let state = next_state(&entry, Stage::Taken, now, now.saturating_add(lease));
            if self.change(hash, &entry, &state, None).await? {
                return Ok(());
            }
        }
    }

    pub(super) async fn finish_checked(
        &self,
        held: &HandlingLease,
        outcome: &[StorableMessage],
    ) -> Result<(), BrokerError> {
        // Encode the outcome before the loop: an outcome that cannot be written must fail before the message ends.
        let inside = self.written_outcome(outcome)?;
        loop {
            let (hash, entry, state) = self.held(held).await?;
            match state.stage {
                Stage::Handled => return Ok(()),
                Stage::Finishing => return self.put_outcome(hash, None).await,
                Stage::Taken => {}
                Stage::Waiting | Stage::Expired | Stage::SetAside | Stage::Unknown => {
                    return Err(check::lapsed(held));
                }
            }
            let now = self.now();
            let (stage, inside) = match &inside {
                Some(inside) => (Stage::Finishing, Some(inside.clone())),
                None => (Stage::Handled, None),
            };
            if self.change(hash, &entry, &next_state(&entry, stage, now, now), inside).await? {
                return self.put_outcome(hash, Some(outcome)).await;
            }
        }
    }

    pub(super) async fn put_back_held(&self, held: &HandlingLease) -> Result<(), BrokerError> {
        loop {
            let (hash, entry, state) = self.held(held).await?;
            match state.stage {
                Stage::Taken => {}
                Stage::Waiting => return Ok(()),
                _ => return Err(check::lapsed(held)),
            }
            let state = MessageProgress { stage: Stage::Waiting, ..state };
            if self.change(hash, &entry, &state, None).await? {
                return Ok(());
            }
        }
    }

    /// Returns true if `take` may find a message, according to the index.
    pub(super) fn is_any(&self, queue: &str) -> bool {
        let now = self.now();
        self.0.followed.index().waiting(queue, now).any(|(_, entry)| !entry.is_expired(now))
    }

    pub(super) async fn waiting_checked(
        &self,
        queue: &str,
        at_most: usize,
    ) -> Result<Vec<Envelope>, BrokerError> {
        self.catch_up().await?;
        self.put_all_outcomes().await?;
        let now = self.now();
        let waiting: Vec<(Hash, u64)> = {
            let index = self.0.followed.index();
            let waiting = index.waiting(queue, now).filter(|(_, entry)| !entry.is_expired(now));
            waiting.map(|(hash, entry)| (hash, entry.number)).collect()
        };
        let mut envelopes = Vec::new();
        for (hash, number) in waiting {
            if envelopes.len() >= at_most {
                break;
            }
            match self.body(hash, number).await? {
                StoredBody::Read(envelope) => envelopes.push(*envelope),
                // The next `take` that reaches this message excludes it.
                StoredBody::Unreadable(error) => self.0.followed.told.warn(&error),
                StoredBody::Gone => {}
            }
        }
        Ok(envelopes)
    }

    pub(super) async fn all_queues(&self) -> Result<Vec<QueueStatus>, BrokerError> {
        self.catch_up().await?;
        self.put_all_outcomes().await?;
        let now = self.now();
        let index = self.0.followed.index();
        let status = |queue: &str| {
            let mut status = QueueStatus { queue: queue.to_owned(), waiting: [0; 4], taken: 0, oldest: None };
            // An expired message with a lapsed lease still counts: the next `take` that reaches it ends it.
            let counts = |entry: &IndexedMessage| entry.is_taken() || !entry.is_expired(now);
            for (_, entry) in index.waiting(queue, now).filter(|(_, entry)| counts(entry)) {
                status.waiting[usize::from(entry.priority.min(3))] += 1;
                let made = check::time(entry.made_at);
                status.oldest = Some(status.oldest.map_or(made, |oldest| oldest.min(made)));
            }
            status.taken = index.taken(queue).filter(|entry| entry.is_held(now)).count() as u64;
            status
        };
        let all = index.queues().into_iter().map(|queue| status(&queue));
        Ok(all.filter(|status| status.taken > 0 || status.waiting != [0; 4]).collect())
    }

    pub(super) async fn read_log(
        &self,
        after: u64,
        at_most: usize,
    ) -> Result<Vec<LoggedEnvelope>, BrokerError> {
        self.catch_up().await?;
        self.put_all_outcomes().await?;
        let mut log = Vec::new();
        let last = self.0.requests.info().await?.state.last_sequence;
        if at_most == 0 || after >= last {
            return Ok(log);
        }
        let take = |read: StreamMessage| {
            match logged(&read) {
                Ok(logged) => log.extend(logged),
                Err(error) => self.0.followed.told.warn(&error),
            }
            log.len() < at_most
        };
        let subjects = [records::PUT_SUBJECTS.to_owned(), records::STATE_SUBJECTS.to_owned()];
        self.0.requests.read(after + 1, &subjects, take).await?;
        Ok(log)
    }
}

/// Returns the log entry of a message of the stream.
fn logged(read: &StreamMessage) -> Result<Option<LoggedEnvelope>, BrokerError> {
    match StreamRecord::read(&read.subject, Some(&read.headers)) {
        StreamRecord::Put(_, put) => Ok(Some(LoggedEnvelope {
            number: read.sequence,
            event: LoggedEvent::Put,
            at: check::time(put.at),
            queue: put.queue,
            envelope: stored(read)?,
        })),
        StreamRecord::State(_, state) if state.stage == Stage::Expired => {
            let queued: Queued = serde_json::from_slice(&read.payload).map_err(|error| {
                let what = format!("the message that expired (number {})", read.sequence);
                check::unreadable(STREAM, &what, &error)
            })?;
            Ok(Some(LoggedEnvelope {
                number: read.sequence,
                event: LoggedEvent::Expired,
                at: check::time(state.at),
                queue: queued.queue,
                envelope: queued.envelope,
            }))
        }
        _ => Ok(None),
    }
}

/// Reads a stored message.
pub(super) fn stored(read: &StreamMessage) -> Result<Envelope, BrokerError> {
    serde_json::from_slice(&read.payload).map_err(|error| {
        let what = format!("the message {}", id_of(read.sequence, &read.payload));
        check::unreadable(STREAM, &what, &error)
    })
}

/// Identifies a message, even an unreadable one: its id, or else its number.
pub(super) fn id_of(number: u64, payload: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(payload).ok();
    let id = json.as_ref().and_then(|json| json.get("message_id")?.as_str());
    // A valid id has at most 256 bytes. Name any other message by its number.
    id.filter(|id| id.len() <= 256).map_or_else(|| format!("number {number}"), ToOwned::to_owned)
}

/// Returns the next progress record of a message, with its current lease.
pub(super) fn next_state(entry: &IndexedMessage, stage: Stage, at: i64, until: i64) -> MessageProgress {
    MessageProgress {
        stage,
        of: entry.number,
        receipt: entry.state.as_ref().map(|state| state.receipt.clone()).unwrap_or_default(),
        deliveries: entry.deliveries(),
        at,
        until,
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
pub(super) fn unwritable(error: serde_json::Error) -> BrokerError {
    fault::unwritable(&error)
}
