//! What each stage came to, as it is written down: what agents submitted, and who is absent.

use nexus_core::VendorId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    converge::ClaimStanding, frame::Frame, opening::OpeningDraft, rebuttal::RebuttalDraft,
    statement::StatementDraft, tension::Finding,
};

/// What became of one panelist in a stage: what it submitted, or why it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanelistRecord<T> {
    /// Its name.
    pub panelist: String,
    /// The company that ran it, where that is known. For the caller, never for an agent.
    pub vendor: Option<VendorId>,
    /// What it submitted; or why it is absent, in words for the caller.
    pub outcome: Result<T, String>,
}

/// What the arbiter says of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgementDraft {
    /// Whether the tensions are settled as far as they can be.
    pub close: bool,
    /// Why, at most 8 KiB. No panelist reads it.
    pub why: String,
    /// The tensions of the next round, each with a new steelman of every side. Needed unless the debate closes.
    pub findings: Vec<Finding>,
}

/// What a stage came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageRecord {
    /// The claims and the panel.
    Framing {
        /// As they were accepted.
        frame: Box<Frame>,
    },
    /// What each panelist submitted apart from the others.
    Opening {
        /// Each of them.
        panel: Vec<PanelistRecord<OpeningDraft>>,
    },
    /// Where they disagree.
    Analysing {
        /// As they were accepted.
        findings: Vec<Finding>,
    },
    /// What panelists answered to the case against them.
    CrossExamining {
        /// Those who were asked: who is on a side of a tension.
        panel: Vec<PanelistRecord<RebuttalDraft>>,
    },
    /// What the arbiter says of the round. `None` at the ceiling, where it is not asked.
    CheckingClose {
        /// Its judgement.
        judgement: Option<JudgementDraft>,
    },
    /// Where the panel stands after the rounds.
    Converging {
        /// Each claim.
        standings: Vec<ClaimStanding>,
    },
    /// What each panelist holds in the end.
    Final {
        /// Each of them.
        panel: Vec<PanelistRecord<StatementDraft>>,
    },
    /// What the arbiter makes of it.
    Synthesising {
        /// Its words.
        interpretation: String,
    },
}
