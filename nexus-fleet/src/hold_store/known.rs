//! What one process knows of the holds of a fleet, without asking.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::kv::{Entry, Operation, Store, Watch};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use nexus_router::Hold;

use super::{
    State,
    names::{PROBE, account_of_key, probe_key},
    parse,
    slots::SlotsHere,
};
use crate::{
    fleet::{Fleet, Shared},
    protocol::{HOLDS_BUCKET, SLOTS_BUCKET},
};

/// How long to wait before the watch is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The holds as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Known {
    seen: Mutex<Seen>,
    is_followed: AtomicBool,
}

/// By key, with the revision. `None` and `false`: the key ended.
#[derive(Debug, Default)]
struct Seen {
    holds: BTreeMap<String, (u64, Option<Hold>)>,
    probes: BTreeMap<String, (u64, bool)>,
}

impl Known {
    /// Remembers a hold, unless a later one was seen.
    pub(super) fn see_hold(&self, key: &str, revision: u64, value: Option<&Bytes>) {
        let mut seen = self.lock();
        if seen.holds.get(key).is_none_or(|(last, _)| *last <= revision) {
            let hold = value.and_then(|value| parse(key, value));
            seen.holds.insert(key.to_owned(), (revision, hold));
        }
    }

    /// Remembers whether a probe is taken, unless something later was seen.
    pub(super) fn see_probe(&self, key: &str, revision: u64, is_taken: bool) {
        let mut seen = self.lock();
        if seen.probes.get(key).is_none_or(|(last, _)| *last <= revision) {
            seen.probes.insert(key.to_owned(), (revision, is_taken));
        }
    }

    /// The holds by account.
    pub(super) fn holds(&self, here: &SlotsHere) -> Vec<(String, Hold)> {
        let seen = self.lock();
        let held = seen.holds.iter().filter_map(|(key, (_, hold))| {
            let account = account_of_key(key)?;
            let probe = probe_key(&account);
            // Of our own it is known at any moment.
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

    /// Hears of holds from now on, until the state or the fleet is dropped.
    pub(super) fn follow(&self, fleet: &Fleet, state: &Arc<State>) {
        if !self.is_followed.swap(true, Ordering::Relaxed) {
            fleet.0.start(follow(Arc::downgrade(&fleet.0), Arc::downgrade(state)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(fleet: Weak<Shared>, state: Weak<State>) {
    loop {
        if let Err(reason) = follow_once(&fleet, &state).await {
            tracing::debug!(reason, "the holds of the fleet are not heard of just now");
        }
        if state.strong_count() == 0 || fleet.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Follows until the watch breaks.
async fn follow_once(fleet: &Weak<Shared>, state: &Weak<State>) -> Result<(), String> {
    let link = match fleet.upgrade() {
        // This runs where the connection is served: the fleet must not be kept beyond this.
        Some(fleet) => fleet.link().await.map_err(|error| error.to_string())?,
        None => return Ok(()),
    };
    let open =
        async |bucket: &str| link.jetstream.get_key_value(bucket).await.map_err(|error| error.to_string());
    let (holds, slots) = (open(HOLDS_BUCKET).await?, open(SLOTS_BUCKET).await?);
    let probes = format!("*.{PROBE}");
    let mut watches = futures::stream::select(watch(&holds, ">").await?, watch(&slots, &probes).await?);
    // What ended while nobody listened may have left no trace.
    let (held, probed) = (keys(&holds).await?, keys(&slots).await?);
    match state.upgrade() {
        Some(state) => {
            let mut seen = state.known.lock();
            seen.holds.retain(|key, _| held.contains(key));
            seen.probes.retain(|key, _| probed.contains(key));
        }
        None => return Ok(()),
    }
    while let Some(entry) = watches.next().await {
        let Entry { bucket, key, value, revision, operation, .. } =
            entry.map_err(|error| error.to_string())?;
        let Some(state) = state.upgrade() else { return Ok(()) };
        let is_there = operation == Operation::Put;
        if bucket == HOLDS_BUCKET {
            state.known.see_hold(&key, revision, is_there.then_some(&value));
        } else {
            state.known.see_probe(&key, revision, is_there);
        }
    }
    Err("the watch ended".to_owned())
}

/// What the keys have now, and each change.
async fn watch(store: &Store, keys: &str) -> Result<Watch, String> {
    store.watch_with_history(keys).await.map_err(|error| error.to_string())
}

async fn keys(store: &Store) -> Result<BTreeSet<String>, String> {
    let keys = store.keys().await.map_err(|error| error.to_string())?;
    keys.try_collect().await.map_err(|error| error.to_string())
}
