//! Work that is to be reviewed, and what a review of it came to.

use nexus_trees::CommitId;

use crate::{
    evidence::StepEvidence,
    handoff::Handoff,
    review::{ReviewVerdict, ReviewVote},
    step_record::SilentReviewer,
};

/// Work that is to be reviewed: files, and what is said of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepWork {
    /// The files. A commit of the task's tree; no ref need name it.
    pub commit: CommitId,
    /// What its units handed in, each with its entry of the plan, counted from 0.
    pub handoffs: Vec<(usize, Handoff)>,
    /// Tests and probes that were run in the attempt so far. The lines of the diff are added by the review.
    pub evidence: StepEvidence,
    /// Whether it is said to solve the whole problem: then every criterion is judged, as after the plan's last step.
    pub is_complete: bool,
}

/// What a review came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReview {
    /// The votes, in the order of the seats.
    pub votes: Vec<ReviewVote>,
    /// The seats that gave none, and why: for the caller alone.
    pub silent: Vec<SilentReviewer>,
    /// What was run and changed in the attempt, the review included.
    pub evidence: StepEvidence,
    /// What it comes to.
    pub outcome: ReviewOutcome,
}

/// What the votes of a review come to.
#[derive(Clone, Debug, PartialEq)]
pub enum ReviewOutcome {
    /// A verdict: the union of the votes.
    Settled(ReviewVerdict),
    /// Nobody refutes the work, and votes of too few vendors are for it: it does not advance.
    Short {
        /// How many vendors voted.
        vendors: usize,
        /// How many have to.
        needed: usize,
    },
    /// Nobody could be asked.
    Failed {
        /// Why, in words of ours.
        reason: String,
        /// The failure of the infrastructure behind it: for the caller alone.
        error: String,
    },
}
