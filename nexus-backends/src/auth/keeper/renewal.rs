//! One renewal, by whoever holds the lock: the only place where a refresh token is spent.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use nexus_core::{Credential, CredentialError};
use tracing::Instrument as _;

use super::{
    chain::{Chain, off_the_runtime, read, recover, unusable},
    desk::{self, Failure, Unsaved},
    judgement::{self, Verdict, Wish},
};
use crate::auth::{
    Login, RefreshError,
    lock::LoginLock,
    store::{PendingWrite, StoreError, StoredLogin, TokenStore},
};

/// How long a strategy may take: less than it takes others to give up a claim.
const LONGEST_REFRESH: Duration = Duration::from_secs(45);

/// For how long a claim that took another one's place has to stand before it counts.
const SETTLING: Duration = Duration::from_secs(1);

/// How often a new login is written before it is kept in memory, and how long after a failure.
const WRITES: usize = 3;
const BETWEEN_WRITES: Duration = Duration::from_millis(100);

/// What a caller gets of a renewal; `None`: the lock was lost, and nothing was spent.
type Outcome = Option<Result<Option<Credential>, CredentialError>>;

/// One renewal, under the lock.
#[derive(Debug)]
pub(super) struct Renewal {
    chain: Chain,
    wish: Wish,
    lock: LoginLock,
    unsaved: Option<StoredLogin>,
}

/// What is in the store once the lock is held, and what is to be done about it.
enum Ready {
    /// It is settled without a renewal, or cannot be renewed.
    Done(Outcome),
    /// Its refresh token is to be spent.
    Spend { lock: LoginLock, stored: Box<StoredLogin>, pending: Box<dyn PendingWrite> },
}

/// How a new login was put into the store.
enum Kept {
    /// It is there.
    Written(StoredLogin),
    /// Somebody who does not heed the lock was there first.
    Overtaken(StoredLogin),
    /// The login was removed by somebody who does not heed the lock.
    Removed,
    /// It is in memory only.
    Unsaved(StoreError),
}

impl Renewal {
    pub(super) fn new(chain: Chain, wish: Wish, lock: LoginLock) -> Self {
        Self { chain, wish, lock, unsaved: None }
    }

    /// One that begins by writing what could not be written before.
    pub(super) fn of_unsaved(chain: Chain, wish: Wish, unsaved: Unsaved) -> Self {
        Self { chain, wish, lock: unsaved.lock, unsaved: Some(unsaved.stored) }
    }

