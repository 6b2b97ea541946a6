//! Detects a model that repeats the same calls with the same answers.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::{ErrorKind, Limit};

use super::Failure;

/// Counts repeated rounds of tool calls: the same calls with the same arguments and the same answers. Polling
/// until work is done ends with a different answer, so that round does not count.
#[derive(Debug)]
pub struct Repeats {
    allowed: u32,
    last: Option<u64>,
    count: u32,
}

/// Hash of one round of tool calls, for comparison with the previous round.
#[derive(Debug, Default)]
pub struct Round(DefaultHasher);

impl Round {
    /// Adds a call and its answer (or the answer's hash), as the model sees them.
    pub fn add(&mut self, name: &str, arguments: &str, answer: impl Hash) {
        (name, arguments, answer).hash(&mut self.0);
    }
}

impl Repeats {
    /// Allows a round to occur `allowed` times in a row; 0 means unlimited.
    pub fn new(allowed: u32) -> Self {
        Self { allowed, last: None, count: 0 }
    }

    /// Records a completed round.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitReached`] with [`Limit::RepeatedCalls`], if the round occurred more often in a row
    /// than allowed.
    pub fn observe(&mut self, round: &Round) -> Result<(), Failure> {
        // A hash suffices, because a round is compared only with the previous round.
        let hash = round.0.finish();
        self.count = if self.last == Some(hash) { self.count + 1 } else { 1 };
        self.last = Some(hash);
        if self.allowed == 0 || self.count <= self.allowed {
            return Ok(());
        }
        let times = format!("{} times in a row, with the same arguments and the same answer", self.count);
        Err(Failure::new(ErrorKind::LimitReached(Limit::RepeatedCalls), times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(answer: u64) -> Round {
        let mut round = Round::default();
        round.add("look", "{}", answer);
        round
    }

    #[test]
    fn the_same_round_too_often_ends_the_turn() {
        let mut repeats = Repeats::new(2);
        assert!(repeats.observe(&round(1)).is_ok());
        assert!(repeats.observe(&round(1)).is_ok());
        let failure = repeats.observe(&round(1)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::LimitReached(Limit::RepeatedCalls));
    }

    #[test]
    fn another_answer_begins_the_count_anew() {
        let mut repeats = Repeats::new(1);
        for answer in [1, 2, 1, 2] {
            assert!(repeats.observe(&round(answer)).is_ok());
        }
    }

    #[test]
    fn without_a_limit_nothing_is_a_loop() {
        let mut repeats = Repeats::new(0);
        for _ in 0..100 {
            assert!(repeats.observe(&round(1)).is_ok());
        }
    }
}
