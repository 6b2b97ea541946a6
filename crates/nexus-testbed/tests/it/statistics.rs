//! The statistics are SciPy's to 1e-9, over the table that `statistics.py` made.

use nexus_testbed::statistics::{Count, FisherExact, clopper_pearson, newcombe};
use proptest::prelude::*;

fn count(fields: &[&str]) -> Count {
    Count::new(fields[0].parse().unwrap(), fields[1].parse().unwrap()).unwrap()
}

fn equal(found: f64, theirs: &str, row: &str) {
    let theirs: f64 = theirs.parse().unwrap();
    assert!((found - theirs).abs() <= 1e-9, "{found} is not {theirs}: {row}");
}

/// Also where both are nearly nothing.
fn alike(found: f64, theirs: &str, row: &str) {
    equal(found, theirs, row);
    let theirs: f64 = theirs.parse().unwrap();
    assert!((found - theirs).abs() <= 1e-9 * theirs.max(1e-250), "{found} is not {theirs}: {row}");
}

#[test]
fn tests_and_intervals_are_those_of_scipy() {
    let (mut intervals, mut pairs) = (0, 0);
    for row in include_str!("../statistics.tsv").lines() {
        let fields: Vec<&str> = row.split('\t').collect();
        if fields[0] == "interval" {
            let found = clopper_pearson(count(&fields[1..]));
            equal(found.low, fields[3], row);
            equal(found.high, fields[4], row);
            intervals += 1;
        } else {
            let (first, second) = (count(&fields[1..]), count(&fields[3..]));
            let fisher = FisherExact::of(first, second);
            alike(fisher.first_higher, fields[5], row);
            alike(fisher.first_lower, fields[6], row);
            alike(fisher.two_sided, fields[7], row);
            let difference = newcombe(first, second);
            equal(difference.low, fields[8], row);
            equal(difference.high, fields[9], row);
            pairs += 1;
        }
    }
    assert_eq!((intervals, pairs), (31, 31 * 31));
}

#[test]
fn without_trials_nothing_is_known() {
    let nothing = Count::new(0, 0).unwrap();
    let all = Count::new(8, 8).unwrap();
    for (first, second) in [(nothing, nothing), (nothing, all), (all, nothing), (all, all)] {
        let fisher = FisherExact::of(first, second);
        for p in [fisher.first_higher, fisher.first_lower, fisher.two_sided] {
            assert!((p - 1.0).abs() < 1e-12, "{fisher:?}");
        }
    }
    assert_eq!((clopper_pearson(nothing).low, clopper_pearson(nothing).high), (0.0, 1.0));
    assert_eq!((newcombe(nothing, all).low, newcombe(nothing, all).high), (-1.0, 1.0));
    assert_eq!((nothing.rate(), Count::new(2, 1)), (None, None));
}

proptest! {
    #[test]
    fn probabilities_and_ends_stay_where_they_belong(a in 0_u32..60, n in 0_u32..60, b in 0_u32..60, m in 0_u32..60) {
        let (first, second) = (Count::new(a.min(n), n).unwrap(), Count::new(b.min(m), m).unwrap());
        let (one, other) = (FisherExact::of(first, second), FisherExact::of(second, first));
        for p in [one.first_higher, one.first_lower, one.two_sided] {
            prop_assert!((0.0..=1.0).contains(&p));
        }
        prop_assert!(one.two_sided + 1e-12 >= one.first_higher.min(one.first_lower));
        prop_assert!((one.first_higher - other.first_lower).abs() < 1e-12 && (one.two_sided - other.two_sided).abs() < 1e-12);
        let (interval, difference) = (clopper_pearson(first), newcombe(first, second));
        prop_assert!(0.0 <= interval.low && interval.low <= interval.high && interval.high <= 1.0);
        prop_assert!(-1.0 <= difference.low && difference.low <= difference.high && difference.high <= 1.0);
        if let Some(rate) = first.rate() {
            prop_assert!(interval.low <= rate && rate <= interval.high);
        }
    }
}
