//! One attempt at a step: claims beside changes, probes, and the review.

use maud::{Markup, html};
use nexus_work::report::{Block, Text, diff};

use super::plan::judgement;
use crate::{
    checks::shown_probe,
    evidence::EvidenceId,
    handoff::{Handoff, HandoffAction},
    problem_brief::ProblemBrief,
    review::{Reflection, ReviewDecision, ReviewVerdict},
    step_record::{StepRecord, UnitRecord},
    store::Task,
    task_state::StepEnd,
};

/// Shown part of a patch, in bytes.
const MOST_PATCH_BYTES: usize = 256 << 10;

pub(super) fn attempt(task: &Task, brief: Option<&ProblemBrief>, record: &StepRecord) -> Markup {
    let outcome = |entry: usize| Some(brief?.plan().entries().get(entry)?.outcome());
    html! {
        p { (end(&record.end)) " \u{b7} " (super::time(record.began)) " to " (super::time(record.ended)) }
        div.beside {
            div { @for unit in &record.units { (unit_part(unit, outcome(unit.entry))) } }
            div { h3 { "Changed" } @match &record.work {
                Some(_) if record.changes_nothing => { p.warn { "This step changes no file." } }
                Some(_) => { (patch(task, record.attempt)) }
                None => { p.soft { "Nothing was reviewed." } }
            } }
        }
        @if let Some(verdict) = &record.verdict { h3 { "Verdict" } (verdict_part(verdict)) }
        @for vote in &record.votes {
            details {
                summary { "Seat " (Text(&vote.seat)) ", " (Text(vote.vendor.as_str())) ": " (decision(vote.verdict.decision())) }
                (verdict_part(&vote.verdict))
            }
        }
        @for silent in &record.silent { p.bad { "No vote of " (Text(&silent.seat)) ": " (Text(&silent.reason)) } }
        @if let Some(reflection) = &record.reflection { h3 { "Reflection" } (reflected(reflection)) }
        @if let Some(error) = &record.reflection_error { p.bad { "No reflection: " (Text(error)) } }
        @let probes = probes(task, record);
        @if !probes.is_empty() {
            h3 { "Probes" }
            @for (id, text) in &probes { details { summary { code { (id) } } (Block(text)) } }
        }
    }
}

fn unit_part(unit: &UnitRecord, outcome: Option<&str>) -> Markup {
    html! {
        h3 { "Entry " (unit.entry + 1) ", " (Text(&unit.agent_type))
            @if let Some(vendor) = &unit.vendor { " (" (Text(vendor.as_str())) ")" } }
        @if let Some(outcome) = outcome { p.soft { (Text(outcome)) } }
        @match &unit.outcome {
            Ok(handoff) => { (claims(handoff)) }
            Err(failure) => { p.bad { "Handed nothing in: " (Text(failure)) } }
        }
    }
}

fn claims(handoff: &Handoff) -> Markup {
    html! {
        ul { @for claim in handoff.claims() { li {
            (Text(&claim.text)) " "
            @if claim.evidence.is_empty() { span.soft { "(without evidence)" } }
            @for id in &claim.evidence { code { (Text(&id.to_string())) } " " }
        } } }
        @match handoff.action() {
            HandoffAction::StepDone => { p { "step_done" } }
            HandoffAction::Complete => { p { "complete" } }
            HandoffAction::Blocked { reason } => { p.bad { "blocked: " (Text(reason)) } }
        }
    }
}

fn patch(task: &Task, attempt: u32) -> Markup {
    let patch = match task.patch(Some(attempt)) {
        Ok(Some(patch)) => patch,
        Ok(None) => return html! { p.soft { "Nothing was reviewed." } },
        Err(error) => return html! { p.bad { "The diff cannot be shown: " (Text(&error.to_string())) } },
    };
    let text = patch.text();
    let shown = &text[..text.floor_char_boundary(MOST_PATCH_BYTES)];
    html! {
        @if text.is_empty() { p.soft { "Nothing was changed." } } @else { (diff(shown)) }
        @if shown.len() < text.len() { p.soft { (text.len() - shown.len()) " more bytes are not shown." } }
    }
}

fn verdict_part(verdict: &ReviewVerdict) -> Markup {
    html! {
        p { (decision(verdict.decision())) ", alignment " (format!("{:.2}", verdict.alignment())) }
        table {
            tr { th { "criterion" } th { "judged" } th { "shown by" } }
            @for judged in verdict.criteria() { tr {
                td { code { (Text(&judged.id)) } }
                td { (judgement(judged.judgement)) }
                td { @for id in &judged.evidence { code { (Text(&id.to_string())) } " " } }
            } }
        }
        @for concern in verdict.blocking_concerns() {
            blockquote { (Text(&concern.text)) " " @for id in &concern.evidence { code { (Text(&id.to_string())) } " " } }
        }
        @if let Some(hint) = verdict.retry_hint() { p { "Hint: " (Text(hint)) } }
    }
}

fn reflected(reflection: &Reflection) -> Markup {
    match reflection {
        Reflection::ReDispatch { hint } => html! { p { "Done anew: " (Text(hint)) } },
        Reflection::AcceptTerminal { reason } => html! { p { "Cannot be mended: " (Text(reason)) } },
        Reflection::ReBrief { amendment } => html! {
            p { "The brief was amended." }
            ul {
                @for text in amendment.clarifications.iter().chain(&amendment.out_of_scope) { li { (Text(text)) } }
                @for criterion in &amendment.criteria { li { code { (Text(&criterion.id)) } " " (Text(&criterion.text)) } }
            }
        },
    }
}

/// Returns the probes of the attempt, as agents read them.
fn probes(task: &Task, record: &StepRecord) -> Vec<(String, String)> {
    let store = task.probes();
    let shown = |number| {
        let id = EvidenceId::probe(number);
        let text = match store.read(number) {
            Ok(probe) => shown_probe(&id, &probe),
            Err(error) => format!("It cannot be shown: {error}"),
        };
        (id.to_string(), text)
    };
    record.evidence.probes().map(shown).collect()
}

fn decision(decision: ReviewDecision) -> Markup {
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
