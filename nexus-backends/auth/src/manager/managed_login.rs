//! One login with all that belongs to it: what a task needs to work for a manager.

use std::{
    hash::{BuildHasher as _, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{Credential, CredentialError, Secret};

use super::{
    decision::{self, RefreshDecision, TokenRequest},
    shared::SharedState,
};
use crate::{
    Clock, SignIn,
    lock::{LockAttempt, LockHolder, RefreshLock},
    store::{StoreError, StoredLogin, TokenStore},
};

/// How long the refresh lock is waited for. Source: our own choice, above the 75 seconds that one refresh may take: the
/// issuer's 45 and the store's 30.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(100);

/// The shortest and the longest time between two looks at a lock that somebody else holds, in milliseconds.
const LOOK_AGAIN_MS: std::ops::Range<u64> = 10..50;

/// What is said of a store that panicked.
const PANICKED: &str = "the store panicked";

/// What a task needs to work for a manager. Clones are the same manager.
#[derive(Clone, Debug)]
pub(super) struct ManagedLogin {
    pub(super) sign_in: Arc<dyn SignIn>,
    /// Where the login is, and stays when it is renewed.
    pub(super) store: Arc<dyn TokenStore>,
    /// Where a new login is put.
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

    /// What is lent of a login as it is; `None` if there should be a fresher one.
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

    /// What is lent when there is no fresher one to be had: the one at hand while it is alive, or the error.
    pub(super) fn without_refresh(
        &self,
        request: &TokenRequest,
        stored: &StoredLogin,
        error: CredentialError,
    ) -> Result<Option<Credential>, CredentialError> {
        if !request.is_usable(&stored.login, self.now()) {
            return Err(error);
        }
        tracing::warn!(login = self.sign_in.name(), %error, "a login was not renewed; its token is alive and goes on");
        Ok(Some(decision::credential(&stored.login)))
    }

    /// Tries for the refresh lock once.
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

/// Asks a store. One of somebody else's may panic, and what it is asked for may be the only copy of a login.
pub(super) fn catching_panics<T>(
    store: &dyn TokenStore,
    ask: impl FnOnce(&dyn TokenStore) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(|| ask(store)))
        .unwrap_or_else(|_panic| Err(StoreError::new(place_of(store), PANICKED)))
}

/// Where a store is, whatever it does when it is asked.
pub(super) fn place_of(store: &dyn TokenStore) -> String {
    catch_unwind(AssertUnwindSafe(|| store.place())).unwrap_or_else(|_panic| "its store".to_owned())
}

/// Reads the login of a store.
pub(super) fn read(store: &dyn TokenStore) -> Result<Option<StoredLogin>, StoreError> {
    let Some(text) = catching_panics(store, TokenStore::read)? else { return Ok(None) };
    StoredLogin::from_text(&text).map(Some).map_err(|reason| StoreError::new(place_of(store), reason))
}

/// Finishes a write that was broken off, if what was to be written is newer than what is there. Of two that were
/// written to succeed the same one, a new pair is newer than the note that the old one was refused.
pub(super) fn recover(store: &dyn TokenStore) -> Result<(), StoreError> {
    let age = |text: &Secret| {
        StoredLogin::from_text(text).map(|stored| (stored.generation, stored.refused.is_none()))
    };
    let is_newer = |found: &Secret, there: Option<&Secret>| match (age(found), there.map(age)) {
        (Ok(found), Some(Ok(there))) => found > there,
        (Ok(_), None) => true,
        // What cannot be read is not replaced: it may be somebody's only login.
        (_, Some(Err(_))) | (Err(_), _) => false,
    };
    if catching_panics(store, |store| store.recover(&is_newer))? {
        tracing::info!(
            place = place_of(store),
            "a login that was written and not yet in its place was put there"
        );
    }
    Ok(())
}

/// Runs what may block on a thread that may.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    place: String,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) if stopped.is_panic() => Err(StoreError::new(place, PANICKED)),
        Err(_) => Err(StoreError::new(place, "the runtime is shutting down")),
    }
}

/// Until the next look at a lock: never the same for all who wait.
pub(super) fn poll_interval() -> Duration {
    let spread = LOOK_AGAIN_MS.end - LOOK_AGAIN_MS.start;
    Duration::from_millis(LOOK_AGAIN_MS.start + RandomState::new().hash_one(0_u8) % spread)
}

pub(super) fn holder_name(holder: Option<&LockHolder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), ToString::to_string)
}

pub(super) fn unusable(error: StoreError) -> CredentialError {
    CredentialError::Unreadable { place: error.place, reason: error.reason }
}
