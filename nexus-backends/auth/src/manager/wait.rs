//! Waiting for a fresher token: for a refresh by another task or process, or for a refresh that this task starts.
//!
//! The tasks of one process queue up. The task at the head of the queue polls the lock often, the others rarely. With
//! 16 processes of 20 tasks each, 16 tasks poll often. A task reads the store before it tries the lock, and usually
//! finds the refreshed login there.
//!
//! A waiting future may not be polled for long without being dropped, so it never holds the lock. A spawned task, which
//! the runtime always polls, takes the lock and refreshes the login.

use std::time::Duration;

use nexus_core::{Credential, CredentialError};
use tokio::time::{Instant, timeout};

use super::{
    decision::{self, TokenRequest},
    in_flight::OperationGuard,
    managed_login::{LONGEST_WAIT, ManagedLogin, holder_name, poll_interval},
    refresh::{HeldLock, Refresh},
    store_access::unusable,
};
use crate::{
    lock::{LockAttempt, LockHolder},
    store::StoredLogin,
};

/// Time that a task waits to reach the head of the queue. After it, the task tries the lock anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// Result of one attempt to refresh.
enum RefreshAttempt {
    /// The refresh ended, with success or failure.
    Over(Result<Option<Credential>, CredentialError>),
    /// Another holder has the lock, or the lock file was removed before anything was spent.
    Busy(Option<LockHolder>),
    /// The lock cannot be used, or the refresh task was stopped.
    Failed(CredentialError),
}

impl ManagedLogin {
    /// Waits for a refresh elsewhere, or refreshes the login.
    pub(super) async fn wait_for_refresh(
        &self,
        request: &TokenRequest,
        mut at_hand: StoredLogin,
    ) -> Result<Option<Credential>, CredentialError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        // The head of the queue tries the lock at once. Other tasks first check if the current token
        // suffices.
        let mut first = self.shared.refresh_queue().try_lock().ok();
        let mut others = first.is_none().then_some(None);
        loop {
            if let Some(holder) = others.take() {
                if let Some(settled) = self.settle_for_now(request, &at_hand) {
                    return settled;
                }
                if Instant::now() >= deadline {
                    let error = self.lock_timeout(holder.as_ref());
                    return self.without_refresh(request, &at_hand, error);
                }
                match &first {
                    Some(_) => tokio::time::sleep(poll_interval()).await,
                    None => first = timeout(PATIENCE, self.shared.refresh_queue().lock()).await.ok(),
                }
                // Another task or process may have written a fresher login by now.
                at_hand = self.look().await?.ok_or_else(|| self.missing())?;
                if let Some(settled) = self.settle(request, &at_hand) {
                    return settled;
                }
            }
            // After a recent failure, do not contact the issuer again.
            if let Some(failure) = self.shared.pause() {
                return self.without_refresh(request, &at_hand, failure.at(self.place()));
            }
            match self.try_to_refresh(request).await {
                RefreshAttempt::Over(outcome) => return outcome,
                RefreshAttempt::Busy(holder) => others = Some(holder),
                RefreshAttempt::Failed(error) => return self.without_refresh(request, &at_hand, error),
            }
        }
    }

    /// Takes the lock if it is free, and refreshes the login on a task that continues if this future is dropped.
    async fn try_to_refresh(&self, request: &TokenRequest) -> RefreshAttempt {
        // Count the operation before its task starts, so that `finish_refreshes` cannot miss it.
        let (managed, request, in_flight) = (self.clone(), request.clone(), OperationGuard::begin());
        let task = tokio::spawn(async move {
            let _in_flight = in_flight;
            let held = match managed.shared.take_pending_write() {
                // A pending write already owns the lock.
                Some(pending_write) => HeldLock::WithPendingWrite(Box::new(pending_write)),
                None => match managed.try_lock().await {
                    Ok(LockAttempt::Acquired(lock)) => HeldLock::Lock(lock),
                    Ok(LockAttempt::Busy(holder)) => return RefreshAttempt::Busy(holder),
                    Err(error) => return RefreshAttempt::Failed(unusable(error)),
                },
            };
            let outcome = Refresh::new(managed, request, held).run().await;
            outcome.map_or(RefreshAttempt::Busy(None), RefreshAttempt::Over)
        });
        task.await.unwrap_or_else(|stopped| {
            let why = if stopped.is_panic() { "it panicked" } else { "the runtime is shutting down" };
            let reason = format!("the refresh was stopped: {why}");
            RefreshAttempt::Failed(CredentialError::Unreachable { place: self.place(), reason })
        })
    }

    /// Returns the current token if its remaining lifetime makes waiting unnecessary.
    fn settle_for_now(
        &self,
        request: &TokenRequest,
        at_hand: &StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        request
            .is_usable_without_waiting(&at_hand.login, self.now())
            .then(|| Ok(Some(decision::credential(&at_hand.login))))
    }

    fn lock_timeout(&self, holder: Option<&LockHolder>) -> CredentialError {
        let reason = format!("{} has been refreshing it for too long", holder_name(holder));
        CredentialError::Unreachable { place: self.place(), reason }
    }
}
