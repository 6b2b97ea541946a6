//! Waits of a turn for backends that refuse turns until a time.
//!
//! A turn waits only if its host allows it ([`TurnHost::with_longest_wait`](nexus_core::TurnHost::with_longest_wait)) and no backend
//! of its chain can run it now. It goes on at the time that the vendor named, and at most some seconds later, so that not all waiting
//! turns try at once. One turn tests the backend then, and the others wait for the end of that turn. No request is sent to a held
//! backend.
//!
//! Without a time of the vendor, each wait is twice as long as the one before, up to 15 minutes more than the guess, and a turn gives
//! up after some refusals. It does not wait for a plan whose reset is unknown, because the user may have to pay first.
//!
//! The turn checks the holds while it waits. If the user releases a hold, or another turn clears it, the wait ends. Some stores lose a
//! hold, so the turn remembers its own refusals.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    time::{Duration, SystemTime},
};

use nexus_core::{BackendId, ErrorKind, Skipped, turn::WaitingForReset};
use tokio::time::{Instant, sleep};

use crate::{
    attempt::TurnEvents,
    hold::{Hold, later},
    run::Run,
};

/// Longest time between two looks at the holds. A suspended machine does not count a longer sleep as time, and another process may
/// release a hold.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Shortest wait, and time between two looks while another turn tests a backend.
const SHORTEST_SLEEP: Duration = Duration::from_secs(1);
/// Longest random delay after the end of a hold.
const MOST_JITTER: Duration = Duration::from_secs(5);
/// Part of a hold that its random delay is at most.
const JITTER_PART: u32 = 10;
/// Longest delay after repeated refusals without a time.
const MOST_BACKOFF: Duration = Duration::from_secs(15 * 60);
/// Maximum number of refusals of one turn. Each may be a paid attempt.
const MOST_REFUSALS: usize = 50;
/// Maximum number of refusals of one turn by a backend that names no time.
const MOST_GUESSED_REFUSALS: usize = 10;
/// Longest time by which the waits of a turn may exceed their limit: a clock that stands still must not make a wait endless.
const MOST_SLACK: Duration = Duration::from_secs(60);

/// Backends of a chain that refuse turns until a time, and the waits of a turn for them.
#[derive(Debug)]
pub(crate) struct ResetWaits {
    /// Longest time of all waits together. `None` if the turn does not wait.
    longest: Option<Duration>,
    waited: Duration,
    /// Backends that refuse turns now.
    held: Vec<RefusingBackend>,
    /// Refusals of this turn, one entry for each.
    refusals: Vec<BackendId>,
    /// Between 0 and 1, for the delays of this turn.
    random: f64,
}

/// A backend that refuses turns now.
#[derive(Debug)]
struct RefusingBackend {
    /// Its hold when it was seen last.
    hold: Hold,
    /// True if the store has, or had, the hold.
    is_stored: bool,
}

/// The next attempt on a held backend.
struct NextAttempt {
    at: SystemTime,
    hold: Hold,
}

/// Result of a wait.
pub(crate) enum Waited {
    /// These backends take turns again, as far as is known.
    Free(Vec<BackendId>),
    /// The turn may not wait, or not any longer.
    Over {
        /// The holds of the backends.
        holds: Vec<Hold>,
        /// True if it has waited for them.
        has_waited: bool,
    },
}

impl ResetWaits {
    pub(crate) fn of(longest: Option<Duration>) -> Self {
        // The standard library seeds `RandomState` at random, which suffices for a delay.
        let random = (RandomState::new().hash_one(0) % 1000) as f64 / 1000.0;
        Self { longest, waited: Duration::ZERO, held: Vec::new(), refusals: Vec::new(), random }
    }

    /// Adds a backend that is held.
    pub(crate) fn add_held(&mut self, hold: Hold) {
        self.add(hold, true);
    }

    /// Adds a backend that refused this turn.
    pub(crate) fn add_refusing(&mut self, hold: Hold) {
        self.refusals.push(hold.backend.clone());
        self.add(hold, false);
    }

    fn add(&mut self, hold: Hold, is_stored: bool) {
        self.held.retain(|held| held.hold.backend != hold.backend);
        self.held.push(RefusingBackend { hold, is_stored });
    }

    /// Returns true if the turn waits for no hold, however short it is.
    pub(crate) fn are_forbidden(&self) -> bool {
        self.longest.is_none()
    }

    /// Returns true if the turn may wait for the end of a hold.
    pub(crate) fn may_wait_for(&self, hold: &Hold, now: SystemTime) -> bool {
        let Some(longest) = self.longest else { return false };
        let has_unknown_reset = hold.guessed && hold.kind == ErrorKind::UsageLimit;
        let is_refused_too_often = self.refusals.len() >= MOST_REFUSALS
            || hold.guessed && self.refusals_of(&hold.backend) >= MOST_GUESSED_REFUSALS;
        // The vendor may have named a later time than the end of the hold.
        let named = hold.named_until.unwrap_or(hold.until);
        let left = later(named, self.backoff(hold)).duration_since(now).unwrap_or_default();
        !has_unknown_reset && !is_refused_too_often && self.waited.saturating_add(left) <= longest
    }

