//! Waiting for slots of other programs: few requests, and an immediate one when a slot becomes free.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use nexus_nats::{BucketChange, BucketWatch};
use tokio::{sync::watch, time::Instant};

use super::{StoreState, names::slots_of};
use crate::{
    error::FleetError,
    fleet::{Fleet, FleetCore},
    protocol::SLOTS_BUCKET,
};

/// Shortest and longest pause between two requests while no change is seen.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Range of random delays of the requests after a slot becomes free. Later programs see meanwhile that it is taken.
const SPREAD: Duration = Duration::from_millis(250);
/// Time for which an account is watched after the last waiting turn.
const LINGER: Duration = Duration::from_secs(30);
/// Pause before a watch is opened again.
const PAUSE: Duration = Duration::from_secs(5);

/// True for the key of each free slot.
type Free = BTreeMap<String, bool>;

/// Accounts whose slots turns wait for.
#[derive(Debug, Default)]
pub(super) struct SlotWaits(Mutex<BTreeMap<String, SlotAccount>>);

/// Watched slots of one account.
#[derive(Debug)]
struct SlotAccount {
    free: watch::Sender<Free>,
    waited_at: Instant,
}

impl SlotWaits {
    /// Waits until one of these slots may be free. `tries`: number of earlier attempts that found them taken.
    pub(super) async fn wait_for(
        &self,
        fleet: &Fleet,
        state: &Arc<StoreState>,
        account: &str,
        keys: Vec<String>,
        tries: u32,
    ) {
        let until = Instant::now() + pause(tries, portion());
        let mut free = self.listen(fleet, state, account);
        let is_free = |free: &Free| keys.iter().any(|key| free.get(key) == Some(&true));
        let freed = async {
            loop {
                if free.wait_for(is_free).await.is_err() {
                    // The watching task has ended, so no change will arrive. The other branch waits by the clock.
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(longest(tries).min(SPREAD).mul_f64(portion())).await;
                if is_free(&free.borrow()) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout_at(until, freed).await;
    }

    /// Returns a receiver of changes of an account's slots, and starts to watch them.
    fn listen(&self, fleet: &Fleet, state: &Arc<StoreState>, account: &str) -> watch::Receiver<Free> {
        match self.lock().entry(account.to_owned()) {
            Entry::Occupied(mut known) => {
                known.get_mut().waited_at = Instant::now();
                known.get().free.subscribe()
            }
            Entry::Vacant(place) => {
                let (free, heard) = watch::channel(Free::new());
                place.insert(SlotAccount { free, waited_at: Instant::now() });
                fleet.0.start(follow(Arc::downgrade(&fleet.0), Arc::downgrade(state), account.to_owned()));
                heard
            }
        }
    }

    /// Forgets an account if no turn has waited for it recently. Returns true if it did.
    fn end_unless_waited(&self, account: &str) -> bool {
        let mut accounts = self.lock();
        let is_over = accounts.get(account).is_none_or(|account| account.waited_at.elapsed() >= LINGER);
        if is_over {
            accounts.remove(account);
        }
        is_over
    }

    fn see(&self, account: &str, change: impl FnOnce(&mut Free)) {
        if let Some(account) = self.lock().get(account) {
            account.free.send_modify(change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SlotAccount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(fleet: Weak<FleetCore>, state: Weak<StoreState>, account: String) {
    loop {
        if let Err(error) = follow_once(&fleet, &state, &account).await {
            tracing::debug!(%error, account, "changes of an account's slots are not received at present");
        }
        let Some(state) = state.upgrade() else { return };
        if fleet.strong_count() == 0 || state.waiting.end_unless_waited(&account) {
            return;
        }
        // The known states may be outdated: forget them, so that waiting turns ask by the clock.
        state.waiting.see(&account, Free::clear);
        drop(state);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Watches an account until the watch breaks, or no turn waits any more.
async fn follow_once(
    fleet: &Weak<FleetCore>,
    state: &Weak<StoreState>,
    account: &str,
) -> Result<(), FleetError> {
    let link = match fleet.upgrade() {
        // This task runs on the fleet's own thread. Do not store a strong reference, or the fleet never ends.
        Some(fleet) => fleet.link().await?,
        None => return Ok(()),
    };
    let mut slots = BucketWatch::open(&link.nats, SLOTS_BUCKET, &slots_of(account)).await?;
    loop {
        let heard = tokio::time::timeout(LINGER, slots.next()).await;
        let Some(state) = state.upgrade() else { return Ok(()) };
        match heard {
            Err(_elapsed) => {}
            Ok(heard) => match heard? {
                BucketChange::Key { key, value, .. } => state.waiting.see(account, |free| {
                    free.insert(key, value.is_none());
                }),
                BucketChange::Present(_) => continue,
            },
        }
        if state.waiting.lock().get(account).is_none_or(|account| account.waited_at.elapsed() >= LINGER) {
            return Ok(());
        }
    }
}

/// Returns the longest wait before an attempt.
fn longest(tries: u32) -> Duration {
    WAITS.0.saturating_mul(1 << tries.min(10)).min(WAITS.1)
}

/// Returns the pause before an attempt: half of the longest wait, and a portion of the other half.
fn pause(tries: u32, portion: f64) -> Duration {
    longest(tries).mul_f64(0.5 + portion / 2.0)
}

/// Returns a random number between 0 and 1, so that programs which began together do not send their requests together.
fn portion() -> f64 {
    let [first, second, third, fourth, ..] = uuid::Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([first, second, third, fourth])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let at = |tries| (pause(tries, 0.0), pause(tries, 1.0));
        assert_eq!(at(0), (Duration::from_millis(25), Duration::from_millis(50)));
        assert_eq!(at(3), (Duration::from_millis(200), Duration::from_millis(400)));
        assert_eq!(at(7), (Duration::from_millis(2_500), Duration::from_secs(5)));
        assert_eq!(at(u32::MAX), at(7));
        let portions: Vec<_> = (0..100).map(|_| portion()).collect();
        assert!(portions.iter().all(|portion| (0.0..=1.0).contains(portion)));
        assert!(
            portions.iter().any(|portion| *portion < 0.5) && portions.iter().any(|portion| *portion > 0.5)
        );
    }
}
