//! Stores of messages, and of the documents that brokers share.

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
use tokio::sync::watch;

use crate::{
    error::BrokerError,
    message::{Envelope, EnvelopeId, MessagePriority},
};

/// Pause after a change, in which further changes of the same burst arrive.
const BURST: Duration = Duration::from_millis(20);

/// Waits for the next change that `changes` reports. Waits forever if the store reports no changes. A caller that drops the future loses no
/// change.
pub(crate) async fn changed(changes: &mut Option<watch::Receiver<()>>) {
    let is_changed = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}

/// Waits for the burst that a change begins. The caller notes the change first, because [`changed`] does not return it again.
pub(crate) async fn burst() {
    tokio::time::sleep(BURST).await;
}

/// Store of messages. Several brokers, on one machine or on many, may share one store.
///
/// # Life of a message
///
/// [`put`](Self::put) stores a message in a queue. [`take`](Self::take) delivers the first message of the
/// highest priority under a lease. The broker that takes it handles it and [`finish`](Self::finish)es it, or
/// [returns](Self::put_back) it to the queue. When the lease has lapsed, the next call of `take` delivers the
/// message again, so each message is delivered at least once.
///
/// Each message is handled once: [`finish`](Self::finish) stores its outcome (further messages) and the fact
/// that it is handled in one step, and only for the owner of the last lease. A lapsed lease still belongs to
/// its owner until another broker takes the message, since a machine that slept, or whose clock stepped, has
/// lost nothing. A broker that is killed before `finish` has sent nothing. A broker that is too late fails with
/// [`Conflict`](crate::BrokerErrorKind::Conflict). [`Delivery::deliveries`] shows the next broker that work on
/// the message may have begun before.
///
/// The store knows an id for [`QueueLimits::remembered_for`] after its message was handled or has expired.
/// Until then a second `put` of it changes nothing, in any queue. A caller that forwards a message to another
/// queue gives it another id.
///
/// A call that fails with [`Unavailable`](crate::BrokerErrorKind::Unavailable), or whose future is dropped, may
/// have taken effect. The caller can repeat it: the second call changes nothing. A message that such a call
/// took is delivered again when its lease has lapsed.
///
/// All times come from the clock that the store received. If it steps back by more than the time of a lease,
/// the lease has lapsed.
///
/// # Unreadable records
///
/// A record may be unreadable for this version because a newer version wrote it or because it is damaged. It
/// blocks no other record, and the store logs it. An unreadable message is excluded when a call meets it in its
/// queue: it is not delivered, does not count for its queue, and is not forgotten.
/// [`set_aside`](Self::set_aside) lists these messages. When a version that can read the message opens the
/// store, the message waits again, at its old place. [`log`](Self::log) skips an unreadable entry. A document
/// with invalid JSON is returned as text.
///
/// # Documents
///
/// Triggers, agents and locks are documents: JSON under a kind and a key, written by compare-and-set.
///
/// Queues and keys have 1 to 256 bytes without control characters. Others are
/// [`Invalid`](crate::BrokerErrorKind::Invalid), as are documents beyond 512 KiB.
#[async_trait]
pub trait BrokerStore: fmt::Debug + Send + Sync + 'static {
    /// Stores a message at the end of its priority in a queue. A message that this returned for survives a crash.
    ///
    /// Fails with [`QueueFull`](crate::BrokerErrorKind::QueueFull) if the queue is full. Brokers on several machines may
    /// each exceed the limit by one at the same moment. Fails with [`Invalid`](crate::BrokerErrorKind::Invalid) for a
    /// message beyond [`QueueLimits::max_message_bytes`].
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError>;

    /// Delivers the first message of the highest priority that is at least `at_least`, under a lease of
    /// `lease`. An expired message is skipped and logged.
    async fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: Duration,
    ) -> Result<Option<Delivery>, BrokerError>;

    /// Extends a lease, even a lapsed one, to `lease` from now. Fails with
    /// [`Conflict`](crate::BrokerErrorKind::Conflict) if another broker has taken the message since, or it was
    /// returned to its queue.
    async fn extend(&self, held: &HandlingLease, lease: Duration) -> Result<(), BrokerError>;

    /// Marks a message as handled, and puts its outcome into queues, in one step. A full queue does not reject
    /// an answer, and an answer whose id is known is not put again. Fails with
    /// [`Conflict`](crate::BrokerErrorKind::Conflict) if another broker has taken the message since, and with
    /// [`Invalid`](crate::BrokerErrorKind::Invalid) beyond [`QueueLimits::max_outcome_bytes`]; then nothing is
    /// put.
    async fn finish(&self, held: &HandlingLease, outcome: &[(String, Envelope)]) -> Result<(), BrokerError>;

    /// Returns a message to its old place in the queue.
    async fn put_back(&self, held: &HandlingLease) -> Result<(), BrokerError>;

    /// Waits until `take` may find a message, for at most `at_most`. It may return early.
    async fn wait(&self, queue: &str, at_most: Duration) -> Result<(), BrokerError>;

    /// Returns a receiver that is notified after each change of the store by any process. It is also notified without a change at times.
    /// `None` if the store does not notice changes by other processes: its users then poll it.
    fn changes(&self) -> Option<watch::Receiver<()>>;

    /// Returns the waiting messages of a queue, in the order of delivery.
    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError>;

    /// Returns every queue that has messages.
    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError>;

    /// Returns the messages that this version excludes because it cannot read them, oldest first.
    async fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError>;

    /// Returns a message that was put, even a handled one. None if it is unknown or forgotten.
    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError>;

    /// Returns the log: an entry for each message that was put, and another if it expired. Oldest first, after the `after`th
    /// entry. The views are built from it. Entries older than [`QueueLimits::remembered_for`] may be gone.
    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError>;

    /// Returns a document, if it exists.
    async fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError>;

    /// Returns every document of a kind, by its key.
    async fn documents(&self, kind: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError>;

    /// Writes a document, and returns its new revision. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if the
    /// stored document is not in the `expected` state.
    async fn write(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError>;

    /// Deletes a document. Fails with [`Conflict`](crate::BrokerErrorKind::Conflict) if it is not in the `expected` state.
    async fn delete(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError>;
}

/// Result of putting a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The message is in its queue.
    Stored,
    /// A message of this id was put before. Nothing was changed.
    AlreadyThere,
}

/// A lease on a message: the right to finish it, for a time.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlingLease {
    /// Queue of the message.
    pub queue: String,
    /// Id of the message.
    pub message: EnvelopeId,
    /// Identifies this delivery of the message. Only the store reads it.
    pub receipt: String,
}

