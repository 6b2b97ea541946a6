//! How a login gets into its store, where there may be no other copy of it.

use std::{
    thread,
    time::{Duration, Instant},
};

use nexus_core::Secret;

use super::store_access::{catching_panics, read};
use crate::store::{PreparedWrite, StoreError, StoredLogin, TokenStore};

/// How often it is tried at once, how long after a failure, and after which time no more.
const TRIES: usize = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
const LAST_TRY_AFTER: Duration = Duration::from_secs(5);

/// How a renewed login was put into the store.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// It is there.
    Written,
    /// Somebody who does not heed the lock was there first.
    Superseded(Box<StoredLogin>),
    /// The login was removed by somebody who does not heed the lock.
    Removed,
}

/// Puts a renewed login in the place of the one whose refresh token was `spent` for it, and of no other. What was noted
/// of that one meanwhile, such as a refusal, counts for nothing against a new pair.
pub(super) fn replace_spent(
    store: &dyn TokenStore,
    mut pending: Option<Box<dyn PreparedWrite>>,
    spent: Option<&Secret>,
    renewed: &mut StoredLogin,
) -> Result<WriteOutcome, StoreError> {
    again_and_again(|| {
        let Some(there) = read(store)? else { return Ok(WriteOutcome::Removed) };
        let found = there.login.refresh_token.as_ref();
        // Ours may be there already, and only its being on the disk have failed.
        let is_ours = found == renewed.login.refresh_token.as_ref()
            && there.login.access_token == renewed.login.access_token;
        if found != spent && !is_ours {
            return Ok(WriteOutcome::Superseded(Box::new(there)));
        }
        renewed.generation = there.generation.saturating_add(1);
        commit(store, &mut pending, renewed).map(|()| WriteOutcome::Written)
    })
}

/// Writes a login over whatever is there.
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
