//! Messages in an SQLite file.

mod changes;
mod documents;
mod fault;
mod file;
mod queues;

pub(crate) use file::make as make_private;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{Clock, log_unrecorded};
use nexus_files::{Journal, JournalKind};
use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, Notify, watch},
    task::{AbortHandle, spawn_blocking},
    time::{Instant, sleep_until, timeout_at},
};

use self::{changes::DatabaseReports, fault::Fault, file::OpenedFile, queues::QueueTransaction};
use super::{
    BrokerStore, Delivery, DocumentKind, ExpectedRevision, HandlingLease, LoggedEnvelope, PutOutcome,
    QueueLimits, QueueStatus, SetAsideMessage, StoredDocument, Told, check,
};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Envelope, EnvelopeId, MessagePriority},
};

/// Interval of the check for changes by other processes, while a caller waits and the system reports none. Reads SQLite's own counter of
/// commits. Also the pause after a reported change.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the check for lapsed leases.
const LAPSE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait of a caller in one call.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Messages in an SQLite file, which the brokers of one machine share. Clones share the connection.
///
/// Stored messages survive a crash and a power cut. The file must be on a local disk, and is owner-only (mode 0600).
#[derive(Clone)]
pub struct SqliteStore(Arc<OpenStore>);

/// Open file that clones share.
struct OpenStore {
    /// Lets one call run at a time, as SQLite has one writer.
    connection: Arc<AsyncMutex<Connection>>,
    place: Arc<OpenedFile>,
    limits: QueueLimits,
    clock: Arc<dyn Clock>,
    /// Notified after each change that a caller may wait for.
    changed: Arc<Notify>,
    seen: Mutex<SeenChanges>,
    told: Arc<Told>,
    journal: OnceLock<Journal>,
    /// Set by the first call that needs it. `None` if the system reports no changes.
    database_reports: OnceLock<Option<DatabaseReports>>,
}

/// Last data version that was seen, to detect changes by other processes.
struct SeenChanges {
    at: Instant,
    version: i64,
}

/// Kind of access of a call to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileAccess {
    /// The call only reads.
    Read,
    /// The call writes, but need not flush: a power cut may undo it without harm. The next flushed write flushes it, too.
    Write,
    /// The call writes, and its changes are on the disk before it returns.
    Keep,
}

