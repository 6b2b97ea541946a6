//! How a login comes and goes: what a person asks for.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::time::Instant;

use super::{Inner, LONGEST_WAIT, LoginKeeper, Turn, a_moment, named, off_the_runtime, read, recover};
use crate::auth::{
    Login, LoginScreen, RefreshError, Revocation, SignInError,
    lock::LoginLock,
    store::{StoreError, StoredLogin},
};

/// How long the issuer may take to hear that a login is over, before it is removed here all the same.
const LONGEST_REVOCATION: Duration = Duration::from_secs(10);

/// What became of a login that was to end.
#[derive(Debug)]
pub struct LogOut {
    /// Whether there was one.
    pub was_logged_in: bool,
    /// What the issuer was told; `None` if there was nothing to tell. Where it could not be told, what was handed out
    /// lives on until it expires, unknown to anybody here.
    pub revocation: Option<Result<Revocation, RefreshError>>,
}

/// Why a login did not begin or end.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Nobody was signed in.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else has the login and does not let go of it.
    #[error("the login in {place} is in use by {holder}, for {} s at least", .waited.as_secs())]
    Busy {
        /// Where it is.
        place: String,
        /// Who has it, as far as that is known.
        holder: String,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl LoginKeeper {
    /// Signs a person in. Whether the login can be kept is found out before the person is bothered, and a login from
    /// before stays in force until the new one is there.
    ///
    /// # Errors
    ///
    /// Any [`LoginError`].
    pub async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, LoginError> {
        let inner = &self.inner;
        let lock = inner.wait_for_lock().await?;
        {
            let inner = inner.clone();
            off_the_runtime(self.place(), move || {
                let _held_meanwhile = lock;
                recover(&*inner.store_of_new)?;
                read(&*inner.store_of_new)?;
                inner.store_of_new.prepare().map(drop)
            })
            .await?;
        }
        let login = inner.sign_in.sign_in(screen).await?;
        let lock = inner.wait_for_lock().await?;
        let (task, new) = (inner.clone(), login.clone());
        off_the_runtime(self.place(), move || task.put_new(lock, new)).await?;
        Ok(login)
    }

    /// Ends the login: tells the issuer, if it can be told in time, and removes it here in any case. Once begun it is
    /// done, also if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LoginError::Store`] if it could not be removed, and [`LoginError::Busy`].
    pub async fn log_out(&self) -> Result<LogOut, LoginError> {
        let lock = self.inner.wait_for_lock().await?;
        let task = tokio::spawn(self.inner.clone().end(lock));
        task.await.unwrap_or_else(|stopped| {
            Err(StoreError::new(self.place(), format!("logging out was stopped: {stopped}")).into())
        })
    }
}

impl Inner {
    /// Waits for the lock, as long as makes sense.
    async fn wait_for_lock(&self) -> Result<LoginLock, LoginError> {
        let began = Instant::now();
        loop {
            // A login that could not be written is outlived by what a person does now.
            if let Some(unsaved) = self.desk.take_unsaved() {
                return Ok(unsaved.lock);
            }
            match self.try_lock().await? {
                Turn::Ours(lock) => return Ok(*lock),
                Turn::Busy(holder) if began.elapsed() >= LONGEST_WAIT => {
                    let holder = named(holder.as_ref());
                    return Err(LoginError::Busy { place: self.place(), holder, waited: began.elapsed() });
                }
                Turn::Busy(_) => tokio::time::sleep(a_moment()).await,
            }
        }
    }

    /// Writes a new login over whatever there was.
    fn put_new(&self, lock: LoginLock, login: Login) -> Result<(), StoreError> {
        let _held_until_it_is_written = lock;
        let store = &*self.store_of_new;
        recover(store)?;
        let before = read(store)?.map_or(0, |stored| stored.generation);
        let mut stored = StoredLogin::new(login);
        stored.generation = before.saturating_add(1);
        store.prepare()?.commit(&stored.to_text())?;
        self.desk.end_pause();
        Ok(())
    }

    /// Tells the issuer, then removes what is here, all under the lock: no renewal writes it back.
    async fn end(self, lock: LoginLock) -> Result<LogOut, LoginError> {
        let found = {
            let store = Arc::clone(&self.store);
            off_the_runtime(self.place(), move || {
                // Where the newest text cannot be put in its place, the one in place is told of.
                let _ = recover(&*store);
                read(&*store)
            })
            .await
        };
        let revocation = match found {
            Ok(None) => None,
            Ok(Some(stored)) => Some(self.revoke(&stored.login).await),
            Err(error) => {
                let reason = format!("it was not told, as the login cannot be read: {}", error.reason);
                Some(Err(RefreshError::Malformed { reason }))
            }
        };
        let store = Arc::clone(&self.store);
        let was_there = off_the_runtime(self.place(), move || {
            let _held_until_it_is_gone = lock;
            store.remove()
        })
        .await?;
        self.desk.end_pause();
        Ok(LogOut { was_logged_in: was_there, revocation })
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        let attempt = AssertUnwindSafe(self.sign_in.revoke(login)).catch_unwind();
        match tokio::time::timeout(LONGEST_REVOCATION, attempt).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_panic)) => {
                let reason = format!("the strategy of {} panicked", self.sign_in.name());
                Err(RefreshError::Malformed { reason })
            }
            Err(_elapsed) => {
                let reason = format!("nothing came within {} s", LONGEST_REVOCATION.as_secs());
                Err(RefreshError::Unreachable { reason })
            }
        }
    }
}
