//! Sign-in and log-out, which a person requests.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::time::Instant;

use super::{
    CredentialManager,
    in_flight::OperationGuard,
    managed_login::{LONGEST_WAIT, ManagedLogin, holder_name, poll_interval},
    refresh::HeldLock,
    store_access::{catching_panics, on_blocking_thread, read, recover},
    write::overwrite,
};
use crate::{
    Login, LoginScreen, LoginStep, RefreshError, Revocation, SignInError,
    lock::LockAttempt,
    store::{StoreError, StoredLogin, TokenStore},
};

/// Time limit of a revocation. After it, the local login is removed anyway. Source: our own choice.
const LONGEST_REVOCATION: Duration = Duration::from_secs(10);

/// Result of a log-out.
#[derive(Debug)]
pub struct LogOut {
    /// True if a login existed.
    pub was_logged_in: bool,
    /// Result of the revocation at the issuer; `None` if there was nothing to revoke. After an error the tokens stay
    /// valid at the issuer until they expire, but this machine has no copy of them.
    pub revocation: Option<Result<Revocation, RefreshError>>,
}

/// Reason of a failed sign-in or log-out.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The sign-in failed.
    #[error(transparent)]
    SignIn(#[from] SignInError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process holds the refresh lock and does not release it.
    #[error("the login in {place} has been in use by {holder} for at least {} s", .waited.as_secs())]
    Busy {
        /// Location of the login.
        place: String,
        /// Process that holds the lock, as far as it is known.
        holder: String,
        /// Duration of the wait.
        waited: Duration,
    },
}

impl CredentialManager {
    /// Signs a person in. First checks that the login can be stored. An earlier login stays valid until the new one is
    /// written.
    ///
    /// An unreadable earlier login is moved aside at that point, and the screen shows its new path. If the future is
    /// dropped after the person has finished, the new login is still written.
    ///
    /// # Errors
    ///
    /// Any [`LoginError`].
    pub async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, LoginError> {
        let managed = &self.managed;
        // Check the store first: a person should not sign in if the login cannot be written.
        managed.under_lock(|managed, held| managed.check_before_sign_in(held)).await?;
        // No lock is acquired here, because a person may need minutes.
        let login = managed.sign_in.sign_in(screen).await?;
        let new = login.clone();
        if let Some(place) = managed.under_lock(move |managed, held| managed.write_new(held, new)).await? {
            let text = format!("The stored login could not be read. It was moved to {place}.");
            screen.show(&LoginStep::Note(text));
        }
        Ok(login)
    }

    /// Ends the login. Revokes it at the issuer if that succeeds in time, and removes it from this machine in any case.
    /// Once started, the log-out runs to its end, even if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`LoginError::Store`] if the login could not be removed, and [`LoginError::Busy`].
    pub async fn log_out(&self) -> Result<LogOut, LoginError> {
        let end = |managed: ManagedLogin| async move {
            let held = managed.wait_for_lock().await?;
            managed.end(held).await
        };
        self.managed.on_a_task(end).await
    }
}

impl ManagedLogin {
    /// Runs work that must not be interrupted, on a task that [`finish_refreshes`](super::finish_refreshes) awaits.
    async fn on_a_task<T, F>(&self, work: impl FnOnce(Self) -> F) -> Result<T, LoginError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, LoginError>> + Send + 'static,
    {
        let (work, in_flight) = (work(self.clone()), OperationGuard::begin());
        let task = tokio::spawn(async move {
            let _in_flight = in_flight;
            work.await
        });
        task.await.unwrap_or_else(|stopped| {
            let why = if stopped.is_panic() { "it panicked" } else { "the runtime is shutting down" };
            Err(StoreError::new(self.place(), format!("the change of the login was interrupted: {why}"))
                .into())
        })
    }

