//! Fisher's exact test.

use super::{Count, ln_factorial::LnFactorials};

/// Factor for rounding errors: a table counts as equally likely if its probability is greater by at most this. Source:
/// SciPy's `fisher_exact`, which uses 1e-14; the sums here are less exact by some digits.
const EQUAL: f64 = 1e-11;

/// Fisher's exact test of two rates: the probability of the observed counts, or more extreme ones, if both rates were equal.
///
/// If one count has no trials, or if all or none of the trials of both were seen, every p is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FisherExact {
    /// One-sided p that the first rate is higher.
    pub first_higher: f64,
    /// One-sided p that the first rate is lower.
    pub first_lower: f64,
    /// Two-sided p: the sum over all tables with the same margins that are at most as likely as the observed one.
    pub two_sided: f64,
}

impl FisherExact {
    /// Tests two counts.
    pub fn of(first: Count, second: Count) -> Self {
        let all = first.trials.saturating_add(second.trials);
        let seen = first.seen.saturating_add(second.seen);
        let ln = LnFactorials::up_to(all);
        // Probability that this many of the seen cases belong to the first group.
        let likely = |of_first: u32| {
            (ln.choose(first.trials, of_first) + ln.choose(second.trials, seen - of_first)
                - ln.choose(all, seen))
            .exp()
        };
        // Only these tables have the observed margins: neither group can have more seen cases than trials.
        let (least, most) = (seen.saturating_sub(second.trials), seen.min(first.trials));
        let bound = likely(first.seen) * (1.0 + EQUAL);
        let (mut higher, mut lower, mut both) = (0.0, 0.0, 0.0);
        for of_first in least..=most {
            let p = likely(of_first);
            higher += if of_first >= first.seen { p } else { 0.0 };
            lower += if of_first <= first.seen { p } else { 0.0 };
            both += if p <= bound { p } else { 0.0 };
        }
        Self {
            // Rounding may lift a sum over all tables slightly above 1.
            first_higher: f64::min(higher, 1.0),
            first_lower: f64::min(lower, 1.0),
            two_sided: f64::min(both, 1.0),
        }
    }
}
