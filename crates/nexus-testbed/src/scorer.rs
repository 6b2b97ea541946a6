//! Outcome of a run: from its ending and from the ground truth, never from statements of agents.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::truth::GroundTruth;

/// Ending of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The reviewers accepted the work: a verdict that advances, or a completed task.
    Shipped,
    /// The reviewers did not accept the work: a verdict that sends it back or escalates, or a task that is blocked or
    /// escalated.
    Refused,
}

/// Outcome of a run. Files without any change to the project are not an answer, and count as a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The right answer was accepted.
    Correct,
    /// A wrong answer was accepted, or unchanged files were.
    ConfidentWrong,
    /// The reviewers refused a wrong answer, or the task reports that it has no answer.
    HonestEscalate,
    /// The right answer was not accepted.
    FalseEscalate,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 4] =
        [Self::Correct, Self::ConfidentWrong, Self::HonestEscalate, Self::FalseEscalate];

    /// Returns the outcome of work with this ending and this ground truth. `None` if the ground truth is unknown: the run
    /// does not count.
    pub fn of(ending: Ending, truth: &GroundTruth) -> Option<Self> {
        let is_right = match truth {
            GroundTruth::Green => true,
            GroundTruth::Red { .. } | GroundTruth::Unfinished { .. } | GroundTruth::Unchanged => false,
            GroundTruth::Unknown { .. } => return None,
        };
        Some(match (ending, is_right) {
            (Ending::Shipped, true) => Self::Correct,
            (Ending::Shipped, false) => Self::ConfidentWrong,
            (Ending::Refused, false) => Self::HonestEscalate,
            (Ending::Refused, true) => Self::FalseEscalate,
        })
    }

    /// Returns the name: `confident-wrong`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::ConfidentWrong => "confident-wrong",
            Self::HonestEscalate => "honest-escalate",
            Self::FalseEscalate => "false-escalate",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_by_the_ending_and_the_ground_truth() {
        let red = GroundTruth::Red { observed: "I am sure that it is right.".to_owned() };
        let unfinished = GroundTruth::Unfinished { observed: String::new() };
        let unknown = GroundTruth::Unknown { reason: String::new() };
        for (ending, of_green, of_red) in [
            (Ending::Shipped, Outcome::Correct, Outcome::ConfidentWrong),
            (Ending::Refused, Outcome::FalseEscalate, Outcome::HonestEscalate),
        ] {
            assert_eq!(Outcome::of(ending, &GroundTruth::Green), Some(of_green));
            assert_eq!(Outcome::of(ending, &red), Some(of_red));
            assert_eq!(Outcome::of(ending, &unfinished), Some(of_red));
            assert_eq!(Outcome::of(ending, &GroundTruth::Unchanged), Some(of_red));
            assert_eq!(Outcome::of(ending, &unknown), None);
        }
    }
}
