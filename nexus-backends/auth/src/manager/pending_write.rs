//! A refreshed login that could not be written, so its only copy is in memory.
//!
//! The refresh token in the store is spent and must not be presented again. So the refresh lock stays acquired together
//! with the new login. The module `shared` decides when to retry.

use std::sync::Arc;

use nexus_core::Secret;

use super::write::{WriteOutcome, replace_spent};
use crate::{
    lock::HeldRefreshLock,
    store::{StoreError, StoredLogin, TokenStore},
};

/// A refreshed login that could not be written, with everything needed to write it.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub(super) lock: HeldRefreshLock,
    pub(super) stored: StoredLogin,
    /// Refresh token that was spent for the new login.
    pub(super) spent: Option<Secret>,
    pub(super) store: Arc<dyn TokenStore>,
    /// Name of the login.
    pub(super) name: String,
}

impl PendingWrite {
    /// Writes the new login if the store still has the login whose token was spent, and leaves any other login in
    /// place. Returns the lock. Blocks.
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
