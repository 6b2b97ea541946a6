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
    /// Its number in the experiment, from 0 on, in the order in which runs are made.
    pub number: u64,
    /// Number of this run among those of the same arm, trap and answer, from 1 on.
    pub repeat: u32,
    /// The name of the trap.
    pub trap: String,
    /// Answer with which the reviewers, or the executor in a whole task, begin.
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
    /// The votes of the last review, in the order of the seats.
    pub votes: Vec<ReviewVote>,
    /// The seats of the last review that gave none, and why.
    pub silent: Vec<SilentReviewer>,
    /// The probes that were run, each as its agent read it.
    pub probes: Vec<(EvidenceId, String)>,
    /// Usage of the agents.
    pub spent: Spent,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunResult {
    /// It ended, and the ground truth ran.
    Ended {
        /// How.
        ending: Ending,
        /// Ground truth of the files at its end.
        truth: GroundTruth,
    },
    /// The infrastructure failed: the run does not judge any agent.
    Invalid {
        /// How.
        reason: String,
    },
}

impl RunRecord {
    /// Its outcome. `None` for a run that is invalid, also by a ground truth that could not be run.
    pub fn outcome(&self) -> Option<Outcome> {
        match &self.result {
            RunResult::Ended { ending, truth } => Outcome::of(*ending, truth),
            RunResult::Invalid { .. } => None,
        }
    }

    /// Why it counts for nothing, if it does.
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
