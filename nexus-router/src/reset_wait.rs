//! Waits of a turn for backends that refuse turns until a time.
//!
//! A turn waits only if its host allows it ([`TurnHost::with_longest_wait`](nexus_core::TurnHost::with_longest_wait)) and no backend
//! of its chain can run it now. It goes on at the time that the vendor named, or that the router guessed, and at most some seconds
//! later, so that not all waiting turns try at once. It looks at the holds meanwhile: a hold that a person releases, or that another
//! turn clears, ends the wait. No request is sent to a held backend.

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
    run::{Run, held},
};

/// Longest time between two looks at the holds. A suspended machine does not count a longer sleep as time, and another process may
/// release a hold.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Wait while another turn tests a backend.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// Longest delay beyond the end of a hold.
const MOST_JITTER: Duration = Duration::from_secs(5);
/// Longest time by which the waits of a turn may exceed their limit: the delays, and the pauses between two looks.
const MOST_SLACK: Duration = Duration::from_secs(60);
/// Part of a wait that is at most added to it.
const JITTER_PART: u32 = 10;

/// Backends of a chain that refuse turns until a time, and the waits of a turn for them.
#[derive(Debug)]
pub(crate) struct ResetWaits {
    /// Longest time of all waits together. `None` if the turn does not wait.
    longest: Option<Duration>,
    waited: Duration,
    held: Vec<BackendId>,
    /// True if another turn tests one of them.
    is_probing: bool,
}

impl ResetWaits {
    pub(crate) fn of(longest: Option<Duration>) -> Self {
        Self { longest, waited: Duration::ZERO, held: Vec::new(), is_probing: false }
    }

    /// Adds a backend that refuses turns until a time.
    pub(crate) fn add(&mut self, backend: BackendId, is_probing: bool) {
        self.is_probing |= is_probing;
        if !self.held.contains(&backend) {
            self.held.push(backend);
        }
    }

    /// Returns true if the turn may wait until a time.
    pub(crate) fn have_room(&self, until: SystemTime, now: SystemTime) -> bool {
        let more = until.duration_since(now).unwrap_or_default();
        self.longest.is_some_and(|longest| self.waited.saturating_add(more) <= longest)
    }

    /// Waits until one of the backends takes turns again, and delays the deadline by that time. Returns the backends, of which none is
    /// left then, or nothing if there are none or the turn may not wait so long.
    ///
    /// # Errors
    ///
    /// The reason for which the turn ended during the wait.
    pub(crate) async fn wait(
        &mut self,
        run: &Run<'_>,
        events: &mut TurnEvents<'_>,
        deadline: &mut Option<Instant>,
    ) -> Result<Vec<BackendId>, ErrorKind> {
        let began = Instant::now();
        let jitter = RandomState::new().hash_one(&self.held);
        let mut announced = None;
        while !self.held.is_empty() {
            let now = run.holds.now();
            let standing = self.standing(run, now).await;
            // A hold that another turn tests has ended, and is not in the list.
            let is_free = standing.len() < self.held.len() && !std::mem::take(&mut self.is_probing);
            if is_free {
                let waited = began.elapsed();
                *deadline = deadline.and_then(|deadline| deadline.checked_add(waited));
                return Ok(std::mem::take(&mut self.held));
            }
            let until = standing.iter().map(|hold| hold.until).min().filter(|until| *until > now);
            let pause = match until {
                Some(until) => {
                    let left = until.duration_since(now).unwrap_or_default();
                    let end = later(until, part(jitter, left));
                    end.duration_since(now).unwrap_or_default().min(LONGEST_SLEEP)
                }
                None => PROBE_PAUSE,
            };
            let is_new = announced.is_none() || announced != until;
            // A clock that stands still must not make the wait endless.
            let is_too_long =
                self.longest.is_none_or(|longest| self.waited > longest.saturating_add(MOST_SLACK));
            if is_too_long || is_new && !self.have_room(until.unwrap_or(now), now) {
                break;
            }
            if let Some(until) = until.filter(|_| is_new) {
                let skipped: Vec<Skipped> = standing.iter().map(|hold| held(hold, now)).collect();
                events.push(WaitingForReset::new(until, skipped));
                announced = Some(until);
            }
            run.wait_for(sleep(pause), events, None).await?;
            // The wall clock counts a suspended machine too.
            self.waited += run.holds.now().duration_since(now).unwrap_or(pause).max(pause);
        }
        Ok(Vec::new())
    }

    /// Returns the holds that stand at `now`.
    async fn standing(&self, run: &Run<'_>, now: SystemTime) -> Vec<Hold> {
        let mut standing = Vec::new();
        for backend in &self.held {
            standing.extend(run.holds.look(backend).await.filter(|hold| hold.is_standing(now)));
        }
        standing
    }
}

/// Returns a delay of at most some seconds, and at most a tenth of a wait.
fn part(random: u64, wait: Duration) -> Duration {
    let most = (wait / JITTER_PART).min(MOST_JITTER);
    most.mul_f64((random % 1000) as f64 / 1000.0)
}
