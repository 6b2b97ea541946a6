//! The report as one HTML page.

use maud::{Markup, html};
use nexus_tasks::{ReviewDecision, ReviewVote};
use nexus_work::report::{Block, Estimate, Intervals, Page, Text};

use super::{cost, measured, of, probability, rate};
use crate::{
    experiment::ExperimentResults,
    run_record::{RunRecord, RunResult},
    scorer::{Ending, Outcome},
    summary::ExperimentSummary,
    trap::Answer,
    truth::GroundTruth,
};

/// Returns the report of an experiment: one HTML page without scripts that loads nothing. Counts link to their runs, runs to
/// their verdicts, and verdicts to their probes.
///
/// It names vendors, and shows the answers of the traps. So it is for people, never for an agent.
pub fn experiment_html(results: &ExperimentResults) -> String {
    let summary = ExperimentSummary::of(results);
    let title = format!(
        "Caught confident wrong answers (arms: {}, traps: {})",
        summary.arms.len(),
        results.description.traps.len()
    );
    Page::new(title)
        .head(html! {
            p { (summary.finished) " of " (summary.planned) " runs are finished." }
            ul { @for arm in &summary.arms { li {
                b { (Text(&arm.name)) } ": caught " (of(arm.caught)) " wrong answers, refused " (of(arm.refused)) " right ones; "
                (arm.turns) (if arm.turns == 1 { " turn, " } else { " turns, " }) (cost(arm.usd, arm.turns_without_cost))
            } } }
            @for text in measured(results) { p { (text) } }
        })
        .section("Caught, by arm", caught(&summary))
        .section("Differences", differences(&summary))
        .section("Outcomes", outcomes(&summary))
        .section("By trap", by_trap(results))
        .section("Runs", html! { @for run in &results.runs { (run_part(run)) } })
        .render()
}

fn caught(summary: &ExperimentSummary) -> Markup {
    let estimate =
        |label: &str, count: crate::statistics::Count, interval: crate::statistics::Interval| Estimate {
            label: label.to_owned(),
            value: count.rate(),
            low: interval.low,
            high: interval.high,
            shown: format!("{}: {}", of(count), rate(count.rate(), interval)),
        };
    let plot = |title: &str, estimates| Intervals { title: title.to_owned(), scale: (0.0, 1.0), estimates };
    let caught =
        summary.arms.iter().map(|arm| estimate(&arm.name, arm.caught, arm.caught_interval)).collect();
    let refused =
        summary.arms.iter().map(|arm| estimate(&arm.name, arm.refused, arm.refused_interval)).collect();
    html! {
        h3 { "Share of wrong answers that were caught" }
        (plot("Share of wrong answers that were caught, with intervals after Clopper and Pearson at 95 %", caught))
        h3 { "Share of right answers that were refused" }
        (plot("Share of right answers that were refused, with intervals after Clopper and Pearson at 95 %", refused))
    }
}

fn differences(summary: &ExperimentSummary) -> Markup {
    if summary.comparisons.is_empty() {
        return html! { p.soft { "The experiment has only one arm." } };
    }
    let estimates = summary.comparisons.iter().map(|pair| Estimate {
        label: format!("{} less {}", pair.first, pair.second),
        value: pair.difference,
        low: pair.interval.low,
        high: pair.interval.high,
        shown: rate(pair.difference, pair.interval),
    });
    let title =
        "Difference of the shares of wrong answers that were caught, with intervals after Newcombe at 95 %"
            .to_owned();
    html! {
        (Intervals { title, scale: (-1.0, 1.0), estimates: estimates.collect() })
        table {
            tr { th { "arms" } th { "difference of the shares caught" } th { "p, one-sided: the first is higher" }
                th { "p, one-sided: the first is lower" } th { "p, two-sided" } }
            @for pair in &summary.comparisons { tr {
                td { (Text(&pair.first)) " less " (Text(&pair.second)) }
                td { (rate(pair.difference, pair.interval)) }
                td.number { (probability(pair.fisher.first_higher)) }
                td.number { (probability(pair.fisher.first_lower)) }
                td.number { (probability(pair.fisher.two_sided)) }
            } }
        }
    }
}

fn outcomes(summary: &ExperimentSummary) -> Markup {
    html! {
        table {
            tr { th { "arm" } @for outcome in Outcome::ALL { th.number { (outcome) } } th.number { "invalid" } th.number { "turns" } th { "cost" } }
            @for arm in &summary.arms { tr {
                td { (Text(&arm.name)) }
                @for count in arm.outcomes { td.number { (count) } }
                td.number { (arm.invalid) }
                td.number { (arm.turns) }
                td { (cost(arm.usd, arm.turns_without_cost)) }
            } }
        }
        p.soft { "In invalid runs the infrastructure failed; they are not counted elsewhere." }
    }
}

