//! Backends set aside until a time, each with the refusal that caused it.
//!
//! Only a vendor's refusal arms a hold: [`RateLimited`](ErrorKind::RateLimited),
//! [`UsageLimit`](ErrorKind::UsageLimit) and [`Overloaded`](ErrorKind::Overloaded). Whatever the model says,
//! and whatever else goes wrong, does not. Any success clears it. When its time is over, one turn is let
//! through to find out; the others are still passed over until that one has ended. No hold is longer than a day
//! ([`LONGEST_HOLD`]): then a turn finds out, whatever the vendor named.
//!
//! Holds live in this process, and outlive a reload.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use nexus_core::{BackendId, Clock, ErrorKind, Retry, TurnError};
use serde::{Deserialize, Serialize};

/// The longest hold.
pub const LONGEST_HOLD: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a used-up plan is guessed to stay so where the vendor does not say. Plans are reset after hours;
/// one turn in this time is what it costs to find out.
pub const USAGE_LIMIT_GUESS: Duration = Duration::from_secs(15 * 60);

/// A backend set aside until a time.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The backend.
    pub backend: BackendId,
    /// Until when.
    pub until: SystemTime,
    /// Whether `until` is our guess, because the vendor named no time.
    pub guessed: bool,
    /// What the vendor named, where that is later than [`LONGEST_HOLD`] allows: `until` is earlier then.
    pub named_until: Option<SystemTime>,
    /// What the refusal was.
    pub kind: ErrorKind,
    /// The refusal, in the vendor's words where there are any.
    pub reason: String,
    /// Whether a turn is finding out just now whether it is over.
    pub probing: bool,
}

/// The holds of one process.
#[derive(Debug)]
pub(crate) struct Holds {
    clock: Arc<dyn Clock>,
    held: Mutex<BTreeMap<BackendId, Hold>>,
}

/// Whether a turn may go to a backend.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may; what becomes of it is to be told to the pass.
    Open(Pass),
    /// It may not.
    Held(Hold),
}

/// Lets one turn through, and waits to hear how it ended. Dropped unheard, it changes nothing, but lets the
/// next one find out.
#[derive(Debug)]
pub(crate) struct Pass {
    holds: Arc<Holds>,
    backend: BackendId,
    probing: bool,
}

impl Holds {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, held: Mutex::default() })
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Whether a turn may go to `backend`. One turn at most is let through to find out.
    pub(crate) fn admit(self: &Arc<Self>, backend: &BackendId) -> Admission {
        let now = self.now();
        let mut held = self.lock();
        let probing = match held.get_mut(backend) {
            None => false,
            Some(hold) if hold.probing || now < hold.until => return Admission::Held(hold.clone()),
            Some(hold) => {
                hold.probing = true;
                true
            }
        };
        Admission::Open(Pass { holds: Arc::clone(self), backend: backend.clone(), probing })
    }

    /// The hold on `backend`, without asking to be let through.
    pub(crate) fn peek(&self, backend: &BackendId) -> Option<Hold> {
        self.lock().get(backend).cloned()
    }

    /// Every hold, by backend.
    pub(crate) fn list(&self) -> Vec<Hold> {
        self.lock().values().cloned().collect()
    }

    /// Lets go of a backend.
    pub(crate) fn release(&self, backend: &BackendId) -> bool {
        self.lock().remove(backend).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BackendId, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// The turn went well.
    pub(crate) fn succeeded(mut self) {
        self.probing = false;
        self.holds.release(&self.backend);
    }

    /// The turn failed. Arms a hold if the vendor refused it.
    pub(crate) fn failed(mut self, error: &TurnError) {
        let Some(Until { until, guessed, named_until }) = hold_of(error, self.holds.now()) else {
            return;
        };
        self.probing = false;
        let hold = Hold {
            backend: self.backend.clone(),
            until,
            guessed,
            named_until,
            kind: error.kind(),
            reason: words_of(error),
            probing: false,
        };
        self.holds.lock().insert(self.backend.clone(), hold);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // The probe was dropped or proved nothing: without this, every later turn would wait for it.
        if self.probing
            && let Some(hold) = self.holds.lock().get_mut(&self.backend)
        {
            hold.probing = false;
        }
    }
}

/// The end of a hold: as in [`Hold`].
struct Until {
    until: SystemTime,
    guessed: bool,
    named_until: Option<SystemTime>,
}

