//! What all credential managers of one login in this process know together.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::{CredentialError, Secret};
use tokio::{task::JoinHandle, time::Instant};

use super::pending_write::PendingWrite;
use crate::{RefreshError, store::StoredLogin};

/// For how long an issuer that failed is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// Which login: its lock, and the identity of its store.
type LoginKey = (PathBuf, String);

static SHARED_STATES: Mutex<BTreeMap<LoginKey, Arc<SharedState>>> = Mutex::new(BTreeMap::new());

/// What all credential managers of one login in this process know together.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    refresh_queue: tokio::sync::Mutex<()>,
    known: Mutex<SharedFields>,
}

#[derive(Debug, Default)]
pub(super) struct SharedFields {
    pause: Option<(Instant, TransientFailure)>,
    /// The refresh token that was refused, and why, where the store could not be told.
    refused: Option<(Secret, String)>,
    pub(super) pending_write: Option<PendingWrite>,
    /// The task that tries to write what could not be written.
    pub(super) retry_task: Option<JoinHandle<()>>,
}

/// A renewal that failed, and may do better later.
#[derive(Clone, Debug)]
pub(super) enum TransientFailure {
    Unreachable(String),
    Malformed(String),
}

impl SharedState {
    /// The one shared of a login. It outlives its credential managers for as long as it knows something.
    pub(super) fn of(key: LoginKey) -> Arc<Self> {
        let mut states = SHARED_STATES.lock().unwrap_or_else(PoisonError::into_inner);
        states.retain(|_, shared| Arc::strong_count(shared) > 1 || shared.known().is_worth_keeping());
        Arc::clone(states.entry(key).or_default())
    }

    /// Those of all logins.
    pub(super) fn all() -> Vec<Arc<Self>> {
        SHARED_STATES.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }

    /// The line of those who wait for a fresher token: the first has it locked.
    pub(super) fn refresh_queue(&self) -> &tokio::sync::Mutex<()> {
        &self.refresh_queue
    }

    /// The failure after which the issuer is left alone, while it is.
    pub(super) fn pause(&self) -> Option<TransientFailure> {
        self.known().pause().cloned()
    }

    /// Leaves the issuer alone for a while.
    pub(super) fn begin_pause(&self, failure: &TransientFailure) {
        self.known().pause = Some((Instant::now() + PAUSE, failure.clone()));
    }

    /// The issuer has answered, or there is a new login.
    pub(super) fn end_pause(&self) {
        self.known().pause = None;
    }

    /// Remembers a refusal that could not be noted in the store.
    pub(super) fn remember_refusal(&self, token: Secret, reason: String) {
        self.known().refused = Some((token, reason));
    }

    /// There is a new login, or none: what was known of the one before is of no use.
    pub(super) fn forget_previous_login(&self) {
        let mut known = self.known();
        (known.pause, known.refused) = (None, None);
    }

    /// Adds to what the store says of a login what it could not be told.
    pub(super) fn with_known_refusal(&self, mut stored: StoredLogin) -> StoredLogin {
        if let (None, Some((token, reason))) = (&stored.refused, &self.known().refused)
            && stored.login.refresh_token.as_ref() == Some(token)
        {
            stored.refused = Some(reason.clone());
        }
        stored
    }

    pub(super) fn known(&self) -> MutexGuard<'_, SharedFields> {
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
    /// As an error about the login in `place`.
    pub(super) fn at(self, place: String) -> CredentialError {
        match self {
            Self::Unreachable(reason) => CredentialError::Unreachable { place, reason },
            Self::Malformed(reason) => CredentialError::Malformed { place, reason },
        }
    }
}

/// What the strategy said, or the issuer's refusal.
pub(super) fn failure_or_refusal(error: RefreshError) -> Result<TransientFailure, String> {
    match error {
        RefreshError::Refused { reason } => Err(reason),
        RefreshError::Unreachable { reason } | RefreshError::Unasked { reason } => {
            Ok(TransientFailure::Unreachable(reason))
        }
        RefreshError::Malformed { reason } => Ok(TransientFailure::Malformed(reason)),
    }
}
