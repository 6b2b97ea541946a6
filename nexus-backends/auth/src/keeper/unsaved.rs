//! A login that was renewed and could not be written: there is no copy of it but the one in memory.
//!
//! The refresh token in the store is spent, and nobody else may try it, so the lock is kept with the new login. Whoever
//! wants a credential tries to write it first; beside that, a task tries again and again.

use std::{sync::Arc, time::Duration};

use nexus_core::Secret;
use tokio::runtime::Handle;

use super::{
    chain::place_of,
    desk::Desk,
    put::{Put, put},
    under_way::UnderWay,
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
pub(super) struct Unsaved {
    pub(super) lock: HeldRefreshLock,
    pub(super) stored: StoredLogin,
    /// The refresh token that was spent for it.
    pub(super) spent: Option<Secret>,
    pub(super) store: Arc<dyn TokenStore>,
    /// The name of the login.
    pub(super) name: String,
}

impl Unsaved {
    /// Writes it, if the store still holds what was spent for it; whatever else is there stays. Returns the lock.
    /// Blocks.
    pub(super) fn save(mut self) -> Result<HeldRefreshLock, Box<(Self, StoreError)>> {
        match put(&*self.store, None, self.spent.as_ref(), &mut self.stored) {
            Ok(Put::Written) => {
                tracing::info!(login = self.name, "a renewed login could be written after all");
            }
            Ok(Put::Overtaken(_) | Put::Removed) => {
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

impl Desk {
    /// Keeps what could not be written, and sees to it that it is tried again.
    pub(super) fn keep(self: &Arc<Self>, unsaved: Unsaved) {
        let mut known = self.known();
        known.unsaved = Some(unsaved);
        if known.saver.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            known.saver = Some(runtime.spawn(save_later(Arc::clone(self))));
        }
    }

    /// Hands out what could not be written.
    pub(super) fn take_unsaved(&self) -> Option<Unsaved> {
        self.known().unsaved.take()
    }

    /// Tries once to write what could not be written. It stays here until somebody is at work on it.
    pub(super) async fn save(self: &Arc<Self>) {
        let (desk, under_way) = (Arc::clone(self), UnderWay::begin());
        let try_once = move || {
            let _until_it_is_over = under_way;
            match desk.take_unsaved().map(Unsaved::save) {
                Some(Ok(_lock)) => desk.end_pause(),
                Some(Err(failed)) => {
                    let (unsaved, error) = *failed;
                    tracing::warn!(login = unsaved.name, %error, "a renewed login can still not be written");
                    desk.keep(unsaved);
                }
                None => {}
            }
        };
        // It fails only with the runtime.
        let _ = tokio::task::spawn_blocking(try_once).await;
    }

    /// The name and the place of what could not be written.
    pub(super) fn unsaved(&self) -> Option<(String, String)> {
        self.known().unsaved.as_ref().map(|unsaved| (unsaved.name.clone(), place_of(&*unsaved.store)))
    }

    /// Lets the task end that tries again, if there is nothing left to try.
    fn dismiss_saver(&self) -> bool {
        let mut known = self.known();
        let is_done = known.unsaved.is_none();
        if is_done {
            known.saver = None;
        }
        is_done
    }
}

/// Tries again until nothing is left. What somebody else has taken out comes back here, or is written.
async fn save_later(desk: Arc<Desk>) {
    let mut pause = FIRST_PAUSE;
    while !desk.dismiss_saver() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        desk.save().await;
    }
}
