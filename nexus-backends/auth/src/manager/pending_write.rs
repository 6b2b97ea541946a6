//! A login that was renewed and could not be written: there is no copy of it but the one in memory.
//!
//! The refresh token in the store is spent, and nobody else may try it, so the lock is kept with the new login. Whoever
//! wants a credential tries to write it first; beside that, a task tries again and again.

use std::{sync::Arc, time::Duration};

use nexus_core::Secret;
use tokio::runtime::Handle;

use super::{
    in_flight::InFlight,
    managed_login::place_of,
    shared::SharedState,
    write::{WriteOutcome, replace_spent},
};
use crate::{
    lock::HeldRefreshLock,
    store::{StoreError, StoredLogin, TokenStore},
};

/// How long after a failure it is tried again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A login that was renewed and could not be written, with all that is needed to do so.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub(super) lock: HeldRefreshLock,
    pub(super) stored: StoredLogin,
    /// The refresh token that was spent for it.
    pub(super) spent: Option<Secret>,
    pub(super) store: Arc<dyn TokenStore>,
    /// The name of the login.
    pub(super) name: String,
}

impl PendingWrite {
    /// Writes it, if the store still holds what was spent for it; whatever else is there stays. Returns the lock.
    /// Blocks.
    pub(super) fn save(mut self) -> Result<HeldRefreshLock, Box<(Self, StoreError)>> {
        match replace_spent(&*self.store, None, self.spent.as_ref(), &mut self.stored) {
            Ok(WriteOutcome::Written) => {
                tracing::info!(login = self.name, "a renewed login could be written after all");
            }
            Ok(WriteOutcome::Superseded(_) | WriteOutcome::Removed) => {
                tracing::warn!(
                    login = self.name,
                    "a renewed login was not written: another one, or none, has taken the place of the one before it"
                );
            }
            Err(error) => return Err(Box::new((self, error))),
        }
        Ok(self.lock)
    }
}

impl SharedState {
    /// Keeps what could not be written, and sees to it that it is tried again.
    pub(super) fn keep(self: &Arc<Self>, pending_write: PendingWrite) {
        let mut known = self.known();
        known.pending_write = Some(pending_write);
        if known.retry_task.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            known.retry_task = Some(runtime.spawn(retry_until_written(Arc::clone(self))));
        }
    }

    /// Hands out what could not be written.
    pub(super) fn take_pending_write(&self) -> Option<PendingWrite> {
        self.known().pending_write.take()
    }

    /// Tries once to write what could not be written. It stays here until somebody is at work on it.
    pub(super) async fn save(self: &Arc<Self>) {
        let (shared, in_flight) = (Arc::clone(self), InFlight::begin());
        let try_once = move || {
            let _in_flight = in_flight;
            match shared.take_pending_write().map(PendingWrite::save) {
                Some(Ok(_lock)) => shared.end_pause(),
                Some(Err(failed)) => {
                    let (pending_write, error) = *failed;
                    tracing::warn!(login = pending_write.name, %error, "a renewed login can still not be written");
                    shared.keep(pending_write);
                }
                None => {}
            }
        };
        // It fails only with the runtime.
        let _ = tokio::task::spawn_blocking(try_once).await;
    }

    /// The name and the place of what could not be written.
    pub(super) fn pending_write(&self) -> Option<(String, String)> {
        self.known()
            .pending_write
            .as_ref()
            .map(|pending_write| (pending_write.name.clone(), place_of(&*pending_write.store)))
    }

    /// Lets the task end that tries again, if there is nothing left to try.
    fn end_retries_if_written(&self) -> bool {
        let mut known = self.known();
        let is_done = known.pending_write.is_none();
        if is_done {
            known.retry_task = None;
        }
        is_done
    }
}

/// Tries again until nothing is left. What somebody else has taken out comes back here, or is written.
async fn retry_until_written(shared: Arc<SharedState>) {
    let mut pause = FIRST_PAUSE;
    while !shared.end_retries_if_written() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        shared.save().await;
    }
}
