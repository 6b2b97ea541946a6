//! Decides if and when a model call is repeated, from the failure's `Retry` and within limits.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, SystemTime},
};

use nexus_core::{ErrorKind, Retry, harness::Failure};

/// First wait if the server names none; each further wait is twice as long. Source: our own choice.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait if the server names none.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// Random deviation of our own waits in each direction, in percent, so that many clients do not retry at once.
const JITTER_PERCENT: u64 = 20;

/// Limits for the repetition of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// Maximum number of repetitions.
    pub(crate) retries: u32,
    /// Maximum sum of the waits that the server requests. A longer wait ends the call, so that a router can use another
    /// backend.
    pub(crate) max_wait: Duration,
}

/// Attempts of one model call.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: RetryPolicy,
    made: u32,
    waited: Duration,
    random: u64,
}

impl Attempts {
    /// Creates a counter without repetitions.
    pub(crate) fn new(policy: &RetryPolicy) -> Self {
        Self::seeded(policy, RandomState::new().hash_one(0_u8))
    }

    fn seeded(policy: &RetryPolicy, seed: u64) -> Self {
        Self { policy: *policy, made: 0, waited: Duration::ZERO, random: seed }
    }

    /// Returns the wait before the call is repeated; `None` if it must not be repeated.
    pub(crate) fn next(&mut self, failure: &Failure) -> Option<Duration> {
        self.next_at(failure, SystemTime::now())
    }

    fn next_at(&mut self, failure: &Failure, now: SystemTime) -> Option<Duration> {
        if self.made >= self.policy.retries {
            return None;
        }
        let wait = match failure.retry {
            // The usual cause is an idle connection that the server closed at the moment of the request. A new
            // connection works at once.
            Retry::Now if failure.kind == ErrorKind::Transport && self.made == 0 => Duration::ZERO,
            Retry::Now | Retry::Guessed(_) => self.own_wait(),
            other => {
                let wait = other.delay(now)?;
                self.asked_wait(wait)?
            }
        };
        self.made += 1;
        Some(wait)
    }

    fn asked_wait(&mut self, wait: Duration) -> Option<Duration> {
        let waited = self.waited.checked_add(wait).filter(|waited| *waited <= self.policy.max_wait)?;
        self.waited = waited;
        Some(wait)
    }

    fn own_wait(&mut self) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(self.made));
        let percent = 100 - JITTER_PERCENT + self.random() % (2 * JITTER_PERCENT + 1);
        // The percentage is at most 120, so the conversion cannot fail.
        doubled.min(LONGEST_WAIT) * u32::try_from(percent).unwrap_or(100) / 100
    }

    /// SplitMix64 generator: sufficient to spread clients, unsuitable for secrets.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RetryPolicy = RetryPolicy { retries: 3, max_wait: Duration::from_secs(20) };

    fn failure(retry: Retry) -> Failure {
        Failure::new(ErrorKind::VendorFailure, "out of sorts").with_retry(retry)
    }

    #[test]
    fn waits_of_our_own_double_and_stay_near_their_mark() {
        for seed in 0..200 {
            let policy = RetryPolicy { retries: 7, ..POLICY };
            let mut attempts = Attempts::seeded(&policy, seed);
            for mark in [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000_u128] {
                let wait = attempts.next(&failure(Retry::Now)).unwrap().as_millis();
                assert!((mark * 8 / 10..=mark * 12 / 10).contains(&wait), "{wait} is not near {mark}");
            }
            assert_eq!(attempts.next(&failure(Retry::Now)), None);
            assert_eq!(attempts.made, 7);
        }
    }

    #[test]
    fn a_lost_connection_is_replaced_at_once_and_then_with_patience() {
        let lost = Failure::new(ErrorKind::Transport, "lost").with_retry(Retry::Now);
        let mut attempts = Attempts::new(&POLICY);
        assert_eq!(attempts.next(&lost), Some(Duration::ZERO));
        assert!(attempts.next(&lost).is_some_and(|wait| wait >= Duration::from_millis(800)));
    }

    #[test]
    fn clients_do_not_come_back_together() {
        let waits: std::collections::BTreeSet<Duration> =
            (0..50).filter_map(|_| Attempts::new(&POLICY).next(&failure(Retry::Now))).collect();
        assert!(waits.len() > 5, "{waits:?}");
    }

    #[test]
    fn a_wait_that_the_server_names_is_kept_exactly() {
        let mut attempts = Attempts::new(&POLICY);
        let wait = Duration::from_millis(1_800);
        assert_eq!(attempts.next(&failure(Retry::After(wait))), Some(wait));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(attempts.next_at(&failure(Retry::At(now + wait)), now), Some(wait));
        assert_eq!(attempts.next_at(&failure(Retry::At(now - wait)), now), Some(Duration::ZERO));
        assert_eq!(attempts.next(&failure(Retry::After(wait))), None, "three retries were made");
    }

    #[test]
    fn what_cannot_be_waited_for_is_given_up_at_once() {
        let mut attempts = Attempts::new(&POLICY);
        assert_eq!(attempts.next(&failure(Retry::Never)), None);
        assert_eq!(attempts.next(&failure(Retry::After(Duration::from_secs(21)))), None);
        assert_eq!(attempts.next(&failure(Retry::After(Duration::MAX))), None);
        assert_eq!(attempts.made, 0);
    }

    proptest! {
        #[test]
        fn no_server_keeps_a_call_waiting_beyond_its_bound(
            asked in proptest::collection::vec(0_u64..30_000, 0..50),
            retries in 0_u32..60,
            max_wait in 0_u64..60_000,
        ) {
            let policy = RetryPolicy { retries, max_wait: Duration::from_millis(max_wait) };
            let mut attempts = Attempts::new(&policy);
            let mut waited = Duration::ZERO;
            for milliseconds in asked {
                let asked = Duration::from_millis(milliseconds);
                if let Some(wait) = attempts.next(&failure(Retry::After(asked))) {
                    prop_assert_eq!(wait, asked);
                    waited += wait;
                }
            }
            prop_assert!(waited <= policy.max_wait);
            prop_assert!(attempts.made <= retries);
        }
    }
}
