//! What one attempt at a step came to.

use std::time::SystemTime;

use nexus_core::VendorId;
use nexus_trees::CommitId;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::StepEvidence,
    handoff::Handoff,
    review::{Reflection, ReviewVerdict, ReviewVote},
    task_state::StepEnd,
};

/// What one attempt at a step came to: the file `steps/N.json` of a task, where N is the attempt.
///
/// What agents handed in is checked anew when it is read, by the functions that checked it first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The first entry of the step, counted from 0.
    pub entry: usize,
    /// Which attempt, from 1 on over all steps of the task.
    pub attempt: u32,
    /// When it began.
    pub began: SystemTime,
    /// When it was settled.
    pub ended: SystemTime,
    /// The task's last commit when it began: what its diff is against.
    pub step_base: CommitId,
    /// The files with which it began: `step_base`, or what the attempt before left.
    pub from: CommitId,
    /// The files that were reviewed. `None` if it did not come to a review.
    pub work: Option<CommitId>,
    /// Whether these are the files of `step_base`, so that nothing was changed that could be reviewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_nothing: bool,
    /// Its units, in plan order; one, unless it is a band.
    pub units: Vec<UnitRecord>,
    /// What was run and changed in it.
    pub evidence: StepEvidence,
    /// The votes of the reviewers, as far as there are any.
    pub votes: Vec<ReviewVote>,
    /// Reviewers that gave no vote, and why: for the caller alone.
    pub silent: Vec<SilentReviewer>,
    /// What the votes come to.
    pub verdict: Option<ReviewVerdict>,
    /// What the reflector answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<Reflection>,
    /// Why there is no answer of the reflector's where one was asked for: for the caller alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection_error: Option<String>,
    /// How it ended.
    pub end: StepEnd,
}

/// One unit's part in an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitRecord {
    /// Its entry of the plan, counted from 0.
    pub entry: usize,
    /// The type of its agent.
    pub agent_type: String,
    /// What its agent handed in, or why nothing came of it: for the caller alone.
    pub outcome: Result<Handoff, String>,
    /// The vendor that ran it, where that is known: for the caller alone.
    pub vendor: Option<VendorId>,
}

/// A reviewer that gave no vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilentReviewer {
    /// The seat, by its name in the panel.
    pub seat: String,
    /// Why. It may name backends.
    pub reason: String,
}
