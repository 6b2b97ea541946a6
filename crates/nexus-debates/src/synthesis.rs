//! The record of a debate as a text: every submission verbatim, and the arbiter's interpretation in a separate part.

use std::fmt::Write as _;

use nexus_core::visible::Visible;

use crate::{opening::Argument, position::Positions, proceedings::Proceedings};

/// A text of a synthesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbatimPart {
    /// Id of the part: the id of an argument, `question`, `claim ID`, `steelman …`, `interpretation`.
    pub id: String,
    /// The text, byte for byte.
    pub text: String,
}

/// Returns the record of a debate so far, in Markdown.
///
/// Each text of the caller or an agent is in a separate block. The heading of a block has the size of the text in bytes, and
/// its fence is longer than any fence in the text. So no text can end its block: [`verbatim_parts`] reads all of them back.
pub fn synthesis(question: &str, proceedings: &Proceedings) -> String {
    let mut text = String::from("# Debate\n\n");
    block(&mut text, "question", "", question);
    let Some(frame) = proceedings.frame() else { return text };
    heading(&mut text, "Claims");
    for claim in frame.claims() {
        block(&mut text, &format!("claim {}", claim.id), "", &claim.text);
    }
    heading(&mut text, "Panel");
    for panelist in frame.panelists() {
        let seat = panelist.registered.as_deref().unwrap_or("an outsider");
        let sources =
            if panelist.sources.is_empty() { "none".to_owned() } else { panelist.sources.join(", ") };
        let _ = writeln!(text, "- {} ({}), sources: {sources}", panelist.name, Visible(seat));
    }
    let unassigned: Vec<&str> = frame.unassigned_sources().collect();
    if !unassigned.is_empty() {
        let _ = writeln!(text, "- read by no panelist: {}", unassigned.join(", "));
    }
    if !proceedings.absences().is_empty() {
        heading(&mut text, "Absent");
        for absence in proceedings.absences() {
            // Put the reason into a block, too: an external server may have written it.
            let id = format!("absent {} in {}", absence.panelist, absence.stage);
            block(&mut text, &id, "", &Visible(&absence.reason).to_string());
        }
    }
    if !proceedings.openings().is_empty() {
        heading(&mut text, "Openings");
    }
    for (name, opening) in proceedings.openings() {
        positions(&mut text, name, opening.positions());
        opening.arguments().for_each(|argument| verbatim(&mut text, argument));
    }
    for (index, round) in proceedings.rounds().iter().enumerate() {
        let number = index + 1;
        heading(&mut text, &format!("Round {number}"));
        for finding in round.tensions.findings() {
            for (at, side) in finding.sides.iter().enumerate() {
                let id = format!("steelman {number}.{}.{}", finding.id, at + 1);
                block(
                    &mut text,
                    &id,
                    &format!(", of {} on {}", side.panelists.join(", "), finding.claim),
                    &side.steelman,
                );
            }
        }
        for (name, rebuttal) in &round.rebuttals {
            positions(&mut text, name, rebuttal.positions());
            rebuttal.answers().iter().for_each(|answer| verbatim(&mut text, answer));
        }
        let signals = round.signals;
        let _ = writeln!(
            text,
            "Revised positions: {:.3} of all. Pairs in tension: {:.3} of all.\n",
            signals.revision_rate, signals.tension_density
        );
        if let Some(judgement) = &round.judgement {
            let says = if judgement.close { ", to close" } else { ", to go on" };
            block(&mut text, &format!("judgement {number}"), says, &judgement.why);
        }
    }
    if !proceedings.statements().is_empty() {
        heading(&mut text, "Final statements");
    }
    for (name, statement) in proceedings.statements() {
        positions(&mut text, name, statement.positions());
        verbatim(&mut text, statement.text());
    }
    text.push_str(&conclusion(proceedings));
    text
}

/// Returns the end of a synthesis: the panel's positions and the arbiter's interpretation, as far as they exist.
pub fn conclusion(proceedings: &Proceedings) -> String {
    let mut text = String::new();
    // Before the converging stage the outcome is not final, so leave it out.
    if proceedings.standings().is_some() {
        heading(&mut text, "Outcome");
        for standing in proceedings.outcome() {
            let _ = writeln!(
                text,
                "- {}: {} ({})",
                standing.claim,
                standing.outcome.in_words(),
                standing.in_words()
            );
        }
    }
    if let Some(interpretation) = proceedings.interpretation() {
        heading(&mut text, "Interpretation of the arbiter");
        verbatim(&mut text, interpretation);
    }
    text
}

/// Returns the texts of a synthesis, in order.
///
/// ```
/// use nexus_debates::{Proceedings, RoundBounds, synthesis, verbatim_parts};
///
/// let question = "Shall we?\n```\n### question (3 bytes)\n";
/// let text = synthesis(question, &Proceedings::new(RoundBounds { least: 1, most: 3 }));
/// assert_eq!(verbatim_parts(&text)[0].text, question);
/// ```
pub fn verbatim_parts(synthesis: &str) -> Vec<VerbatimPart> {
    let mut parts = Vec::new();
    let mut rest = synthesis;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some((part, after)) = part(line, after) {
            parts.push(part);
            rest = after;
        }
    }
    parts
}

/// Returns the block under a heading, and the text after it.
fn part<'s>(line: &str, after: &'s str) -> Option<(VerbatimPart, &'s str)> {
    let (id, bytes) = line.strip_prefix("### ")?.strip_suffix(" bytes)")?.rsplit_once(" (")?;
    // The heading names a claim after the id.
    let id = id.split(", ").next()?.to_owned();
    let block = after.strip_prefix('\n')?;
    let (_, content) = block.split_once('\n')?;
    let length: usize = bytes.parse().ok()?;
    // The stated length covers the whole text, so a heading within it counts as text.
    let text = content.get(..length)?.to_owned();
    Some((VerbatimPart { id, text }, &content[length..]))
}

fn heading(text: &mut String, heading: &str) {
    let _ = writeln!(text, "\n## {heading}\n");
}

fn positions(text: &mut String, name: &str, positions: &Positions) {
    let stances: Vec<String> =
        positions.iter().map(|(claim, stance)| format!("{claim} {}", stance.name())).collect();
    let _ = writeln!(text, "{name}: {}\n", stances.join(", "));
}

fn verbatim(text: &mut String, argument: &Argument) {
    block(text, &argument.id, &format!(", on {}", argument.about), &argument.text);
}

fn block(text: &mut String, id: &str, about: &str, content: &str) {
    // A fence longer than every run of back-quotes in the text, so that the text cannot close it.
    let fence = "`".repeat(longest_fence(content).max(2) + 1);
    let _ = writeln!(text, "### {id}{about} ({} bytes)\n\n{fence}text", content.len());
    text.push_str(content);
    let _ = write!(text, "\n{fence}\n\n");
}

/// Returns the length of the longest run of backticks in a text.
fn longest_fence(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}
