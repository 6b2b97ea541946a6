//! State that all credential managers of one login in this process share: the queue for a refresh, the pause after a
//! failure, a refusal that could not be recorded, and a refreshed login whose write is retried.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::{CredentialError, Secret, harness::run_blocking};
use tokio::{runtime::Handle, task::JoinHandle, time::Instant};

use super::{in_flight::OperationGuard, pending_write::PendingWrite, store_access::place_of};
use crate::{RefreshError, store::StoredLogin};

/// Pause in refreshes after a failed one. Source: our own choice.
const PAUSE: Duration = Duration::from_secs(5);

/// Delay between a failed write and the first retry. Each further retry doubles it, up to [`LONGEST_RETRY_AFTER`].
const FIRST_RETRY_AFTER: Duration = Duration::from_secs(1);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Identifies a login: the path of its lock, and the identity of its store.
type LoginKey = (PathBuf, String);

static SHARED_STATES: Mutex<BTreeMap<LoginKey, Arc<SharedState>>> = Mutex::new(BTreeMap::new());

/// Shared by all credential managers of one login in this process.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    refresh_queue: tokio::sync::Mutex<()>,
    known: Mutex<SharedFields>,
}

#[derive(Debug, Default)]
struct SharedFields {
    pause: Option<(Instant, TransientFailure)>,
    /// A refused refresh token and the reason, if the refusal could not be recorded in the store.
    refused: Option<(Secret, String)>,
    pending_write: Option<PendingWrite>,
    /// Task that retries the pending write.
    retry_task: Option<JoinHandle<()>>,
}

/// A failed refresh that may succeed later.
#[derive(Clone, Debug)]
pub(super) enum TransientFailure {
    Unreachable(String),
    Malformed(String),
}

impl SharedState {
    /// Returns the shared state of a login, which exists once in this process. It outlives its credential managers
    /// while it has a pause, a refusal or a pending write.
    pub(super) fn of(key: LoginKey) -> Arc<Self> {
        let mut states = SHARED_STATES.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|_, shared| Arc::strong_count(shared) > 1 || shared.known().is_worth_keeping());
        Arc::clone(states.entry(key).or_default())
    }

    /// Returns the states of all logins.
    pub(super) fn all() -> Vec<Arc<Self>> {
        SHARED_STATES.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }

    /// Returns the queue of tasks that wait for a fresher token. The task at its head holds the mutex.
    pub(super) fn refresh_queue(&self) -> &tokio::sync::Mutex<()> {
        &self.refresh_queue
    }

    /// Returns the failure that began the current pause; `None` if no pause is active.
    pub(super) fn pause(&self) -> Option<TransientFailure> {
        self.known().pause().cloned()
    }

    /// Starts a pause in which no refresh is attempted.
    pub(super) fn begin_pause(&self, failure: &TransientFailure) {
        self.known().pause = Some((Instant::now() + PAUSE, failure.clone()));
    }

    /// Ends the pause after a successful refresh.
    pub(super) fn end_pause(&self) {
        self.known().pause = None;
    }

    /// Stores a refusal in memory because it could not be recorded in the store.
    pub(super) fn remember_refusal(&self, token: Secret, reason: String) {
        self.known().refused = Some((token, reason));
    }

    /// Clears the pause and the refusal of the previous login, after a sign-in or a log-out.
    pub(super) fn forget_previous_login(&self) {
        let mut known = self.known();
        (known.pause, known.refused) = (None, None);
    }

    /// Adds to `stored` a refusal that could not be recorded in the store.
    pub(super) fn with_known_refusal(&self, mut stored: StoredLogin) -> StoredLogin {
        if let (None, Some((token, reason))) = (&stored.refused, &self.known().refused)
            && stored.login.refresh_token.as_ref() == Some(token)
        {
            stored.refused = Some(reason.clone());
        }
        stored
    }

    /// Stores a login that could not be written, and starts the task that retries the write.
    pub(super) fn keep(self: &Arc<Self>, pending_write: PendingWrite) {
        let mut known = self.known();
        known.pending_write = Some(pending_write);
        if known.retry_task.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            known.retry_task = Some(runtime.spawn(retry_until_written(Arc::clone(self))));
        }
    }

    /// Takes the pending write. The caller writes it, or returns it to [`Self::keep`].
    pub(super) fn take_pending_write(&self) -> Option<PendingWrite> {
        self.known().pending_write.take()
    }

    /// Tries once to write the pending login.
    pub(super) async fn save(self: &Arc<Self>) {
        let (shared, in_flight) = (Arc::clone(self), OperationGuard::begin());
        let try_once = move || {
            let _in_flight = in_flight;
            match shared.take_pending_write().map(PendingWrite::save) {
                // The lock is released here, after the login is in the store.
                Some(Ok(_lock)) => shared.end_pause(),
                Some(Err(failed)) => {
                    let (pending_write, error) = *failed;
                    tracing::warn!(login = pending_write.name, %error, "a refreshed login still cannot be \
                        written");
                    shared.keep(pending_write);
                }
                None => {}
            }
        };
        // Fails only if the runtime ends or the closure panics.
        let _ = run_blocking(try_once).await;
    }

    /// Returns the login's name and the location of its store, for messages about a pending write.
    pub(super) fn pending_write(&self) -> Option<(String, String)> {
        self.known()
            .pending_write
            .as_ref()
            .map(|pending_write| (pending_write.name.clone(), place_of(&*pending_write.store)))
    }

    /// Ends the retries if nothing is pending. Returns true if they ended.
    fn end_retries_if_written(&self) -> bool {
        let mut known = self.known();
        let is_done = known.pending_write.is_none();
        if is_done {
            known.retry_task = None;
        }
        is_done
    }

    fn known(&self) -> MutexGuard<'_, SharedFields> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedFields {
    fn pause(&self) -> Option<&TransientFailure> {
        self.pause.as_ref().filter(|(end, _)| Instant::now() < *end).map(|(_, failure)| failure)
    }

    fn is_worth_keeping(&self) -> bool {
        self.pause().is_some() || self.refused.is_some() || self.pending_write.is_some()
    }
}

impl TransientFailure {
    /// Returns the error for the login at `place`.
    pub(super) fn at(self, place: String) -> CredentialError {
        match self {
            Self::Unreachable(reason) => CredentialError::Unreachable { place, reason },
            Self::Malformed(reason) => CredentialError::Malformed { place, reason },
        }
    }
}

/// Classifies the error of a strategy: `Ok` is a transient failure, `Err` the reason of the issuer's refusal.
pub(super) fn failure_or_refusal(error: RefreshError) -> Result<TransientFailure, String> {
    match error {
        RefreshError::Refused { reason } => Err(reason),
        RefreshError::Unreachable { reason } | RefreshError::Unasked { reason } => {
            Ok(TransientFailure::Unreachable(reason))
        }
        error @ RefreshError::Declined { .. } => Ok(TransientFailure::Unreachable(error.to_string())),
        RefreshError::Malformed { reason } => Ok(TransientFailure::Malformed(reason)),
    }
}

/// Retries until nothing is pending. Another task that has taken the pending write either writes it or returns it to
/// the shared state.
async fn retry_until_written(shared: Arc<SharedState>) {
    let mut pause = FIRST_RETRY_AFTER;
    while !shared.end_retries_if_written() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_RETRY_AFTER);
        shared.save().await;
    }
}
