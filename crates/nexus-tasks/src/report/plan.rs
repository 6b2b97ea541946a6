//! The brief and its plan, with the state of each entry and criterion.

use maud::{Markup, html};
use nexus_work::report::{Block, Text};

use super::evidence::AttemptEvidence;
use crate::{
    problem_brief::ProblemBrief,
    review::{CriterionJudgement, Judgement},
    store::TaskSnapshot,
    task_state::TaskStatus,
};

pub(super) fn plan(
    brief: &ProblemBrief,
    snapshot: &TaskSnapshot,
    attempts: &[AttemptEvidence<'_>],
) -> Markup {
    let (problem, clarifications) = brief.problem();
    let judged = |id: &str| {
        attempts.iter().rev().find_map(|attempt| {
            let verdict = attempt.record.verdict.as_ref()?;
            let is_it = |judged: &&CriterionJudgement| judged.id == id;
            Some((attempt, verdict.criteria().iter().find(is_it)?))
        })
    };
    html! {
        (Block(problem))
        @for text in clarifications { blockquote { (Text(text)) } }
        table {
            tr { th { "entry" } th { "agent" } th { "what is to be true after it" } th { "state" } }
            @for (number, entry) in brief.plan().entries().iter().enumerate() {
                tr {
                    td { (number + 1) @if let Some(group) = entry.parallel_group() { " (" (Text(group)) ")" } }
                    td { (Text(entry.agent_type())) " \u{b7} " (Text(entry.phase())) }
                    td {
                        (Text(entry.outcome()))
                        @if let Some(slice) = entry.write_slice() { div.soft { "writes " (Text(&slice.join(", "))) } }
                    }
                    td { (state(number, brief, snapshot)) }
                }
            }
        }
        h3 { "Criteria" }
        table {
            tr { th { "id" } th { "has to hold" } th { "last judged" } th { "shown by" } }
            @for criterion in brief.criteria() {
                tr {
                    td { code { (Text(&criterion.id)) } }
                    td { (Text(&criterion.text)) }
                    @match judged(&criterion.id) {
                        None => { td.soft { "not yet" } td {} }
                        Some((attempt, found)) => {
                            td { (judgement(found.judgement)) }
                            td { (attempt.links(&found.evidence)) }
                        }
                    }
                }
            }
        }
        details {
            summary { "Scope" }
            table {
                tr { th { "may be read" } td { (Text(&brief.readable().join(", "))) } }
                tr { th { "may be written" } td { (Text(&brief.writable().join(", "))) } }
                tr { th { "must not be touched" } td { @for rule in brief.do_not_touch() { code { (Text(rule.as_str())) } " " } } }
                tr { th { "not part of it" } td { @for beyond in brief.out_of_scope() { p { (Text(beyond)) } } } }
            }
        }
    }
}

fn state(number: usize, brief: &ProblemBrief, snapshot: &TaskSnapshot) -> Markup {
    let step = |entry: usize| brief.plan().step_of(entry);
    let holds = |entry: usize| step(entry).is_some_and(|step| (step.first()..step.end()).contains(&number));
    let commit = snapshot.data.commits.iter().rev().find(|settled| holds(settled.entry));
    match (&snapshot.state.status, commit) {
        (TaskStatus::Active { cursor }, _) if holds(cursor.entry) => html! { span.warn { "to be done" } },
        (TaskStatus::Complete { left_over, .. }, _) if left_over.contains(&number) => {
            html! { span.soft { "not needed" } }
        }
        (_, Some(settled)) => html! { span.good { "done" } " " code { (&settled.commit.as_str()[..12]) } },
        (TaskStatus::Blocked { entry, .. }, _) if holds(*entry) => html! { span.bad { "blocked" } },
        (TaskStatus::Escalated { entry: Some(entry), .. }, _) if holds(*entry) => {
            html! { span.bad { "escalated" } }
        }
        _ => html! { span.soft { "open" } },
    }
}

pub(super) fn judgement(judgement: Judgement) -> Markup {
    match judgement {
        Judgement::Pass => html! { span.good { "pass" } },
        Judgement::Fail => html! { span.bad { "fail" } },
    }
}
