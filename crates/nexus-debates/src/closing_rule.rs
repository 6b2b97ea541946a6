//! Decides if a debate has another round of cross-examination.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::position::Positions;

/// At most this share of the submitted positions is revised in the last round of a debate that is settled. Source: our own choice.
pub const SETTLED_REVISION_RATE: f64 = 0.1;
/// Or at most this share of pairs disagrees after it. Source: our own choice.
pub const SETTLED_TENSION_DENSITY: f64 = 0.05;

/// Counts of the positions that a round's panelists submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseSignals {
    /// The share of the positions that were submitted in the round which revise one, 0 to 1.
    pub revision_rate: f64,
    /// The share of pairs of panelists, over all claims, of which one supports what the other opposes, 0 to 1.
    pub tension_density: f64,
}

/// Bounds of the number of rounds of cross-examination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundBounds {
    /// At least this many; never 0.
    pub least: u32,
    /// At most this many.
    pub most: u32,
}

/// Step after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundDecision {
    /// The debate converges.
    Close,
    /// Another round is held.
    Continue,
}

impl CloseSignals {
    /// Signals of a round that began with the positions `before`, in which panelists submitted `submitted`. A
    /// panelist that submitted nothing neither retained nor revised a position; its last position is still in
    /// tension with others'.
    pub fn of(before: &BTreeMap<String, Positions>, submitted: &BTreeMap<String, Positions>) -> Self {
        let stances = |positions: &Positions| positions.clone().into_iter();
        let mut is_revised = Vec::new();
        for (name, now) in submitted {
            let Some(was) = before.get(name) else { continue };
            is_revised
                .extend(stances(now).filter_map(|(claim, stance)| was.get(&claim).map(|was| *was != stance)));
        }
        let mut after = before.clone();
        after.extend(submitted.clone());
        let panel: Vec<&Positions> = after.values().collect();
        let mut pairs = Vec::new();
        for (at, one) in panel.iter().enumerate() {
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

    /// Returns true if few panelists revise a position, or few positions are still in tension.
    pub fn are_settled(&self) -> bool {
        self.revision_rate <= SETTLED_REVISION_RATE || self.tension_density <= SETTLED_TENSION_DENSITY
    }
}

/// Step after a round, counted from 1. `ratifies` is the arbiter's answer. Below the floor a debate continues,
/// and at the ceiling it closes, with any answer of the arbiter. In between it closes where it is settled and
/// the arbiter ratifies that.
pub fn decide(round: u32, bounds: RoundBounds, signals: &CloseSignals, ratifies: bool) -> RoundDecision {
    let closes =
        round >= bounds.least.max(1) && (round >= bounds.most || (signals.are_settled() && ratifies));
    if closes { RoundDecision::Close } else { RoundDecision::Continue }
}

fn share(of: &[bool]) -> f64 {
    match of.len() {
        0 => 0.0,
        all => of.iter().filter(|is| **is).count() as f64 / all as f64,
    }
}
