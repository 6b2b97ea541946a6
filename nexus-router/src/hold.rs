//! Holds: backends that are suspended until a time, each with the refusal that caused it.
//!
//! Only a vendor's refusal arms a hold: [`RateLimited`](ErrorKind::RateLimited),
//! [`UsageLimit`](ErrorKind::UsageLimit) and [`Overloaded`](ErrorKind::Overloaded). The model's words and all
//! other failures do not. Any successful turn clears the hold. When its time is over, one turn tests whether
//! the backend works again; other turns skip the backend until that turn has ended. No hold is longer than a
//! day ([`LONGEST_HOLD`]): then a turn tests the backend, even if the vendor named a later time.
//!
//! A [`HoldStore`] stores the holds, and counts the concurrent turns of each backend. [`MemoryHoldStore`], a
//! router's default, stores them in this process. [`FileHoldStore`], the default of the `nexus` command, stores
//! them in a folder for all processes of a machine. Only one turn at a time tests a backend, among all users of
//! a store. Holds survive a reload.

mod file;
mod memory;
mod store;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{BackendId, Clock, ErrorKind, Retry, TurnError};
use serde::{Deserialize, Serialize};

use crate::spoken::Spoken;

pub use self::{
    file::FileHoldStore,
    memory::MemoryHoldStore,
    store::{HoldStore, HoldStoreError, Revision, Slot, SlotClaim, StoredHold},
};

/// Longest duration of a hold.
pub const LONGEST_HOLD: Duration = Duration::from_secs(24 * 60 * 60);
/// Assumed duration of a usage limit, if the vendor names none. Vendors reset plans after hours; testing costs
/// one turn in this time.
pub const USAGE_LIMIT_GUESS: Duration = Duration::from_secs(15 * 60);

/// Largest tolerated difference between the clock of the process that armed the hold and the clock of the
/// process that reads it.
const CLOCK_SLACK: Duration = Duration::from_secs(60);
/// Maximum number of attempts to change a hold while other turns change it too.
const SWAPS: u32 = 64;

/// A backend that is suspended until a time.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Id of the backend.
    pub backend: BackendId,
    /// Time at which the hold began.
    pub since: SystemTime,
    /// Time at which the hold ends.
    pub until: SystemTime,
    /// True if `until` is our guess, because the vendor named no time.
    pub guessed: bool,
    /// The time that the vendor named, if it exceeds [`LONGEST_HOLD`]. `until` is then earlier.
    pub named_until: Option<SystemTime>,
    /// Error kind of the refusal.
    pub kind: ErrorKind,
    /// Message of the refusal, in the vendor's words if it sent any.
    pub reason: String,
    /// True while a turn tests whether the backend works again.
    pub probing: bool,
}

impl Hold {
    /// Returns the hold that a failed turn arms. `None` if the vendor did not refuse the turn.
    pub(crate) fn of_refusal(backend: &BackendId, error: &TurnError, now: SystemTime) -> Option<Self> {
        let HoldEnd { until, guessed, named_until } = hold_of(error, now)?;
        let (backend, kind, reason) = (backend.clone(), error.kind(), words_of(error));
        Some(Self { backend, since: now, until, guessed, named_until, kind, reason, probing: false })
    }

    /// Returns true if this hold suspends its backend at `now`: its time is not over, or a turn is testing the
    /// backend.
    ///
    /// A hold that was armed more than a minute after `now` does not count. The clock was set back, so the
    /// hold's duration is unknown.
    pub fn is_standing(&self, now: SystemTime) -> bool {
        // A store may contain a later end, so enforce the longest hold here too.
        let until = self.until.min(later(self.since, LONGEST_HOLD));
        self.probing || (now < until && self.since <= later(now, CLOCK_SLACK))
    }

    /// Returns a text for people: how long the backend is suspended, and the refusal that caused it.
    pub fn spoken(&self, now: SystemTime) -> String {
        let end = HoldEnd { until: self.until, guessed: self.guessed, named_until: self.named_until };
        format!("{}: {}", end.spoken(now), self.reason)
    }
}

