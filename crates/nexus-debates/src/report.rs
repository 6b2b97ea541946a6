//! The report of a debate: one self-contained HTML page.

use std::collections::BTreeMap;

use maud::{Markup, Render as _, html};
use nexus_files::counted;
use nexus_work::LoggedTurn;
use nexus_work::report::{
    Bar, Bars, Block, Page, Text, configuration, cost_in_words, spoken_duration, vendors_in_words,
};

use crate::{
    debate::{Debate, DebateSnapshot},
    debate_error::DebateError,
    frame::Frame,
    opening::Argument,
    position::Stance,
    proceedings::Proceedings,
    state::DebateState,
};

/// Returns the report of a debate as it is now: the positions after each stage with revisions, the measures of the rounds,
/// every argument, the absences, and the usage of each vendor. It is an HTML file in UTF-8, without scripts, that loads
/// nothing.
///
/// The report names vendors, so it is for the caller and never for an agent. It reads files: in async code, call it inside
/// `spawn_blocking`.
///
/// # Errors
///
/// As [`Debate::snapshot`] and [`Debate::proceedings`].
pub fn debate_report(debate: &Debate) -> Result<String, DebateError> {
    let snapshot = debate.snapshot()?;
    let proceedings = debate.proceedings(&snapshot.data)?;
    let events = debate.events()?.events;
    let turns: Vec<LoggedTurn> = LoggedTurn::ended(&events).collect();
    let mut page = Page::new(title(&snapshot)).head(head(debate, &snapshot, &proceedings, &turns));
    if let Some(interpretation) = proceedings.interpretation() {
        page = page.section("Interpretation of the arbiter", html! { (Block(&interpretation.text)) });
    }
    page = page.section("Question", question(&snapshot));
    if let Some(frame) = proceedings.frame() {
        page = page
            .section("Positions of the panel on each claim", standings(frame, &proceedings))
            .section("Panel", panel(frame, &proceedings))
            .section("Rounds", rounds(&proceedings))
            .section("Arguments", arguments(&proceedings));
    }
    page = page.section("Use by vendor", used(&turns));
    if let Some(configuration) = configuration(&events) {
        page = page.section("Configuration at the beginning", configuration);
    }
    Ok(page.render())
}

fn title(snapshot: &DebateSnapshot) -> String {
    let question = snapshot.data.question.lines().map(str::trim).find(|line| !line.is_empty());
    nexus_mcp::page::cut(question.unwrap_or("A debate"), 160)
}

/// Returns the summary: the outcome of each kind of claim, the panel, the vendors, the cost and the time.
fn head(
    debate: &Debate,
    snapshot: &DebateSnapshot,
    proceedings: &Proceedings,
    turns: &[LoggedTurn],
) -> Markup {
    let class = match snapshot.state {
        DebateState::Done => "good",
        DebateState::Cancelled => "bad",
        _ => "warn",
    };
    let time = nexus_files::rfc3339::seconds;
    html! {
        p { span class=(class) { (snapshot.state.name()) } " \u{b7} debate " code { (debate.id()) } }
        table {
            tr { th { "outcome" } td { (outcome(proceedings)) } }
            @if let Some(frame) = proceedings.frame() {
                tr { th { "panel" } td { (counted(frame.panelists().len(), "panelist")) ", " (counted(proceedings.rounds().len(), "round")) } }
            }
            tr { th { "vendors" } td { (Text(&vendors_in_words(turns))) } }
            tr { th { "cost" } td { (cost_in_words(turns)) } }
            tr { th { "time" } td { (spoken_duration(snapshot.updated_at.duration_since(snapshot.created_at).unwrap_or_default())) " from its creation to its last change" } }
            tr { th { "created" } td { (time(snapshot.created_at)) } }
            tr { th { "last change" } td { (time(snapshot.updated_at)) } }
            @for (name, value) in &snapshot.labels { tr { th { (Text(name)) } td.long { (Text(value)) } } }
            @for link in &snapshot.links { tr { th { "linked" } td { code { (link) } } } }
        }
    }
}

/// Counts the claims by their outcome.
fn outcome(proceedings: &Proceedings) -> String {
    if proceedings.history().is_empty() {
        return "no position was taken yet".to_owned();
    }
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for standing in proceedings.outcome() {
        let words = standing.outcome.in_words();
        match counts.iter_mut().find(|(counted, _)| *counted == words) {
            Some((_, count)) => *count += 1,
            None => counts.push((words, 1)),
        }
    }
    let counts = counts.iter().map(|(words, count)| format!("{} {words}", counted(*count, "claim")));
    counts.collect::<Vec<_>>().join(", ")
}

fn question(snapshot: &DebateSnapshot) -> Markup {
    html! {
        (Block(&snapshot.data.question))
        @if let Some(context) = &snapshot.data.context { details { summary { "Context that the caller has \
            given" } (Block(context)) } }
    }
}

/// Returns a table with a row for each claim and a column for each stage that can revise positions. Revised positions are
/// marked.
fn standings(frame: &Frame, proceedings: &Proceedings) -> Markup {
    let outcomes = proceedings.outcome();
    let history = proceedings.history();
    let cell = |at: usize, claim: &str| -> Vec<(String, Stance, bool)> {
        let was = |name: &String| {
            at.checked_sub(1).and_then(|before| history[before].1.get(name)?.get(claim).copied())
        };
        let held = history[at].1.iter().filter_map(|(name, held)| Some((name, *held.get(claim)?)));
        held.map(|(name, stance)| (name.clone(), stance, was(name).is_some_and(|was| was != stance)))
            .collect()
    };
    html! {
        table {
            tr { th { "claim" } @for (stage, _) in history { th { (stage) } } th { "outcome" } }
            @for (claim, outcome) in frame.claims().iter().zip(&outcomes) {
                tr {
                    td { b { (claim.id) } ": " (Text(&claim.text)) }
                    @for at in 0..history.len() {
                        td { @for (name, stance, is_revised) in cell(at, &claim.id) {
                            p { @if is_revised { b { (name) ": " (stance.name()) " (revised)" } } @else { (name) ": " (stance.name()) } }
                        } }
                    }
                    td { @if history.is_empty() { "not yet" } @else { (outcome.outcome.in_words()) } }
                }
            }
        }
    }
}

