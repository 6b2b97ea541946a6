//! Time limits of a turn: the deadline, and silence by phase.

use std::time::{Duration, Instant as StdInstant};

use crate::{ErrorKind, IdleLimits, Limit, Limits, Phase};
use tokio::time::Instant;

/// Enforces the time limits of one turn: the deadline [`Limits::deadline`], and the longest silence in each [`Phase`],
/// [`Limits::idle`]. Uses Tokio's clock, which tests can pause.
#[derive(Debug)]
pub struct Watch {
    started: Instant,
    /// Deadline of the request.
    asked_deadline: Option<Instant>,
    /// Current deadline: that of the request or an earlier one.
    deadline: Option<Instant>,
    idle: IdleLimits,
    heard: Instant,
    /// Current phase. `None` while silence does not count.
    phase: Option<Phase>,
}

impl Watch {
    /// Starts the time limits now, in [`Phase::Start`].
    pub fn new(limits: &Limits) -> Self {
        let started = Instant::now();
        // A deadline beyond the clock's range can never pass, so the turn has none.
        let deadline = limits.deadline.and_then(|deadline| started.checked_add(deadline));
        Self {
            started,
            asked_deadline: deadline,
            deadline,
            idle: limits.idle.clone(),
            heard: started,
            phase: Some(Phase::Start),
        }
    }

    /// Restarts the measurement of silence in [`Phase::Start`], for example when another process starts. Does not change the
    /// deadline.
    pub fn restart(&mut self) {
        self.heard(Phase::Start);
    }

    /// Records a sign of life. Silence counts from now, with the limit of `phase`.
    pub fn heard(&mut self, phase: Phase) {
        self.heard = Instant::now();
        self.phase = Some(phase);
    }

    /// Returns true if the turn is in `phase` now.
    pub fn is_in(&self, phase: Phase) -> bool {
        self.phase == Some(phase)
    }

    /// Suspends the silence limit until [`Watch::heard`], for example during a delay of our own. The deadline still applies.
    pub fn rest(&mut self) {
        self.phase = None;
    }

    /// Moves the deadline to `left` from now, unless the deadline is earlier. Returns true if it was moved.
    pub fn shorten(&mut self, left: Duration) -> bool {
        let is_shorter = self.remaining().is_none_or(|remaining| left < remaining);
        if is_shorter {
            self.deadline = Instant::now().checked_add(left);
        }
        is_shorter
    }

    /// Restores the deadline of the request after [`Watch::shorten`].
    pub fn restore_deadline(&mut self) {
        self.deadline = self.asked_deadline;
    }

    /// Returns the exceeded limit, if any: [`ErrorKind::LimitReached`] with [`Limit::Deadline`], else
    /// [`ErrorKind::Starved`].
    pub fn ran_out(&self) -> Option<ErrorKind> {
        let now = Instant::now();
        // Test the deadline first: no retry can help a turn that has no time left.
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(ErrorKind::LimitReached(Limit::Deadline));
        }
        let phase = self.phase?;
        self.idle_until().filter(|until| *until <= now).map(|_| ErrorKind::Starved(phase))
    }

    /// Returns the time at which to call [`Watch::ran_out`] again, unless there is a sign of life first. Returns `None` if
    /// no limit applies.
    pub fn next(&self) -> Option<StdInstant> {
        [self.deadline, self.idle_until()].into_iter().flatten().min().map(Instant::into_std)
    }

    /// Returns the time left until the deadline, if the turn has one.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns the time since the turn started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn idle_until(&self) -> Option<Instant> {
        self.idle.of(self.phase?).and_then(|limit| self.heard.checked_add(limit))
    }
}

/// Completes at `at`. With `None` it never completes.
pub async fn sleep_until(at: Option<StdInstant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let idle = IdleLimits::none().with(Phase::Model, Duration::from_secs(5));
        Limits::new().with_deadline(Duration::from_secs(60)).with_idle(idle)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_in_the_phase_it_falls_in() {
        let mut watch = Watch::new(&limits());
        watch.heard(Phase::Model);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(watch.ran_out(), Some(ErrorKind::Starved(Phase::Model)));
        watch.heard(Phase::Model);
        assert_eq!(watch.ran_out(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn at_rest_only_the_deadline_counts() {
        let mut watch = Watch::new(&limits());
        watch.heard(Phase::Model);
        watch.rest();
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(watch.ran_out(), None);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(watch.ran_out(), Some(ErrorKind::LimitReached(Limit::Deadline)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_shortened_and_never_prolonged() {
        let mut watch = Watch::new(&limits());
        assert!(!watch.shorten(Duration::from_secs(61)));
        assert!(watch.shorten(Duration::from_secs(59)));
        assert_eq!(watch.remaining(), Some(Duration::from_secs(59)));
        watch.restore_deadline();
        assert_eq!(watch.remaining(), Some(Duration::from_secs(60)));
        let mut watch = Watch::new(&Limits::new());
        assert!(watch.shorten(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(watch.ran_out(), Some(ErrorKind::LimitReached(Limit::Deadline)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_tool_is_left_alone_until_the_deadline() {
        let mut watch = Watch::new(&limits());
        watch.heard(Phase::Tool);
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(watch.ran_out(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(watch.ran_out(), Some(ErrorKind::LimitReached(Limit::Deadline)));
    }
}
