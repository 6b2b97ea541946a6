//! The agents' turns: their times and their cost.

use maud::{Markup, Render as _, html};
use nexus_core::{RecordedOutcome, TurnRecord};
use nexus_work::{
    LoggedTurn, WorkspaceEvent,
    report::{Bar, Bars, Span, SpanKind, TimeLine},
};

/// Maximum number of turns to draw; the first ones are left out.
const MOST_TURNS: usize = 400;

pub(super) fn time_line(turns: &[TurnRecord]) -> Markup {
    let left_out = turns.len().saturating_sub(MOST_TURNS);
    let turns = &turns[left_out..];
    let Some(first) = turns.iter().map(|turn| turn.began).min() else {
        return html! { p.soft { "No turn of an agent has started yet." } };
    };
    let span = |turn: &TurnRecord| Span {
        lane: turn.name.clone(),
        label: turn.name.clone(),
        began: turn.began.duration_since(first).unwrap_or_default(),
        took: turn.took.unwrap_or_default(),
        kind: match &turn.outcome {
            Some(RecordedOutcome::Result(_)) => SpanKind::Well,
            Some(_) => SpanKind::Failed,
            None => SpanKind::Open,
        },
    };
    let title = "Times of the turns of agents".to_owned();
    html! {
        @if left_out > 0 { p.soft { (left_out) " earlier turns are left out." } }
        (TimeLine { title, spans: turns.iter().map(span).collect() }.render())
    }
}

/// Usage of one phase's turns.
#[derive(Debug, Default)]
struct PhaseUsage {
    turns: u32,
    usd: Option<f64>,
    output_tokens: u64,
}

pub(super) fn cost(events: &[WorkspaceEvent]) -> Markup {
    // List the phases in the order in which the task reached them.
    let mut phases: Vec<(String, PhaseUsage)> = Vec::new();
    for turn in LoggedTurn::ended(events) {
        let at = phases.iter().position(|(phase, _)| *phase == turn.phase).unwrap_or_else(|| {
            phases.push((turn.phase.clone(), PhaseUsage::default()));
            phases.len() - 1
        });
        let used = &mut phases[at].1;
        used.turns += 1;
        used.output_tokens += turn.output_tokens.unwrap_or_default();
        if let Some(cost) = turn.cost {
            *used.usd.get_or_insert(0.0) += cost.usd.0;
        }
    }
    if phases.is_empty() {
        return html! { p.soft { "No turn has ended yet." } };
    }
    let dollars =
        |used: &PhaseUsage| used.usd.map_or_else(|| "not reported".to_owned(), |usd| format!("${usd:.4}"));
    let tokens = |(phase, used): &(String, PhaseUsage)| Bar {
        label: phase.clone(),
        value: used.output_tokens as f64,
        shown: format!("{} tokens, {}", used.output_tokens, dollars(used)),
    };
    let bars = Bars {
        title: "Tokens that models wrote, by phase".to_owned(),
        bars: phases.iter().map(tokens).collect(),
    };
    html! {
        (bars.render())
        table {
            tr { th { "phase" } th.number { "turns" } th.number { "tokens out" } th.number { "US dollars" } }
            @for (phase, used) in &phases {
                tr { td { (phase) } td.number { (used.turns) } td.number { (used.output_tokens) } td.number { (dollars(used)) } }
            }
        }
    }
}