/// Arms, clears and probes the holds of one router.
#[derive(Debug)]
pub(crate) struct Holds {
    clock: Arc<dyn Clock>,
    store: Arc<dyn HoldStore>,
}

/// Decision if a turn may run on a backend.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The turn may run. Its caller must report the outcome to the pass.
    Open(Pass),
    /// The turn may not run because of this hold.
    Held(Hold),
}

/// Permission to run one turn. Its owner reports the outcome with `succeeded` or `failed`. A pass that is
/// dropped without a report leaves the hold unchanged, and only releases the probe slot.
#[derive(Debug)]
pub(crate) struct Pass {
    holds: Arc<Holds>,
    backend: BackendId,
    /// The probe slot, if this turn tests whether the backend works again.
    probe: Option<SlotClaim>,
}

impl Holds {
    pub(crate) fn new(clock: Arc<dyn Clock>, store: Arc<dyn HoldStore>) -> Arc<Self> {
        Arc::new(Self { clock, store })
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Decides if a turn may run on `backend`. At most one turn gets the probe slot.
    pub(crate) async fn admit(self: &Arc<Self>, backend: &BackendId) -> Admission {
        let open = |probe| Admission::Open(Pass { holds: Arc::clone(self), backend: backend.clone(), probe });
        let Some(mut hold) = self.look(backend).await else {
            return open(None);
        };
        if hold.is_standing(self.now()) {
            return Admission::Held(hold);
        }
        let Some(probe) = self.claim(&[Slot::Probe(backend.clone())]).await else {
            // Another turn has the probe slot.
            hold.probing = true;
            return Admission::Held(hold);
        };
        // Another turn may have probed the backend and released the probe slot since the hold was read.
        match self.look(backend).await {
            None => open(None),
            // `probing` is set by this turn's own claim, so ignore it here.
            Some(hold) if (Hold { probing: false, ..hold.clone() }).is_standing(self.now()) => {
                Admission::Held(Hold { probing: false, ..hold })
            }
            Some(_) => open(Some(probe)),
        }
    }

    /// Returns the hold on `backend` from the store. If the store fails, returns the last known hold.
    pub(crate) async fn look(&self, backend: &BackendId) -> Option<Hold> {
        match self.store.get(backend).await {
            Ok(stored) => stored.map(|stored| stored.hold),
            Err(error) => {
                warn(&error);
                self.peek(backend)
            }
        }
    }

    /// Returns the last known hold on `backend`, without access to the store.
    pub(crate) fn peek(&self, backend: &BackendId) -> Option<Hold> {
        self.store.known().into_iter().find(|hold| hold.backend == *backend)
    }

    /// Returns all last known holds, by backend, without access to the store.
    pub(crate) fn known(&self) -> Vec<Hold> {
        self.store.known()
    }

    /// Returns all holds from the store, by backend. If the store fails, returns the last known holds.
    pub(crate) async fn list(&self) -> Vec<Hold> {
        match self.store.list().await {
            Ok(stored) => stored.into_iter().map(|stored| stored.hold).collect(),
            Err(error) => {
                warn(&error);
                self.known()
            }
        }
    }

    /// Removes the hold on a backend. Returns true if it had one.
    pub(crate) async fn release(&self, backend: &BackendId) -> bool {
        self.set(backend, None).await
    }

    /// Replaces or removes the hold on a backend. Returns true if the store changed.
    async fn set(&self, backend: &BackendId, hold: Option<Hold>) -> bool {
        for _ in 0..SWAPS {
            let expected = match self.store.get(backend).await {
                Ok(found) => found.map(|stored| stored.revision),
                Err(error) => {
                    warn(&error);
                    return false;
                }
            };
            if expected.is_none() && hold.is_none() {
                return false;
            }
            // Another turn or process may have changed the hold since the read. The swap then fails, and the
            // loop reads again.
            match self.store.swap(backend, expected, hold.clone()).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    warn(&error);
                    return false;
                }
            }
        }
        tracing::warn!(%backend, "other turns keep changing its hold; this turn's change is dropped");
        false
    }

    /// Claims the first free slot of `slots`. Returns `None` if all are taken or the store fails.
    pub(crate) async fn claim(&self, slots: &[Slot]) -> Option<SlotClaim> {
        for slot in slots {
            match self.store.claim(slot).await {
                Ok(None) => {}
                Ok(claim) => return claim,
                Err(error) => {
                    warn(&error);
                    return None;
                }
            }
        }
        None
    }

    /// Waits until one of these taken slots may be free. `tries` is the number of earlier waits.
    pub(crate) async fn wait_for(&self, slots: &[Slot], tries: u32) {
        self.store.wait_for(slots, tries).await;
    }
}

