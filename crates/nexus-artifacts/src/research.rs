//! Reconciles the outputs of several researchers: the decisions they share, and the degree of their agreement.
//!
//! Two decisions are equal if they have the same words. A decision is agreed if more than half of the outputs
//! have it, and contested otherwise. The value of an agreement depends on the reasoning behind it:
//!
//! | reasoning | meaning | value |
//! | --- | --- | --- |
//! | orthogonal | different words throughout: independent evidence | 1 |
//! | overlapping | two share more than six in ten of their words | 0.9 |
//! | identical | the same words in all: perhaps one thought, copied | 0.75 |
//! | unknown | fewer than two outputs give a reason | 0.5 |
//!
//! `agreement_score` is the sum of the values of the agreed decisions, divided by the number of all decisions;
//! 1 without a decision.

use std::collections::BTreeSet;

use nexus_project::ProjectError;
use serde::Serialize;

use super::{
    document::Artifact,
    frontmatter::{ResearchVerdict, ResearcherOutput},
};

/// Lowest score that counts as agreement.
const CLEAN_SCORE: f64 = 0.8;
/// Lowest score without a call for new research.
const LEAST_SCORE: f64 = 0.5;
/// Maximum number of contested decisions without a call for new research.
const MOST_CONTESTED: u64 = 2;
/// Two reasonings overlap if they share more than this portion of their words.
const OVERLAP: f64 = 0.6;

/// Comparison of the reasoning behind one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningAgreement {
    /// The reasons have the same words.
    Identical,
    /// The reasons share many words.
    Overlapping,
    /// The reasons share few words.
    Orthogonal,
    /// Fewer than two outputs give a reason.
    Unknown,
}

/// A decision, or another entry, of one or more outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reconciled {
    /// Text of the entry in the first output.
    pub text: String,
    /// Outputs that have the entry, by their `spawn_index`.
    pub from: Vec<u64>,
    /// Agreement of the reasoning.
    pub agreement: ReasoningAgreement,
    /// Reasoning of each output that gives one, in the order of `from`.
    pub reasoning: Vec<String>,
}

/// Reconciled outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reconciliation {
    /// Number of outputs.
    pub k: usize,
    /// Score of the agreement from 0 to 1, with three digits.
    pub agreement_score: f64,
    /// Number of contested decisions.
    pub contested_count: usize,
    /// Decisions that more than half of the outputs have.
    pub decisions: Vec<Reconciled>,
    /// Decisions that at most half of the outputs have.
    pub contested: Vec<Reconciled>,
    /// Every risk.
    pub risks: Vec<Reconciled>,
    /// Patterns that more than half of the outputs have.
    pub patterns: Vec<Reconciled>,
    /// Every open question.
    pub open_questions: Vec<Reconciled>,
    /// Every source.
    pub sources: Vec<Reconciled>,
}

impl ReasoningAgreement {
    const ALL: [Self; 4] = [Self::Identical, Self::Overlapping, Self::Orthogonal, Self::Unknown];

    /// Returns the word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Overlapping => "overlapping",
            Self::Orthogonal => "orthogonal",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agreement| agreement.as_str() == word)
    }

    /// Returns the value of an agreement of this kind.
    fn worth(self) -> f64 {
        match self {
            Self::Orthogonal => 1.0,
            Self::Overlapping => 0.9,
            Self::Identical => 0.75,
            Self::Unknown => 0.5,
        }
    }

    /// Compares reasons. Ignores empty ones.
    pub fn compare<'a>(reasoning: impl IntoIterator<Item = &'a str>) -> Self {
        let traces: Vec<String> =
            reasoning.into_iter().map(words_of).filter(|words| !words.is_empty()).collect();
        if traces.len() < 2 {
            return Self::Unknown;
        }
        if traces.iter().all(|trace| *trace == traces[0]) {
            return Self::Identical;
        }
        let sets: Vec<BTreeSet<&str>> = traces.iter().map(|trace| trace.split(' ').collect()).collect();
        let overlap = |one: &BTreeSet<&str>, other: &BTreeSet<&str>| {
            // Jaccard index. The union has at least one word, because empty traces were filtered out.
            one.intersection(other).count() as f64 / one.union(other).count() as f64
        };
        let mut pairs = sets
            .iter()
            .enumerate()
            .flat_map(|(at, one)| sets[at + 1..].iter().map(move |other| (one, other)));
        if pairs.any(|(one, other)| overlap(one, other) > OVERLAP) {
            Self::Overlapping
        } else {
            Self::Orthogonal
        }
    }
}

