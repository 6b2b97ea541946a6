//! One renewal, by whoever holds the lock: the only place where a refresh token is spent.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::FutureExt as _;
use nexus_core::{Credential, CredentialError, Secret};
use tracing::Instrument as _;

use super::{
    chain::{Chain, calmly, off_the_runtime, read, recover, unusable},
    desk::{self, Failure},
    judgement::{self, Wish},
    put::{Put, put, write},
    unsaved::Unsaved,
};
use crate::{
    Login, RefreshError,
    lock::HeldRefreshLock,
    store::{PendingWrite, StoreError, StoredLogin, TokenStore},
};

/// How long a strategy may take.
const LONGEST_REFRESH: Duration = Duration::from_secs(45);

/// What a caller gets of a renewal; `None`: the lock was lost, and nothing was spent.
type Outcome = Option<Result<Option<Credential>, CredentialError>>;

/// One renewal, under the lock.
#[derive(Debug)]
pub(super) struct Renewal {
    chain: Chain,
    wish: Wish,
    held: Held,
}

/// The lock, or what could not be written the last time, together with its lock.
#[derive(Debug)]
pub(super) enum Held {
    Lock(HeldRefreshLock),
    Unsaved(Box<Unsaved>),
}

/// What is in the store once the lock is held, and what is to be done about it.
enum Ready {
    /// It is settled without a renewal, or cannot be renewed.
    Done(Outcome),
    /// Its refresh token is to be spent.
    Spend { lock: Box<HeldRefreshLock>, stored: Box<StoredLogin>, pending: Box<dyn PendingWrite> },
}

/// What became of a renewed login.
enum Kept {
    /// It was put into the store, or found another one there.
    Put(Put, StoredLogin),
    /// It is in memory only.
    Unsaved(StoreError),
}

impl Renewal {
    /// One that begins by writing what could not be written before, if that is what is held.
    pub(super) fn new(chain: Chain, wish: Wish, held: Held) -> Self {
        Self { chain, wish, held }
    }

    /// Runs it to its end. It has to be on a task that nobody drops: between the request and the write, dropping is
    /// losing the login.
    pub(super) async fn run(self) -> Outcome {
        let Self { chain, wish, held } = self;
        let prepared = {
            let (chain, wish) = (chain.clone(), wish.clone());
            off_the_runtime(chain.place(), move || Ok(prepare(&chain, &wish, held))).await
        };
        let (lock, stored, pending) = match prepared {
            Ok(Ready::Spend { lock, stored, pending }) => (*lock, *stored, pending),
            Ok(Ready::Done(outcome)) => return outcome,
            Err(error) => return Some(Err(unusable(error))),
        };
        let span = tracing::info_span!(
            "login.refresh",
            login = chain.sign_in.name(),
            generation = stored.generation
        );
        match refresh(&chain, &stored.login).instrument(span).await.map_err(desk::sorted) {
            Ok(login) => Some(keep(chain, wish, lock, stored, pending, login).await),
            Err(Err(reason)) => Some(note_refusal(chain, wish, lock, stored, pending, reason).await),
            Err(Ok(failure)) => {
                chain.desk.begin_pause(&failure);
                let error = failure.at(chain.place());
                let outcome = chain.without_renewal(&wish, &stored, error);
                let given_up = move || {
                    drop((pending, lock));
                    Ok(())
                };
                let _ = off_the_runtime(chain.place(), given_up).await;
                Some(outcome)
            }
        }
    }
}

/// Reads the store again and gets everything ready, so that the one thing left to go wrong is the issuer.
fn prepare(chain: &Chain, wish: &Wish, held: Held) -> Ready {
    let store = &*chain.store;
    let lock = match held {
        Held::Lock(lock) => lock,
        Held::Unsaved(unsaved) => match unsaved.save() {
            Ok(lock) => lock,
            Err(failed) => {
                let (unsaved, error) = *failed;
                chain.desk.keep(unsaved);
                return Ready::Done(Some(still_unsaved(chain, wish, error)));
            }
        },
    };
    let recovered = recover(store);
    let stored = match read(store) {
        Ok(Some(stored)) => chain.desk.complete(stored),
        Ok(None) => return Ready::Done(Some(Err(chain.missing()))),
        Err(error) => return Ready::Done(Some(Err(unusable(error)))),
    };
    if let Some(settled) = chain.settle(wish, &stored) {
        return Ready::Done(Some(settled));
    }
    let pending = match recovered.and_then(|()| calmly(store, TokenStore::prepare)) {
        Ok(pending) => pending,
        Err(error) => return Ready::Done(Some(chain.without_renewal(wish, &stored, unusable(error)))),
    };
    if !lock.is_held() {
        return Ready::Done(None);
    }
    Ready::Spend { lock: Box::new(lock), stored: Box::new(stored), pending }
}

/// What is lent while a renewed login can still not be written.
fn still_unsaved(
    chain: &Chain,
    wish: &Wish,
    error: StoreError,
) -> Result<Option<Credential>, CredentialError> {
    match read(&*chain.store) {
        Ok(Some(stored)) => chain.without_renewal(wish, &stored, not_kept(error)),
        Ok(None) | Err(_) => Err(not_kept(error)),
    }
}

/// Spends the refresh token, once. Whatever the strategy does, it ends and does not unwind.
async fn refresh(chain: &Chain, login: &Login) -> Result<Login, RefreshError> {
    let attempt = AssertUnwindSafe(chain.sign_in.refresh(login)).catch_unwind();
    match tokio::time::timeout(LONGEST_REFRESH, attempt).await {
        Ok(Ok(outcome)) => outcome.map(|renewed| completed(renewed, login)),
        Ok(Err(_panic)) => {
            let reason = format!("the strategy of {} panicked", chain.sign_in.name());
            Err(RefreshError::Malformed { reason })
        }
        Err(_elapsed) => {
            let reason = format!("nothing came within {} s", LONGEST_REFRESH.as_secs());
            Err(RefreshError::Unreachable { reason })
        }
    }
}

