//! Record of one attempt at a step.

mod for_people;

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

pub use self::for_people::spoken_step;

/// Record of one attempt at a step: the file `steps/N.json` of a task, where N is the attempt.
///
/// Answers of agents are checked again when the file is read, by the same functions that checked them first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The first entry of the step, counted from 0.
    pub entry: usize,
    /// Number of the attempt, from 1 on over all steps of the task.
    pub attempt: u32,
    /// Time at which it began.
    pub began: SystemTime,
    /// Time at which it was settled.
    pub ended: SystemTime,
    /// The task's last commit at its start: the base of its diff.
    pub step_base: CommitId,
    /// The files at its start: `step_base`, or those of the attempt before.
    pub from: CommitId,
    /// The files that were reviewed. `None` if it had no review.
    pub work: Option<CommitId>,
    /// True if these are the files of `step_base`, so that there is nothing to review.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_nothing: bool,
    /// Its units, in plan order. A step that is not a band has one unit.
    pub units: Vec<UnitRecord>,
    /// Tests and probes that ran in it, and its changes.
    pub evidence: StepEvidence,
    /// Votes of the reviewers, if there are any.
    pub votes: Vec<ReviewVote>,
    /// Reviewers that gave no vote, with reasons: for the caller alone.
    pub silent: Vec<SilentReviewer>,
    /// Union of the votes.
    pub verdict: Option<ReviewVerdict>,
    /// Answer of the reflector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<Reflection>,
    /// Reason why a reflector that ran gave no answer: for the caller alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection_error: Option<String>,
    /// End of the attempt.
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
    /// The handoff of its agent, or the reason why it submitted none: for the caller alone.
    pub outcome: Result<Handoff, String>,
    /// The vendor that ran it, if known: for the caller alone.
    pub vendor: Option<VendorId>,
}

/// A reviewer that gave no vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilentReviewer {
    /// The seat, by its name in the panel.
    pub seat: String,
    /// Reason. It may name backends.
    pub reason: String,
}
