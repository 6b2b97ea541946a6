//! Messages in JetStream.

mod documents;
mod fault;
mod follower;
mod index;
mod outcomes;
mod queues;
mod records;
mod set_aside;
mod stream;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_core::Clock;
use nexus_fleet::Fleet;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use self::{follower::Followed, records::Hash, stream::Requests};
use super::{
    BrokerStore, Delivery, DocumentKind, ExpectedRevision, HandlingLease, LoggedEnvelope, PutOutcome,
    QueueLimits, QueueStatus, SetAsideMessage, StoredDocument, check,
};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Envelope, EnvelopeId, MessagePriority},
};

/// Upper bound of the size of a stream message beyond its JSON, in bytes.
const OVERHEAD: usize = 8 << 10;
/// Interval of the check for lapsed leases while a caller waits.
const LAPSE_INTERVAL: Duration = Duration::from_millis(250);
/// Longest wait of a caller in one call.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Messages in a stream of NATS JetStream (`NEXUS_BROKER`), which brokers on many machines share. Clones share one index.
///
/// Stored messages are as durable as the stream: with one server, as its disk; with `replicas: 3`, they survive the loss of
/// one server. Each broker needs about 300 bytes of memory for each message that waits or is remembered.
///
/// The clocks of the machines should differ by less than the length of a lease.
#[derive(Clone)]
pub struct JetStreamStore(Arc<FollowedStream>);

/// Stream and index that clones share.
struct FollowedStream {
    requests: Requests,
    followed: Arc<Followed>,
    limits: QueueLimits,
    clock: Arc<dyn Clock>,
}

impl JetStreamStore {
    /// Opens the stream, and creates it if it does not exist and the account may create it.
    ///
    /// Fails with [`Unavailable`](BrokerErrorKind::Unavailable) if no server answers. Fails with
    /// [`Invalid`](BrokerErrorKind::Invalid) if the servers take no messages as large as the limits. Fails with
    /// [`Damaged`](BrokerErrorKind::Damaged) for a stream of another version, and otherwise with
    /// [`Failed`](BrokerErrorKind::Failed).
    pub async fn open(
        fleet: &Fleet,
        limits: QueueLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BrokerError> {
        let connection = fleet.connection().await.map_err(|error| fault::fleet(&error))?;
        let largest = connection.nats().max_payload_bytes();
        if limits.max_message_bytes + OVERHEAD > largest {
            return Err(BrokerError::new(
                BrokerErrorKind::Invalid,
                format!(
                    "messages may have {} bytes, but the servers accept only {largest}",
                    limits.max_message_bytes
                ),
                "raise `max_payload` of the servers",
            ));
        }
        let requests = Requests::open(connection).await?;
        let followed = Followed::start(&requests);
        let store = Self(Arc::new(FollowedStream { requests, followed, limits, clock }));
        store.catch_up().await?;
        store.take_up_what_can_be_read().await?;
        Ok(store)
    }

    fn now(&self) -> i64 {
        check::millis(self.0.clock.now())
    }

    async fn catch_up(&self) -> Result<(), BrokerError> {
        self.0.followed.catch_up(&self.0.requests).await
    }
}

#[async_trait]
impl BrokerStore for JetStreamStore {
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        let message = check::message(queue, envelope, &self.0.limits)?;
        self.put_checked(&message, true).await
    }

    async fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: Duration,
    ) -> Result<Option<Delivery>, BrokerError> {
        check::queue(queue)?;
        self.take_checked(queue, at_least, check::lease(lease)?).await
    }

    async fn extend(&self, held: &HandlingLease, lease: Duration) -> Result<(), BrokerError> {
        self.extend_checked(held, check::lease(lease)?).await
    }

    async fn finish(&self, held: &HandlingLease, outcome: &[(String, Envelope)]) -> Result<(), BrokerError> {
        let outcome = check::outcome(outcome, &self.0.limits)?;
        self.finish_checked(held, &outcome).await
    }

    async fn put_back(&self, held: &HandlingLease) -> Result<(), BrokerError> {
        self.put_back_held(held).await
    }

    async fn wait(&self, queue: &str, at_most: Duration) -> Result<(), BrokerError> {
        check::queue(queue)?;
        let until = Instant::now() + at_most.min(MAX_WAIT);
        loop {
            let mut changed = std::pin::pin!(self.0.followed.changed.notified());
            changed.as_mut().enable();
            if self.is_any(queue) {
                return Ok(());
            }
            let next = Instant::now() + LAPSE_INTERVAL;
            if timeout_at(next.min(until), changed.as_mut()).await.is_err() {
                if Instant::now() >= until {
                    return Ok(());
                }
                // A broker that was killed while it finished a message may have left an incomplete outcome: complete it.
                self.put_all_outcomes().await?;
            }
        }
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        // A broker that was killed may have left an incomplete outcome, which a poll completes.
        None
    }

    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError> {
        check::queue(queue)?;
        self.waiting_checked(queue, at_most).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError> {
        self.all_queues().await
    }

    async fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError> {
        self.all_set_aside(at_most).await
    }

    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError> {
        self.message_of(id).await
    }

    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError> {
        self.read_log(after, at_most).await
    }

    async fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError> {
        check::key(key)?;
        documents::one(&self.0.requests, kind, key, &self.0.followed.told).await
    }

    async fn documents(&self, kind: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError> {
        documents::all(&self.0.requests, kind, &self.0.followed.told).await
    }

    async fn write(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError> {
        let value = check::document(key, value)?;
        documents::write(&self.0.requests, kind, key, expected, value).await
    }

    async fn delete(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError> {
        check::key(key)?;
        documents::delete(&self.0.requests, kind, key, expected, self.now()).await
    }
}

impl fmt::Debug for JetStreamStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStreamStore").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}