/// Change of the store for the journal: kind and id of the record, and the change in one word.
struct StoreChange(JournalKind, String, &'static str);

impl StoreChange {
    fn of_message(id: &EnvelopeId, what: &'static str) -> Self {
        Self(JournalKind::Message, id.to_string(), what)
    }

    fn of_document(kind: DocumentKind, key: &str, what: &'static str) -> Option<Self> {
        let kind = match kind {
            DocumentKind::Agent => JournalKind::Agent,
            DocumentKind::Trigger => JournalKind::Trigger,
            DocumentKind::Lock | DocumentKind::TurnCount => return None,
        };
        Some(Self(kind, key.to_owned(), what))
    }
}

impl SqliteStore {
    /// Opens a file, and creates it and its folder if they do not exist.
    ///
    /// Fails with [`Damaged`](BrokerErrorKind::Damaged) if the file is damaged, belongs to another program, or
    /// has a newer version. Fails with [`NoSpace`](BrokerErrorKind::NoSpace), and otherwise with
    /// [`Failed`](BrokerErrorKind::Failed), which names the file.
    pub async fn open(
        path: impl Into<PathBuf>,
        limits: QueueLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BrokerError> {
        let path = path.into();
        // Opening may wait for another process for up to `BUSY_TIME`.
        let opened = spawn_blocking(move || {
            let (connection, place) = file::open(&path)?;
            let version = data_version(&connection).map_err(|fault| fault.at(place.path()))?;
            Ok((connection, place, version))
        });
        let (connection, place, version) = opened.await.unwrap_or_else(|error| Err(ended(&error)))?;
        let store = Self(Arc::new(OpenStore {
            connection: Arc::new(AsyncMutex::new(connection)),
            place: Arc::new(place),
            limits,
            clock,
            changed: Arc::default(),
            seen: Mutex::new(SeenChanges { at: Instant::now(), version }),
            told: Arc::default(),
            journal: OnceLock::new(),
            database_reports: OnceLock::new(),
        }));
        store.run(FileAccess::Write, |work| work.take_up_what_can_be_read()).await?;
        Ok(store)
    }

    /// Records changes of messages, agents and triggers in the journal of a home.
    #[must_use]
    pub fn with_journal(self, journal: Journal) -> Self {
        // Only the first journal is used.
        let _ = self.0.journal.set(journal);
        self
    }

    /// Runs `work` on the connection in a blocking thread, when its turn comes. Work that has begun completes even if this
    /// future is dropped.
    ///
    /// A separate task waits for the lock. The lock is fair: if a caller waited for it in its own future and were not polled
    /// any more, it would block all others for good. A `select!` whose other branch also calls the store would do that.
    async fn with_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let connection = Arc::clone(&self.0.connection);
        let task = tokio::spawn(async move {
            let mut connection = connection.lock_owned().await;
            let done = spawn_blocking(move || work(&mut connection));
            done.await.unwrap_or_else(|error| Err(ended(&error)))
        });
        // The abort ends only the wait for the lock. Work in `spawn_blocking` cannot be aborted.
        let _dropped = EndedWithThis(task.abort_handle());
        task.await.unwrap_or_else(|error| Err(ended(&error)))
    }

    /// Runs `work` as one transaction.
    async fn run<T: Send + 'static>(
        &self,
        access: FileAccess,
        work: impl FnOnce(&QueueTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, BrokerError> {
        self.run_and_record(access, |_| None, work).await
    }

    /// Runs `work` as one transaction, and records in the journal what `change` returns for its result.
    async fn run_and_record<T: Send + 'static>(
        &self,
        access: FileAccess,
        change: impl FnOnce(&T) -> Option<StoreChange> + Send + 'static,
        work: impl FnOnce(&QueueTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let (place, limits, clock) = (Arc::clone(&self.0.place), self.0.limits, Arc::clone(&self.0.clock));
        let told = Arc::clone(&self.0.told);
        let store = Arc::clone(&self.0);
        let done = self.with_connection(move |connection| {
            place.check()?;
            let run = || {
                let level = if access == FileAccess::Keep { "FULL" } else { "NORMAL" };
                connection.pragma_update(None, "synchronous", level)?;
                // A transaction that begins with a read may be unable to write later, so writers lock at once.
                let behavior = match access {
                    FileAccess::Read => TransactionBehavior::Deferred,
                    FileAccess::Write | FileAccess::Keep => TransactionBehavior::Immediate,
                };
                let transaction = connection.transaction_with_behavior(behavior)?;
                let path = place.path().display().to_string();
                // Read the clock only now: the lock may have waited for another process.
                let now = check::millis(clock.now());
                let done = work(&QueueTransaction {
                    transaction: &transaction,
                    limits: &limits,
                    place: &path,
                    told: &told,
                    now,
                })?;
                transaction.commit()?;
                Ok(done)
            };
            let done = run().map_err(|fault: Fault| fault.at(place.path()))?;
            // The file may have been removed before the commit.
            place.check()?;
            if let Some(journal) = store.journal.get()
                && let Some(StoreChange(kind, id, what)) = change(&done)
            {
                log_unrecorded(journal.record(kind, &id, what));
            }
            Ok(done)
        });
        done.await
    }

    /// Returns true if another process changed the file since the last check. All waiting callers share one
    /// check per interval.
    async fn is_changed_elsewhere(&self) -> Result<bool, BrokerError> {
        {
            let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            // Take the turn of this interval and release the lock, because the check itself waits for the connection.
            if seen.at.elapsed() < POLL_INTERVAL {
                return Ok(false);
            }
            seen.at = Instant::now();
        }
        let place = Arc::clone(&self.0.place);
        let asked = self.with_connection(move |connection| {
            data_version(connection).map_err(|fault| fault.at(place.path()))
        });
        let version = asked.await?;
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = seen.version != version;
        seen.version = version;
        Ok(is_changed)
    }

    async fn is_any(&self, queue: &str) -> Result<bool, BrokerError> {
        let queue = queue.to_owned();
        let (place, limits, clock) = (Arc::clone(&self.0.place), self.0.limits, Arc::clone(&self.0.clock));
        let told = Arc::clone(&self.0.told);
        let asked = self.with_connection(move |connection| {
            let path = place.path().display().to_string();
            let ask = || {
                let transaction = connection.unchecked_transaction()?;
                let now = check::millis(clock.now());
                QueueTransaction {
                    transaction: &transaction,
                    limits: &limits,
                    place: &path,
                    told: &told,
                    now,
                }
                .is_any(&queue)
            };
            ask().map_err(|fault: Fault| fault.at(place.path()))
        });
        asked.await
    }
}

/// Aborts a task when it is dropped.
struct EndedWithThis(AbortHandle);

impl Drop for EndedWithThis {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns a number that changes when another connection commits.
fn data_version(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
}

fn ended(error: &tokio::task::JoinError) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Failed, format!("work on the file of messages ended: {error}"), "")
}

#[async_trait]
impl BrokerStore for SqliteStore {
    async fn put(&self, queue: &str, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        let message = check::message(queue, envelope, &self.0.limits)?;
        let change = StoreChange::of_message(&envelope.message_id, "put");
        let change = |outcome: &PutOutcome| (*outcome == PutOutcome::Stored).then_some(change);
        let put = self.run_and_record(FileAccess::Keep, change, move |work| work.put(&message, true));
        let outcome = put.await?;
        self.0.changed.notify_waiters();
        Ok(outcome)
    }

    async fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: Duration,
    ) -> Result<Option<Delivery>, BrokerError> {
        check::queue(queue)?;
        let (queue, lease) = (queue.to_owned(), check::lease(lease)?);
        // Write a delivery through to the disk: after a power cut, the next broker must see that work had
        // begun.
        let change = |taken: &Option<Delivery>| {
            taken.as_ref().map(|taken| StoreChange::of_message(&taken.lease.message, "taken"))
        };
        self.run_and_record(FileAccess::Keep, change, move |work| work.take(&queue, at_least, lease)).await
    }

    async fn extend(&self, held: &HandlingLease, lease: Duration) -> Result<(), BrokerError> {
        let (held, lease) = (held.clone(), check::lease(lease)?);
        self.run(FileAccess::Write, move |work| work.extend(&held, lease)).await
    }

    async fn finish(&self, held: &HandlingLease, outcome: &[(String, Envelope)]) -> Result<(), BrokerError> {
        let outcome = check::outcome(outcome, &self.0.limits)?;
        let held = held.clone();
        let change = StoreChange::of_message(&held.message, "finished");
        let finish = move |work: &QueueTransaction<'_>| work.finish(&held, &outcome);
        self.run_and_record(FileAccess::Keep, |()| Some(change), finish).await?;
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn put_back(&self, held: &HandlingLease) -> Result<(), BrokerError> {
        let held = held.clone();
        let change = StoreChange::of_message(&held.message, "put_back");
        let put_back = move |work: &QueueTransaction<'_>| work.put_back(&held);
        self.run_and_record(FileAccess::Write, |()| Some(change), put_back).await?;
        self.0.changed.notify_waiters();
        Ok(())
    }

    async fn wait(&self, queue: &str, at_most: Duration) -> Result<(), BrokerError> {
        check::queue(queue)?;
        let until = Instant::now() + at_most.min(MAX_WAIT);
        let mut changes = self.changes();
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Register before the look: a change between the look and the wait would be missed.
            changed.as_mut().enable();
            if self.is_any(queue).await? {
                return Ok(());
            }
            let looked = Instant::now();
            if let Some(changes) = &mut changes {
                let next = (looked + LAPSE_INTERVAL).min(until);
                tokio::select! {
                    () = changed => {}
                    Ok(()) = changes.changed() => {
                        // Many commits in a row are one change.
                        sleep_until((Instant::now() + POLL_INTERVAL).min(until)).await;
                    }
                    () = sleep_until(next) => {}
                }
                if Instant::now() >= until {
                    return Ok(());
                }
                continue;
            }
            while looked.elapsed() < LAPSE_INTERVAL {
                let next = Instant::now() + POLL_INTERVAL;
                if timeout_at(next.min(until), changed.as_mut()).await.is_ok() {
                    break;
                }
                if Instant::now() >= until {
                    return Ok(());
                }
                if self.is_changed_elsewhere().await? {
                    self.0.changed.notify_waiters();
                    break;
                }
            }
        }
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        // A caller outside of a runtime polls. A later one may be in a runtime.
        let runtime = Handle::try_current().ok()?;
        let begin = || DatabaseReports::of(self.0.place.path(), &self.0.connection, &runtime);
        let changes = self.0.database_reports.get_or_init(begin);
        changes.as_ref().map(DatabaseReports::subscribe)
    }

    async fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError> {
        check::queue(queue)?;
        let queue = queue.to_owned();
        self.run(FileAccess::Write, move |work| work.waiting(&queue, at_most)).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, BrokerError> {
        self.run(FileAccess::Write, |work| work.queues()).await
    }

    async fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError> {
        self.run(FileAccess::Read, move |work| work.set_aside(at_most)).await
    }

    async fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, BrokerError> {
        let id = id.clone();
        self.run(FileAccess::Read, move |work| work.message(&id)).await
    }

    async fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, BrokerError> {
        self.run(FileAccess::Read, move |work| work.log(after, at_most)).await
    }

    async fn document(&self, kind: DocumentKind, key: &str) -> Result<Option<StoredDocument>, BrokerError> {
        check::key(key)?;
        let key = key.to_owned();
        self.run(FileAccess::Read, move |work| documents::one(work, kind, &key)).await
    }

    async fn documents(&self, kind: DocumentKind) -> Result<Vec<StoredDocument>, BrokerError> {
        self.run(FileAccess::Read, move |work| documents::all(work, kind)).await
    }

    async fn write(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
        value: &Value,
    ) -> Result<u64, BrokerError> {
        let value = check::document(key, value)?;
        let key = key.to_owned();
        let change = StoreChange::of_document(kind, &key, "changed");
        self.run_and_record(
            FileAccess::Keep,
            |_: &u64| change,
            move |work| documents::write(work.transaction, kind, &key, expected, &value),
        )
        .await
    }

    async fn delete(
        &self,
        kind: DocumentKind,
        key: &str,
        expected: ExpectedRevision,
    ) -> Result<(), BrokerError> {
        check::key(key)?;
        let key = key.to_owned();
        let change = StoreChange::of_document(kind, &key, "removed");
        self.run_and_record(
            FileAccess::Keep,
            |()| change,
            move |work| documents::delete(work.transaction, kind, &key, expected),
        )
        .await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.0.place.path()).finish_non_exhaustive()
    }
}
