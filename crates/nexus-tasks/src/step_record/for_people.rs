//! A step as the text that a person reads at a terminal.

use std::fmt::Write as _;

use nexus_files::rfc3339;

use super::{StepRecord, UnitRecord};
use crate::{
    evidence::EvidenceId,
    handoff::HandoffAction,
    review::{Judgement, Reflection, ReviewDecision, ReviewVerdict},
    task_state::StepEnd,
};

/// Formats an attempt at a step for a person: its end, the answers of its agents, the votes, and the names of its evidence.
pub fn spoken_step(record: &StepRecord) -> String {
    let mut text = format!("step-{}, entry {} of the plan\n", record.attempt, record.entry + 1);
    let (end, reasons) = spoken_end(&record.end);
    let _ = writeln!(text, "end: {end}");
    for reason in reasons {
        let _ = writeln!(text, "  reason: {reason}");
    }
    let _ = writeln!(text, "began: {}", rfc3339::seconds(record.began));
    let _ = writeln!(text, "ended: {}", rfc3339::seconds(record.ended));
    if record.changes_nothing {
        text.push_str("changes: no file\n");
    }
    for unit in &record.units {
        add_unit(&mut text, unit);
    }
    for vote in &record.votes {
        let _ = writeln!(text, "\nvote of {}, by {}:", vote.seat, vote.vendor);
        add_verdict(&mut text, &vote.verdict);
    }
    for silent in &record.silent {
        let _ = writeln!(text, "\nno vote of {}: {}", silent.seat, silent.reason);
    }
    // With a single vote, the verdict of the panel is that of the vote, which is printed above.
    if let Some(verdict) = record.verdict.as_ref().filter(|_| record.votes.len() != 1) {
        text.push_str("\nverdict:\n");
        add_verdict(&mut text, verdict);
    }
    match (&record.reflection, &record.reflection_error) {
        (Some(Reflection::ReBrief { amendment }), _) => {
            let _ = writeln!(text, "\nreflector: changes the brief: {}", amendment.clarifications.join("; "));
        }
        (Some(Reflection::ReDispatch { hint }), _) => {
            let _ = writeln!(text, "\nreflector: try again: {hint}");
        }
        (Some(Reflection::AcceptTerminal { reason }), _) => {
            let _ = writeln!(text, "\nreflector: end the task: {reason}");
        }
        (None, Some(error)) => {
            let _ = writeln!(text, "\nreflector: no answer: {error}");
        }
        (None, None) => {}
    }
    let mut evidence: Vec<String> =
        record.evidence.tests().map(|run| EvidenceId::test(run).to_string()).collect();
    evidence.extend(record.evidence.probes().map(|probe| EvidenceId::probe(probe).to_string()));
    if !evidence.is_empty() {
        let _ = writeln!(text, "\nevidence: {}", evidence.join(", "));
    }
    text
}

/// Returns the words for an end, and its reasons.
fn spoken_end(end: &StepEnd) -> (&'static str, Vec<&str>) {
    match end {
        StepEnd::Advanced => ("advanced: its changes are committed", Vec::new()),
        StepEnd::Completed => ("completed: its changes are committed, and the goal is reached", Vec::new()),
        StepEnd::Retried { .. } => ("retried: the verdict asks for another attempt", Vec::new()),
        StepEnd::Blocked { reasons } => {
            ("blocked: an agent could not do its part", reasons.iter().map(String::as_str).collect())
        }
        StepEnd::Escalated { reason, error } => {
            let reasons = [Some(reason.as_str()), error.as_deref()];
            ("escalated: the task needs a person", reasons.into_iter().flatten().collect())
        }
    }
}

fn add_unit(text: &mut String, unit: &UnitRecord) {
    let vendor = unit.vendor.as_ref().map(|vendor| format!(", by {vendor}")).unwrap_or_default();
    let _ = writeln!(text, "\n{}{vendor}:", unit.agent_type);
    let handoff = match &unit.outcome {
        Ok(handoff) => handoff,
        Err(error) => {
            let _ = writeln!(text, "  no handoff: {error}");
            return;
        }
    };
    for claim in handoff.claims() {
        let _ = writeln!(text, "  claim: {}{}", claim.text, shown_by(&claim.evidence));
    }
    for file in handoff.files() {
        let _ = writeln!(text, "  changed: {file}");
    }
    if let HandoffAction::Blocked { reason } = handoff.action() {
        let _ = writeln!(text, "  blocked: {reason}");
    }
}

fn add_verdict(text: &mut String, verdict: &ReviewVerdict) {
    let decision = match verdict.decision() {
        ReviewDecision::Advance => "advance",
        ReviewDecision::Retry => "retry",
        ReviewDecision::Escalate => "escalate",
    };
    let _ = writeln!(text, "  decision: {decision}");
    for judged in verdict.criteria() {
        let judgement = match judged.judgement {
            Judgement::Pass => "pass",
            Judgement::Fail => "fail",
        };
        let _ = writeln!(text, "  criterion {}: {judgement}{}", judged.id, shown_by(&judged.evidence));
    }
    for concern in verdict.blocking_concerns() {
        let _ = writeln!(text, "  concern: {}{}", concern.text, shown_by(&concern.evidence));
    }
    if let Some(hint) = verdict.retry_hint() {
        let _ = writeln!(text, "  hint: {hint}");
    }
}

fn shown_by(evidence: &[EvidenceId]) -> String {
    match evidence {
        [] => String::new(),
        ids => format!(" ({})", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
