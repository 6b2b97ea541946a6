//! Decides when a changed state has been stable for long enough.

use std::time::Duration;

use tokio::time::Instant;

/// Waits until a changed state has been quiet for long enough.
#[derive(Debug)]
pub(super) struct Settling {
    /// Last state of the watched files for which the trigger fired, or which it skipped.
    decided: String,
    /// Newest state that differs from `decided`, and the time since which it has not changed.
    pending: Option<(String, Instant)>,
}

/// Result of [`Settling::observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Nothing has changed.
    Same,
    /// The state has changed: look again after this time.
    Wait(Duration),
    /// The state has changed, and has been quiet.
    Quiet,
}

impl Settling {
    pub(super) fn new(decided: String) -> Self {
        Self { decided, pending: None }
    }

    /// Takes a state that was found. `touched` is the time of the last change that the system reported since
    /// the previous look, at most `now`.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        state: &str,
        touched: Option<Instant>,
        quiet: Duration,
    ) -> Settled {
        if state == self.decided {
            self.pending = None;
            return Settled::Same;
        }
        let since = match self.pending.take() {
            Some((pending, since)) if pending == state => touched.map_or(since, |touched| touched.max(since)),
            _ => touched.unwrap_or(now),
        };
        self.pending = Some((state.to_owned(), since));
        let left = quiet.saturating_sub(now.duration_since(since));
        if left.is_zero() { Settled::Quiet } else { Settled::Wait(left) }
    }

    /// Returns the last state for which the trigger fired, or which it skipped.
    pub(super) fn decided(&self) -> &str {
        &self.decided
    }

    /// Records that the trigger fired for a state, or skipped it.
    pub(super) fn decide(&mut self, state: String) {
        self.decided = state;
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(500);

    #[test]
    fn a_thousand_states_settle_once() {
        let start = Instant::now();
        let mut settling = Settling::new("s0".to_owned());
        for write in 1..=1000u64 {
            let now = start + Duration::from_millis(write * 7);
            let found = settling.observe(now, &format!("s{write}"), Some(now), QUIET);
            assert_eq!(found, Settled::Wait(QUIET));
        }
        let last = start + Duration::from_secs(7);
        assert_eq!(
            settling.observe(last + QUIET / 2, "s1000", None, QUIET),
            Settled::Wait(QUIET / 2),
            "the system told of nothing more"
        );
        assert_eq!(settling.observe(last + QUIET, "s1000", None, QUIET), Settled::Quiet);
        settling.decide("s1000".to_owned());
        assert_eq!(settling.observe(last + QUIET * 9, "s1000", Some(last + QUIET * 9), QUIET), Settled::Same);
    }

    #[test]
    fn without_word_from_the_system_two_looks_have_to_agree() {
        let start = Instant::now();
        let mut settling = Settling::new("a".to_owned());
        assert_eq!(settling.observe(start, "b", None, QUIET), Settled::Wait(QUIET));
        assert_eq!(settling.observe(start + QUIET, "c", None, QUIET), Settled::Wait(QUIET));
        assert_eq!(settling.observe(start + QUIET * 2, "c", None, QUIET), Settled::Quiet);
    }

    #[test]
    fn what_comes_back_to_what_it_was_is_no_change() {
        let start = Instant::now();
        let mut settling = Settling::new("a".to_owned());
        assert_eq!(settling.observe(start, "b", Some(start), QUIET), Settled::Wait(QUIET));
        assert_eq!(settling.observe(start + QUIET * 2, "a", Some(start + QUIET), QUIET), Settled::Same);
        assert_eq!(settling.observe(start + QUIET * 3, "b", None, QUIET), Settled::Wait(QUIET));
    }
}
