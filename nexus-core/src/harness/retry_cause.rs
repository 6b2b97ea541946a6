//! Reason for repeating a request to the model. It is stored until the model answers, and explains an end of the turn
//! before that.

use std::time::{Duration, Instant};

use super::Failure;
use crate::{ErrorKind, Limit, Phase, Retry, TurnEvent};

/// Cause of the present retry, read from the turn's events. It is cleared when the model sends text or calls a tool.
#[derive(Clone, Debug, Default)]
pub struct RetryCause(Option<Cause>);

#[derive(Clone, Debug)]
struct Cause {
    kind: ErrorKind,
    reason: String,
    delay: Option<Duration>,
    since: Instant,
}

impl RetryCause {
    /// Updates the cause from an event.
    pub fn observe(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Retrying(retrying) => {
                // A retry without a kind clears an older cause, which would explain a later silence wrongly.
                self.0 = retrying.kind.map(|kind| Cause {
                    kind,
                    reason: retrying.reason.clone(),
                    delay: retrying.delay,
                    since: Instant::now(),
                });
            }
            TurnEvent::TextDelta(_)
            | TurnEvent::ThinkingDelta(_)
            | TurnEvent::MessageEnded(_)
            | TurnEvent::ToolCallStarted(_) => self.0 = None,
            _ => {}
        }
    }

    /// Sets the wait before the retry, for a vendor that reports it after the cause.
    pub fn set_delay(&mut self, delay: Duration) {
        if let Some(cause) = &mut self.0 {
            cause.delay = Some(delay);
        }
    }

    /// Returns the failure of a turn whose next retry is further away than `longest`, so that the turn does not wait.
    pub fn beyond(&self, longest: Duration) -> Option<Failure> {
        let cause = self.0.as_ref().filter(|cause| cause.delay.is_some_and(|delay| delay > longest))?;
        Some(cause.failure("the pause before the next attempt is too long to wait for"))
    }

    /// Replaces `failure` by the known cause, if `failure` is the model's silence or the deadline.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        // Silence in other phases, such as that of a tool, is unrelated to the repeated request.
        let is_explained = matches!(
            failure.kind,
            ErrorKind::Starved(Phase::Start | Phase::FirstByte | Phase::Model)
                | ErrorKind::LimitReached(Limit::Deadline)
        );
        match self.0.as_ref().filter(|_| is_explained) {
            Some(cause) => {
                let after = failure.message.unwrap_or_default();
                cause.failure(&format!("no answer came, and the turn ended {after}"))
            }
            None => failure,
        }
    }
}

impl Cause {
    fn failure(&self, what_followed: &str) -> Failure {
        // Subtract the time that has passed since the wait began.
        let left = self.delay.map(|delay| delay.saturating_sub(self.since.elapsed()));
        let named = left.filter(|left| !left.is_zero()).map(Retry::After);
        Failure::new(self.kind, format!("{}; {what_followed}", self.reason)).with_named_retry(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{Retrying, TextDelta};

    fn limited(delay: Option<Duration>) -> RetryCause {
        let mut cause = RetryCause::default();
        let retrying = Retrying::new(2, "429").with_kind(Some(ErrorKind::RateLimited)).with_delay(delay);
        cause.observe(&retrying.into());
        cause
    }

    fn starved() -> Failure {
        Failure::out_of_time(ErrorKind::Starved(Phase::FirstByte), Duration::from_secs(301))
    }

    #[test]
    fn a_known_cause_decides_what_silence_and_the_deadline_mean() {
        let explained = limited(None).explain(starved());
        assert_eq!(explained.kind, ErrorKind::RateLimited);
        assert_eq!(explained.retry, Retry::Guessed(Retry::RATE_LIMIT_GUESS));
        assert_eq!(
            explained.message.as_deref(),
            Some("429; no answer came, and the turn ended after 301.0 s")
        );
        let deadline = Failure::out_of_time(ErrorKind::LimitReached(Limit::Deadline), Duration::from_secs(9));
        assert_eq!(limited(None).explain(deadline).kind, ErrorKind::RateLimited);
        let tool = Failure::out_of_time(ErrorKind::Starved(Phase::Tool), Duration::from_secs(9));
        assert_eq!(limited(None).explain(tool).kind, ErrorKind::Starved(Phase::Tool));
        assert_eq!(limited(None).explain(Failure::cancelled()).kind, ErrorKind::Cancelled);
    }

    #[test]
    fn a_cause_is_over_when_the_model_speaks() {
        let mut cause = limited(None);
        cause.observe(&TextDelta::new("m".into(), "Hello").into());
        assert_eq!(cause.explain(starved()).kind, ErrorKind::Starved(Phase::FirstByte));
    }

    #[test]
    fn a_wait_that_is_too_long_is_handed_on() {
        let minute = Duration::from_secs(60);
        assert!(limited(None).beyond(minute).is_none());
        assert!(limited(Some(minute)).beyond(minute).is_none());
        let failure = limited(Some(minute * 5)).beyond(minute).unwrap();
        assert_eq!(failure.kind, ErrorKind::RateLimited);
        let Retry::After(left) = failure.retry else { panic!("{:?}", failure.retry) };
        assert!(left <= minute * 5 && left > minute * 4);
    }
}
