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
/// [`MemoryHoldStore`](super::MemoryHoldStore) stores them in this process,
/// [`FileHoldStore`](super::FileHoldStore) for a machine.
///
/// An error concerns the store, not a backend. The router warns and continues with its last knowledge; without
/// a clear answer it does not count a slot as its own.
#[async_trait]
pub trait HoldStore: fmt::Debug + Send + Sync + 'static {
    /// Every hold as it is now, by backend. [`Hold::probing`] says whether its [probe](Slot::Probe) is taken.
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError>;

    /// The hold on one backend as it is now, as in [`HoldStore::list`].
    async fn get(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError>;

    /// Replaces the hold on a backend, or removes it, if it still has this revision: `None` for no hold.
    /// Returns true if it did. [`Hold::probing`] is not stored.
    async fn swap(
        &self,
        backend: &BackendId,
        expected: Option<Revision>,
        hold: Option<Hold>,
    ) -> Result<bool, HoldStoreError>;

    /// Takes a slot, if it is free. It is free again when the claim is dropped, and when the process that has it dies.
    async fn claim(&self, slot: &Slot) -> Result<Option<SlotClaim>, HoldStoreError>;

    /// Waits until one of these slots, each of which was found to be taken, may be free: it is worth asking again. `tries` is how often
    /// that was waited for before, so that who waits long asks seldom. It may be dropped meanwhile.
    async fn wait_for(&self, slots: &[Slot], tries: u32);

    /// The holds as this process saw them last. It does not wait.
    fn known(&self) -> Vec<Hold>;
}

/// First and longest pause between two requests for a slot whose release is not announced, as for a lock of the
/// operating system.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Implements [`HoldStore::wait_for`] for a store without announcements of slots.
pub(super) async fn pause(tries: u32) {
    tokio::time::sleep(PAUSES[0].saturating_mul(1 << tries.min(10)).min(PAUSES[1])).await;
}

/// Version of a hold in a store. A hold that was removed and armed again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// A hold, as a store has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHold {
    /// The hold.
    pub hold: Hold,
    /// Its version.
    pub revision: Revision,
}

/// Something that one turn at a time has.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Finding out whether a backend's hold is over.
    Probe(BackendId),
    /// Being the turn that gets the next of a backend's turns at once. Without it, a process with many turns would take each
    /// that it gives back for itself, and a turn of another one would wait for all of them.
    Next(BackendId),
    /// One of the turns that a backend runs at once, counted from zero up to its limit.
    Turn(BackendId, usize),
}

/// A slot that was taken. It is given back by the drop, which must not block.
pub struct SlotClaim(#[expect(dead_code, reason = "it is only dropped")] Box<dyn Send + Sync>);

impl SlotClaim {
    /// A claim whose slot is given back when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for SlotClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlotClaim")
    }
}

/// Error of a store.
#[derive(Debug)]
pub struct HoldStoreError(Box<dyn Error + Send + Sync>);

impl HoldStoreError {
    /// An error for this reason.
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
