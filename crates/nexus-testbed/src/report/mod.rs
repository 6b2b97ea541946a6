//! Reports of experiments.

mod html;
mod markdown;

pub use html::experiment_html;
pub use markdown::experiment_markdown;

use nexus_files::counted;

use crate::{
    experiment::{ExperimentResults, RunMode},
    statistics::{Count, Interval},
};

/// Returns a description of the measurement, and of its two outcomes.
fn measured(results: &ExperimentResults) -> [&'static str; 2] {
    let what = match results.description.mode {
        RunMode::Review => {
            "Review only: the reviewers of each arm judged an answer with a complete handoff whose claims \
             are true. Their verdict was measured: a verdict that advances ships the answer, any other \
             verdict catches it."
        }
        RunMode::Task => {
            "Whole tasks: the agents of each arm framed the goal, worked on it and reviewed it, over all \
             retries. A complete task shipped its answer; a blocked or escalated task did not."
        }
    };
    let how = "A program that no agent could reach decided if an answer is right; statements of agents did \
               not count. Caught is the share of wrong answers that were not shipped. Intervals are at 95 %: \
               Clopper and Pearson's for a share, Newcombe's for a difference. p is Fisher's exact test; the \
               comparisons are not corrected for their number.";
    [what, how]
}

/// Formats a count: `7 of 8`.
fn of(count: Count) -> String {
    format!("{} of {}", count.seen(), count.trials())
}

/// Formats a rate: `0.88 (0.47 to 1.00)`.
fn rate(rate: Option<f64>, interval: Interval) -> String {
    let value = rate.map_or_else(|| "nothing seen".to_owned(), |rate| format!("{rate:.2}"));
    format!("{value} ({:.2} to {:.2})", interval.low, interval.high)
}

/// Formats a probability with three digits.
fn probability(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.1e}") }
}

/// Formats a cost, with the number of turns of unknown cost.
fn cost(usd: f64, turns_without_cost: u64) -> String {
    match turns_without_cost {
        0 => format!("{usd:.2} USD"),
        unknown => format!("{usd:.2} USD, {} of unknown cost", counted(unknown, "turn")),
    }
}
