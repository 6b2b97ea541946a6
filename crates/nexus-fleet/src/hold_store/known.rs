//! The holds of a fleet that one process knows without a request.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use nexus_nats::{BucketChange, BucketWatch, NatsError};
use nexus_router::Hold;

use super::{
    StoreState,
    names::{PROBE, account_of_key, probe_key},
    parse,
    slots::SlotsHere,
};
use crate::{
    error::FleetError,
    fleet::{Fleet, FleetCore},
    protocol::{HOLDS_BUCKET, SLOTS_BUCKET},
};

/// Pause before the watch is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// [`PAUSE`] for a watch that is not permitted.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(60);

/// Holds as this process saw them last.
#[derive(Debug, Default)]
pub(super) struct KnownHolds {
    seen: Mutex<SeenKeys>,
    is_followed: AtomicBool,
}

/// Last revision and value of each key. `None` or `false`: the key ended.
#[derive(Debug, Default)]
struct SeenKeys {
    holds: BTreeMap<String, (u64, Option<Hold>)>,
    probes: BTreeMap<String, (u64, bool)>,
}

/// Last seen revision of each key.
#[derive(Debug)]
struct Revisions {
    holds: BTreeMap<String, u64>,
    probes: BTreeMap<String, u64>,
}

impl KnownHolds {
    /// Remembers a hold, unless a later revision was seen.
    pub(super) fn see_hold(&self, key: &str, revision: u64, value: Option<&Bytes>) {
        let mut seen = self.lock();
        if seen.holds.get(key).is_none_or(|(last, _)| *last <= revision) {
            let hold = value.and_then(|value| parse(key, value));
            seen.holds.insert(key.to_owned(), (revision, hold));
        }
    }

    /// Remembers if the probe slot is taken, unless a later revision was seen.
    pub(super) fn see_probe(&self, key: &str, revision: u64, is_taken: bool) {
        let mut seen = self.lock();
        if seen.probes.get(key).is_none_or(|(last, _)| *last <= revision) {
            seen.probes.insert(key.to_owned(), (revision, is_taken));
        }
    }

    /// Returns the holds by account.
    pub(super) fn holds(&self, here: &SlotsHere) -> Vec<(String, Hold)> {
        let seen = self.lock();
        let held = seen.holds.iter().filter_map(|(key, (_, hold))| {
            let account = account_of_key(key)?;
            let probe = probe_key(&account);
            // If this process has the probe slot, its own record is current.
            let probing = match here.contains(&probe) {
                Some(is_taken) => is_taken,
                None => seen.probes.get(&probe).is_some_and(|(_, is_taken)| *is_taken),
            };
            let mut hold = hold.clone()?;
            hold.probing = probing;
            Some((account, hold))
        });
        held.collect()
    }

    /// Starts to watch the holds, until the state or the fleet is dropped.
    pub(super) fn follow(&self, fleet: &Fleet, state: &Arc<StoreState>) {
        if !self.is_followed.swap(true, Ordering::Relaxed) {
            fleet.0.start(follow(Arc::downgrade(&fleet.0), Arc::downgrade(state)));
        }
    }

    /// Returns the last seen revision of each key: of holds, and of probes.
    fn revisions(&self) -> Revisions {
        let seen = self.lock();
        let holds = seen.holds.iter().map(|(key, (revision, _))| (key.clone(), *revision));
        let probes = seen.probes.iter().map(|(key, (revision, _))| (key.clone(), *revision));
        Revisions { holds: holds.collect(), probes: probes.collect() }
    }

    /// Forgets keys that ended while the watch was closed, because they may have left no event. Keys that changed since
    /// `before` are known to exist.
    fn forget_ended(&self, is_hold: bool, present: &BTreeSet<String>, before: &Revisions) {
        let mut seen = self.lock();
        let is_kept = |before: &BTreeMap<String, u64>, key: &String, revision: u64| {
            present.contains(key) || before.get(key) != Some(&revision)
        };
        if is_hold {
            seen.holds.retain(|key, (revision, _)| is_kept(&before.holds, key, *revision));
        } else {
            seen.probes.retain(|key, (revision, _)| is_kept(&before.probes, key, *revision));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SeenKeys> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(fleet: Weak<FleetCore>, state: Weak<StoreState>) {
    let mut was_told = false;
    loop {
        let mut pause = PAUSE;
        match follow_once(&fleet, &state).await {
            Err(error @ FleetError::Nats(NatsError::Forbidden { .. })) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!(%error, "changes of other machines' holds are not received; each hold is \
                        read when it is needed");
                }
                pause = FORBIDDEN_PAUSE;
            }
            Err(error) => tracing::debug!(%error, "changes of the fleet's holds are not received at present"),
            Ok(()) => {}
        }
        if state.strong_count() == 0 || fleet.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Watches holds and probes until a watch breaks.
async fn follow_once(fleet: &Weak<FleetCore>, state: &Weak<StoreState>) -> Result<(), FleetError> {
    let link = match fleet.upgrade() {
        // This task runs on the fleet's own thread. Do not store a strong reference, or the fleet never ends.
        Some(fleet) => fleet.link().await?,
        None => return Ok(()),
    };
    let Some(before) = state.upgrade().map(|state| state.known.revisions()) else { return Ok(()) };
    let mut holds = BucketWatch::open(&link.nats, HOLDS_BUCKET, "*").await?;
    let mut probes = BucketWatch::open(&link.nats, SLOTS_BUCKET, &format!("*.{PROBE}")).await?;
    loop {
        let (heard, is_hold) = tokio::select! {
            heard = holds.next() => (heard, true),
            heard = probes.next() => (heard, false),
        };
        let Some(state) = state.upgrade() else { return Ok(()) };
        match heard? {
            BucketChange::Key { key, revision, value } if is_hold => {
                state.known.see_hold(&key, revision, value.as_ref());
            }
            BucketChange::Key { key, revision, value } => {
                state.known.see_probe(&key, revision, value.is_some());
            }
            BucketChange::Present(keys) => state.known.forget_ended(is_hold, &keys, &before),
        }
    }
}
