//! Disagreements of panelists, in the words of the arbiter.

use std::collections::{BTreeMap, BTreeSet};

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::Frame,
    names::{check_names, check_text},
    position::Positions,
    words::{RawWords, SearchedText},
};

/// Maximum number of findings of one round, and maximum length of a steelman, in bytes. Source: our own bounds.
const MOST_FINDINGS: usize = 24;
const MOST_STEELMAN_BYTES: usize = 4 << 10;

/// The arbiter's analysis of the openings, as it submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnalysisDraft {
    /// Disagreements of panelists, at most 24. A panelist that supports a claim which another opposes is on a
    /// side of one, against that other.
    pub findings: Vec<Finding>,
}

/// A tension between panelists about a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Names it: a letter, then letters, digits, `-` and `_`, at most 40 in all.
    pub id: String,
    /// The id of the claim.
    pub claim: String,
    /// At least two.
    pub sides: Vec<Side>,
}

/// One side of a tension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Names of the panelists on it, at least one.
    pub panelists: Vec<String>,
    /// The strongest case for it, in your own words, at most 4 KiB.
    pub steelman: String,
}

/// The checked tensions of a round:
///
/// - Claims and panelists exist, and each panelist is on at most one side of a finding.
/// - No side has two panelists of which one supports the claim and the other opposes it.
/// - If panelists disagree on a claim, each of them is on a side that faces a panelist of the opposite position. So every
///   panelist gets the case against its position, and never the case for it.
/// - No steelman, and no other text for a panelist, contains words of a rebuttal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tensions {
    findings: Vec<Finding>,
}

impl Tensions {
    /// Checks findings. `positions`: the positions of all present panelists. `rebuttals`: all rebuttals so far, as
    /// submitted. Findings may quote openings, because everybody reads them.
    ///
    /// # Errors
    ///
    /// All faults of the findings.
    pub fn accept<'r>(
        findings: &[Finding],
        frame: &Frame,
        positions: &BTreeMap<String, Positions>,
        rebuttals: impl IntoIterator<Item = &'r str>,
    ) -> Result<Self, DraftError> {
        let raw: Vec<RawWords> = rebuttals.into_iter().map(RawWords::of).collect();
        let mut faults = Faults::default();
        faults.count("findings", findings.len(), MOST_FINDINGS);
        let ids = findings
            .iter()
            .enumerate()
            .map(|(at, finding)| (format!("findings[{at}].id"), finding.id.as_str()));
        check_names(&mut faults, ids, "finding");
        // Each check searches long texts, so check no more findings than are allowed.
        for (at, finding) in findings.iter().enumerate().take(MOST_FINDINGS) {
            let place = format!("findings[{at}]");
            if frame.claim(&finding.claim).is_none() {
                faults.add(format!("{place}.claim"), "no claim has this id");
            }
            if finding.sides.len() < 2 {
                faults.add(format!("{place}.sides"), "a tension needs at least two sides");
            }
            check_sides(&mut faults, &place, finding, positions, &raw);
        }
        let tensions = Self { findings: findings.to_vec() };
        // A contradicted panelist has to face the case against it, so the arbiter cannot leave it out.
        for claim in frame.claims() {
            for name in positions.keys().filter(|name| tensions.spares(name, &claim.id, positions)) {
                let words = format!(
                    "{name} is contradicted on the claim {}: put it on a side of a tension on that claim",
                    claim.id
                );
                faults.add("findings", words);
            }
        }
        faults.into_result("list of findings")?;
        // Each text alone contains no copy. Also check the combined text that each panelist reads.
        let mut faults = Faults::default();
        for name in positions.keys() {
            if let Some(run) = tensions.copied_for(name, &raw) {
                let words = format!("the text for {name} repeats a rebuttal word for word ({run:?})");
                faults.add("findings", format!("{words}; write it in your own words"));
            }
        }
        faults.into_result("list of findings")?;
        Ok(tensions)
    }

    /// Returns all tensions.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the tensions with a panelist on a side, each with the steelmans of the other sides.
    pub fn against<'t>(&'t self, panelist: &'t str) -> impl Iterator<Item = (&'t Finding, Vec<&'t str>)> {
        self.findings.iter().filter_map(move |finding| {
            let is_on = |side: &&Side| side.panelists.iter().any(|name| name == panelist);
            finding.sides.iter().find(is_on)?;
            let others = finding.sides.iter().filter(|side| !is_on(side));
            Some((finding, others.map(|side| side.steelman.as_str()).collect()))
        })
    }

    /// Returns true if another panelist contradicts `name` on a claim, and no finding contains it.
    fn spares(&self, name: &str, claim: &str, positions: &BTreeMap<String, Positions>) -> bool {
        let contradict = |other: &String| contradict(positions, claim, name, other);
        let is_against = |finding: &Finding| {
            let is_on = |side: &&Side| side.panelists.iter().any(|on| on == name);
            let mut others = finding.sides.iter().filter(|side| !is_on(side));
            finding.claim == claim
                && finding.sides.iter().any(|side| is_on(&side))
                && others.any(|side| side.panelists.iter().any(contradict))
        };
        positions.keys().any(contradict) && !self.findings.iter().any(is_against)
    }

    /// Returns a run of words of a rebuttal in the combined texts for a panelist. Checks these texts with and without the
    /// ids of the findings between them.
    fn copied_for(&self, name: &str, raw: &[RawWords]) -> Option<String> {
        // Search the cases with and without the ids between them, because a copy may run across two cases.
        let (mut cases, mut with_ids) = (String::new(), String::new());
        for (finding, against) in self.against(name) {
            for case in against {
                cases += &format!("{case}\n");
                with_ids += &format!("{}\n{case}\n", finding.id);
            }
        }
        let shown = [cases, with_ids].map(|text| SearchedText::of(&text));
        raw.iter().find_map(|raw| shown.iter().find_map(|shown| raw.shared_with(shown)))
    }
}

