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

/// Which run of an experiment it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Its number in the experiment, from 0 on, in the order in which runs are made.
    pub number: u64,
    /// Which time this arm meets this answer of this trap, from 1 on.
    pub repeat: u32,
    /// The name of the trap.
    pub trap: String,
    /// Which answer the reviewers, or the executor in a whole task, begin with.
    pub answer: Answer,
    /// The name of the arm.
    pub arm: String,
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Which run it is.
    pub key: RunKey,
    /// When it began.
    pub began: SystemTime,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What it came to.
    pub result: RunResult,
    /// The votes of the last review, in the order of the seats.
    pub votes: Vec<ReviewVote>,
    /// The seats of the last review that gave none, and why.
    pub silent: Vec<SilentReviewer>,
    /// The probes that were run, each as its agent read it.
    pub probes: Vec<(EvidenceId, String)>,
    /// What the agents used.
    pub spent: Spent,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunResult {
    /// It ended, and the ground truth was asked.
    Ended {
        /// How.
        ending: Ending,
        /// What is true of the files that it ended with.
        truth: GroundTruth,
    },
    /// The infrastructure failed: it says nothing of anybody's judgement.
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
