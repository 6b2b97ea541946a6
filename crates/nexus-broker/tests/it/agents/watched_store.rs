//! A store whose calls a test counts, and makes slow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use nexus_broker::{
    BrokerError, BrokerStore, Delivery, DocumentKind, Envelope, EnvelopeId, ExpectedRevision, HandlingLease,
    LoggedEnvelope, MessagePriority, PutOutcome, QueueStatus, SetAsideMessage, StoredDocument,
};
use serde_json::Value;
use tokio::sync::{Notify, watch};

#[derive(Debug)]
pub(crate) struct WatchedStore {
    inner: Arc<dyn BrokerStore>,
    /// How many messages were given out.
    pub(crate) taken: AtomicU32,
    /// How often it was asked which queues there are.
    pub(crate) looked: AtomicU32,
    /// An agent's record says that its turn took a message.
    pub(crate) noted: Notify,
    /// How long the write of such a record takes, once it is stored.
    after_note: Duration,
}

impl WatchedStore {
    pub(crate) fn over(inner: Arc<dyn BrokerStore>, after_note: Duration) -> Arc<Self> {
        Arc::new(Self {
            inner,
            taken: AtomicU32::new(0),
            looked: AtomicU32::new(0),
            noted: Notify::new(),
            after_note,
        })
    }
}

#[async_trait]
impl BrokerStore for WatchedStore {
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        self.inner.put(queue, envelope).await
    }

    async fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: Duration,
    ) -> Result<Option<Delivery>, BrokerError> {
        let taken = self.inner.take(queue, at_least, lease).await?;
        self.taken.fetch_add(u32::from(taken.is_some()), Ordering::SeqCst);
        Ok(taken)
    }

    async fn extend(&self, held: &HandlingLease, lease: Duration) -> Result<(), BrokerError> {
        self.inner.extend(held, lease).await
    }

    async fn finish(&self, held: &HandlingLease, outcome: &[(String, Envelope)]) -> Result<(), BrokerError> {
        self.inner.finish(held, outcome).await
    }

    async fn put_back(&self, held: &HandlingLease) -> Result<(), BrokerError> {
        self.inner.put_back(held).await
    }

    async fn wait(&self, queue: &str, at_most: Duration) -> Result<(), BrokerError> {
        self.inner.wait(queue, at_most).await
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        self.inner.changes()
    }

    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError> {
        self.inner.waiting(queue, at_most).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        self.inner.queues().await
    }

    async fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError> {
        self.inner.set_aside(at_most).await
    }

    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError> {
        self.inner.message(id).await
    }

    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError> {
        self.inner.log(after, at_most).await
    }

    async fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError> {
        self.inner.document(kind, key).await
    }

    async fn documents(&self, kind: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError> {
        self.inner.documents(kind).await
    }

    async fn write(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError> {
        let written = self.inner.write(kind, key, expected, value).await?;
        if kind == DocumentKind::Agent && value.pointer("/turn/taken/0").is_some() {
            self.noted.notify_one();
            tokio::time::sleep(self.after_note).await;
        }
        Ok(written)
    }

    async fn delete(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError> {
        self.inner.delete(kind, key, expected).await
    }
}