fn check_sides(
    faults: &mut Faults,
    place: &str,
    finding: &Finding,
    positions: &BTreeMap<String, Positions>,
    raw: &[RawWords],
) {
    let mut seen = BTreeSet::new();
    for (at, side) in finding.sides.iter().enumerate() {
        let place = format!("{place}.sides[{at}]");
        if side.panelists.is_empty() {
            faults.add(format!("{place}.panelists"), "name the panelists on this side");
        }
        for (number, name) in side.panelists.iter().enumerate() {
            if !positions.contains_key(name) {
                faults.add(format!("{place}.panelists"), "no panelist of this name has spoken");
            } else if !seen.insert(name) {
                faults.add(format!("{place}.panelists"), format!("{name} occurs twice in this tension"));
            }
            let others = &side.panelists[number + 1..];
            if let Some(other) =
                others.iter().find(|other| contradict(positions, &finding.claim, name, other))
            {
                faults.add(
                    format!("{place}.panelists"),
                    format!("{name} and {other} contradict each other on the claim {}", finding.claim),
                );
            }
        }
        let place = format!("{place}.steelman");
        check_text(faults, &place, &side.steelman, MOST_STEELMAN_BYTES);
        // A longer text is rejected anyway, so it is not searched.
        if side.steelman.len() <= MOST_STEELMAN_BYTES {
            let steelman = SearchedText::of(&side.steelman);
            if let Some(run) = raw.iter().find_map(|raw| raw.shared_with(&steelman)) {
                faults.add(
                    place,
                    format!("repeats a rebuttal word for word ({run:?}); write it in your own words"),
                );
            }
        }
    }
}

/// Returns true if one panelist supports a claim and the other opposes it.
fn contradict(positions: &BTreeMap<String, Positions>, claim: &str, one: &str, other: &str) -> bool {
    let stance = |name: &str| positions.get(name)?.get(claim).copied();
    matches!((stance(one), stance(other)), (Some(one), Some(other)) if one.contradicts(other))
}