    /// Waits for the refresh lock, then runs blocking work under it.
    async fn under_lock<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, HeldLock) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, LoginError> {
        let wait_and_work = |managed: Self| async move {
            let held = managed.wait_for_lock().await?;
            Ok(on_blocking_thread(managed.place(), move || work(&managed, held)).await?)
        };
        self.on_a_task(wait_and_work).await
    }

    /// Waits for the refresh lock, at most [`LONGEST_WAIT`]. Must run on a spawned task: a task that holds the lock
    /// must always be polled.
    async fn wait_for_lock(&self) -> Result<HeldLock, LoginError> {
        let began = Instant::now();
        loop {
            if let Some(pending_write) = self.shared.take_pending_write() {
                return Ok(HeldLock::WithPendingWrite(Box::new(pending_write)));
            }
            match self.try_lock().await? {
                LockAttempt::Acquired(lock) => return Ok(HeldLock::Lock(lock)),
                LockAttempt::Busy(holder) if began.elapsed() >= LONGEST_WAIT => {
                    let holder = holder_name(holder.as_ref());
                    return Err(LoginError::Busy { place: self.place(), holder, waited: began.elapsed() });
                }
                LockAttempt::Busy(_) => tokio::time::sleep(poll_interval()).await,
            }
        }
    }

    /// Checks that a new login can be written, and that the store has no login that can be neither read nor moved
    /// aside.
    fn check_before_sign_in(&self, held: HeldLock) -> Result<(), StoreError> {
        let _lock = match held {
            HeldLock::Lock(lock) => lock,
            HeldLock::WithPendingWrite(pending_write) => pending_write.save().map_err(|failed| {
                let (pending_write, error) = *failed;
                self.shared.keep(pending_write);
                error
            })?,
        };
        let store = &*self.store_of_new;
        match recover(store).and_then(|()| read(store)) {
            Ok(_) => catching_panics(store, TokenStore::prepare).map(drop),
            Err(error) => catching_panics(store, TokenStore::damaged)?.map(drop).ok_or(error),
        }
    }

    /// Writes a new login over the previous one, and discards a pending write of the previous one. If the previous
    /// login cannot be parsed, returns the path to which it was moved.
    fn write_new(&self, held: HeldLock, login: Login) -> Result<Option<String>, StoreError> {
        let store = &*self.store_of_new;
        let write_over = || {
            let mut aside = None;
            let there = match recover(store).and_then(|()| read(store)) {
                Ok(there) => there,
                Err(error) => {
                    let damaged = catching_panics(store, TokenStore::damaged)?.ok_or(error)?;
                    aside = Some(damaged.set_aside()?);
                    // The file of an interrupted write may contain the complete login.
                    recover(store).and_then(|()| read(store))?
                }
            };
            let pending_write = match &held {
                HeldLock::Lock(_) => 0,
                HeldLock::WithPendingWrite(pending_write) => pending_write.stored.generation,
            };
            // The new login must count as newer than a login that still waits to be written.
            let before = there.map_or(0, |stored| stored.generation).max(pending_write);
            let mut stored = StoredLogin::new(login);
            stored.generation = before.saturating_add(1);
            overwrite(store, None, &stored).map(|()| aside)
        };
        let outcome = write_over();
        match (&outcome, held) {
            // The pending login is still the newest one, so its write is retried.
            (Err(_), HeldLock::WithPendingWrite(pending_write)) => self.shared.keep(*pending_write),
            (Err(_), HeldLock::Lock(_)) => {}
            (Ok(_), _) => self.shared.forget_previous_login(),
        }
        outcome
    }

    /// Revokes and removes the login under the lock, so that no refresh writes it back.
    async fn end(self, held: HeldLock) -> Result<LogOut, LoginError> {
        let found = {
            let store = Arc::clone(&self.store);
            on_blocking_thread(self.place(), move || {
                // If recovery cannot move the newest login to its path, the error names the login at that path.
                let _ = recover(&*store);
                read(&*store)
            })
            .await
        };
        let found = match &held {
            HeldLock::Lock(_) => found,
            // The store still has the login whose token is spent, so revoke the pending one.
            HeldLock::WithPendingWrite(pending_write) => Ok(Some(pending_write.stored.clone())),
        };
        let revocation = match found {
            Ok(None) => None,
            Ok(Some(stored)) => Some(self.revoke(&stored.login).await),
            Err(error) => {
                let reason = format!("the login cannot be read: {}", error.reason);
                Some(Err(RefreshError::Unasked { reason }))
            }
        };
        let (managed, is_revoked) = (self.clone(), matches!(revocation, Some(Ok(_))));
        let was_logged_in = on_blocking_thread(self.place(), move || {
            let removed = catching_panics(&*managed.store, TokenStore::remove);
            match (&removed, held) {
                // The pending login is still the current one, so keep it for the next attempt.
                (Err(_), HeldLock::WithPendingWrite(pending_write)) if !is_revoked => {
                    managed.shared.keep(*pending_write);
                }
                _ => {}
            }
            removed
        })
        .await?;
        self.shared.forget_previous_login();
        Ok(LogOut { was_logged_in, revocation })
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
                let reason = format!("no answer arrived within {} s", LONGEST_REVOCATION.as_secs());
                Err(RefreshError::Unreachable { reason })
            }
        }
    }
}
