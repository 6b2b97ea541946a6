//! What panelists disagree on, in the words of the arbiter.

use std::collections::{BTreeMap, BTreeSet};

use nexus_spawn::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::Frame,
    names::{check_names, check_text},
    position::Positions,
    words::RawWords,
};

/// Most findings of one round, and the longest steelman, in bytes. Source: our own bounds.
const MOST_FINDINGS: usize = 24;
const MOST_STEELMAN_BYTES: usize = 4 << 10;

/// What the arbiter hands in of the openings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnalysisDraft {
    /// Where panelists disagree, at most 24. Each claim that one supports and another opposes has one.
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
    /// The names of those who are on it, at least one.
    pub panelists: Vec<String>,
    /// The strongest case for it, in your own words, at most 4 KiB.
    pub steelman: String,
}

/// The tensions of a round, checked: of claims and panelists that there are, each panelist on one side at most of each, none left out
/// where one supports what another opposes, and no steelman with words of a rebuttal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tensions {
    findings: Vec<Finding>,
}

impl Tensions {
    /// Checks findings. `positions` are those of everybody who is present; `rebuttals` are all that were submitted so far, as they were
    /// submitted. Openings may be quoted: everybody reads them.
    ///
    /// # Errors
    ///
    /// All that is wrong with them.
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
        for (at, finding) in findings.iter().enumerate().take(MOST_FINDINGS) {
            let place = format!("findings[{at}]");
            if frame.claim(&finding.claim).is_none() {
                faults.add(format!("{place}.claim"), "there is no claim of this id");
            }
            if finding.sides.len() < 2 {
                faults.add(format!("{place}.sides"), "a tension has at least two sides");
            }
            check_sides(&mut faults, &place, &finding.sides, positions, &raw);
        }
        for claim in frame.claims() {
            let is_found = findings.iter().any(|finding| finding.claim == claim.id);
            if !is_found && is_contested(positions, &claim.id) {
                faults.add(
                    "findings",
                    format!("one supports the claim {} and another opposes it: say how", claim.id),
                );
            }
        }
        faults.into_result("findings")?;
        Ok(Self { findings: findings.to_vec() })
    }

    /// All of them.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Those that a panelist is on a side of, each with what stands against it: the steelmans of the other sides.
    pub fn against<'t>(&'t self, panelist: &'t str) -> impl Iterator<Item = (&'t Finding, Vec<&'t str>)> {
        self.findings.iter().filter_map(move |finding| {
            let is_on = |side: &&Side| side.panelists.iter().any(|name| name == panelist);
            finding.sides.iter().find(is_on)?;
            let others = finding.sides.iter().filter(|side| !is_on(side));
            Some((finding, others.map(|side| side.steelman.as_str()).collect()))
        })
    }
}

fn check_sides(
    faults: &mut Faults,
    place: &str,
    sides: &[Side],
    positions: &BTreeMap<String, Positions>,
    raw: &[RawWords],
) {
    let mut seen = BTreeSet::new();
    for (at, side) in sides.iter().enumerate() {
        let place = format!("{place}.sides[{at}]");
        if side.panelists.is_empty() {
            faults.add(format!("{place}.panelists"), "name who is on this side");
        }
        for name in &side.panelists {
            if !positions.contains_key(name) {
                faults.add(format!("{place}.panelists"), "no such panelist has spoken");
            } else if !seen.insert(name) {
                faults.add(format!("{place}.panelists"), format!("{name} is on this tension's side twice"));
            }
        }
        let place = format!("{place}.steelman");
        check_text(faults, &place, &side.steelman, MOST_STEELMAN_BYTES);
        if side.steelman.len() <= MOST_STEELMAN_BYTES
            && let Some(run) = raw.iter().find_map(|raw| raw.shared_with(&side.steelman))
        {
            faults.add(
                place,
                format!("repeats a rebuttal word for word ({run:?}); say it in words of your own"),
            );
        }
    }
}

/// Whether one supports a claim that another opposes.
fn is_contested(positions: &BTreeMap<String, Positions>, claim: &str) -> bool {
    let mut stances = positions.values().filter_map(|positions| positions.get(claim));
    let Some(first) = stances.clone().find(|stance| **stance != crate::position::Stance::Abstain) else {
        return false;
    };
    stances.any(|stance| stance.contradicts(*first))
}