fn warn(error: &HoldStoreError) {
    tracing::warn!(%error, "the hold store failed; the last known holds apply");
}

impl Pass {
    /// Reports that the turn succeeded. Removes the hold.
    pub(crate) async fn succeeded(self) {
        self.holds.release(&self.backend).await;
        // Release the probe slot only now, so that the next turn that claims it sees no hold.
        drop(self.probe);
    }

    /// Reports that the turn failed. Arms a hold if the vendor refused the turn.
    pub(crate) async fn failed(self, error: &TurnError) {
        let now = self.holds.now();
        if let Some(hold) = Hold::of_refusal(&self.backend, error, now) {
            self.holds.set(&self.backend, Some(hold)).await;
        }
        // Release the probe slot only now, so that the next turn that claims it sees the new hold.
        drop(self.probe);
    }
}

/// End of a hold. The fields are those of [`Hold`].
pub(crate) struct HoldEnd {
    pub(crate) until: SystemTime,
    pub(crate) guessed: bool,
    pub(crate) named_until: Option<SystemTime>,
}

impl HoldEnd {
    /// Returns a text for people: how long the backend is suspended.
    pub(crate) fn spoken(&self, now: SystemTime) -> String {
        let left = |end: SystemTime| end.duration_since(now).unwrap_or_default();
        if left(self.until).is_zero() {
            return "another turn probes whether the backend works again".to_owned();
        }
        let about = if self.guessed { "about " } else { "" };
        let named = self.named_until.map(left).map(Spoken);
        let named = named.map(|named| format!(" (the vendor named {named}, longer than the longest hold)"));
        format!("on hold for {about}{}{}", Spoken(left(self.until)), named.unwrap_or_default())
    }
}

/// Returns the end of the hold that an error arms. A time in the past counts as no time.
fn hold_of(error: &TurnError, now: SystemTime) -> Option<HoldEnd> {
    let guess = match error.kind() {
        ErrorKind::RateLimited => Retry::RATE_LIMIT_GUESS,
        ErrorKind::UsageLimit => USAGE_LIMIT_GUESS,
        ErrorKind::Overloaded => Retry::SERVER_GUESS,
        _ => return None,
    };
    let named = error.retry().delay(now).filter(|wait| !wait.is_zero());
    let guessed = error.retry().is_guessed() || named.is_none();
    let named = later(now, named.unwrap_or(guess));
    let latest = later(now, LONGEST_HOLD);
    Some(HoldEnd {
        until: named.min(latest),
        guessed,
        named_until: Some(named).filter(|named| *named > latest),
    })
}

/// Returns `now` plus `wait`. If the sum overflows, returns `now` plus a year.
pub(crate) fn later(now: SystemTime, wait: Duration) -> SystemTime {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    now.checked_add(wait).or_else(|| now.checked_add(YEAR)).unwrap_or(now)
}

