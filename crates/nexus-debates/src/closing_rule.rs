//! Decides if a debate has another round of cross-examination.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::position::Positions;

/// Maximum share of revised positions in the last round of a settled debate. Source: our own choice.
pub const SETTLED_REVISION_RATE: f64 = 0.1;
/// Maximum share of disagreeing pairs of panelists after the last round of a settled debate. Source: our own choice.
pub const SETTLED_TENSION_DENSITY: f64 = 0.05;

/// Measures of a round, from the positions that its panelists submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseSignals {
    /// Share of the submitted positions that revise an earlier one, 0 to 1.
    pub revision_rate: f64,
    /// Share of pairs of panelists, over all claims, in which one supports the claim and the other opposes it, 0 to 1.
    pub tension_density: f64,
}

/// Bounds on the number of rounds of cross-examination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundBounds {
    /// Minimum number of rounds; never 0.
    pub least: u32,
    /// Maximum number of rounds.
    pub most: u32,
}

/// Step after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundDecision {
    /// No further round: the debate converges.
    Close,
    /// Another round follows.
    Continue,
}

impl CloseSignals {
    /// Returns the signals of a round that began with the positions `before`, in which panelists submitted `submitted`. A
    /// panelist that submitted nothing does not count for the revision rate, but its last position counts for the tension.
    pub fn of(before: &BTreeMap<String, Positions>, submitted: &BTreeMap<String, Positions>) -> Self {
        let stances = |positions: &Positions| positions.clone().into_iter();
        let mut is_revised = Vec::new();
        for (name, now) in submitted {
            // A panelist without earlier positions cannot have revised any.
            let Some(was) = before.get(name) else { continue };
            is_revised
                .extend(stances(now).filter_map(|(claim, stance)| was.get(&claim).map(|was| *was != stance)));
        }
        // A panelist that submits nothing in this round retains its positions.
        let mut after = before.clone();
        after.extend(submitted.clone());
        let panel: Vec<&Positions> = after.values().collect();
        let mut pairs = Vec::new();
        for (at, one) in panel.iter().enumerate() {
            // Each pair counts once.
            for other in &panel[at + 1..] {
                pairs.extend(
                    stances(one).filter_map(|(claim, stance)| {
                        other.get(&claim).map(|other| stance.contradicts(*other))
                    }),
                );
            }
        }
        Self { revision_rate: share(&is_revised), tension_density: share(&pairs) }
    }

    /// Returns true if few panelists revised a position, or few positions are still in tension.
    pub fn are_settled(&self) -> bool {
        self.revision_rate <= SETTLED_REVISION_RATE || self.tension_density <= SETTLED_TENSION_DENSITY
    }
}

/// Returns the step after a round, counted from 1. `ratifies` is the arbiter's answer. Below the minimum number of rounds
/// the debate continues, and at the maximum it closes, with any answer of the arbiter. In between it closes if it is settled
/// and the arbiter ratifies that.
pub fn decide(round: u32, bounds: RoundBounds, signals: &CloseSignals, ratifies: bool) -> RoundDecision {
    // The upper bound closes without the arbiter. Before it, the numbers and the arbiter have to agree.
    let closes =
        round >= bounds.least.max(1) && (round >= bounds.most || (signals.are_settled() && ratifies));
    if closes { RoundDecision::Close } else { RoundDecision::Continue }
}

fn share(of: &[bool]) -> f64 {
    match of.len() {
        // A round with nothing to compare counts as agreement.
        0 => 0.0,
        all => of.iter().filter(|is| **is).count() as f64 / all as f64,
    }
}
