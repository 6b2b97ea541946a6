//! Where messages rest, and the documents that brokers share.

pub(crate) mod check;
#[cfg(feature = "jetstream")]
mod jetstream;
mod sqlite;
mod unreadable;

#[cfg(feature = "jetstream")]
pub use jetstream::JetStreamStore;
pub use sqlite::SqliteStore;
pub(crate) use sqlite::make_private;
pub(crate) use unreadable::Told;

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    error::BrokerError,
    message::{Envelope, EnvelopeId, MessagePriority},
};

/// Where messages rest. Several brokers, on one machine or on many, may share one store.
///
/// # A message's way
///
/// [`put`](Self::put) stores it in a queue. [`take`](Self::take) gives out the first of the highest priority, for a time: whoever takes it
/// handles it and [`finish`](Self::finish)es it, or [`put`s it back](Self::put_back). One whose time has passed is given to the next that takes,
/// so a message is delivered at least once.
///
/// It is handled once: [`finish`](Self::finish) stores what came of it (further messages) and that it is handled as one, and only
/// the last holder of a lease can. A lease that has lapsed is its holder's until another takes the message, since a machine that slept, or whose clock
/// stepped, has lost nothing. A holder that is killed before has sent nothing, and one that comes too late is refused with
/// [`Conflict`](crate::BrokerErrorKind::Conflict). [`Delivery::deliveries`] tells who takes it whether somebody has begun with it before.
///
/// An id is known for [`QueueLimits::remembered_for`] after its message was handled or has expired: putting it again meanwhile changes nothing,
/// whatever the queue. Who passes a message on into another queue gives it another id.
///
/// A call that fails with [`Unavailable`](crate::BrokerErrorKind::Unavailable), or whose future is dropped, may have taken effect. It can be made
/// again, and changes nothing the second time; a message that was taken so is given out again when its time has passed.
///
/// Times are those of the clock that the store was given. Where it steps back by more than the time of a lease, the lease has lapsed.
///
/// # What cannot be read
///
/// A record that this version cannot read, because a newer one wrote it or because it is damaged, keeps no other waiting. Each is told of
/// in the log of the program. A message is set aside when it is met in its queue: nobody is given it, it does not count for its queue, it is not forgotten, and
/// [`set_aside`](Self::set_aside) shows it. Where a version opens the store that can read it, it waits again, at its old place. An entry of
/// [`log`](Self::log) is passed over. A document that is no JSON is given as the text that it is.
///
/// # Documents
///
/// Triggers, agents and locks are documents: JSON under a kind and a key, written by compare-and-set.
///
/// Queues and keys have 1 to 256 bytes without control characters. Others are [`Invalid`](crate::BrokerErrorKind::Invalid), as are documents
/// beyond 512 KiB.
#[async_trait]
pub trait BrokerStore: fmt::Debug + Send + Sync + 'static {
    /// Stores a message at the end of its priority in a queue. When this returns it outlives a crash.
    ///
    /// Fails with [`QueueFull`](crate::BrokerErrorKind::QueueFull) if the queue is (brokers on several machines may each put one beyond
    /// it at the same moment), [`Invalid`](crate::BrokerErrorKind::Invalid) for a message
    /// beyond [`QueueLimits::max_message_bytes`].
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError>;

    /// Gives out the first message of the highest priority that is at least `at_least`, for as long as `lease`. One that has expired is passed over
    /// and told of in the log.
    async fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: Duration,
    ) -> Result<Option<Delivery>, BrokerError>;

    /// Extends a lease, also one that has lapsed: to `lease` from now. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if another has taken
    /// the message since, or it was put back.
    async fn extend(&self, held: &HandlingLease, lease: Duration) -> Result<(), BrokerError>;

    /// Says that a message is handled, and puts what came of it into queues: both or neither is seen. The full queue of an answer does not
    /// refuse it, and an answer whose id is known is not put again. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if another has taken
    /// the message since, and [`Invalid`](crate::BrokerErrorKind::Invalid) beyond [`QueueLimits::max_outcome_bytes`]; then nothing is put.
    async fn finish(&self, held: &HandlingLease, outcome: &[(String, Envelope)]) -> Result<(), BrokerError>;

    /// Gives a message back, at its old place.
    async fn put_back(&self, held: &HandlingLease) -> Result<(), BrokerError>;

    /// Waits until a message may be there for `take`, at most as long as `at_most`. It may return early.
    async fn wait(&self, queue: &str, at_most: Duration) -> Result<(), BrokerError>;

    /// What waits in a queue, in the order in which it is given out.
    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError>;

    /// Every queue that has messages.
    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError>;

    /// Messages that were set aside because this version cannot read them, oldest first.
    async fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError>;

    /// A message that was put, also one that is handled. None if it is not known, or not any more.
    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError>;

    /// What was put, and what has expired, oldest first, after the `after`th: the source of the views. What is older than [`QueueLimits::remembered_for`] may be gone.
    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError>;

    /// A document.
    async fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError>;

    /// Every document of a kind, by its key.
    async fn documents(&self, kind: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError>;

    /// Writes a document, and says its new revision. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if it is not as expected.
    async fn write(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError>;

    /// Deletes a document that is as expected. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if it is not.
    async fn delete(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError>;
}

/// What became of a message that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is in its queue.
    Stored,
    /// A message of this id was put before. Nothing was changed.
    AlreadyThere,
}

/// The right to finish a message, for a time.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlingLease {
    /// The queue that it was taken from.
    pub queue: String,
    /// Which message.
    pub message: EnvelopeId,
    /// Which delivery of it, in the words of the store.
    pub receipt: String,
}

