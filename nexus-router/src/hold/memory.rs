//! Stores the holds of one process in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use nexus_core::BackendId;

use super::{
    Hold,
    store::{HoldStore, HoldStoreError, Revision, Slot, SlotClaim, StoredHold, pause},
};

/// Stores holds in memory until the process ends. Clones share the holds, and so do all routers that use one
/// store.
#[derive(Clone, Debug, Default)]
pub struct MemoryHoldStore {
    held: Arc<Mutex<HeldBackends>>,
    claims: ClaimedSlots,
}

/// Holds by backend, and the last used revision.
#[derive(Debug, Default)]
struct HeldBackends {
    last: u64,
    by_backend: BTreeMap<BackendId, StoredHold>,
}

impl MemoryHoldStore {
    /// Creates a store without holds.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HeldBackends> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self, stored: &StoredHold) -> StoredHold {
        let mut stored = stored.clone();
        stored.hold.probing = self.claims.contains(&Slot::Probe(stored.hold.backend.clone()));
        stored
    }
}

#[async_trait]
impl HoldStore for MemoryHoldStore {
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError> {
        Ok(self.lock().by_backend.values().map(|stored| self.shown(stored)).collect())
    }

    async fn get(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError> {
        Ok(self.lock().by_backend.get(backend).map(|stored| self.shown(stored)))
    }

    async fn swap(
        &self,
        backend: &BackendId,
        expected: Option<Revision>,
        hold: Option<Hold>,
    ) -> Result<bool, HoldStoreError> {
        let mut held = self.lock();
        if held.by_backend.get(backend).map(|stored| stored.revision) != expected {
            return Ok(false);
        }
        // Revisions never repeat, so a swap detects a hold that was removed and armed again.
        held.last += 1;
        let revision = Revision(held.last);
        match hold {
            Some(hold) => held.by_backend.insert(backend.clone(), StoredHold { hold, revision }),
            None => held.by_backend.remove(backend),
        };
        Ok(true)
    }

    async fn claim(&self, slot: &Slot) -> Result<Option<SlotClaim>, HoldStoreError> {
        Ok(self.claims.claim(slot))
    }

    async fn wait_for(&self, _slots: &[Slot], tries: u32) {
        pause(tries).await;
    }

    fn known(&self) -> Vec<Hold> {
        self.lock().by_backend.values().map(|stored| self.shown(stored).hold).collect()
    }
}

/// Slots that turns of this process have claimed. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimedSlots(Arc<Mutex<BTreeSet<Slot>>>);

/// A claimed slot. Its drop releases the slot.
struct ClaimedSlot(ClaimedSlots, Slot);

impl ClaimedSlots {
    pub(super) fn claim(&self, slot: &Slot) -> Option<SlotClaim> {
        let is_new = self.lock().insert(slot.clone());
        is_new.then(|| SlotClaim::new(ClaimedSlot(self.clone(), slot.clone())))
    }

    pub(super) fn contains(&self, slot: &Slot) -> bool {
        self.lock().contains(slot)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClaimedSlot {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}
