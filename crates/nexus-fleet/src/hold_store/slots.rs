//! Slots: keys that a claim renews while it exists.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use nexus_nats::{KeyLease, NatsError, RENEW_EVERY, TENURE_TIME};
use nexus_router::hold::SlotClaim;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use crate::{error::FleetError, fleet::FleetCore, link::Link, protocol::SLOTS_BUCKET};

/// Pause before a renewal without a clear answer is repeated.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait for this process to release a slot.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// Slots that this process has, or is releasing.
#[derive(Debug, Default)]
pub(super) struct SlotsHere(Mutex<BTreeMap<String, LocalSlot>>);

/// State of a slot of this process.
#[derive(Debug)]
enum LocalSlot {
    Taken,
    /// The slot is being released. The receiver ends when it is free.
    GivingBack(watch::Receiver<()>),
}

impl SlotsHere {
    /// Returns true if this process has a slot. `None`: this process does not have it, and only the server knows its state.
    pub(super) fn contains(&self, key: &str) -> Option<bool> {
        self.lock().get(key).map(|here| matches!(here, LocalSlot::Taken))
    }

    /// Returns true if this process has a slot. Waits first if the slot is being released.
    pub(super) async fn settled(&self, key: &str) -> bool {
        let mut giving_back = match self.lock().get(key) {
            None => return false,
            Some(LocalSlot::Taken) => return true,
            Some(LocalSlot::GivingBack(until)) => until.clone(),
        };
        // Ignore the result: the next line reads the state, after a release as well as after the time limit.
        let _ = tokio::time::timeout(SETTLE_TIME, giving_back.changed()).await;
        self.contains(key) == Some(true)
    }

    /// Waits until no slot is being released.
    pub(super) async fn settle(&self) {
        let waiting: Vec<_> = self.lock().values().filter_map(LocalSlot::giving_back).collect();
        let all = futures::future::join_all(waiting.into_iter().map(async |mut until| until.changed().await));
        let _ = tokio::time::timeout(SETTLE_TIME, all).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LocalSlot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalSlot {
    fn giving_back(&self) -> Option<watch::Receiver<()>> {
        match self {
            Self::Taken => None,
            Self::GivingBack(until) => Some(until.clone()),
        }
    }
}

/// Takes slots.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) link: Link,
    /// A weak reference: a claim must not keep the fleet open. A program that drops its fleet also loses its slots.
    pub(super) fleet: Weak<FleetCore>,
    pub(super) here: Arc<SlotsHere>,
}

impl Slots {
    /// Takes a slot, if it is free.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the claim may have succeeded. Then the slot is free after 30 s.
    pub(super) async fn claim(self, key: String) -> Result<Option<SlotClaim>, FleetError> {
        // The value is unique, so no other claim of any process has it.
        let value = Bytes::from(uuid::Uuid::new_v4().simple().to_string());
        let Some(lease) = KeyLease::take(&self.link.nats, SLOTS_BUCKET, key.clone(), value.clone()).await?
        else {
            return Ok(None);
        };
        let (give_back, told) = oneshot::channel();
        self.here.lock().insert(key.clone(), LocalSlot::Taken);
        let claim =
            SlotGuard { key: key.clone(), here: self.here, fleet: self.fleet, give_back: Some(give_back) };
        tokio::spawn(keep(self.link, key, value, lease, told));
        Ok(Some(SlotClaim::new(claim)))
    }
}

/// Renews a slot, and releases it when dropped.
struct SlotGuard {
    key: String,
    here: Arc<SlotsHere>,
    fleet: Weak<FleetCore>,
    give_back: Option<oneshot::Sender<GivingBack>>,
}

/// A slot that is being released. It keeps the fleet open until then.
struct GivingBack {
    key: String,
    here: Arc<SlotsHere>,
    _ended: watch::Sender<()>,
    _fleet: Arc<FleetCore>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let (key, here) = (std::mem::take(&mut self.key), Arc::clone(&self.here));
        let Some((fleet, give_back)) = self.fleet.upgrade().zip(self.give_back.take()) else {
            here.lock().remove(&key);
            return;
        };
        let (ended, until) = watch::channel(());
        here.lock().insert(key.clone(), LocalSlot::GivingBack(until));
        // If no task receives this, the slot was lost. The drop of the unsent value then removes the entry in `here`.
        drop(give_back.send(GivingBack { key, here, _ended: ended, _fleet: fleet }));
    }
}

impl Drop for GivingBack {
    fn drop(&mut self) {
        self.here.lock().remove(&self.key);
    }
}

/// Renews a slot until it is released.
async fn keep(
    link: Link,
    key: String,
    value: Bytes,
    mut lease: KeyLease,
    mut told: oneshot::Receiver<GivingBack>,
) {
    let (mut renewed_at, mut pause) = (Instant::now(), RENEW_EVERY);
    loop {
        tokio::select! {
            told = &mut told => {
                lease.release().await;
                drop(told);
                return;
            }
            () = tokio::time::sleep(pause) => {}
        }
        let asked_at = Instant::now();
        match lease.renew(value.clone(), |found| *found == *value).await {
            Ok(true) => (renewed_at, pause) = (asked_at, RENEW_EVERY),
            // The slot has expired. If it is still free, take it again.
            Ok(false) => match KeyLease::take(&link.nats, SLOTS_BUCKET, key.clone(), value.clone()).await {
                Ok(Some(taken)) => {
                    tracing::warn!(
                        key,
                        "the slot of a turn was free for some time, because the servers could not be reached"
                    );
                    (lease, renewed_at, pause) = (taken, asked_at, RENEW_EVERY);
                }
                Ok(None) => {
                    tracing::error!(
                        key,
                        "another turn has taken the slot of a turn: more turns run than the limit allows"
                    );
                    return;
                }
                Err(error) => pause = unrenewed(&key, &error, renewed_at),
            },
            Err(error) => pause = unrenewed(&key, &error, renewed_at),
        }
    }
}

/// Logs that a slot could not be renewed, and returns the pause before the next attempt.
fn unrenewed(key: &str, error: &NatsError, renewed_at: Instant) -> Duration {
    if renewed_at.elapsed() < TENURE_TIME {
        tracing::debug!(%error, key, "the slot of a turn could not be renewed");
    } else {
        tracing::warn!(%error, key, "the slot of a turn was not renewed in time, so another turn may take it");
    }
    AGAIN
}
