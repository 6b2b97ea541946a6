//! Record of a probe's output on three trees.

use std::{fmt, time::SystemTime};

use nexus_trees::CommitId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    output::{CheckOutput, ProgramExit},
    probe::ProbeDraft,
};

/// One of the three trees that a probe is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeSide {
    /// Files at the start of the task.
    TaskBase,
    /// Files at the start of the step.
    StepBase,
    /// The files as they are now.
    Now,
}

impl ProbeSide {
    /// All sides, the oldest files first.
    pub const ALL: [Self; 3] = [Self::TaskBase, Self::StepBase, Self::Now];

    /// Returns the name of the side, as written in a record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TaskBase => "task_base",
            Self::StepBase => "step_base",
            Self::Now => "now",
        }
    }
}

impl fmt::Display for ProbeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The commits that a probe is run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeSides {
    /// Files at the start of the task.
    #[schemars(with = "String")]
    pub task_base: CommitId,
    /// Files at the start of the step.
    #[schemars(with = "String")]
    pub step_base: CommitId,
    /// The files as they are now.
    #[schemars(with = "String")]
    pub now: CommitId,
}

impl ProbeSides {
    /// The commit of one side.
    pub fn commit(&self, side: ProbeSide) -> &CommitId {
        match side {
            ProbeSide::TaskBase => &self.task_base,
            ProbeSide::StepBase => &self.step_base,
            ProbeSide::Now => &self.now,
        }
    }
}

/// A probe that was run: the file `probes/N.json` of a task.
///
/// It contains the output of the program unchanged, including any secret that the program found. The file and its folder are owner-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRecord {
    /// Its number, which no other probe of the task has or will have.
    pub number: u32,
    /// Number of the probe that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_of: Option<u32>,
    /// Time at which it began.
    #[schemars(with = "serde_json::Value")]
    pub began: SystemTime,
    /// The program that was run.
    pub probe: ProbeDraft,
    /// Commits that it was run on.
    pub sides: ProbeSides,
    /// Results: one for each side, the oldest first.
    pub answers: Vec<ProbeAnswer>,
    /// Pairs of sides that differ, by input. Only sides on which the program ran twice with the same output are compared.
    pub differs: Vec<ProbeDifference>,
}

impl ProbeRecord {
    /// Returns the answer of one side.
    pub fn answer(&self, side: ProbeSide) -> Option<&ProbeAnswer> {
        self.answers.iter().find(|answer| answer.side == side)
    }

    /// Returns true if two sides differ, for any input.
    pub fn differ(&self, one: ProbeSide, other: ProbeSide) -> bool {
        // Every stored difference has its older side first.
        let pair = if one <= other { (one, other) } else { (other, one) };
        self.differs.iter().any(|difference| (difference.older, difference.newer) == pair)
    }
}

/// Result of a probe on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeAnswer {
    /// The side.
    pub side: ProbeSide,
    /// An older side with the very same files. The program ran only there, and these are its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_files_as: Option<ProbeSide>,
    /// One outcome for each input, in the order of the inputs. Without inputs there is a single outcome.
    pub outcomes: Vec<SideOutcome>,
}

/// Outcome of a probe on one side with one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum SideOutcome {
    /// The program ran twice, and wrote and returned the same both times.
    Ran {
        /// Exit of the program.
        exit: ProgramExit,
        /// Output of the program.
        output: CheckOutput,
    },
    /// The program could not begin on this side.
    DidNotStart {
        /// The missing program, file or module.
        missing: String,
    },
    /// It did not end in time.
    TimedOut {
        /// Output until then.
        output: CheckOutput,
    },
    /// The program reached another limit, and was stopped.
    ReachedLimit {
        /// The limit: `memory`, `output`, `processes`, `processor time`, `file size`, `disk space`.
        limit: String,
        /// Output until then.
        output: CheckOutput,
    },
    /// The program ran twice, and the two runs differ. Nothing is normalised: a time or a random number in the output has this effect.
    Unstable {
        /// The first run.
        first: ProbeRun,
        /// The second.
        second: ProbeRun,
    },
}

/// One of two runs that differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRun {
    /// End of the run.
    pub end: ProbeRunEnd,
    /// Output of the run.
    pub output: CheckOutput,
}

/// End of one run of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeRunEnd {
    /// The program exited.
    Exited(ProgramExit),
    /// It did not end in time.
    TimedOut,
    /// It reached this other limit.
    ReachedLimit(String),
    /// It could not begin; this was missing.
    DidNotStart(String),
}

/// Two sides on which a probe ran with different results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeDifference {
    /// The older side.
    pub older: ProbeSide,
    /// The newer side.
    pub newer: ProbeSide,
    /// Number of the input, counted from 0. Without inputs it is 0.
    pub input: usize,
    /// First line of standard output that differs, counted from 1. Absent if only the exit or standard error differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_line: Option<u64>,
}

impl ProbeRecord {
    /// Checks a record that was read from disk against the rules that every stored record meets.
    pub(super) fn check(&self) -> Result<(), String> {
        self.probe.check().map_err(|error| error.to_string())?;
        if self.again_of.is_some_and(|number| number == 0 || number >= self.number) {
            return Err("it repeats a probe that is not older".to_owned());
        }
        let sides: Vec<ProbeSide> = self.answers.iter().map(|answer| answer.side).collect();
        if sides != ProbeSide::ALL {
            return Err("it must have one answer for each of the three sides".to_owned());
        }
        for answer in &self.answers {
            if answer.outcomes.len() != self.probe.runs() {
                return Err(format!(
                    "{} has {} outcomes of {}",
                    answer.side,
                    answer.outcomes.len(),
                    self.probe.runs()
                ));
            }
            if answer.same_files_as.is_some_and(|other| {
                other >= answer.side
                    || self.answer(other).is_none_or(|other| other.outcomes != answer.outcomes)
            }) {
                return Err(format!(
                    "{} differs from the side with which it is marked as equal",
                    answer.side
                ));
            }
        }
        let ran = |side: ProbeSide, input: usize| {
            let outcome = self.answer(side).and_then(|answer| answer.outcomes.get(input));
            matches!(outcome, Some(SideOutcome::Ran { .. }))
        };
        let is_odd = |difference: &&ProbeDifference| {
            let ProbeDifference { older, newer, input, .. } = **difference;
            older >= newer || !ran(older, input) || !ran(newer, input)
        };
        match self.differs.iter().find(is_odd) {
            Some(odd) => {
                Err(format!("{} and {} did not both run with input {}", odd.older, odd.newer, odd.input))
            }
            None => Ok(()),
        }
    }
}
