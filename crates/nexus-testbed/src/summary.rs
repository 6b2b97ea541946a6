//! Summary of the arms of an experiment.

use crate::{
    experiment::ExperimentResults,
    run_record::RunRecord,
    scorer::Outcome,
    statistics::{Count, FisherExact, Interval, clopper_pearson, newcombe},
};

/// Summary of the runs of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentSummary {
    /// Summary of each arm, in their order.
    pub arms: Vec<ArmSummary>,
    /// Comparison of each pair of arms, the earlier one first.
    pub comparisons: Vec<Comparison>,
    /// Number of planned runs.
    pub planned: u64,
    /// Number of finished runs, including invalid ones.
    pub finished: u64,
}

/// Summary of the runs of one arm.
#[derive(Clone, Debug)]
pub struct ArmSummary {
    /// Name of the arm.
    pub name: String,
    /// Number of runs of each outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u32; 4],
    /// Number of runs that do not count, because the infrastructure failed.
    pub invalid: u32,
    /// Wrong answers that were not accepted, of all wrong answers.
    pub caught: Count,
    /// Interval of `caught` by Clopper and Pearson, at 95 %.
    pub caught_interval: Interval,
    /// Right answers that were not accepted, of all right answers.
    pub refused: Count,
    /// Interval of `refused` by Clopper and Pearson, at 95 %.
    pub refused_interval: Interval,
    /// Number of turns of the arm's agents.
    pub turns: u64,
    /// Known cost in US dollars.
    pub usd: f64,
    /// Number of turns of unknown cost.
    pub turns_without_cost: u64,
}

/// Difference of two arms in the rates of caught wrong answers.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first arm.
    pub first: String,
    /// The second arm.
    pub second: String,
    /// Rate of the first arm minus that of the second. `None` if one of them had no wrong answers.
    pub difference: Option<f64>,
    /// Interval of the difference by Newcombe, at 95 %.
    pub interval: Interval,
    /// Fisher's exact test of the two rates.
    pub fisher: FisherExact,
}

impl ExperimentSummary {
    /// Counts the runs of an experiment.
    pub fn of(results: &ExperimentResults) -> Self {
        let of_arm = |name: &String| {
            let runs = results.runs.iter().filter(|run| run.key.arm == *name);
            ArmSummary::of(name, &runs.collect::<Vec<_>>())
        };
        let names = results.description.arms.iter().map(|arm| &arm.name);
        let arms: Vec<ArmSummary> = names.map(of_arm).collect();
        let mut comparisons = Vec::new();
        for (at, first) in arms.iter().enumerate() {
            for second in &arms[at + 1..] {
                let rates = first.caught.rate().zip(second.caught.rate());
                comparisons.push(Comparison {
                    first: first.name.clone(),
                    second: second.name.clone(),
                    difference: rates.map(|(first, second)| first - second),
                    interval: newcombe(first.caught, second.caught),
                    fisher: FisherExact::of(first.caught, second.caught),
                });
            }
        }
        Self { arms, comparisons, planned: results.description.runs(), finished: results.runs.len() as u64 }
    }
}

impl ArmSummary {
    fn of(name: &str, runs: &[&RunRecord]) -> Self {
        let seen = |outcome: Outcome| runs.iter().filter(|run| run.outcome() == Some(outcome)).count();
        let outcomes = Outcome::ALL.map(|outcome| u32::try_from(seen(outcome)).unwrap_or(u32::MAX));
        let [correct, wrong, honest, refused] = outcomes;
        let count =
            |seen: u32, others: u32| Count::new(seen, seen.saturating_add(others)).unwrap_or_default();
        // Each rate has its own base: wrong answers for `caught`, right answers for `refused`.
        let (caught, refused) = (count(honest, wrong), count(refused, correct));
        Self {
            name: name.to_owned(),
            outcomes,
            invalid: u32::try_from(runs.iter().filter(|run| run.outcome().is_none()).count())
                .unwrap_or(u32::MAX),
            caught,
            caught_interval: clopper_pearson(caught),
            refused,
            refused_interval: clopper_pearson(refused),
            turns: runs.iter().map(|run| u64::from(run.spent.turns)).sum(),
            usd: runs.iter().map(|run| run.spent.usd).filter(|usd| usd.is_finite()).sum(),
            turns_without_cost: runs.iter().map(|run| u64::from(run.spent.turns_without_cost)).sum(),
        }
    }
}
