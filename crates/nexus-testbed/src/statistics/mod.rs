//! Exact tests and intervals of counts, for the significance of a difference of two rates, without a table of
//! any distribution.
//!
//! All results are equal to SciPy's to 1e-9, which a test checks against a table that SciPy made.

mod fisher;
mod interval;
mod ln_factorial;

pub use fisher::FisherExact;
pub use interval::{Interval, clopper_pearson, newcombe};

/// Number of times that something was seen, and number of trials.
///
/// ```
/// use nexus_testbed::statistics::{Count, FisherExact, clopper_pearson};
///
/// let (probing, anchored) = (Count::new(8, 8).unwrap(), Count::new(0, 8).unwrap());
/// let fisher = FisherExact::of(probing, anchored);
/// assert!((fisher.first_higher - 7.770_007_77e-5).abs() < 1e-12);
/// assert!((clopper_pearson(probing).low - 0.630_583).abs() < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    seen: u32,
    trials: u32,
}

impl Count {
    /// `seen` of `trials`; `None` if there are more of them than trials.
    pub fn new(seen: u32, trials: u32) -> Option<Self> {
        (seen <= trials).then_some(Self { seen, trials })
    }

    /// Number of times that it was seen.
    pub fn seen(self) -> u32 {
        self.seen
    }

    /// Number of trials.
    pub fn trials(self) -> u32 {
        self.trials
    }

    /// The share, 0 to 1. `None` without a trial.
    pub fn rate(self) -> Option<f64> {
        (self.trials > 0).then(|| f64::from(self.seen) / f64::from(self.trials))
    }
}
