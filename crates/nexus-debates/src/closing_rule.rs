//! Whether another round of cross-examination is held.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::position::Positions;

/// At most this share of the submitted positions is revised in the last round of a debate that is settled. Source: our own choice.
pub const SETTLED_REVISION_RATE: f64 = 0.1;
/// Or at most this share of pairs disagrees after it. Source: our own choice.
pub const SETTLED_TENSION_DENSITY: f64 = 0.05;

/// What was submitted in a round comes to, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseSignals {
    /// The share of the positions that were submitted in the round which revise one, 0 to 1.
    pub revision_rate: f64,
    /// The share of pairs of panelists, over all claims, of which one supports what the other opposes, 0 to 1.
    pub tension_density: f64,
}

/// How many rounds of cross-examination there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundBounds {
    /// At least this many; never 0.
    pub least: u32,
    /// At most this many.
    pub most: u32,
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundDecision {
    /// The debate converges.
    Close,
    /// Another round is held.
    Continue,
}

impl CloseSignals {
    /// Those of a round that began with the positions `before`, in which these were `submitted`. Who submitted nothing neither kept nor
    /// revised a position; its last one is still in tension with others'.
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

    /// Whether hardly anybody moves any more, or hardly anything is left to disagree on.
    pub fn are_settled(&self) -> bool {
        self.revision_rate <= SETTLED_REVISION_RATE || self.tension_density <= SETTLED_TENSION_DENSITY
    }
}

/// What follows a round, counted from 1. `ratifies` is what the arbiter says. Below the floor a debate goes on, at the ceiling it closes, whatever
/// the arbiter says; in between it closes where it is settled and the arbiter ratifies that.
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
