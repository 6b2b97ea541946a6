//! Texts that `read_my_brief` and `read_handoffs` return.

use std::fmt::Write as _;

use nexus_core::PathRule;
use nexus_work::Quote;

use crate::{
    evidence::EvidenceId,
    handoff::{Handoff, HandoffAction},
    problem_brief::{Criterion, PlanEntry, ProblemBrief},
    review::{Judgement, ReviewDecision, ReviewVerdict},
};

/// Heading of the caller's advice in a briefing.
pub const ADVICE_HEADING: &str = "advice for this attempt at the step";
/// End of the heading of a criterion that the review of the step judges: `criterion ID, which has to hold after this step`.
pub const CRITERION_OF_STEP: &str = "which has to hold after this step";

/// Returns the brief as an agent reads it: the problem, the outcomes of the plan entries, the criteria and the bounds.
///
/// `work` lists the plan entries to do or to review. `criteria` are ids of [`ProblemBrief::criteria_of`], which have to hold after
/// this step. `hints` are texts of the caller and of the last verdict.
pub fn briefing(brief: &ProblemBrief, work: &[PlanEntry], criteria: &[String], hints: &[&str]) -> String {
    let mut text = String::new();
    let (problem, clarifications) = brief.problem();
    let part = |text: &mut String, origin: &str, quoted: &str| {
        let _ = writeln!(text, "{}", Quote::new(origin, quoted));
    };
    part(&mut text, "the problem", problem);
    for clarification in clarifications {
        part(&mut text, "a clarification that was added later on", clarification);
    }
    for hint in hints {
        part(&mut text, ADVICE_HEADING, hint);
    }
    for entry in work {
        part(&mut text, "the required outcome of this step (criterion outcome)", entry.outcome());
        if let Some(slice) = entry.write_slice() {
            part(&mut text, "the paths that this step may write", &slice.join("\n"));
        }
    }
    let is_judged = |criterion: &&Criterion| criteria.contains(&criterion.id);
    for criterion in brief.criteria() {
        let when = if is_judged(&criterion) { CRITERION_OF_STEP } else { "which has to hold in the end" };
        part(&mut text, &format!("criterion {}, {when}", criterion.id), &criterion.text);
    }
    for beyond in brief.out_of_scope() {
        part(&mut text, "not part of the problem", beyond);
    }
    part(&mut text, "the paths that you may read", &brief.readable().join("\n"));
    part(&mut text, "the paths that the task may write", &brief.writable().join("\n"));
    let rules: Vec<&str> = brief.do_not_touch().iter().map(PathRule::as_str).collect();
    if !rules.is_empty() {
        part(&mut text, "the paths that must not be touched", &rules.join("\n"));
    }
    text
}

/// A handoff as another agent reads it. `origin` is a name of ours: "the handoff of step 1, unit 2".
pub fn shown_handoff(origin: &str, handoff: &Handoff) -> String {
    let mut text = String::new();
    for claim in handoff.claims() {
        let _ = writeln!(text, "claim ({}): {}", shown_ids(&claim.evidence), claim.text);
    }
    for file in handoff.files() {
        let _ = writeln!(text, "changed: {file}");
    }
    match handoff.action() {
        HandoffAction::StepDone => text.push_str("action: step_done"),
        HandoffAction::Complete => text.push_str("action: complete"),
        HandoffAction::Blocked { reason } => {
            let _ = write!(text, "action: blocked: {reason}");
        }
    }
    Quote::new(origin, &text).to_string()
}

/// A verdict as another agent reads it. `origin` is a name of ours: "the verdict on attempt 2".
pub fn shown_verdict(origin: &str, verdict: &ReviewVerdict) -> String {
    let mut text = String::new();
    let decision = match verdict.decision() {
        ReviewDecision::Advance => "advance",
        ReviewDecision::Retry => "retry",
        ReviewDecision::Escalate => "escalate",
    };
    let _ = writeln!(text, "decision: {decision}, alignment {}", verdict.alignment());
    for judged in verdict.criteria() {
        let word = match judged.judgement {
            Judgement::Pass => "pass",
            Judgement::Fail => "fail",
        };
        let _ = writeln!(text, "criterion {}: {word} ({})", judged.id, shown_ids(&judged.evidence));
    }
    for concern in verdict.blocking_concerns() {
        let _ = writeln!(text, "concern ({}): {}", shown_ids(&concern.evidence), concern.text);
    }
    if let Some(hint) = verdict.retry_hint() {
        let _ = writeln!(text, "hint: {hint}");
    }
    Quote::new(origin, text.trim_end()).to_string()
}

fn shown_ids(ids: &[EvidenceId]) -> String {
    match ids {
        [] => "without evidence".to_owned(),
        ids => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