/// Returns the message of an error, in the vendor's words if it has any.
pub(crate) fn words_of(error: &TurnError) -> String {
    match error.message() {
        Some(message) if !message.trim().is_empty() => message.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct ManualClock(Mutex<Duration>);

    impl ManualClock {
        fn advance(&self, by: Duration) {
            *self.0.lock().unwrap() += by;
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + *self.0.lock().unwrap()
        }
    }

    fn refusal(kind: ErrorKind, retry: Retry) -> TurnError {
        TurnError::new(kind, "alpha".into()).with_retry(retry).with_message("come back later")
    }

    fn holds_by(clock: &Arc<ManualClock>) -> Arc<Holds> {
        Holds::new(Arc::clone(clock) as Arc<dyn Clock>, Arc::new(MemoryHoldStore::new()))
    }

    async fn pass(holds: &Arc<Holds>) -> Pass {
        match holds.admit(&"alpha".into()).await {
            Admission::Open(pass) => pass,
            Admission::Held(hold) => panic!("{hold:?}"),
        }
    }

    async fn is_held(holds: &Arc<Holds>) -> bool {
        matches!(holds.admit(&"alpha".into()).await, Admission::Held(_))
    }

    #[tokio::test]
    async fn the_vendors_time_counts_and_one_turn_finds_out() {
        let clock = Arc::new(ManualClock::default());
        let holds = holds_by(&clock);
        pass(&holds)
            .await
            .failed(&refusal(ErrorKind::RateLimited, Retry::After(Duration::from_secs(20))))
            .await;
        assert!(is_held(&holds).await);
        assert!(!holds.known()[0].guessed);

        clock.advance(Duration::from_secs(20));
        let probe = pass(&holds).await;
        assert!(is_held(&holds).await, "a second turn got through");
        drop(probe);
        pass(&holds).await.succeeded().await;
        assert!(holds.known().is_empty());
    }

    #[tokio::test]
    async fn a_probe_that_is_refused_arms_the_hold_again() {
        let clock = Arc::new(ManualClock::default());
        let holds = holds_by(&clock);
        pass(&holds).await.failed(&refusal(ErrorKind::Overloaded, Retry::Never)).await;
        assert!(holds.known()[0].guessed);
        clock.advance(Retry::SERVER_GUESS);
        pass(&holds).await.failed(&refusal(ErrorKind::Overloaded, Retry::Never)).await;
        assert!(is_held(&holds).await);
        clock.advance(Retry::SERVER_GUESS);
        pass(&holds).await.failed(&TurnError::new(ErrorKind::Transport, "alpha".into())).await;
        assert!(!is_held(&holds).await, "a broken wire is no refusal: the next may find out");
    }

    #[tokio::test]
    async fn only_a_refusal_arms_it() {
        let holds = holds_by(&Arc::default());
        for kind in [ErrorKind::Crashed, ErrorKind::Unauthenticated, ErrorKind::Refused, ErrorKind::Cancelled]
        {
            pass(&holds).await.failed(&refusal(kind, Retry::After(Duration::from_secs(60)))).await;
        }
        assert!(holds.known().is_empty());
    }

    #[tokio::test]
    async fn a_refusal_whose_time_has_passed_is_held_by_a_guess() {
        for retry in [Retry::Now, Retry::At(SystemTime::UNIX_EPOCH), Retry::Guessed(Duration::from_secs(5))] {
            let clock = Arc::new(ManualClock::default());
            let holds = holds_by(&clock);
            pass(&holds).await.failed(&refusal(ErrorKind::UsageLimit, retry)).await;
            assert!(is_held(&holds).await && holds.known()[0].guessed, "{retry:?}");
        }
    }

    #[tokio::test]
    async fn no_hold_is_longer_than_a_day_and_says_what_was_named() {
        for wait in [Duration::MAX, Duration::from_secs(99_999_999_999), LONGEST_HOLD * 3] {
            let clock = Arc::new(ManualClock::default());
            let holds = holds_by(&clock);
            pass(&holds).await.failed(&refusal(ErrorKind::RateLimited, Retry::After(wait))).await;
            let hold = &holds.known()[0];
            assert_eq!(hold.until, clock.now() + LONGEST_HOLD);
            assert!(!hold.guessed && hold.named_until.is_some_and(|named| named > hold.until), "{hold:?}");
        }
        let holds = holds_by(&Arc::default());
        pass(&holds).await.failed(&refusal(ErrorKind::RateLimited, Retry::After(LONGEST_HOLD))).await;
        assert_eq!(holds.known()[0].named_until, None);
    }
}
