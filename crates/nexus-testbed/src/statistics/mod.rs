//! Exact tests and intervals of counts, for the significance of a difference of two rates. They use no table of a
//! distribution.
//!
//! All results equal SciPy's to 1e-9, which a test checks against a table from SciPy.

mod fisher;
mod interval;
mod ln_factorial;

pub use fisher::FisherExact;
pub use interval::{Interval, clopper_pearson, newcombe};

/// Number of observations, and number of trials.
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
    /// Creates the count `seen` of `trials`; `None` if `seen` is greater.
    pub fn new(seen: u32, trials: u32) -> Option<Self> {
        (seen <= trials).then_some(Self { seen, trials })
    }

    /// Returns the number of observations.
    pub fn seen(self) -> u32 {
        self.seen
    }

    /// Returns the number of trials.
    pub fn trials(self) -> u32 {
        self.trials
    }

    /// Returns the rate, 0 to 1. `None` without trials.
    pub fn rate(self) -> Option<f64> {
        (self.trials > 0).then(|| f64::from(self.seen) / f64::from(self.trials))
    }
}
