//! What all keepers of one login in this process know together.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::CredentialError;
use tokio::time::Instant;

use crate::auth::{
    RefreshError,
    lock::{CLAIM_LIFE, ClaimId, LoginLock},
    store::StoredLogin,
};

/// For how long an issuer that failed is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// Which login: its lock, and the place of its store.
type Key = (PathBuf, String);

/// What all keepers of one login in this process know together.
#[derive(Debug, Default)]
pub(super) struct Desk {
    line: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    pause: Option<(Instant, Failure)>,
    unsaved: Option<Unsaved>,
    watched: Option<(ClaimId, Instant)>,
}

/// A renewal that failed, and may do better later.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Unreachable(String),
    Malformed(String),
}

/// A login that was renewed and could not be written: the one whose token was spent for it is in the store. Nobody
/// else may try that one, so the lock is kept with it.
#[derive(Debug)]
pub(super) struct Unsaved {
    pub(super) lock: LoginLock,
    pub(super) stored: StoredLogin,
}

impl Desk {
    /// The one desk of a login. It outlives its keepers for as long as it knows something.
    pub(super) fn of(key: Key) -> Arc<Self> {
        static DESKS: Mutex<BTreeMap<Key, Arc<Desk>>> = Mutex::new(BTreeMap::new());
        let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|_, desk| Arc::strong_count(desk) > 1 || desk.known().is_worth_keeping());
        Arc::clone(desks.entry(key).or_default())
    }

    /// The line of those who wait for a fresher token: the first has it locked.
    pub(super) fn line(&self) -> &tokio::sync::Mutex<()> {
        &self.line
    }

    /// The failure after which the issuer is left alone, while it is.
    pub(super) fn pause(&self) -> Option<Failure> {
        self.known().pause().cloned()
    }

    /// Leaves the issuer alone for a while.
    pub(super) fn begin_pause(&self, failure: &Failure) {
        self.known().pause = Some((Instant::now() + PAUSE, failure.clone()));
    }

    /// The issuer has answered, or there is a new login.
    pub(super) fn end_pause(&self) {
        self.known().pause = None;
    }

    /// Keeps what could not be written.
    pub(super) fn keep(&self, unsaved: Unsaved) {
        self.known().unsaved = Some(unsaved);
    }

    /// Hands out what could not be written.
    pub(super) fn take_unsaved(&self) -> Option<Unsaved> {
        self.known().unsaved.take()
    }

    /// Watches the claim that is in the way.
    pub(super) fn watch(&self, claim: ClaimId) {
        let mut known = self.known();
        let since = match &known.watched {
            Some((watched, since)) if *watched == claim => *since,
            _ => Instant::now(),
        };
        known.watched = Some((claim, since));
    }

    /// No claim is in the way.
    pub(super) fn end_watch(&self) {
        self.known().watched = None;
    }

    /// The claim that was watched for longer than anybody can mean it.
    pub(super) fn stale_claim(&self) -> Option<ClaimId> {
        let known = self.known();
        known
            .watched
            .as_ref()
            .filter(|(_, since)| since.elapsed() >= CLAIM_LIFE)
            .map(|(claim, _)| claim.clone())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn pause(&self) -> Option<&Failure> {
        self.pause.as_ref().filter(|(end, _)| Instant::now() < *end).map(|(_, failure)| failure)
    }

    fn is_worth_keeping(&self) -> bool {
        self.pause().is_some() || self.unsaved.is_some() || self.watched.is_some()
    }
}

impl Failure {
    /// As an error about the login in `place`.
    pub(super) fn at(self, place: String) -> CredentialError {
        match self {
            Self::Unreachable(reason) => CredentialError::Unreachable { place, reason },
            Self::Malformed(reason) => CredentialError::Malformed { place, reason },
        }
    }
}

/// What the strategy said, or the issuer's refusal.
pub(super) fn sorted(error: RefreshError) -> Result<Failure, String> {
    match error {
        RefreshError::Refused { reason } => Err(reason),
        RefreshError::Unreachable { reason } => Ok(Failure::Unreachable(reason)),
        RefreshError::Malformed { reason } => Ok(Failure::Malformed(reason)),
    }
}
