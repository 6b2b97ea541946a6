//! Access to a [`TokenStore`] that may block or panic. This module depends only on stores.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nexus_core::{CredentialError, Secret, harness::run_blocking};

use crate::store::{StoreError, StoredLogin, TokenStore};

/// Reason in the error after a store panicked.
const PANICKED: &str = "the store panicked";

/// Calls a store and turns a panic into an error. A host may supply its own store, and the call may concern the only
/// copy of a login.
pub(super) fn catching_panics<T>(
    store: &dyn TokenStore,
    ask: impl FnOnce(&dyn TokenStore) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(|| ask(store)))
        .unwrap_or_else(|_panic| Err(StoreError::new(place_of(store), PANICKED)))
}

/// Returns the location of a store, for messages; never panics.
pub(super) fn place_of(store: &dyn TokenStore) -> String {
    catch_unwind(AssertUnwindSafe(|| store.place())).unwrap_or_else(|_panic| "its store".to_owned())
}

/// Reads and parses the login of a store.
pub(super) fn read(store: &dyn TokenStore) -> Result<Option<StoredLogin>, StoreError> {
    let Some(text) = catching_panics(store, TokenStore::read)? else { return Ok(None) };
    StoredLogin::from_text(&text).map(Some).map_err(|reason| StoreError::new(place_of(store), reason))
}

/// Finishes an interrupted write if its text is newer than the current text. Of two texts with the same generation, a
/// new token pair counts as newer than the record that the old pair was refused.
pub(super) fn recover(store: &dyn TokenStore) -> Result<(), StoreError> {
    let age = |text: &Secret| {
        StoredLogin::from_text(text).map(|stored| (stored.generation, stored.refused.is_none()))
    };
    let is_newer = |found: &Secret, there: Option<&Secret>| match (age(found), there.map(age)) {
        (Ok(found), Some(Ok(there))) => found > there,
        (Ok(_), None) => true,
        // Never replace an unreadable text: it may be the only copy of a login.
        (_, Some(Err(_))) | (Err(_), _) => false,
    };
    if catching_panics(store, |store| store.recover(&is_newer))? {
        tracing::info!(place = place_of(store), "an unfinished write of a login was completed");
    }
    Ok(())
}

/// Runs blocking work on a thread for blocking work.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    place: String,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    run_blocking(work).await.unwrap_or_else(|_| Err(StoreError::new(place, PANICKED)))
}

/// Converts a store's error into the error of a credential.
pub(super) fn unusable(error: StoreError) -> CredentialError {
    CredentialError::Unreadable { place: error.place, reason: error.reason }
}
