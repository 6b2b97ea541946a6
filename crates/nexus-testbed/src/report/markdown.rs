//! The report as Markdown.

use std::fmt::Write as _;

use nexus_core::visible::Visible;
use nexus_tasks::ReviewDecision;

use super::{cost, measured, of, probability, rate};
use crate::{
    experiment::ExperimentResults, run_record::RunRecord, scorer::Outcome, summary::ExperimentSummary,
};

/// Returns the report of an experiment as Markdown. It has the content of the HTML page, without its plots and the output of
/// probes.
///
/// Names and texts of reviewers are escaped, so that none of their characters is markup.
pub fn experiment_markdown(results: &ExperimentResults) -> String {
    let summary = ExperimentSummary::of(results);
    let mut page = format!(
        "# Caught confident wrong answers\n\n{} of {} runs are finished.\n",
        summary.finished, summary.planned
    );
    for text in measured(results) {
        let _ = write!(page, "\n{text}\n");
    }
    page += "\n## Arms\n\n| arm | caught | share (95 %) | right answers refused | share (95 %) | ";
    for outcome in Outcome::ALL {
        let _ = write!(page, "{outcome} | ");
    }
    page += "invalid | turns | cost |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for arm in &summary.arms {
        let [correct, wrong, honest, refused] = arm.outcomes;
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {correct} | {wrong} | {honest} | {refused} | {} | {} | {} |",
            plain(&arm.name),
            of(arm.caught),
            rate(arm.caught.rate(), arm.caught_interval),
            of(arm.refused),
            rate(arm.refused.rate(), arm.refused_interval),
            arm.invalid,
            arm.turns,
            cost(arm.usd, arm.turns_without_cost),
        );
    }
    if !summary.comparisons.is_empty() {
        page += "\n## Differences\n\n| arms | difference (95 %) | p, one-sided: the first is higher | p, one-sided: the first is lower | p, two-sided |\n\
                 | --- | --- | --- | --- | --- |\n";
    }
    for pair in &summary.comparisons {
        let _ = writeln!(
            page,
            "| {} less {} | {} | {} | {} | {} |",
            plain(&pair.first),
            plain(&pair.second),
            rate(pair.difference, pair.interval),
            probability(pair.fisher.first_higher),
            probability(pair.fisher.first_lower),
            probability(pair.fisher.two_sided),
        );
    }
    page += "\n## Runs\n\n| run | arm | trap | answer | outcome | verdicts | shown by |\n| --- | --- | --- | --- | --- | --- | --- |\n";
    for run in &results.runs {
        add_run(&mut page, run);
    }
    page
}

fn add_run(page: &mut String, run: &RunRecord) {
    let outcome = match (run.outcome(), run.invalid()) {
        (Some(outcome), _) => outcome.to_string(),
        (None, reason) => format!("invalid: {}", plain(&reason.unwrap_or_default())),
    };
    let verdict = |vote: &nexus_tasks::ReviewVote| {
        let decision = match vote.verdict.decision() {
            ReviewDecision::Advance => "advance",
            ReviewDecision::Retry => "retry",
            ReviewDecision::Escalate => "escalate",
        };
        let concerns =
            vote.verdict.blocking_concerns().iter().map(|concern| format!(": {}", plain(&concern.text)));
        format!("{} {decision}{}", plain(vote.vendor.as_str()), concerns.collect::<String>())
    };
    let verdicts: Vec<String> = run.votes.iter().map(verdict).collect();
    let probes: Vec<String> = run.probes.iter().map(|(id, _)| id.to_string()).collect();
    let _ = writeln!(
        page,
        "| {} | {} | {} | {} | {outcome} | {} | {} |",
        run.key.number + 1,
        plain(&run.key.arm),
        plain(&run.key.trap),
        run.key.answer,
        verdicts.join("; "),
        probes.join(", "),
    );
}

/// Escapes a text for one line, so that nothing in it is markup of Markdown or HTML.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in Visible(text).to_string().chars() {
        match character {
            '<' => plain += "&lt;",
            '>' => plain += "&gt;",
            '&' => plain += "&amp;",
            // Escape the dot: a renderer would turn `www.` into a link.
            '.' if plain.to_lowercase().ends_with("www") => plain += "&#46;",
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '!' | '|' | '~'
            | '/' | '$' => {
                plain.push('\\');
                plain.push(character);
            }
            _ => plain.push(character),
        }
    }
    plain
}