/// Reconciles the outputs of researchers.
///
/// # Errors
///
/// [`Damaged`](nexus_project::ProjectErrorKind::Damaged) for an output whose frontmatter cannot be read;
/// [`InvalidArgument`](nexus_project::ProjectErrorKind::InvalidArgument) without an output, or for two outputs with the same
/// `spawn_index`.
pub fn reconcile(outputs: &[Artifact]) -> Result<Reconciliation, ProjectError> {
    let mut known = BTreeSet::new();
    let mut read = Vec::new();
    for output in outputs {
        let spawn_index = output.read::<ResearcherOutput>()?.spawn_index;
        if !known.insert(spawn_index) {
            let message = format!("two outputs have the spawn_index {spawn_index}");
            return Err(ProjectError::invalid(message, "give each its own"));
        }
        read.push((spawn_index, output));
    }
    if read.is_empty() {
        return Err(ProjectError::invalid(
            "the output of a researcher is missing",
            "write research/spawn-0.md and so on",
        ));
    }
    // Sort, so that the result does not depend on the order of the files. `merged` relies on it, too.
    read.sort_by_key(|(spawn_index, _)| *spawn_index);
    // Compare integers: exactly half of the outputs do not agree, without any rounding.
    let is_agreed = |one: &Reconciled| one.from.len() * 2 > read.len();
    let (decisions, contested): (Vec<_>, Vec<_>) =
        merged(&read, "Decisions").into_iter().partition(is_agreed);
    let all = decisions.len() + contested.len();
    let worth: f64 = decisions.iter().map(|decision| decision.agreement.worth()).sum();
    let score = if all == 0 { 1.0 } else { worth / all as f64 };
    Ok(Reconciliation {
        k: read.len(),
        // Round as the file does, so that the lint can recompute the same number.
        agreement_score: (score * 1000.0).round() / 1000.0,
        contested_count: contested.len(),
        decisions,
        contested,
        risks: merged(&read, "Risks"),
        patterns: merged(&read, "Patterns").into_iter().filter(is_agreed).collect(),
        open_questions: merged(&read, "Open Questions"),
        sources: merged(&read, "Sources"),
    })
}

impl Reconciliation {
    /// Returns the verdict. `unresolved`: number of contested decisions that are neither picked nor discarded.
    pub fn verdict(&self, unresolved: usize) -> ResearchVerdict {
        verdict(self.agreement_score, self.contested_count as u64, unresolved)
    }
}

/// Returns the verdict. It is clean if nothing is contested and the score is 0.8 or more. New research is needed if the
/// score is below 0.5, if more than two decisions are contested, or if one is unresolved. Otherwise issues are flagged.
pub fn verdict(agreement_score: f64, contested_count: u64, unresolved: usize) -> ResearchVerdict {
    if agreement_score < LEAST_SCORE || contested_count > MOST_CONTESTED || unresolved > 0 {
        ResearchVerdict::NeedsReSpawn
    } else if contested_count == 0 && agreement_score >= CLEAN_SCORE {
        ResearchVerdict::Clean
    } else {
        ResearchVerdict::IssuesFlagged
    }
}

/// Returns the number of contested decisions of a final research that are neither picked nor discarded.
pub fn unresolved(research: &Artifact) -> usize {
    let contested = research.entries_of("Contested Decisions");
    let verdicts =
        contested.map(|entry| research.field(entry, "Reconciler verdict").map(|field| field.value));
    let is_open = |verdict: &Option<String>| {
        !verdict.as_ref().is_some_and(|verdict| verdict.starts_with("Pick") || verdict.starts_with("Discard"))
    };
    verdicts.filter(is_open).count()
}

/// Returns the entries of a section over all outputs. Entries with the same words become one.
fn merged(outputs: &[(u64, &Artifact)], section: &str) -> Vec<Reconciled> {
    let mut merged: Vec<(String, Reconciled)> = Vec::new();
    for (spawn_index, output) in outputs {
        for entry in output.entries_of(section) {
            // Use the text of a heading even without an id; the lint reports the missing one.
            let words = words_of(&entry.text);
            let at = merged.iter().position(|(known, _)| *known == words).unwrap_or_else(|| {
                let text = entry.text.clone();
                let agreement = ReasoningAgreement::Unknown;
                merged.push((words, Reconciled { text, from: Vec::new(), agreement, reasoning: Vec::new() }));
                merged.len() - 1
            });
            let one = &mut merged[at].1;
            // Count an output once, even if it has the entry twice.
            if one.from.last() != Some(spawn_index) {
                one.from.push(*spawn_index);
                one.reasoning.extend(output.field(entry, "Reasoning").map(|field| field.value));
            }
        }
    }
    let compared = merged.into_iter().map(|(_, mut one)| {
        one.agreement = ReasoningAgreement::compare(one.reasoning.iter().map(String::as_str));
        one
    });
    compared.collect()
}

/// Returns the words of a text, without case, punctuation and blanks.
fn words_of(text: &str) -> String {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}