/// Carries over what an issuer does not say again. An answer without a refresh token leaves the old one in force.
/// Source: RFC 6749 section 6.
fn completed(mut renewed: Login, old: &Login) -> Login {
    renewed.refresh_token = renewed.refresh_token.or_else(|| old.refresh_token.clone());
    renewed.identity = renewed.identity.or(&old.identity);
    if renewed.origin.is_empty() {
        renewed.origin.clone_from(&old.origin);
    }
    renewed
}

/// Writes the new login, and lends of it what is in the store then.
async fn keep(
    chain: Chain,
    wish: Wish,
    lock: HeldRefreshLock,
    spent: StoredLogin,
    pending: Box<dyn PendingWrite>,
    login: Login,
) -> Result<Option<Credential>, CredentialError> {
    let renewed = StoredLogin::new(login);
    // Once it is written others go on with it, and by then they have to know.
    let shortcoming = shortcoming(&spent.login, &renewed.login, chain.now());
    if let Some(failure) = &shortcoming {
        chain.desk.begin_pause(failure);
    }
    let kept = {
        let (chain, token) = (chain.clone(), spent.login.refresh_token.clone());
        off_the_runtime(chain.place(), move || Ok(put_or_keep(&chain, lock, token, pending, renewed))).await
    };
    match kept.map_err(unusable)? {
        Kept::Put(Put::Written, stored) => match shortcoming {
            None => {
                chain.desk.end_pause();
                Ok(wish.lend(&stored.login))
            }
            Some(failure) => chain.without_renewal(&wish, &stored, failure.at(chain.place())),
        },
        Kept::Put(Put::Overtaken(stored), _) => match chain.settle(&wish, &stored) {
            Some(settled) => settled,
            None => Ok(wish.lend(&stored.login)),
        },
        Kept::Put(Put::Removed, _) => Err(chain.missing()),
        Kept::Unsaved(error) => chain.without_renewal(&wish, &spent, not_kept(error)),
    }
}

/// Why a new login is of no use for now, although its refresh token had to be kept. One that brings nothing new would be
/// renewed again at once, and one renewal after the other would follow.
fn shortcoming(spent: &Login, renewed: &Login, now: SystemTime) -> Option<Failure> {
    let is_the_old_one = renewed.access_token == spent.access_token && renewed.expires_at <= spent.expires_at;
    let what = if !judgement::is_alive(renewed, now) {
        "the new token has expired already"
    } else if is_the_old_one {
        "no fresher token came of a renewal"
    } else {
        return None;
    };
    Some(Failure::Malformed(what.to_owned()))
}

/// Puts the new login into the store, or else keeps it at the desk, together with the lock.
fn put_or_keep(
    chain: &Chain,
    lock: HeldRefreshLock,
    spent: Option<Secret>,
    pending: Box<dyn PendingWrite>,
    mut stored: StoredLogin,
) -> Kept {
    let name = chain.sign_in.name().to_owned();
    match put(&*chain.store, Some(pending), spent.as_ref(), &mut stored) {
        Ok(put) => {
            if !matches!(put, Put::Written) {
                tracing::warn!(login = name, "somebody changed a login without its lock");
            }
            Kept::Put(put, stored)
        }
        Err(error) => {
            tracing::error!(login = name, %error, "a renewed login could not be written");
            let store = Arc::clone(&chain.store);
            chain.desk.keep(Unsaved { lock, stored, spent, store, name });
            Kept::Unsaved(error)
        }
    }
}

/// Notes in the store that the issuer refused, so that nobody spends this token again.
async fn note_refusal(
    chain: Chain,
    wish: Wish,
    lock: HeldRefreshLock,
    spent: StoredLogin,
    pending: Box<dyn PendingWrite>,
    reason: String,
) -> Result<Option<Credential>, CredentialError> {
    let (store, token, why) = (Arc::clone(&chain.store), spent.login.refresh_token.clone(), reason.clone());
    let found = off_the_runtime(chain.place(), move || {
        let _held_until_it_is_written = lock;
        let there = read(&*store)?;
        if let Some(there) = there.as_ref().filter(|there| there.login.refresh_token == token) {
            let mut noted = there.clone();
            noted.generation = there.generation.saturating_add(1);
            noted.refused = Some(why);
            write(&*store, Some(pending), &noted)?;
        }
        Ok(there)
    })
    .await;
    let error = chain.over(reason.clone());
    match found {
        Ok(None) => Err(chain.missing()),
        Ok(Some(there)) if there.login.refresh_token != spent.login.refresh_token => {
            match chain.settle(&wish, &there) {
                Some(settled) => settled,
                None => chain.without_renewal(&wish, &there, error),
            }
        }
        Ok(Some(_)) => chain.without_renewal(&wish, &spent, error),
        Err(unnoted) => {
            tracing::warn!(login = chain.sign_in.name(), error = %unnoted, "a refusal could not be noted");
            if let Some(token) = spent.login.refresh_token.clone() {
                chain.desk.remember_refusal(token, reason);
            }
            chain.without_renewal(&wish, &spent, error)
        }
    }
}

fn not_kept(error: StoreError) -> CredentialError {
    let reason = format!(
        "{}; it was renewed and could not be written, and is kept in the memory of this process until it can be",
        error.reason
    );
    CredentialError::Unreadable { place: error.place, reason }
}
