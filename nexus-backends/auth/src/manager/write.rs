//! Writes a login whose only other copy may be in memory. Retries, and never overwrites a login that the new one does
//! not replace.

use std::{
    thread,
    time::{Duration, Instant},
};

use nexus_core::Secret;

use super::store_access::{catching_panics, read};
use crate::store::{PreparedWrite, StoreError, StoredLogin, TokenStore};

/// Number of tries, the time between them, and the time after which no further try begins.
const TRIES: usize = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
const LAST_TRY_AFTER: Duration = Duration::from_secs(5);

/// Result of writing a refreshed login.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// The store has the refreshed login.
    Written,
    /// A program that ignores the lock wrote another login first.
    Superseded(Box<StoredLogin>),
    /// A program that ignores the lock removed the login.
    Removed,
}

/// Replaces the login whose refresh token was `spent` with the refreshed one, and no other login. A refusal recorded
/// meanwhile for the old login does not apply to the new pair.
pub(super) fn replace_spent(
    store: &dyn TokenStore,
    mut pending: Option<Box<dyn PreparedWrite>>,
    spent: Option<&Secret>,
    renewed: &mut StoredLogin,
) -> Result<WriteOutcome, StoreError> {
    again_and_again(|| {
        let Some(there) = read(store)? else { return Ok(WriteOutcome::Removed) };
        let found = there.login.refresh_token.as_ref();
        // The new login may already be in the store, if only the flush to disk failed.
        let is_ours = found == renewed.login.refresh_token.as_ref()
            && there.login.access_token == renewed.login.access_token;
        if found != spent && !is_ours {
            return Ok(WriteOutcome::Superseded(Box::new(there)));
        }
        // A refusal that was recorded meanwhile may have raised the generation.
        renewed.generation = there.generation.saturating_add(1);
        commit(store, &mut pending, renewed).map(|()| WriteOutcome::Written)
    })
}

/// Overwrites the current content of the store with a login.
pub(super) fn overwrite(
    store: &dyn TokenStore,
    mut pending: Option<Box<dyn PreparedWrite>>,
    stored: &StoredLogin,
) -> Result<(), StoreError> {
    again_and_again(|| commit(store, &mut pending, stored))
}

fn commit(
    store: &dyn TokenStore,
    pending: &mut Option<Box<dyn PreparedWrite>>,
    stored: &StoredLogin,
) -> Result<(), StoreError> {
    let text = stored.to_text();
    // The prepared write serves one try. A later try prepares again.
    catching_panics(store, |store| match pending.take() {
        Some(pending) => pending.commit(&text),
        None => store.prepare()?.commit(&text),
    })
}

fn again_and_again<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let began = Instant::now();
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt() {
            Err(_) if tries < TRIES && began.elapsed() < LAST_TRY_AFTER => thread::sleep(BETWEEN_TRIES),
            outcome => return outcome,
        }
    }
}