/// A message that was given out.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub envelope: Envelope,
    /// The right to finish it.
    pub lease: HandlingLease,
    /// How often it was given out, with this time: beyond 1, somebody may have begun with it.
    pub deliveries: u64,
}

/// How many messages wait.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// The queue.
    pub queue: String,
    /// How many wait, by priority: low, normal, high, urgent.
    pub waiting: [u64; 4],
    /// How many are given out.
    pub taken: u64,
    /// When the one that waits longest was made.
    pub oldest: Option<SystemTime>,
}

/// A message that was set aside.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideMessage {
    /// The queue that it was put into. Empty where that cannot be read.
    pub queue: String,
    /// What tells it from every other in the store: its id, or its number where that is all that can be read.
    pub message: String,
    /// Why it cannot be read.
    pub problem: String,
    /// What is stored of it, as text: bytes that are no text are replaced.
    pub stored: String,
}

/// A message in the log.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEnvelope {
    /// Its number, which grows.
    pub number: u64,
    /// What became of the message.
    pub event: LoggedEvent,
    /// When, by the clock of the broker that did it.
    pub at: SystemTime,
    /// The queue that it was put into.
    pub queue: String,
    /// The message.
    pub envelope: Envelope,
}

/// What the log tells of a message.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoggedEvent {
    /// It was put.
    Put,
    /// It was not handled in time.
    Expired,
}

/// What a document is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// An agent: its scope, its manager, how far it is.
    Agent,
    /// A trigger.
    Trigger,
    /// A lock on what agents share.
    Lock,
    /// How many turns came of a message.
    TurnCount,
}

/// A document.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// Its key.
    pub key: String,
    /// Grows with every write.
    pub revision: u64,
    /// What it says. Where what is stored is no JSON, its text as a JSON string, which no reader takes for an agent or a trigger.
    pub value: Value,
}

/// What a document must be for a write to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// There is none.
    Absent,
    /// It has this revision.
    Revision(u64),
    /// Whatever it is.
    Anything,
}

/// What the queues of a store hold at most.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// How many messages wait in one queue or are given out of it. 10,000 by default.
    pub max_waiting: usize,
    /// How big a message is, in bytes of its JSON. 256 KiB by default.
    pub max_message_bytes: usize,
    /// How big the messages are that come of one, in bytes of their JSON, all together. 768 KiB by default.
    pub max_outcome_bytes: usize,
    /// For how long an id is known, and the log is kept. Seven days by default.
    pub remembered_for: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            max_waiting: 10_000,
            max_message_bytes: 256 << 10,
            max_outcome_bytes: 768 << 10,
            remembered_for: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}
