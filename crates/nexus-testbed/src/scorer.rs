//! Outcome of a run: from its ending and from the ground truth, never from statements of agents.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::truth::GroundTruth;

/// Ending of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Review let it pass: a verdict that advances, or a task that is complete.
    Shipped,
    /// It was not let pass: a verdict that sends it back or escalates, or a task that ended as blocked or escalated.
    Refused,
}

/// Outcome of a run. Files that are the same as the project's are not an answer, and count as a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The right answer was let pass.
    Correct,
    /// A wrong answer was let pass, or none as if it were one.
    ConfidentWrong,
    /// The reviewers refused a wrong answer, or the task reports that it has no answer.
    HonestEscalate,
    /// The right answer was not let pass.
    FalseEscalate,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Correct, Self::ConfidentWrong, Self::HonestEscalate, Self::FalseEscalate];

    /// The outcome of work that ended so, by the ground truth of its files. `None` where that is unknown: the run counts for nothing.
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

    /// Its name: `confident-wrong`.
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
