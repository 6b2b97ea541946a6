//! Confidence intervals of rates, and of the difference of two rates.

use super::{Count, ln_factorial::LnFactorials};

/// Probability outside an interval on either side: the interval contains the true value in 95 of 100 experiments.
const TAIL: f64 = 0.025;
/// Quantile of the normal distribution at `1 - TAIL`.
const Z: f64 = 1.959_963_984_540_054;
/// Number of halvings after which a number between 0 and 1 does not change any more.
const HALVINGS: usize = 1_100;

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Returns the exact interval of a rate by Clopper and Pearson, at 95 %. Without trials it is 0 to 1.
pub fn clopper_pearson(count: Count) -> Interval {
    let Count { seen, trials } = count;
    let ln = LnFactorials::up_to(trials);
    // Probability of `from..=to` of all trials at a rate.
    let likely = |from: u32, to: u32, rate: f64| -> f64 {
        let term = |times: u32| {
            // At the rates 0 and 1 a logarithm is infinite, and zero times infinity is NaN.
            let of = |times: u32, ln: f64| if times == 0 { 0.0 } else { f64::from(times) * ln };
            // Add logarithms: the factorials of a few hundred trials exceed the range of `f64`.
            (ln.choose(trials, times) + of(times, rate.ln()) + of(trials - times, (-rate).ln_1p())).exp()
        };
        (from..=to).map(term).sum()
    };
    Interval {
        low: if seen == 0 { 0.0 } else { root(|rate| likely(seen, trials, rate) < TAIL) },
        high: if seen == trials { 1.0 } else { root(|rate| likely(0, seen, rate) > TAIL) },
    }
}

/// Returns the number between 0 and 1 above which `holds` becomes false.
fn root(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        // No further number lies between the two ends.
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Returns the interval of the first rate minus the second, at 95 %: Newcombe's hybrid of Wilson's score intervals, without
/// correction for continuity. If one rate has no trials, it is -1 to 1.
pub fn newcombe(first: Count, second: Count) -> Interval {
    let (Some(p), Some(q)) = (first.rate(), second.rate()) else { return Interval { low: -1.0, high: 1.0 } };
    let (of_p, of_q) = (wilson(p, first.trials), wilson(q, second.trials));
    let difference = p - q;
    Interval {
        low: (difference - (p - of_p.low).hypot(of_q.high - q)).max(-1.0),
        high: (difference + (of_p.high - p).hypot(q - of_q.low)).min(1.0),
    }
}

/// Returns Wilson's score interval of a rate.
fn wilson(rate: f64, trials: u32) -> Interval {
    let n = f64::from(trials);
    let (square, scale) = (Z * Z, 1.0 + Z * Z / n);
    let centre = rate + square / (2.0 * n);
    let reach = Z * (rate * (1.0 - rate) / n + square / (4.0 * n * n)).sqrt();
    Interval { low: ((centre - reach) / scale).max(0.0), high: ((centre + reach) / scale).min(1.0) }
}
