//! What all keepers of one login in this process know together.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::{CredentialError, Secret};
use tokio::{task::JoinHandle, time::Instant};

use super::unsaved::Unsaved;
use crate::{RefreshError, store::StoredLogin};

/// For how long an issuer that failed is left alone.
const PAUSE: Duration = Duration::from_secs(5);

/// Which login: its lock, and the identity of its store.
type Key = (PathBuf, String);

static DESKS: Mutex<BTreeMap<Key, Arc<Desk>>> = Mutex::new(BTreeMap::new());

/// What all keepers of one login in this process know together.
#[derive(Debug, Default)]
pub(super) struct Desk {
    line: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pause: Option<(Instant, Failure)>,
    /// The refresh token that was refused, and why, where the store could not be told.
    refused: Option<(Secret, String)>,
    pub(super) unsaved: Option<Unsaved>,
    /// The task that tries to write what could not be written.
    pub(super) saver: Option<JoinHandle<()>>,
}

/// A renewal that failed, and may do better later.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    Unreachable(String),
    Malformed(String),
}

impl Desk {
    /// The one desk of a login. It outlives its keepers for as long as it knows something.
    pub(super) fn of(key: Key) -> Arc<Self> {
        let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|_, desk| Arc::strong_count(desk) > 1 || desk.known().is_worth_keeping());
        Arc::clone(desks.entry(key).or_default())
    }

    /// Those of all logins.
    pub(super) fn all() -> Vec<Arc<Self>> {
        DESKS.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
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

    /// Remembers a refusal that could not be noted in the store.
    pub(super) fn remember_refusal(&self, token: Secret, reason: String) {
        self.known().refused = Some((token, reason));
    }

    /// There is a new login, or none: what was known of the one before is of no use.
    pub(super) fn begin_anew(&self) {
        let mut known = self.known();
        (known.pause, known.refused) = (None, None);
    }

    /// Adds to what the store says of a login what it could not be told.
    pub(super) fn complete(&self, mut stored: StoredLogin) -> StoredLogin {
        if let (None, Some((token, reason))) = (&stored.refused, &self.known().refused)
            && stored.login.refresh_token.as_ref() == Some(token)
        {
            stored.refused = Some(reason.clone());
        }
        stored
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn pause(&self) -> Option<&Failure> {
        self.pause.as_ref().filter(|(end, _)| Instant::now() < *end).map(|(_, failure)| failure)
    }

    fn is_worth_keeping(&self) -> bool {
        self.pause().is_some() || self.refused.is_some() || self.unsaved.is_some()
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
        RefreshError::Unreachable { reason } | RefreshError::Unasked { reason } => {
            Ok(Failure::Unreachable(reason))
        }
        RefreshError::Malformed { reason } => Ok(Failure::Malformed(reason)),
    }
}