/// Until when an error sets its backend aside. A time that has passed is none.
fn hold_of(error: &TurnError, now: SystemTime) -> Option<Until> {
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
    Some(Until {
        until: named.min(latest),
        guessed,
        named_until: Some(named).filter(|named| *named > latest),
    })
}

/// `now` and `wait` together; a wait beyond all time is a year.
pub(crate) fn later(now: SystemTime, wait: Duration) -> SystemTime {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    now.checked_add(wait).or_else(|| now.checked_add(YEAR)).unwrap_or(now)
}

/// What an error says, in the vendor's words where there are any.
pub(crate) fn words_of(error: &TurnError) -> String {
    match error.message() {
        Some(message) if !message.trim().is_empty() => message.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
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

    fn pass(holds: &Arc<Holds>) -> Pass {
        match holds.admit(&"alpha".into()) {
            Admission::Open(pass) => pass,
            Admission::Held(hold) => panic!("{hold:?}"),
        }
    }

    fn is_held(holds: &Arc<Holds>) -> bool {
        matches!(holds.admit(&"alpha".into()), Admission::Held(_))
    }

    #[test]
    fn the_vendors_time_counts_and_one_turn_finds_out() {
        let clock = Arc::new(ManualClock::default());
        let holds = Holds::new(Arc::clone(&clock) as Arc<dyn Clock>);
        pass(&holds).failed(&refusal(ErrorKind::RateLimited, Retry::After(Duration::from_secs(20))));
        assert!(is_held(&holds));
        assert!(!holds.list()[0].guessed);

        clock.advance(Duration::from_secs(20));
        let probe = pass(&holds);
        assert!(is_held(&holds), "a second turn got through");
        drop(probe);
        pass(&holds).succeeded();
        assert!(holds.list().is_empty());
    }

    #[test]
    fn a_probe_that_is_refused_arms_the_hold_again() {
        let clock = Arc::new(ManualClock::default());
        let holds = Holds::new(Arc::clone(&clock) as Arc<dyn Clock>);
        pass(&holds).failed(&refusal(ErrorKind::Overloaded, Retry::Never));
        assert!(holds.list()[0].guessed);
        clock.advance(Retry::SERVER_GUESS);
        pass(&holds).failed(&refusal(ErrorKind::Overloaded, Retry::Never));
        assert!(is_held(&holds));
        clock.advance(Retry::SERVER_GUESS);
        pass(&holds).failed(&TurnError::new(ErrorKind::Transport, "alpha".into()));
        assert!(!is_held(&holds), "a broken wire is no refusal: the next may find out");
    }

    #[test]
    fn only_a_refusal_arms_it() {
        let holds = Holds::new(Arc::new(ManualClock::default()));
        for kind in [ErrorKind::Crashed, ErrorKind::Unauthenticated, ErrorKind::Refused, ErrorKind::Cancelled]
        {
            pass(&holds).failed(&refusal(kind, Retry::After(Duration::from_secs(60))));
        }
        assert!(holds.list().is_empty());
    }

    #[test]
    fn a_refusal_whose_time_has_passed_is_held_by_a_guess() {
        for retry in [Retry::Now, Retry::At(SystemTime::UNIX_EPOCH), Retry::Guessed(Duration::from_secs(5))] {
            let clock = Arc::new(ManualClock::default());
            let holds = Holds::new(Arc::clone(&clock) as Arc<dyn Clock>);
            pass(&holds).failed(&refusal(ErrorKind::UsageLimit, retry));
            assert!(is_held(&holds) && holds.list()[0].guessed, "{retry:?}");
        }
    }

    #[test]
    fn no_hold_is_longer_than_a_day_and_says_what_was_named() {
        for wait in [Duration::MAX, Duration::from_secs(99_999_999_999), LONGEST_HOLD * 3] {
            let clock = Arc::new(ManualClock::default());
            let holds = Holds::new(Arc::clone(&clock) as Arc<dyn Clock>);
            pass(&holds).failed(&refusal(ErrorKind::RateLimited, Retry::After(wait)));
            let hold = &holds.list()[0];
            assert_eq!(hold.until, clock.now() + LONGEST_HOLD);
            assert!(!hold.guessed && hold.named_until.is_some_and(|named| named > hold.until), "{hold:?}");
        }
        let holds = Holds::new(Arc::new(ManualClock::default()));
        pass(&holds).failed(&refusal(ErrorKind::RateLimited, Retry::After(LONGEST_HOLD)));
        assert_eq!(holds.list()[0].named_until, None);
    }
}
