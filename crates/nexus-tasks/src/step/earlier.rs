//! Texts about earlier work in the task, for agents: `read_handoffs` and `read_history`.

use std::fmt::Write as _;

use nexus_work::Quote;

use crate::{
    agent::{shown_handoff, shown_verdict},
    handoff::Handoff,
    review::{Reflection, ReviewVerdict},
    step_record::StepRecord,
    task_state::StepEnd,
};

/// Returns the text of `read_handoffs`: the handoffs of settled steps, and all of earlier attempts at the step that begins with `entry`.
pub(super) fn shown_handoffs(settled: &[StepRecord], entry: usize) -> String {
    let mut text = String::new();
    let is_settled = |record: &StepRecord| matches!(record.end, StepEnd::Advanced | StepEnd::Completed);
    for record in settled.iter().filter(|record| is_settled(record) || record.entry == entry) {
        let attempt = record.attempt;
        for unit in &record.units {
            if let Ok(handoff) = &unit.outcome {
                let place = unit.entry + 1;
                let origin = format!("attempt {attempt}: the handoff of plan entry {place}");
                let _ = writeln!(text, "{}", shown_handoff(&origin, handoff));
            }
        }
        if record.entry == entry {
            if let Some(verdict) = &record.verdict {
                let origin = format!("attempt {attempt}: the verdict on it");
                let _ = writeln!(text, "{}", shown_verdict(&origin, verdict));
            }
            if let Some(reflection) = &record.reflection {
                let origin = format!("attempt {attempt}: the reflection on its verdict");
                let _ = writeln!(text, "{}", shown_reflection(&origin, reflection));
            }
        }
    }
    text
}

/// Returns the handoffs of the reviewed work, each with its entry of the plan.
pub(super) fn shown_work(handoffs: &[(usize, Handoff)]) -> String {
    let mut text = String::new();
    for (entry, handoff) in handoffs {
        let origin = format!("the handoff of the work that you judge, plan entry {}", entry + 1);
        let _ = writeln!(text, "{}", shown_handoff(&origin, handoff));
    }
    text
}

/// Returns the verdict that a reflector answers.
pub(super) fn shown_verdict_at_hand(verdict: &ReviewVerdict) -> String {
    shown_verdict("the verdict that you reflect on", verdict)
}

/// Returns the attempts of a task so far.
pub(super) fn shown_history(settled: &[StepRecord]) -> String {
    let mut text = String::new();
    for record in settled {
        let (attempt, entry) = (record.attempt, record.entry + 1);
        let end = match &record.end {
            StepEnd::Advanced => "advanced",
            StepEnd::Completed => "completed the task",
            StepEnd::Retried { .. } => "was sent back for another attempt",
            StepEnd::Blocked { .. } => "was blocked",
            StepEnd::Escalated { .. } => "was escalated",
        };
        let diff = match record.work {
            Some(_) => format!("call read_history with attempt {attempt} for its diff"),
            None => "it was not reviewed".to_owned(),
        };
        let _ = writeln!(text, "attempt {attempt}, plan entry {entry}: it {end}; {diff}");
        if let Some(verdict) = &record.verdict {
            let origin = format!("attempt {attempt}: the verdict on it");
            let _ = writeln!(text, "{}", shown_verdict(&origin, verdict));
        }
    }
    text
}

fn shown_reflection(origin: &str, reflection: &Reflection) -> String {
    let mut text = String::new();
    match reflection {
        Reflection::ReBrief { amendment } => {
            text.push_str("re_brief\n");
            for clarification in &amendment.clarifications {
                let _ = writeln!(text, "made clear: {clarification}");
            }
            for criterion in &amendment.criteria {
                let _ = writeln!(text, "criterion {}: {}", criterion.id, criterion.text);
            }
            for beyond in &amendment.out_of_scope {
                let _ = writeln!(text, "not part of the problem: {beyond}");
            }
        }
        Reflection::ReDispatch { hint } => {
            let _ = write!(text, "re_dispatch: {hint}");
        }
        Reflection::AcceptTerminal { reason } => {
            let _ = write!(text, "accept_terminal: {reason}");
        }
    }
    Quote::new(origin, text.trim_end()).to_string()
}
