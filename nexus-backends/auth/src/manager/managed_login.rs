//! One login with its strategy, stores, lock, clock and shared state: everything a spawned task needs from a credential
//! manager.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{Credential, CredentialError};

use super::{
    decision::{self, RefreshDecision, TokenRequest},
    shared::SharedState,
    store_access::{on_blocking_thread, place_of, read, unusable},
};
use crate::{
    Clock, SignIn,
    lock::{LockAttempt, LockHolder, RefreshLock},
    store::{StoreError, StoredLogin, TokenStore},
};

/// Longest wait for the refresh lock. Source: our own choice, above the 75 seconds that one refresh may take:
/// the issuer's 45 and the store's 30.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(100);

/// Range of the pause between two attempts at a busy lock, in milliseconds.
const POLL_INTERVAL_MS: std::ops::Range<u64> = 10..50;

/// One login as its credential managers see it. Clones share all state.
#[derive(Clone, Debug)]
pub(super) struct ManagedLogin {
    pub(super) sign_in: Arc<dyn SignIn>,
    /// Store from which the login is read, and to which a refresh writes it.
    pub(super) store: Arc<dyn TokenStore>,
    /// Store to which a new sign-in writes.
    pub(super) store_of_new: Arc<dyn TokenStore>,
    pub(super) lock: Arc<RefreshLock>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Arc<SharedState>,
}

impl ManagedLogin {
    pub(super) fn place(&self) -> String {
        place_of(&*self.store)
    }

    pub(super) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    pub(super) async fn look(&self) -> Result<Option<StoredLogin>, CredentialError> {
        let store = Arc::clone(&self.store);
        let found = on_blocking_thread(self.place(), move || read(&*store)).await.map_err(unusable)?;
        Ok(found.map(|stored| self.shared.with_known_refusal(stored)))
    }

    /// Returns the answer to `request` if it needs no refresh; `None` if the login should be refreshed first.
    pub(super) fn settle(
        &self,
        request: &TokenRequest,
        stored: &StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        match request.decide(stored, self.now()) {
            RefreshDecision::UseCurrent => Some(Ok(Some(decision::credential(&stored.login)))),
            RefreshDecision::Refresh => None,
            RefreshDecision::NoAlternative => Some(Ok(None)),
            RefreshDecision::Ended(reason) => Some(Err(self.over(reason))),
        }
    }

    /// Returns the answer to `request` after a failed refresh: the current token if it is still valid, otherwise the
    /// error.
    pub(super) fn without_refresh(
        &self,
        request: &TokenRequest,
        stored: &StoredLogin,
        error: CredentialError,
    ) -> Result<Option<Credential>, CredentialError> {
        if !request.is_usable(&stored.login, self.now()) {
            return Err(error);
        }
        tracing::warn!(login = self.sign_in.name(), %error, "a login was not renewed; its present token is \
            still valid");
        Ok(Some(decision::credential(&stored.login)))
    }

    /// Tries once to acquire the refresh lock.
    pub(super) async fn try_lock(&self) -> Result<LockAttempt, StoreError> {
        let lock = Arc::clone(&self.lock);
        on_blocking_thread(self.place(), move || lock.attempt()).await
    }

    pub(super) fn missing(&self) -> CredentialError {
        CredentialError::Missing { place: self.place(), remedy: self.sign_in.remedy() }
    }

    pub(super) fn over(&self, reason: String) -> CredentialError {
        CredentialError::Refused { place: self.place(), reason, remedy: self.sign_in.remedy() }
    }
}

/// Returns the pause until the next attempt at a busy lock. It is random, so that waiting processes do not attempt in
/// step.
pub(super) fn poll_interval() -> Duration {
    let spread = POLL_INTERVAL_MS.end - POLL_INTERVAL_MS.start;
    Duration::from_millis(POLL_INTERVAL_MS.start + RandomState::new().hash_one(0_u8) % spread)
}

/// Returns the holder of a busy lock, for messages.
pub(super) fn holder_name(holder: Option<&LockHolder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), ToString::to_string)
}
