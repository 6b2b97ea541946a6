//! A refreshed login that could not be written: its only copy is in memory.
//!
//! The refresh token in the store is spent and must not be presented again, so the refresh lock is kept with the new
//! login. When to retry is left to `shared`.

use std::sync::Arc;

use nexus_core::Secret;

use super::write::{WriteOutcome, replace_spent};
use crate::{
    lock::HeldRefreshLock,
    store::{StoreError, StoredLogin, TokenStore},
};

/// A refreshed login that could not be written, with everything that writing it needs.
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
    /// Writes it if the store still holds the login that was spent for it, and leaves any other in place. Returns the
    /// lock. Blocks.
    pub(super) fn save(mut self) -> Result<HeldRefreshLock, Box<(Self, StoreError)>> {
        match replace_spent(&*self.store, None, self.spent.as_ref(), &mut self.stored) {
            Ok(WriteOutcome::Written) => {
                tracing::info!(login = self.name, "a refreshed login was written after an earlier failure");
            }
            Ok(WriteOutcome::Superseded(_) | WriteOutcome::Removed) => {
                tracing::warn!(
                    login = self.name,
                    "a refreshed login was not written: its predecessor was replaced or removed in the \
                    meantime"
                );
            }
            Err(error) => return Err(Box::new((self, error))),
        }
        Ok(self.lock)
    }
}
