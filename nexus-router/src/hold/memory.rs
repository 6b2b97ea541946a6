//! Holds of one process.

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

/// Holds that end with this process. Clones share them, and so do the routers that are given one.
#[derive(Clone, Debug, Default)]
pub struct MemoryHoldStore {
    held: Arc<Mutex<HeldBackends>>,
    claims: ClaimedSlots,
}

/// Holds by backend, with the number of the last one.
#[derive(Debug, Default)]
struct HeldBackends {
    last: u64,
    by_backend: BTreeMap<BackendId, StoredHold>,
}

impl MemoryHoldStore {
    /// An empty one.
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

/// The slots that turns of this process have. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimedSlots(Arc<Mutex<BTreeSet<Slot>>>);

/// Gives a slot back when it is dropped.
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
