//! One refresh under the refresh lock. No other code spends a refresh token.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::FutureExt as _;
use nexus_core::{Credential, CredentialError, Secret};
use tracing::Instrument as _;

use super::{
    decision::{self, TokenRequest},
    managed_login::ManagedLogin,
    pending_write::PendingWrite,
    shared::{self, TransientFailure},
    store_access::{catching_panics, on_blocking_thread, read, recover, unusable},
    write::{WriteOutcome, overwrite, replace_spent},
};
use crate::{
    Login, RefreshError,
    lock::HeldRefreshLock,
    store::{PreparedWrite, StoreError, StoredLogin, TokenStore},
};

/// Time limit for the strategy during one refresh. Source: our own choice.
const LONGEST_REFRESH: Duration = Duration::from_secs(45);

/// Answer to the request; `None` if the lock was lost before the token was spent.
type IssuerAnswer = Option<Result<Option<Credential>, CredentialError>>;

/// One refresh, under the lock.
#[derive(Debug)]
pub(super) struct Refresh {
    managed: ManagedLogin,
    request: TokenRequest,
    held: HeldLock,
}

/// The acquired refresh lock.
#[derive(Debug)]
pub(super) enum HeldLock {
    /// The lock alone.
    Lock(HeldRefreshLock),
    /// The lock, with a refreshed login that must still be written.
    WithPendingWrite(Box<PendingWrite>),
}

/// Outcome of reading the store again under the lock.
enum RereadOutcome {
    /// The request has an answer without a refresh, or a refresh is impossible.
    Done(IssuerAnswer),
    /// The refresh token must be spent.
    Spend { lock: Box<HeldRefreshLock>, stored: Box<StoredLogin>, pending: Box<dyn PreparedWrite> },
}

/// Result of saving a refreshed login.
#[allow(
    clippy::large_enum_variant,
    reason = "one lives at a time, and how large it is depends on the features of `serde_json` that others ask for"
)]
enum SaveOutcome {
    /// The store was accessible: it has the new login, another program's login, or none.
    InStore(WriteOutcome, StoredLogin),
    /// The write failed; the new login is only in memory.
    InMemory(StoreError),
}

impl Refresh {
    /// Creates a refresh. If `held` has a pending write, `run` writes it first.
    pub(super) fn new(managed: ManagedLogin, request: TokenRequest, held: HeldLock) -> Self {
        Self { managed, request, held }
    }

    /// Runs the refresh to its end. It must run on a spawned task: dropping it between the request and the write would
    /// lose the login.
    pub(super) async fn run(self) -> IssuerAnswer {
        let Self { managed, request, held } = self;
        let prepared = {
            let (managed, request) = (managed.clone(), request.clone());
            on_blocking_thread(managed.place(), move || Ok(prepare(&managed, &request, held))).await
        };
        let (lock, stored, pending) = match prepared {
            Ok(RereadOutcome::Spend { lock, stored, pending }) => (*lock, *stored, pending),
            Ok(RereadOutcome::Done(outcome)) => return outcome,
            Err(error) => return Some(Err(unusable(error))),
        };
        let span = tracing::info_span!(
            "login.refresh",
            login = managed.sign_in.name(),
            generation = stored.generation
        );
        match request_refresh(&managed, &stored.login)
            .instrument(span)
            .await
            .map_err(shared::failure_or_refusal)
        {
            Ok(login) => Some(keep(managed, request, lock, stored, pending, login).await),
            Err(Err(reason)) => Some(note_refusal(managed, request, lock, stored, pending, reason).await),
            Err(Ok(failure)) => {
                managed.shared.begin_pause(&failure);
                let error = failure.at(managed.place());
                let outcome = managed.without_refresh(&request, &stored, error);
                // Both drops access the disk, so they run on a blocking thread.
                let given_up = move || {
                    drop((pending, lock));
                    Ok(())
                };
                let _ = on_blocking_thread(managed.place(), given_up).await;
                Some(outcome)
            }
        }
    }
}

