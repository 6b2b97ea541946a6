//! Positions of a panelist on each claim.

use std::collections::BTreeMap;

use nexus_work::Faults;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::Frame;

/// Position of a panelist on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    /// The claim holds.
    Support,
    /// The claim does not hold.
    Oppose,
    /// The panelist takes no position.
    Abstain,
}

impl Stance {
    /// Returns the name in files and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Oppose => "oppose",
            Self::Abstain => "abstain",
        }
    }

    /// Returns true if one position supports and the other opposes.
    pub fn contradicts(self, other: Self) -> bool {
        matches!((self, other), (Self::Support, Self::Oppose) | (Self::Oppose, Self::Support))
    }
}

/// A position, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PositionDraft {
    /// The claim's id.
    pub claim: String,
    /// `support`, `oppose`, or `abstain` where you cannot tell.
    pub stance: Stance,
}

/// Positions of one panelist: one for each claim.
pub type Positions = BTreeMap<String, Stance>;

/// Checks that each claim has one position.
pub(crate) fn positions(faults: &mut Faults, frame: &Frame, drafts: &[PositionDraft]) -> Positions {
    let mut positions = Positions::new();
    for (at, draft) in drafts.iter().enumerate() {
        let place = format!("positions[{at}].claim");
        if frame.claim(&draft.claim).is_none() {
            faults.add(place, "no claim has this id");
        } else if positions.insert(draft.claim.clone(), draft.stance).is_some() {
            faults.add(place, "the claim already has a position");
        }
    }
    for claim in frame.claims().iter().filter(|claim| !positions.contains_key(&claim.id)) {
        faults.add(
            "positions",
            format!("the claim {} has no position; write `abstain` to take none", claim.id),
        );
    }
    positions
}
