//! Texts of a debate for its agents: quoted, without information about backends.

use nexus_work::Quote;

use crate::{
    data::DebateData,
    frame::Panelist,
    opening::Argument,
    position::Positions,
    proceedings::{DebateRound, Proceedings},
};

/// Quotes the whole text of another author.
pub(super) fn quoted(origin: &str, text: &str) -> String {
    Quote::new(origin, text).at_most(usize::MAX).to_string()
}

/// Returns the question with the caller's context.
pub(super) fn asked(data: &DebateData) -> String {
    let mut text = quoted("the question", &data.question);
    if let Some(context) = &data.context {
        text.push_str(&quoted("the context that the caller gave", context));
    }
    text
}

/// Returns the question and the claims.
pub(super) fn asked_with_claims(data: &DebateData, proceedings: &Proceedings) -> String {
    let claims = proceedings.frame().map(|frame| frame.claims()).unwrap_or_default();
    claims
        .iter()
        .fold(asked(data), |text, claim| text + &quoted(&format!("the claim {}", claim.id), &claim.text))
}

/// Returns a panelist's task and its point of view.
pub(super) fn brief_of(data: &DebateData, proceedings: &Proceedings, panelist: &Panelist) -> String {
    let mut text = asked_with_claims(data, proceedings);
    text.push_str(&quoted(&format!("your role as a panelist: {}", panelist.name), &panelist.role));
    if !panelist.sources.is_empty() {
        text.push_str(&quoted("the folders of your sources", &panelist.sources.join("\n")));
    }
    for round in proceedings.rounds() {
        let own = round.rebuttals.iter().filter(|(name, _)| *name == panelist.name);
        for answer in own.flat_map(|(_, rebuttal)| rebuttal.answers()) {
            text.push_str(&shown_argument("your answers of the earlier rounds", answer));
        }
    }
    if let Some(own) = proceedings.positions().get(&panelist.name) {
        text.push_str(&shown_positions("your positions now", own));
    }
    text
}

/// Returns all openings.
pub(super) fn shown_openings(proceedings: &Proceedings) -> String {
    let mut text = String::new();
    for (name, opening) in proceedings.openings() {
        text.push_str(&shown_positions(&format!("the opening positions of {name}"), opening.positions()));
        for argument in opening.arguments() {
            text.push_str(&shown_argument(&format!("the opening arguments of {name}"), argument));
        }
    }
    text
}

/// Returns all rebuttals, which only the arbiter may read.
pub(super) fn shown_rebuttals(proceedings: &Proceedings) -> String {
    let mut text = String::new();
    for (index, DebateRound { rebuttals, .. }) in proceedings.rounds().iter().enumerate() {
        for (name, rebuttal) in rebuttals {
            let round = index + 1;
            text.push_str(&shown_positions(
                &format!("the positions of {name} after round {round}"),
                rebuttal.positions(),
            ));
            for answer in rebuttal.answers() {
                text.push_str(&shown_argument(&format!("the answers of {name} in round {round}"), answer));
            }
        }
    }
    match text.is_empty() {
        true => "Nobody answered yet.\n".to_owned(),
        false => text,
    }
}

/// Returns the case against a panelist: the arbiter's texts for the other sides, and nothing else.
pub(super) fn shown_tension(proceedings: &Proceedings, name: &str) -> String {
    let mut text = String::new();
    let Some(tensions) = proceedings.tensions() else { return text };
    for (finding, against) in tensions.against(name) {
        for case in against {
            let origin = format!(
                "finding {}: the case against your position on the claim {}",
                finding.id, finding.claim
            );
            text.push_str(&quoted(&origin, case));
        }
    }
    text
}

/// Returns the panel's positions on each claim.
pub(super) fn shown_standings(proceedings: &Proceedings) -> String {
    let standings = proceedings.outcome();
    let lines: Vec<String> = standings
        .iter()
        .map(|standing| {
            format!("{}: {} ({})", standing.claim, standing.outcome.in_words(), standing.in_words())
        })
        .collect();
    quoted("the positions of the panel on each claim", &lines.join("\n"))
}

fn shown_argument(origin: &str, argument: &Argument) -> String {
    quoted(&format!("{origin}, {} on {}", argument.id, argument.about), &argument.text)
}

fn shown_positions(origin: &str, positions: &Positions) -> String {
    let lines: Vec<String> =
        positions.iter().map(|(claim, stance)| format!("{claim}: {}", stance.name())).collect();
    quoted(origin, &lines.join("\n"))
}