/// Reads the store again and prepares the write, so that only the issuer can fail afterwards.
fn prepare(managed: &ManagedLogin, request: &TokenRequest, held: HeldLock) -> RereadOutcome {
    let store = &*managed.store;
    let lock = match held {
        HeldLock::Lock(lock) => lock,
        // The pending login replaces a login whose token is spent, so write it before the store is read.
        HeldLock::WithPendingWrite(pending_write) => match pending_write.save() {
            Ok(lock) => lock,
            Err(failed) => {
                let (pending_write, error) = *failed;
                managed.shared.keep(pending_write);
                return RereadOutcome::Done(Some(still_pending(managed, request, error)));
            }
        },
    };
    // Complete an interrupted write first, so that the newest login is read.
    let recovered = recover(store);
    let stored = match read(store) {
        Ok(Some(stored)) => managed.shared.with_known_refusal(stored),
        Ok(None) => return RereadOutcome::Done(Some(Err(managed.missing()))),
        Err(error) => return RereadOutcome::Done(Some(Err(unusable(error)))),
    };
    if let Some(settled) = managed.settle(request, &stored) {
        return RereadOutcome::Done(Some(settled));
    }
    // A failed recovery prevents only a refresh. A valid token was already lent above.
    let pending = match recovered.and_then(|()| catching_panics(store, TokenStore::prepare)) {
        Ok(pending) => pending,
        Err(error) => {
            return RereadOutcome::Done(Some(managed.without_refresh(request, &stored, unusable(error))));
        }
    };
    // Check directly before the token is spent, because the lock file may have been removed.
    if !lock.is_held() {
        return RereadOutcome::Done(None);
    }
    RereadOutcome::Spend { lock: Box::new(lock), stored: Box::new(stored), pending }
}

/// Returns the answer to a request while a refreshed login still cannot be written.
fn still_pending(
    managed: &ManagedLogin,
    request: &TokenRequest,
    error: StoreError,
) -> Result<Option<Credential>, CredentialError> {
    match read(&*managed.store) {
        Ok(Some(stored)) => managed.without_refresh(request, &stored, not_kept(error)),
        Ok(None) | Err(_) => Err(not_kept(error)),
    }
}

/// Spends the refresh token once. A hang or a panic of the strategy becomes an error.
async fn request_refresh(managed: &ManagedLogin, login: &Login) -> Result<Login, RefreshError> {
    let attempt = AssertUnwindSafe(managed.sign_in.refresh(login)).catch_unwind();
    match tokio::time::timeout(LONGEST_REFRESH, attempt).await {
        Ok(Ok(outcome)) => outcome.and_then(|renewed| match is_of_another(&renewed, login) {
            true => Err(RefreshError::of_another()),
            false => Ok(completed(renewed, login)),
        }),
        Ok(Err(_panic)) => {
            let reason = format!("the strategy of {} panicked", managed.sign_in.name());
            Err(RefreshError::Malformed { reason })
        }
        Err(_elapsed) => {
            let reason = format!("no answer arrived within {} s", LONGEST_REFRESH.as_secs());
            Err(RefreshError::Unreachable { reason })
        }
    }
}

/// Returns true if a refreshed login names another account than the old login. A refreshed login that names no account
/// counts as the old account's.
fn is_of_another(renewed: &Login, old: &Login) -> bool {
    let accounts = renewed.identity.account.as_ref().zip(old.identity.account.as_ref());
    accounts.is_some_and(|(renewed, old)| renewed != old)
}

/// Adds the fields that the issuer does not repeat. If the response has no refresh token, the old one stays valid.
/// Source: RFC 6749 section 6.
fn completed(mut renewed: Login, old: &Login) -> Login {
    renewed.refresh_token = renewed.refresh_token.or_else(|| old.refresh_token.clone());
    renewed.identity = renewed.identity.or(&old.identity);
    if renewed.origin.is_empty() {
        renewed.origin.clone_from(&old.origin);
    }
    renewed
}

/// Writes the refreshed login, and answers the request with the login that the store has afterwards.
async fn keep(
    managed: ManagedLogin,
    request: TokenRequest,
    lock: HeldRefreshLock,
    spent: StoredLogin,
    pending: Box<dyn PreparedWrite>,
    login: Login,
) -> Result<Option<Credential>, CredentialError> {
    let renewed = StoredLogin::new(login);
    // Start the pause before the write: other tasks read the new login as soon as it is in the store.
    let shortcoming = shortcoming(&spent.login, &renewed.login, managed.now());
    if let Some(failure) = &shortcoming {
        managed.shared.begin_pause(failure);
    }
    let kept = {
        let (managed, token) = (managed.clone(), spent.login.refresh_token.clone());
        on_blocking_thread(managed.place(), move || Ok(save_or_keep(&managed, lock, token, pending, renewed)))
            .await
    };
    match kept.map_err(unusable)? {
        SaveOutcome::InStore(WriteOutcome::Written, stored) => match shortcoming {
            None => {
                managed.shared.end_pause();
                Ok(request.lend(&stored.login))
            }
            Some(failure) => managed.without_refresh(&request, &stored, failure.at(managed.place())),
        },
        SaveOutcome::InStore(WriteOutcome::Superseded(stored), _) => {
            match managed.settle(&request, &stored) {
                Some(settled) => settled,
                None => Ok(request.lend(&stored.login)),
            }
        }
        SaveOutcome::InStore(WriteOutcome::Removed, _) => Err(managed.missing()),
        SaveOutcome::InMemory(error) => managed.without_refresh(&request, &spent, not_kept(error)),
    }
}