    /// Returns one of the held backends if the turn may wait for it.
    pub(crate) fn awaited(&self, now: SystemTime) -> Option<&BackendId> {
        let mut held = self.held.iter().map(|held| &held.hold);
        held.find(|hold| self.may_wait_for(hold, now)).map(|hold| &hold.backend)
    }

    /// Waits until a backend takes turns again, and delays the deadline by that time. Afterwards no backend counts as held.
    ///
    /// # Errors
    ///
    /// The reason for which the turn ended during the wait.
    pub(crate) async fn wait(
        &mut self,
        run: &Run<'_>,
        events: &mut TurnEvents<'_>,
        deadline: &mut Option<Instant>,
    ) -> Result<Waited, ErrorKind> {
        let began = Instant::now();
        let mut announced = None;
        loop {
            let now = run.holds.now();
            let attempts = self.next_attempts(run, now).await;
            let is_free = |backend: &&BackendId| attempts.iter().all(|next| next.hold.backend != **backend);
            let backends = self.held.iter().map(|held| &held.hold.backend);
            let free: Vec<BackendId> = backends.filter(is_free).cloned().collect();
            if !free.is_empty() {
                // Even a backend that is free at once is not asked again at once.
                let rest = SHORTEST_SLEEP.saturating_sub(began.elapsed());
                run.wait_for(sleep(rest), events, None).await?;
                *deadline = deadline.and_then(|deadline| deadline.checked_add(began.elapsed()));
                self.held.clear();
                return Ok(Waited::Free(free));
            }
            // A wait that was announced continues even if small delays exceed the limit. `MOST_SLACK` bounds
            // them.
            let awaits =
                |next: &&NextAttempt| self.may_wait_for(&next.hold, now) || announced == Some(next.at);
            let first = attempts.iter().filter(awaits).min_by_key(|next| next.at);
            let is_too_long =
                self.longest.is_none_or(|longest| self.waited > longest.saturating_add(MOST_SLACK));
            let Some(first) = first.filter(|_| !is_too_long) else {
                self.held.clear();
                let holds = attempts.into_iter().map(|next| next.hold).collect();
                return Ok(Waited::Over { holds, has_waited: announced.is_some() });
            };
            let left = first.at.duration_since(now).unwrap_or_default();
            // If the hold has ended, another turn tests the backend. Report no wait then: the vendor does not cause it.
            let is_tested = left.is_zero();
            if !is_tested && announced != Some(first.at) {
                let held = attempts.iter().map(|next| refusal(&next.hold)).collect();
                events.push(WaitingForReset::new(first.at, held));
                announced = Some(first.at);
            }
            let pause = if is_tested { SHORTEST_SLEEP } else { left.min(LONGEST_SLEEP) };
            run.wait_for(sleep(pause), events, None).await?;
            if !is_tested {
                // The wall clock counts a suspended machine too.
                self.waited += run.holds.now().duration_since(now).unwrap_or(pause).max(pause);
            }
        }
    }

    /// Returns the next attempt on each backend that cannot be tried now.
    async fn next_attempts(&mut self, run: &Run<'_>, now: SystemTime) -> Vec<NextAttempt> {
        let mut attempts = Vec::new();
        // Iterate by index, because the delays borrow `self` as a whole.
        for index in 0..self.held.len() {
            let Some(held) = self.held.get_mut(index) else { break };
            match run.holds.look(&held.hold.backend).await {
                Some(hold) => (held.hold, held.is_stored) = (hold, true),
                // The hold was released meanwhile.
                None if held.is_stored => continue,
                None => {}
            }
            let hold = held.hold.clone();
            let at = later(later(hold.until, self.backoff(&hold)), self.jitter(&hold));
            let is_standing = hold.is_standing(now);
            // A hold with a later end that is not in force comes from a clock that was set back. It counts as over.
            let is_over = !is_standing && (at <= now || hold.until > now);
            if !is_over {
                attempts.push(NextAttempt { at, hold });
            }
        }
        attempts
    }

    fn refusals_of(&self, backend: &BackendId) -> usize {
        self.refusals.iter().filter(|refusing| *refusing == backend).count()
    }

    /// Returns the random delay after the end of a hold.
    fn jitter(&self, hold: &Hold) -> Duration {
        let length = hold.until.duration_since(hold.since).unwrap_or_default();
        (length / JITTER_PART).min(MOST_JITTER).mul_f64(self.random)
    }

    /// Returns the delay after repeated refusals without a time.
    fn backoff(&self, hold: &Hold) -> Duration {
        if !hold.guessed {
            return Duration::ZERO;
        }
        let length = hold.until.duration_since(hold.since).unwrap_or_default();
        let refusals = u32::try_from(self.refusals_of(&hold.backend)).unwrap_or(u32::MAX);
        // Bound the exponent, so that the shift cannot overflow.
        let doublings = refusals.saturating_sub(1).min(10);
        length.saturating_mul((1 << doublings) - 1).min(MOST_BACKOFF)
    }
}

/// Returns the refusal that caused a hold, in the vendor's words.
fn refusal(hold: &Hold) -> Skipped {
    Skipped::new(hold.backend.clone(), hold.reason.clone())
        .with_kind(Some(hold.kind))
        .with_until(Some(hold.until))
}
