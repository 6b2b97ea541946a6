//! A store in memory that counts, fails and conflicts as a test says.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Envelope, EnvelopeId, MessagePriority},
    store::{
        BrokerStore, Delivery, DocumentKind, ExpectedRevision, HandlingLease, LoggedEnvelope, LoggedEvent,
        PutOutcome, QueueStatus, SetAsideMessage, StoredDocument,
    },
};

/// What is put, read and written by compare-and-set. Nothing is taken from it.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    held: Mutex<Held>,
    /// How many messages may be put before its queues are full.
    pub(crate) room: AtomicUsize,
    /// How many writes of documents fail before one is made.
    pub(crate) failing_writes: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    ids: HashSet<EnvelopeId>,
    log: Vec<(String, Envelope)>,
    documents: BTreeMap<String, (u64, Value)>,
    revision: u64,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        let store = Self::default();
        store.room.store(usize::MAX, Ordering::SeqCst);
        store
    }

    /// Every message that was put, with its queue.
    pub(crate) fn put_so_far(&self) -> Vec<(String, Envelope)> {
        self.lock().log.clone()
    }

    /// Puts a document as it is, whatever it is.
    pub(crate) fn place(&self, key: &str, value: Value) {
        let mut held = self.lock();
        held.revision += 1;
        let revision = held.revision;
        held.documents.insert(key.to_owned(), (revision, value));
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }
}

fn conflict() -> BrokerError {
    BrokerError::new(BrokerErrorKind::Conflict, "the document is not as expected", "")
}

fn check(there: Option<&(u64, Value)>, expected: ExpectedRevision) -> Result<(), BrokerError> {
    let fits = match expected {
        ExpectedRevision::Absent => there.is_none(),
        ExpectedRevision::Revision(revision) => there.is_some_and(|(there, _)| *there == revision),
        ExpectedRevision::Anything => true,
    };
    if fits { Ok(()) } else { Err(conflict()) }
}

#[async_trait]
impl BrokerStore for MemoryStore {
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        // Others may be in between, as with any store.
        tokio::task::yield_now().await;
        let mut held = self.lock();
        if held.ids.contains(&envelope.message_id) {
            return Ok(PutOutcome::AlreadyThere);
        }
        if serde_json::to_vec(envelope).unwrap().len() > 256 << 10 {
            return Err(BrokerError::invalid("the message is too big", ""));
        }
        if held.log.len() >= self.room.load(Ordering::SeqCst) {
            return Err(BrokerError::new(BrokerErrorKind::QueueFull, "the queue is full", ""));
        }
        held.ids.insert(envelope.message_id.clone());
        held.log.push((queue.to_owned(), envelope.clone()));
        Ok(PutOutcome::Stored)
    }

    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError> {
        let held = self.lock();
        Ok(held.log.iter().map(|(_, envelope)| envelope).find(|envelope| envelope.message_id == *id).cloned())
    }

    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError> {
        let held = self.lock();
        let numbered = held.log.iter().zip(1..).filter(|(_, number)| *number > after).take(at_most);
        let logged = numbered.map(|((queue, envelope), number)| LoggedEnvelope {
            number,
            event: LoggedEvent::Put,
            at: envelope.timestamp,
            queue: queue.clone(),
            envelope: envelope.clone(),
        });
        Ok(logged.collect())
    }

    async fn document(&self, _: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError> {
        tokio::task::yield_now().await;
        let held = self.lock();
        let found = held.documents.get(key);
        Ok(found.map(|(revision, value)| StoredDocument {
            key: key.to_owned(),
            revision: *revision,
            value: value.clone(),
        }))
    }

    async fn documents(&self, _: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError> {
        let held = self.lock();
        let all = held.documents.iter().map(|(key, (revision, value))| StoredDocument {
            key: key.clone(),
            revision: *revision,
            value: value.clone(),
        });
        Ok(all.collect())
    }

    async fn write(
        &self,
        _: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError> {
        tokio::task::yield_now().await;
        let failing = self.failing_writes.load(Ordering::SeqCst);
        if failing > 0 {
            self.failing_writes.store(failing - 1, Ordering::SeqCst);
            return Err(BrokerError::new(BrokerErrorKind::Unavailable, "the store is gone", ""));
        }
        let mut held = self.lock();
        check(held.documents.get(key), expected)?;
        held.revision += 1;
        let revision = held.revision;
        held.documents.insert(key.to_owned(), (revision, value.clone()));
        Ok(revision)
    }

    async fn delete(
        &self,
        _: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError> {
        let mut held = self.lock();
        check(held.documents.get(key), expected)?;
        held.documents.remove(key);
        Ok(())
    }

    async fn take(&self, _: &str, _: MessagePriority, _: Duration) -> Result<Option<Delivery>, BrokerError> {
        Ok(None)
    }

    async fn extend(&self, _: &HandlingLease, _: Duration) -> Result<(), BrokerError> {
        Err(conflict())
    }

    async fn finish(&self, _: &HandlingLease, _: &[(String, Envelope)]) -> Result<(), BrokerError> {
        Err(conflict())
    }

    async fn put_back(&self, _: &HandlingLease) -> Result<(), BrokerError> {
        Err(conflict())
    }

    async fn wait(&self, _: &str, at_most: Duration) -> Result<(), BrokerError> {
        tokio::time::sleep(at_most).await;
        Ok(())
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError> {
        let held = self.lock();
        let waiting = held.log.iter().filter(|(put, _)| put == queue).map(|(_, envelope)| envelope.clone());
        Ok(waiting.take(at_most).collect())
    }

    async fn set_aside(&self, _: usize) -> Result<Vec<SetAsideMessage>, BrokerError> {
        Ok(Vec::new())
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError> {
        Ok(Vec::new())
    }
}
