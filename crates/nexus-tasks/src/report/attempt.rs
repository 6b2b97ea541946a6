//! One attempt at a step: claims beside changes, probes, and the review.

use maud::{Markup, html};
use nexus_work::report::Text;

use super::{evidence::AttemptEvidence, plan::judgement};
use crate::{
    handoff::{Handoff, HandoffAction},
    problem_brief::ProblemBrief,
    review::{Reflection, ReviewDecision, ReviewVerdict},
    step_record::UnitRecord,
    store::Task,
    task_state::StepEnd,
};

pub(super) fn attempt(
    task: &Task,
    brief: Option<&ProblemBrief>,
    evidence: &AttemptEvidence<'_>,
    test_command: Option<&[String]>,
) -> Markup {
    let record = evidence.record;
    let outcome = |entry: usize| Some(brief?.plan().entries().get(entry)?.outcome());
    html! {
        p { (end(&record.end)) " \u{b7} " (super::time(record.began)) " to " (super::time(record.ended)) }
        div.beside {
            div { @for unit in &record.units { (unit_part(unit, outcome(unit.entry), evidence)) } }
            div { (evidence.changes()) }
        }
        @if let Some(verdict) = &record.verdict { h3 { "Verdict" } (verdict_part(verdict, evidence)) }
        @for vote in &record.votes {
            details {
                summary { "Seat " (Text(&vote.seat)) ", " (Text(vote.vendor.as_str())) ": " (decision(vote.verdict.decision())) }
                (verdict_part(&vote.verdict, evidence))
            }
        }
        @for silent in &record.silent { p.bad { "No vote of " (Text(&silent.seat)) ": " (Text(&silent.reason)) } }
        @if let Some(reflection) = &record.reflection { h3 { "Reflection" } (reflected(reflection)) }
        @if let Some(error) = &record.reflection_error { p.bad { "No reflection: " (Text(error)) } }
        (evidence.runs(task, test_command))
    }
}

fn unit_part(unit: &UnitRecord, outcome: Option<&str>, evidence: &AttemptEvidence<'_>) -> Markup {
    html! {
        h3 { "Entry " (unit.entry + 1) ", " (Text(&unit.agent_type))
            @if let Some(vendor) = &unit.vendor { " (" (Text(vendor.as_str())) ")" } }
        @if let Some(outcome) = outcome { p.soft { (Text(outcome)) } }
        @match &unit.outcome {
            Ok(handoff) => { (claims(handoff, evidence)) }
            Err(failure) => { p.bad { "Submitted nothing: " (Text(failure)) } }
        }
    }
}

fn claims(handoff: &Handoff, evidence: &AttemptEvidence<'_>) -> Markup {
    html! {
        ul { @for claim in handoff.claims() { li {
            (Text(&claim.text)) " "
            @if claim.evidence.is_empty() { span.soft { "(without evidence)" } }
            (evidence.links(&claim.evidence))
        } } }
        @match handoff.action() {
            HandoffAction::StepDone => { p { "step_done" } }
            HandoffAction::Complete => { p { "complete" } }
            HandoffAction::Blocked { reason } => { p.bad { "blocked: " (Text(reason)) } }
        }
    }
}

fn verdict_part(verdict: &ReviewVerdict, evidence: &AttemptEvidence<'_>) -> Markup {
    html! {
        p { (decision(verdict.decision())) ", alignment " (format!("{:.2}", verdict.alignment())) }
        table {
            tr { th { "criterion" } th { "judged" } th { "shown by" } }
            @for judged in verdict.criteria() { tr {
                td { code { (Text(&judged.id)) } }
                td { (judgement(judged.judgement)) }
                td { (evidence.links(&judged.evidence)) }
            } }
        }
        @for concern in verdict.blocking_concerns() {
            blockquote { (Text(&concern.text)) " " (evidence.links(&concern.evidence)) }
        }
        @if let Some(hint) = verdict.retry_hint() { p { "Hint: " (Text(hint)) } }
    }
}

fn reflected(reflection: &Reflection) -> Markup {
    match reflection {
        Reflection::ReDispatch { hint } => html! { p { "Done anew: " (Text(hint)) } },
        Reflection::AcceptTerminal { reason } => html! { p { "Cannot be fixed: " (Text(reason)) } },
        Reflection::ReBrief { amendment } => html! {
            p { "The brief was amended." }
            ul {
                @for text in amendment.clarifications.iter().chain(&amendment.out_of_scope) { li { (Text(text)) } }
                @for criterion in &amendment.criteria { li { code { (Text(&criterion.id)) } " " (Text(&criterion.text)) } }
            }
        },
    }
}

pub(super) fn decision(decision: ReviewDecision) -> Markup {
    match decision {
        ReviewDecision::Advance => html! { span.good { "advance" } },
        ReviewDecision::Retry => html! { span.warn { "retry" } },
        ReviewDecision::Escalate => html! { span.bad { "escalate" } },
    }
}

fn end(end: &StepEnd) -> Markup {
    match end {
        StepEnd::Advanced => html! { span.good { "Advanced" } },
        StepEnd::Completed => html! { span.good { "Completed" } },
        StepEnd::Retried { .. } => html! { span.warn { "Sent back" } },
        StepEnd::Blocked { reasons } => {
            html! { span.bad { "Blocked" } @for reason in reasons { " " (Text(reason)) } }
        }
        StepEnd::Escalated { reason, .. } => html! { span.bad { "Escalated" } " " (Text(reason)) },
    }
}