    /// Runs it to its end. It has to be on a task that nobody drops: between the request and the write, dropping is
    /// losing the login.
    pub(super) async fn run(self) -> Outcome {
        let Self { chain, wish, lock, unsaved } = self;
        if lock.took_over() {
            tokio::time::sleep(SETTLING).await;
        }
        let prepared = {
            let (chain, wish) = (chain.clone(), wish.clone());
            off_the_runtime(chain.place(), move || Ok(prepare(&chain, &wish, lock, unsaved))).await
        };
        let (lock, stored, pending) = match prepared {
            Ok(Ready::Spend { lock, stored, pending }) => (lock, *stored, pending),
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
fn prepare(chain: &Chain, wish: &Wish, lock: LoginLock, unsaved: Option<StoredLogin>) -> Ready {
    let store = &*chain.store;
    let recovered = recover(store);
    let found = read(store);
    let stored = match (found, unsaved) {
        (Ok(Some(stored)), Some(unsaved)) if unsaved.generation > stored.generation => {
            match write(store, None, &unsaved) {
                Ok(()) => unsaved,
                Err(error) => return still_unsaved(chain, wish, lock, unsaved, &stored, error),
            }
        }
        (Ok(Some(stored)), _) => stored,
        (Ok(None), _) => return Ready::Done(Some(Err(chain.missing()))),
        (Err(error), Some(unsaved)) => {
            chain.desk.keep(Unsaved { lock, stored: unsaved });
            return Ready::Done(Some(Err(unusable(error))));
        }
        (Err(error), None) => return Ready::Done(Some(Err(unusable(error)))),
    };
    if let Some(settled) = chain.settle(wish, &stored) {
        return Ready::Done(Some(settled));
    }
    let pending = match recovered.and_then(|()| store.prepare()) {
        Ok(pending) => pending,
        Err(error) => return Ready::Done(Some(chain.without_renewal(wish, &stored, unusable(error)))),
    };
    if lock.is_held() { Ready::Spend { lock, stored: Box::new(stored), pending } } else { Ready::Done(None) }
}

fn still_unsaved(
    chain: &Chain,
    wish: &Wish,
    lock: LoginLock,
    unsaved: StoredLogin,
    stored: &StoredLogin,
    error: StoreError,
) -> Ready {
    chain.desk.keep(Unsaved { lock, stored: unsaved });
    Ready::Done(Some(chain.without_renewal(wish, stored, not_kept(error))))
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
    lock: LoginLock,
    spent: StoredLogin,
    pending: Box<dyn PendingWrite>,
    login: Login,
) -> Result<Option<Credential>, CredentialError> {
    let mut renewed = StoredLogin::new(login);
    renewed.generation = spent.generation.saturating_add(1);
    let kept = {
        let (chain, spent) = (chain.clone(), spent.clone());
        off_the_runtime(chain.place(), move || Ok(put(&chain, lock, &spent, pending, renewed))).await
    };
    match kept.map_err(unusable)? {
        Kept::Written(stored) => {
            let now = chain.now();
            let reason = match judgement::is_alive(&stored.login, now) {
                false => "the new token has expired already",
                // What would be renewed again at once is not: one renewal after the other would follow.
                true if wish.judge(&stored, now) == Verdict::Renew => "no fresher token came of a renewal",
                true => {
                    chain.desk.end_pause();
                    return Ok(wish.lend(&stored.login));
                }
            };
            let failure = Failure::Malformed(reason.to_owned());
            chain.desk.begin_pause(&failure);
            chain.without_renewal(&wish, &stored, failure.at(chain.place()))
        }
        Kept::Overtaken(stored) => match chain.settle(&wish, &stored) {
            Some(settled) => settled,
            None => Ok(wish.lend(&stored.login)),
        },
        Kept::Removed => Err(chain.missing()),
        Kept::Unsaved(error) => chain.without_renewal(&wish, &spent, not_kept(error)),
    }
}

/// Puts the new login into the store, or else keeps it at the desk, together with the lock.
fn put(
    chain: &Chain,
    lock: LoginLock,
    spent: &StoredLogin,
    pending: Box<dyn PendingWrite>,
    renewed: StoredLogin,
) -> Kept {
    match read(&*chain.store) {
        Ok(None) => return Kept::Removed,
        Ok(Some(there)) if there.generation > spent.generation => {
            tracing::warn!(login = chain.sign_in.name(), "somebody changed a login without its lock");
            return Kept::Overtaken(there);
        }
        Ok(Some(_)) | Err(_) => {}
    }
    match write(&*chain.store, Some(pending), &renewed) {
        Ok(()) => Kept::Written(renewed),
        Err(error) => {
            tracing::error!(login = chain.sign_in.name(), %error, "a renewed login could not be written");
            chain.desk.keep(Unsaved { lock, stored: renewed });
            Kept::Unsaved(error)
        }
    }
}

/// Writes a login, more than once if need be: there is no other copy of it.
pub(super) fn write(
    store: &dyn TokenStore,
    mut pending: Option<Box<dyn PendingWrite>>,
    stored: &StoredLogin,
) -> Result<(), StoreError> {
    let text = stored.to_text();
    let mut tries = 0;
    loop {
        tries += 1;
        let write = pending.take().map_or_else(|| store.prepare(), Ok);
        match write.and_then(|write| write.commit(&text)) {
            Ok(()) => return Ok(()),
            Err(error) if tries == WRITES => return Err(error),
            Err(_) => std::thread::sleep(BETWEEN_WRITES),
        }
    }
}

/// Notes in the store that the issuer refused, so that nobody spends this token again.
async fn note_refusal(
    chain: Chain,
    wish: Wish,
    lock: LoginLock,
    spent: StoredLogin,
    pending: Box<dyn PendingWrite>,
    reason: String,
) -> Result<Option<Credential>, CredentialError> {
    let mut noted = spent.clone();
    noted.generation = spent.generation.saturating_add(1);
    noted.refused = Some(reason.clone());
    let (store, generation) = (Arc::clone(&chain.store), spent.generation);
    let found = off_the_runtime(chain.place(), move || {
        let _held_until_it_is_written = lock;
        let there = read(&*store)?;
        if there.as_ref().is_some_and(|there| there.generation <= generation) {
            write(&*store, Some(pending), &noted)?;
        }
        Ok(there)
    })
    .await;
    let error = chain.over(reason);
    match found {
        Ok(None) => Err(chain.missing()),
        Ok(Some(there)) if there.generation > generation => match chain.settle(&wish, &there) {
            Some(settled) => settled,
            None => chain.without_renewal(&wish, &there, error),
        },
        Ok(Some(_)) => chain.without_renewal(&wish, &spent, error),
        Err(unnoted) => {
            tracing::warn!(login = chain.sign_in.name(), error = %unnoted, "a refusal could not be noted");
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
