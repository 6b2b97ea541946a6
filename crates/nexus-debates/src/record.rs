//! Stored result of each stage: submissions of agents, and absent panelists.

use nexus_core::VendorId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    converge::ClaimStanding, frame::Frame, opening::OpeningDraft, rebuttal::RebuttalDraft,
    statement::StatementDraft, tension::Finding,
};

/// Result of one panelist in a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanelistRecord<T> {
    /// Name of the panelist.
    pub panelist: String,
    /// Vendor that ran the panelist, if it is known. For the caller, never for an agent.
    pub vendor: Option<VendorId>,
    /// The submission, or the reason for its absence in words for the caller.
    pub outcome: Result<T, String>,
}

/// The arbiter's judgement of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgementDraft {
    /// True if the tensions are settled as far as they can be.
    pub close: bool,
    /// Reason for the decision, at most 8 KiB. No panelist reads it.
    pub why: String,
    /// The tensions of the next round, each with a new steelman of every side. Needed unless the debate closes.
    pub findings: Vec<Finding>,
}

/// Result of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageRecord {
    /// The claims and the panel.
    Framing {
        /// The accepted frame.
        frame: Box<Frame>,
    },
    /// Submissions of the panelists. None of them has seen the others.
    Opening {
        /// Submission or absence of each panelist.
        panel: Vec<PanelistRecord<OpeningDraft>>,
    },
    /// Disagreements of the panelists.
    Analysing {
        /// The accepted findings.
        findings: Vec<Finding>,
    },
    /// The panelists' answers to the case against them.
    CrossExamining {
        /// Panelists that are on a side of a tension.
        panel: Vec<PanelistRecord<RebuttalDraft>>,
    },
    /// The arbiter's judgement of the round. At the maximum number of rounds it is `None`, because the engine does not ask
    /// for it.
    CheckingClose {
        /// The judgement.
        judgement: Option<JudgementDraft>,
    },
    /// The panel's positions after the rounds.
    Converging {
        /// Positions on each claim.
        standings: Vec<ClaimStanding>,
    },
    /// Final statements of the panelists.
    Final {
        /// Submission or absence of each panelist.
        panel: Vec<PanelistRecord<StatementDraft>>,
    },
    /// The arbiter's interpretation.
    Synthesising {
        /// Text of the interpretation.
        interpretation: String,
    },
}