/// Returns the reason why a refreshed login cannot be used for now, although its refresh token must be stored. The
/// caller then pauses refreshes. Otherwise a login without a fresher token would be refreshed again and again.
fn shortcoming(spent: &Login, renewed: &Login, now: SystemTime) -> Option<TransientFailure> {
    let is_the_old_one = renewed.access_token == spent.access_token && renewed.expires_at <= spent.expires_at;
    let what = if !decision::is_alive(renewed, now) {
        "the new token has already expired"
    } else if is_the_old_one {
        "the refresh returned no newer token"
    } else {
        return None;
    };
    Some(TransientFailure::Malformed(what.to_owned()))
}

/// Writes the refreshed login into the store. If the write fails, keeps the login in memory together with the lock.
fn save_or_keep(
    managed: &ManagedLogin,
    lock: HeldRefreshLock,
    spent: Option<Secret>,
    pending: Box<dyn PreparedWrite>,
    mut stored: StoredLogin,
) -> SaveOutcome {
    let name = managed.sign_in.name().to_owned();
    match replace_spent(&*managed.store, Some(pending), spent.as_ref(), &mut stored) {
        Ok(put) => {
            if !matches!(put, WriteOutcome::Written) {
                tracing::warn!(login = name, "another program changed a login without its lock");
            }
            SaveOutcome::InStore(put, stored)
        }
        Err(error) => {
            tracing::error!(login = name, %error, "a refreshed login could not be written");
            let store = Arc::clone(&managed.store);
            managed.shared.keep(PendingWrite { lock, stored, spent, store, name });
            SaveOutcome::InMemory(error)
        }
    }
}

/// Records the issuer's refusal in the store, so that no process presents this token again.
async fn note_refusal(
    managed: ManagedLogin,
    request: TokenRequest,
    lock: HeldRefreshLock,
    spent: StoredLogin,
    pending: Box<dyn PreparedWrite>,
    reason: String,
) -> Result<Option<Credential>, CredentialError> {
    let (store, token, why) = (Arc::clone(&managed.store), spent.login.refresh_token.clone(), reason.clone());
    let found = on_blocking_thread(managed.place(), move || {
        // The closure owns the lock and releases it after the write.
        let _held_until_it_is_written = lock;
        let there = read(&*store)?;
        // Record the refusal only for the refused token, because another program may have written a new
        // login.
        if let Some(there) = there.as_ref().filter(|there| there.login.refresh_token == token) {
            let mut noted = there.clone();
            noted.generation = there.generation.saturating_add(1);
            noted.refused = Some(why);
            overwrite(&*store, Some(pending), &noted)?;
        }
        Ok(there)
    })
    .await;
    let error = managed.over(reason.clone());
    match found {
        Ok(None) => Err(managed.missing()),
        Ok(Some(there)) if there.login.refresh_token != spent.login.refresh_token => {
            match managed.settle(&request, &there) {
                Some(settled) => settled,
                None => managed.without_refresh(&request, &there, error),
            }
        }
        Ok(Some(_)) => managed.without_refresh(&request, &spent, error),
        Err(unnoted) => {
            tracing::warn!(login = managed.sign_in.name(), error = %unnoted, "a refusal could not be recorded");
            // Remember the refusal in memory, so that this process does not send the token again.
            if let Some(token) = spent.login.refresh_token.clone() {
                managed.shared.remember_refusal(token, reason);
            }
            managed.without_refresh(&request, &spent, error)
        }
    }
}

fn not_kept(error: StoreError) -> CredentialError {
    let reason = format!(
        "{}; it was renewed but could not be written, and is kept in this process's memory until the write \
        succeeds",
        error.reason
    );
    CredentialError::Unreadable { place: error.place, reason }
}