/// A delivered message with its lease.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub envelope: Envelope,
    /// Right to finish the message.
    pub lease: HandlingLease,
    /// Number of deliveries, including this one. If it is greater than 1, an earlier broker may have begun to handle the
    /// message.
    pub deliveries: u64,
}

/// Number of messages in a queue.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// The queue.
    pub queue: String,
    /// Number of waiting messages, by priority: low, normal, high, urgent.
    pub waiting: [u64; 4],
    /// Number of messages under a lease.
    pub taken: u64,
    /// Creation time of the oldest waiting message.
    pub oldest: Option<SystemTime>,
}

/// A message that the store excludes because this version cannot read it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideMessage {
    /// Queue of the message. Empty if it cannot be read.
    pub queue: String,
    /// Identifies the message in the store: its id, or its sequence number if the id cannot be read.
    pub message: String,
    /// Reason why the message cannot be read.
    pub problem: String,
    /// Stored bytes, as text: invalid UTF-8 is replaced.
    pub stored: String,
}

/// A message in the log.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEnvelope {
    /// Sequence number of the entry. Later entries have higher numbers.
    pub number: u64,
    /// Event of the message.
    pub event: LoggedEvent,
    /// Time of the event, by the clock of the broker that recorded it.
    pub at: SystemTime,
    /// Queue of the message.
    pub queue: String,
    /// The message.
    pub envelope: Envelope,
}

/// Event of a message in the log.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoggedEvent {
    /// The message was put.
    Put,
    /// The message expired before it was handled.
    Expired,
}

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// An agent: its scope, its manager, its status.
    Agent,
    /// A trigger.
    Trigger,
    /// A lock on something that agents share.
    Lock,
    /// Number of turns that result from a message.
    TurnCount,
}

/// A stored document.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// Key of the document.
    pub key: String,
    /// Revision, which grows with every write.
    pub revision: u64,
    /// Content. Invalid JSON becomes a JSON string of its text, which no reader accepts as an agent or a
    /// trigger.
    pub value: Value,
}

/// State of a document that a write requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// The document does not exist.
    Absent,
    /// The document has this revision.
    Revision(u64),
    /// Any state.
    Anything,
}

/// Limits of the queues of a store.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of messages that wait in one queue or are under a lease from it. 10,000 by default.
    pub max_waiting: usize,
    /// Maximum size of a message, in bytes of its JSON. 256 KiB by default.
    pub max_message_bytes: usize,
    /// Maximum total size of the messages in one outcome, in bytes of their JSON. 768 KiB by default.
    pub max_outcome_bytes: usize,
    /// Time for which the store knows an id and keeps the log. Seven days by default.
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

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_not_lost_to_an_event_right_after_it() {
        let (sender, receiver) = watch::channel(());
        let mut changes = Some(receiver);
        for _ in 0..3 {
            sender.send(()).unwrap();
            // An event of another branch comes before the burst is over.
            let is_noted = tokio::select! {
                biased;
                () = changed(&mut changes) => true,
                () = tokio::time::sleep(BURST / 4) => false,
            };
            assert!(is_noted || timeout(BURST * 4, changed(&mut changes)).await.is_ok());
        }
        assert!(timeout(BURST * 4, changed(&mut changes)).await.is_err());
    }
}
