//! What a probe printed on three trees.

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
    /// The files with which the task began.
    TaskBase,
    /// The files with which the step began.
    StepBase,
    /// The files as they are now.
    Now,
}

impl ProbeSide {
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [Self::TaskBase, Self::StepBase, Self::Now];

    /// Its name, as it stands in a record.
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
    /// The files with which the task began.
    #[schemars(with = "String")]
    pub task_base: CommitId,
    /// The files with which the step began.
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
/// What the program printed is in it as it was, also a secret that it found; the file and its folder are its owner's alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRecord {
    /// Its number, which no other probe of the task has or will have.
    pub number: u32,
    /// The probe that it is another run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_of: Option<u32>,
    /// When it was run.
    #[schemars(with = "serde_json::Value")]
    pub began: SystemTime,
    /// What was run.
    pub probe: ProbeDraft,
    /// What it was run on.
    pub sides: ProbeSides,
    /// What came of it: one for each side, the oldest first.
    pub answers: Vec<ProbeAnswer>,
    /// Which sides differ, for which input. Only sides on which the program ran, twice with the same output, are compared.
    pub differs: Vec<ProbeDifference>,
}

impl ProbeRecord {
    /// The answer of one side.
    pub fn answer(&self, side: ProbeSide) -> Option<&ProbeAnswer> {
        self.answers.iter().find(|answer| answer.side == side)
    }

    /// Whether two sides differ, for any input.
    pub fn differ(&self, one: ProbeSide, other: ProbeSide) -> bool {
        let pair = if one <= other { (one, other) } else { (other, one) };
        self.differs.iter().any(|difference| (difference.older, difference.newer) == pair)
    }
}

/// What came of a probe on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeAnswer {
    /// Which.
    pub side: ProbeSide,
    /// The side before it that has the very same files: what is here came of the runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_files_as: Option<ProbeSide>,
    /// One for each input, in their order; one, if there are none.
    pub outcomes: Vec<SideOutcome>,
}

/// What came of a probe on one side with one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum SideOutcome {
    /// It ran twice, and wrote and returned the same both times.
    Ran {
        /// How it ended.
        exit: ProgramExit,
        /// What it wrote.
        output: CheckOutput,
    },
    /// It could not begin on this side.
    DidNotStart {
        /// What was missing.
        missing: String,
    },
    /// It did not end in time.
    TimedOut {
        /// What it wrote until then.
        output: CheckOutput,
    },
    /// It reached another limit, and was ended.
    ReachedLimit {
        /// Which: `memory`, `output`, `processes`, `processor time`, `file size`.
        limit: String,
        /// What it wrote until then.
        output: CheckOutput,
    },
    /// It ran twice, and the two runs were not the same. Nothing is normalised: a time or a random number in the output does this.
    Unstable {
        /// The first run.
        first: ProbeRun,
        /// The second.
        second: ProbeRun,
    },
}

/// One of two runs that were not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeRun {
    /// How it ended.
    pub end: ProbeRunEnd,
    /// What it wrote.
    pub output: CheckOutput,
}

/// How one run of a probe ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeRunEnd {
    /// By itself.
    Exited(ProgramExit),
    /// It did not end in time.
    TimedOut,
    /// It reached this other limit.
    ReachedLimit(String),
    /// It could not begin, for want of this.
    DidNotStart(String),
}

/// Two sides on which a probe ran and did not do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeDifference {
    /// The older side.
    pub older: ProbeSide,
    /// The newer side.
    pub newer: ProbeSide,
    /// The input, counted from 0; 0 also where there is none.
    pub input: usize,
    /// The first line of standard output that differs, counted from 1; else the exit or standard error differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_line: Option<u64>,
}

impl ProbeRecord {
    /// Says what no record that was made here has: it is asked of one that was read.
    pub(super) fn check(&self) -> Result<(), String> {
        self.probe.check().map_err(|error| error.to_string())?;
        if self.again_of.is_some_and(|number| number == 0 || number >= self.number) {
            return Err("it is another run of a probe that is not older".to_owned());
        }
        let sides: Vec<ProbeSide> = self.answers.iter().map(|answer| answer.side).collect();
        if sides != ProbeSide::ALL {
            return Err("it has not one answer for each of the three sides".to_owned());
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
                return Err(format!("{} is not the same as the side that it is said to be", answer.side));
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