fn panel(frame: &Frame, proceedings: &Proceedings) -> Markup {
    let unassigned: Vec<&str> = frame.unassigned_sources().collect();
    html! {
        table {
            tr { th { "panelist" } th { "role" } th { "registered" } th { "sources" } }
            @for panelist in frame.panelists() {
                tr {
                    td { (panelist.name) }
                    td { (Text(&panelist.role)) }
                    td { (Text(panelist.registered.as_deref().unwrap_or("an outsider"))) }
                    td { (panelist.sources.join(", ")) }
                }
            }
        }
        @if !unassigned.is_empty() { p { "Read by nobody: " (unassigned.join(", ")) } }
        @if !frame.relevance().is_empty() {
            h3 { "Registered agents" }
            table {
                @for relevance in frame.relevance() {
                    tr {
                        td { (relevance.agent) }
                        td { (if relevance.relevant { "relevant" } else { "not relevant" }) }
                        td { (Text(&relevance.why)) }
                    }
                }
            }
        }
        @if !proceedings.absences().is_empty() {
            h3 { "Absent" }
            table {
                tr { th { "panelist" } th { "stage" } th { "vendor" } th { "why" } }
                @for absence in proceedings.absences() {
                    tr {
                        td { (absence.panelist) }
                        td { (absence.stage) }
                        td { (Text(absence.vendor.as_ref().map_or("not known", |vendor| vendor.as_str()))) }
                        td { (Text(&absence.reason)) }
                    }
                }
            }
        }
    }
}

fn rounds(proceedings: &Proceedings) -> Markup {
    if proceedings.rounds().is_empty() {
        return html! { p.soft { "No round was held yet." } };
    }
    let bars = |title: &str, value: fn(&crate::proceedings::DebateRound) -> f64| {
        let bar = |(at, round): (usize, &crate::proceedings::DebateRound)| Bar {
            label: format!("round {}", at + 1),
            value: value(round),
            shown: format!("{:.1} %", 100.0 * value(round)),
        };
        Bars { title: title.to_owned(), bars: proceedings.rounds().iter().enumerate().map(bar).collect() }
            .render()
    };
    html! {
        h3 { "Pairs of panelists that disagree after each round, of all pairs over all claims" }
        (bars("Tension density by round, in percent", |round| round.signals.tension_density))
        h3 { "Positions that were revised in each round, of all" }
        (bars("Revision rate by round, in percent", |round| round.signals.revision_rate))
        @for (at, round) in proceedings.rounds().iter().enumerate() {
            @if let Some(judgement) = &round.judgement {
                details {
                    summary { "Round " (at + 1) ": the arbiter wants to " (if judgement.close { "close" } else { "go on" }) }
                    (Block(&judgement.why))
                }
            }
        }
    }
}

fn arguments(proceedings: &Proceedings) -> Markup {
    let shown = |argument: &Argument| {
        html! {
            h3 id=(argument.id) { (argument.id) " on " (argument.about) }
            (Block(&argument.text))
        }
    };
    html! {
        @for (at, round) in proceedings.rounds().iter().enumerate() {
            @for finding in round.tensions.findings() {
                details {
                    summary { "Round " (at + 1) ", tension " (finding.id) " on " (finding.claim) }
                    @for side in &finding.sides {
                        p { "The case of " (side.panelists.join(", ")) ", in the arbiter's words:" }
                        (Block(&side.steelman))
                    }
                }
            }
        }
        @for argument in proceedings.arguments() { (shown(argument)) }
    }
}

/// Usage of one vendor's turns.
#[derive(Debug, Default)]
struct VendorUsage {
    turns: u32,
    failed: u32,
    usd: Option<f64>,
    output_tokens: u64,
}

fn used(turns: &[LoggedTurn]) -> Markup {
    let mut vendors: BTreeMap<String, VendorUsage> = BTreeMap::new();
    for turn in turns {
        let used = vendors.entry(turn.vendor_name().to_owned()).or_default();
        used.turns += 1;
        used.failed += u32::from(turn.failure.is_some());
        used.output_tokens += turn.output_tokens.unwrap_or_default();
        if let Some(cost) = turn.cost {
            *used.usd.get_or_insert(0.0) += cost.usd.0;
        }
    }
    let dollars =
        |used: &VendorUsage| used.usd.map_or_else(|| "not reported".to_owned(), |usd| format!("${usd:.4}"));
    html! {
        @if vendors.is_empty() { p.soft { "No turn has ended yet." } }
        @else {
            table {
                tr { th { "vendor" } th.number { "turns" } th.number { "failed" } th.number { "tokens out" } th.number { "US dollars" } }
                @for (vendor, used) in &vendors {
                    tr {
                        td { (Text(vendor)) }
                        td.number { (used.turns) }
                        td.number { (used.failed) }
                        td.number { (used.output_tokens) }
                        td.number { (dollars(used)) }
                    }
                }
            }
        }
    }
}
