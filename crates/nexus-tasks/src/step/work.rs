//! Work to review, and the result of a review.

use nexus_trees::CommitId;

use crate::{
    evidence::StepEvidence,
    handoff::Handoff,
    review::{ReviewVerdict, ReviewVote},
    step_record::SilentReviewer,
};

/// Work to review: files, and claims about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepWork {
    /// Commit with the files, in the task's tree. It needs no ref.
    pub commit: CommitId,
    /// Handoffs of its units, each with its entry of the plan, counted from 0.
    pub handoffs: Vec<(usize, Handoff)>,
    /// Tests and probes that ran in the attempt so far. The review adds the lines of the diff.
    pub evidence: StepEvidence,
    /// True if the agents claim that the whole problem is solved. Then every criterion is judged, as after the plan's last step.
    pub is_complete: bool,
}

/// Result of a review.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReview {
    /// The votes, in the order of the seats.
    pub votes: Vec<ReviewVote>,
    /// Seats that gave no vote, with reasons: for the caller alone.
    pub silent: Vec<SilentReviewer>,
    /// Evidence of the attempt, including the review.
    pub evidence: StepEvidence,
    /// Outcome of the votes.
    pub outcome: ReviewOutcome,
}

/// Outcome of a review's votes.
#[derive(Clone, Debug, PartialEq)]
pub enum ReviewOutcome {
    /// A verdict: the union of the votes.
    Settled(ReviewVerdict),
    /// No vote opposes the work, but too few vendors support it: the step does not advance.
    Short {
        /// Number of vendors that voted.
        vendors: usize,
        /// Number of vendors that an advance needs.
        needed: usize,
    },
    /// The review could not run.
    Failed {
        /// Reason, in the words of Nexus.
        reason: String,
        /// Infrastructure failure behind it: for the caller alone.
        error: String,
    },
}
