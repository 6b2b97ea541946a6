//! One finished run: a line of `runs.jsonl`.

use std::time::SystemTime;

use nexus_tasks::{EvidenceId, ReviewVote, SilentReviewer};
use serde::{Deserialize, Serialize};

use crate::{
    scorer::{Ending, Outcome},
    spent::Spent,
    trap::Answer,
    truth::GroundTruth,
};

/// Identity of a run in an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Number in the experiment, from 0, in the order of execution.
    pub number: u64,
    /// Number among the runs of the same arm, trap and answer, from 1.
    pub repeat: u32,
    /// The name of the trap.
    pub trap: String,
    /// Answer that the reviewers get. In a whole task, the executor starts with it.
    pub answer: Answer,
    /// The name of the arm.
    pub arm: String,
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Identity of the run.
    pub key: RunKey,
    /// Time of the beginning.
    pub began: SystemTime,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Result of the run.
    pub result: RunResult,
    /// Votes of the last review, in the order of the seats.
    pub votes: Vec<ReviewVote>,
    /// Seats of the last review without a vote, with the reasons.
    pub silent: Vec<SilentReviewer>,
    /// Probes of the run, each as text for its agent.
    pub probes: Vec<(EvidenceId, String)>,
    /// Usage of the agents.
    pub spent: Spent,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunResult {
    /// The run ended, and the ground truth ran.
    Ended {
        /// Ending of the work.
        ending: Ending,
        /// Ground truth of the files at its end.
        truth: GroundTruth,
    },
    /// The infrastructure failed: the run does not judge any agent.
    Invalid {
        /// Reason of the failure.
        reason: String,
    },
}

impl RunRecord {
    /// Returns the outcome. `None` for an invalid run, including one whose ground truth could not run.
    pub fn outcome(&self) -> Option<Outcome> {
        match &self.result {
            RunResult::Ended { ending, truth } => Outcome::of(*ending, truth),
            RunResult::Invalid { .. } => None,
        }
    }

    /// Returns the reason why the run does not count. `None` if it counts.
    pub fn invalid(&self) -> Option<String> {
        match &self.result {
            RunResult::Ended { truth: GroundTruth::Unknown { reason }, .. } => {
                Some(format!("the ground truth could not be run: {reason}"))
            }
            RunResult::Ended { .. } => None,
            RunResult::Invalid { reason } => Some(reason.clone()),
        }
    }
}
