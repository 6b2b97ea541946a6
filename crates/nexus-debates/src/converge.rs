//! The claims on which the panel agrees, and those on which it does not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::{DebateClaim, Frame},
    position::{Positions, Stance},
};

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// At least two took a position, and all of them support it.
    ConvergedSupport,
    /// At least two took a position, and all of them oppose it.
    ConvergedOppose,
    /// One panelist supports the claim and another opposes it, or only one took a position.
    Contested,
    /// No panelist took a position.
    Abstained,
}

/// The panel's positions on a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimStanding {
    /// The claim's id.
    pub claim: String,
    /// Outcome of the claim.
    pub outcome: ClaimOutcome,
    /// Panelists who support it.
    pub support: Vec<String>,
    /// Panelists who oppose it.
    pub oppose: Vec<String>,
    /// Panelists who take no position.
    pub abstain: Vec<String>,
}

/// Returns the panel's positions on each claim, from the positions of present panelists. Leaves out absent ones.
pub fn converge(frame: &Frame, positions: &BTreeMap<String, Positions>) -> Vec<ClaimStanding> {
    let standing = |claim: &DebateClaim| {
        let who = |wanted: Stance| -> Vec<String> {
            let holds = |held: &Positions| held.get(&claim.id) == Some(&wanted);
            positions.iter().filter(|(_, held)| holds(held)).map(|(name, _)| name.clone()).collect()
        };
        let (support, oppose, abstain) = (who(Stance::Support), who(Stance::Oppose), who(Stance::Abstain));
        let outcome = match (support.len(), oppose.len()) {
            (0, 0) => ClaimOutcome::Abstained,
            // A single position is not yet a convergence of the panel, so it stays contested.
            (2.., 0) => ClaimOutcome::ConvergedSupport,
            (0, 2..) => ClaimOutcome::ConvergedOppose,
            _ => ClaimOutcome::Contested,
        };
        ClaimStanding { claim: claim.id.clone(), outcome, support, oppose, abstain }
    };
    frame.claims().iter().map(standing).collect()
}

impl ClaimOutcome {
    /// Returns the outcome in words: `converged (support)`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::ConvergedSupport => "converged (support)",
            Self::ConvergedOppose => "converged (oppose)",
            Self::Contested => "contested",
            Self::Abstained => "abstained",
        }
    }
}

impl ClaimStanding {
    /// Returns the positions in words: `support: a, b; oppose: none; abstain: c`.
    pub fn in_words(&self) -> String {
        let names = |who: &[String]| if who.is_empty() { "none".to_owned() } else { who.join(", ") };
        let part = |stance: Stance, who: &[String]| format!("{}: {}", stance.name(), names(who));
        [
            part(Stance::Support, &self.support),
            part(Stance::Oppose, &self.oppose),
            part(Stance::Abstain, &self.abstain),
        ]
        .join("; ")
    }
}
