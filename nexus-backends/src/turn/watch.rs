//! Time limits of a turn: the deadline, and silence by phase.

use std::time::Duration;

use nexus_core::{ErrorKind, IdleLimits, Limit, Limits, Phase};
use tokio::time::Instant;

/// Says when a turn has taken too long, and as what.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    deadline: Option<Instant>,
    idle: IdleLimits,
    heard: Instant,
    /// `None` while silence does not count.
    phase: Option<Phase>,
}

impl Watch {
    /// Counts from now, in the phase [`Phase::Start`].
    pub(crate) fn new(limits: &Limits) -> Self {
        let started = Instant::now();
        Self {
            started,
            deadline: limits.deadline.and_then(|deadline| started.checked_add(deadline)),
            idle: limits.idle.clone(),
            heard: started,
            phase: Some(Phase::Start),
        }
    }

    #[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
    /// A new process begins: silence counts from now, in the phase [`Phase::Start`].
    pub(crate) fn restart(&mut self) {
        self.heard(Phase::Start);
    }

    /// Something was heard, and the turn is in `phase` now.
    pub(crate) fn heard(&mut self, phase: Phase) {
        self.heard = Instant::now();
        self.phase = Some(phase);
    }

    /// Whether the turn is in `phase` now.
    #[cfg(feature = "native")]
    pub(crate) fn is_in(&self, phase: Phase) -> bool {
        self.phase == Some(phase)
    }

    /// Nobody is listened to for a while: until something is heard, only the deadline counts.
    pub(crate) fn rest(&mut self) {
        self.phase = None;
    }

    /// What has run out by now, if anything.
    pub(crate) fn ran_out(&self) -> Option<ErrorKind> {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(ErrorKind::LimitReached(Limit::Deadline));
        }
        let phase = self.phase?;
        self.idle_until().filter(|until| *until <= now).map(|_| ErrorKind::Starved(phase))
    }

    /// When to ask [`Watch::ran_out`] again, if nothing is heard until then.
    pub(crate) fn next(&self) -> Option<Instant> {
        [self.deadline, self.idle_until()].into_iter().flatten().min()
    }

    /// What is left until the deadline.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Since the turn started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn idle_until(&self) -> Option<Instant> {
        self.idle.of(self.phase?).and_then(|limit| self.heard.checked_add(limit))
    }
}

/// Completes at `at`; never, if there is no such time.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
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

    #[cfg(feature = "native")]
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
    async fn a_silent_tool_is_left_alone_until_the_deadline() {
        let mut watch = Watch::new(&limits());
        watch.heard(Phase::Tool);
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(watch.ran_out(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(watch.ran_out(), Some(ErrorKind::LimitReached(Limit::Deadline)));
    }
}
