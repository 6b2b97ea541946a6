//! Storage of holds, and of slots that only one process may have.

use std::{error::Error, fmt, time::Duration};

use async_trait::async_trait;
use nexus_core::BackendId;
use serde::{Deserialize, Serialize};

use super::Hold;

/// Stores the holds of one process or of many.
///
/// The store makes no decisions: the router arms, clears and probes holds. It has two atomic operations, which
/// no other process can interrupt: replace a hold that still has a known revision ([`swap`](Self::swap)), and
/// claim a free slot ([`claim`](Self::claim)).
///
/// [`MemoryHoldStore`](super::MemoryHoldStore) stores the holds of this process, [`FileHoldStore`](super::FileHoldStore) those of a
/// machine.
///
/// An error concerns the store, not a backend. The router logs a warning and uses the last known holds. If a claim fails, the router
/// treats the slot as taken.
#[async_trait]
pub trait HoldStore: fmt::Debug + Send + Sync + 'static {
    /// Returns every hold with its current state, by backend. [`Hold::probing`] is true if its [probe slot](Slot::Probe) is taken.
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError>;

    /// Returns the hold on one backend, as in [`HoldStore::list`].
    async fn get(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError>;

    /// Replaces or removes the hold on a backend, if its revision is still `expected`; `None` stands for no hold. Returns true if it
    /// did. [`Hold::probing`] is not stored.
    async fn swap(
        &self,
        backend: &BackendId,
        expected: Option<Revision>,
        hold: Option<Hold>,
    ) -> Result<bool, HoldStoreError>;

    /// Claims a slot, if it is free. The slot becomes free when the claim is dropped or its process dies.
    async fn claim(&self, slot: &Slot) -> Result<Option<SlotClaim>, HoldStoreError>;

    /// Waits until one of these taken slots may be free, so that another claim is worthwhile. `tries` is the number of earlier waits,
    /// so that the store can lengthen the pauses. The caller may drop the future.
    async fn wait_for(&self, slots: &[Slot], tries: u32);

    /// Returns the holds as this process last saw them. Does not wait.
    fn known(&self) -> Vec<Hold>;
}

/// First and longest pause between two claims of a slot whose release is not announced, such as a lock of the operating system.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Implements [`HoldStore::wait_for`] for a store that does not announce released slots.
pub(super) async fn pause(tries: u32) {
    // Bound the exponent, so that the shift cannot overflow.
    tokio::time::sleep(PAUSES[0].saturating_mul(1 << tries.min(10)).min(PAUSES[1])).await;
}

/// Version of a hold in a store. A hold that was removed and armed again has a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// A hold with its revision in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHold {
    /// The hold.
    pub hold: Hold,
    /// Revision of the hold.
    pub revision: Revision,
}

/// A right that only one turn at a time has.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The right to test whether a backend works again after a hold.
    Probe(BackendId),
    /// The right to claim the backend's next free [`Turn`](Slot::Turn) slot. Without it, a process with many turns would claim again
    /// each slot that it releases, and other processes would wait for all of its turns.
    Next(BackendId),
    /// One of the concurrent turns of a backend, counted from zero up to its limit.
    Turn(BackendId, usize),
}

/// A claimed slot. Dropping the claim releases the slot and must not block.
pub struct SlotClaim(#[expect(dead_code, reason = "it is only dropped")] Box<dyn Send + Sync>);

impl SlotClaim {
    /// Creates a claim whose slot is released when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for SlotClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlotClaim")
    }
}

/// Failure of a hold store.
#[derive(Debug)]
pub struct HoldStoreError(Box<dyn Error + Send + Sync>);

impl HoldStoreError {
    /// Creates an error with this reason.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for HoldStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store of holds does not answer: {}", self.0)
    }
}

impl Error for HoldStoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