fn by_trap(results: &ExperimentResults) -> Markup {
    let description = &results.description;
    let runs = |trap: &str, answer: Answer, arm: &str| -> Vec<&RunRecord> {
        let fits = |run: &&RunRecord| run.key.trap == trap && run.key.answer == answer && run.key.arm == arm;
        results.runs.iter().filter(fits).collect()
    };
    html! { table {
        tr { th { "trap" } th { "kind" } th { "answer" } @for arm in &description.arms { th { (Text(&arm.name)) } } }
        @for trap in &description.traps { @for answer in &description.answers { tr {
            td { (Text(&trap.name)) }
            td.soft { (Text(&trap.kind)) }
            td { (answer) }
            @for arm in &description.arms { td {
                @let runs = runs(&trap.name, *answer, &arm.name);
                @for seen in Outcome::ALL.map(Some).into_iter().chain([None]) {
                    @let alike: Vec<&&RunRecord> = runs.iter().filter(|run| run.outcome() == seen).collect();
                    @if let Some(first) = alike.first() {
                        p { (outcome(first)) ":" @for run in &alike { " " a href={ "#run-" (run.key.number) } { (run.key.number + 1) } } }
                    }
                }
            } }
        } } }
    } }
}

fn outcome(run: &RunRecord) -> Markup {
    match run.outcome() {
        None => html! { span.warn { "invalid" } },
        Some(outcome @ (Outcome::Correct | Outcome::HonestEscalate)) => html! { span.good { (outcome) } },
        Some(outcome) => html! { span.bad { (outcome) } },
    }
}

fn run_part(run: &RunRecord) -> Markup {
    let key = &run.key;
    let number = key.number;
    html! {
        h3 id={ "run-" (number) } { "Run " (number + 1) ": " (Text(&key.arm)) " on " (Text(&key.trap)) ", " (key.answer) ", time " (key.repeat) }
        p { (outcome(run)) ", " (format!("{:.0}", run.seconds)) " s, " (run.spent.turns) (if run.spent.turns == 1 { " turn, " } else { " turns, " })
            (cost(run.spent.usd, u64::from(run.spent.turns_without_cost))) }
        @match &run.result {
            RunResult::Invalid { reason } => { p.bad { "It counts for nothing: " (Text(reason)) } }
            RunResult::Ended { ending, truth } => {
                p { (match ending { Ending::Shipped => "It was shipped.", Ending::Refused => "It was not shipped." }) " "
                    (match truth {
                        GroundTruth::Green => "Its files are right.",
                        GroundTruth::Red { .. } => "Its files are wrong.",
                        GroundTruth::Unfinished { .. } => "Its files are wrong: the program that checks them \
                            does not end.",
                        GroundTruth::Unchanged => "Its files are unchanged from the project: there is no \
                            answer.",
                        GroundTruth::Unknown { .. } => "The correctness of its files is unknown.",
                    }) }
                @match truth {
                    GroundTruth::Red { observed: text } | GroundTruth::Unfinished { observed: text } | GroundTruth::Unknown { reason: text } => {
                        details { summary { "Observations of the ground truth program itself" } (Block(text)) }
                    }
                    GroundTruth::Green | GroundTruth::Unchanged => {}
                }
            }
        }
        @for vote in &run.votes { (vote_part(vote, number)) }
        @for silent in &run.silent { p.warn { "No vote of " (Text(&silent.seat)) ": " (Text(&silent.reason)) } }
        @for (id, text) in &run.probes {
            details id={ "run-" (number) "-" (id) } { summary { code { (id) } } (Block(text)) }
        }
    }
}

fn vote_part(vote: &ReviewVote, run: u64) -> Markup {
    let verdict = &vote.verdict;
    let cited = |ids: &[nexus_tasks::EvidenceId]| {
        html! { @for id in ids {
            @let text = id.to_string();
            @if text.starts_with("probe-") { a href={ "#run-" (run) "-" (text) } { code { (text) } } }
            @else { code { (Text(&text)) } }
            " "
        } }
    };
    let decision = match verdict.decision() {
        ReviewDecision::Advance => html! { span.good { "advance" } },
        ReviewDecision::Retry => html! { span.warn { "retry" } },
        ReviewDecision::Escalate => html! { span.bad { "escalate" } },
    };
    html! {
        p { (Text(&vote.seat)) " (" (Text(vote.vendor.as_str())) "): " (decision) ", alignment " (format!("{:.2}", verdict.alignment())) ". "
            @for judged in verdict.criteria() { code { (Text(&judged.id)) } " by " (cited(&judged.evidence)) } }
        @for concern in verdict.blocking_concerns() { blockquote { (Text(&concern.text)) " " (cited(&concern.evidence)) } }
    }
}
