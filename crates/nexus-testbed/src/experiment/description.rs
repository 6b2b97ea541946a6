//! `experiment.json`: the runs of an experiment.

use nexus_core::visible::Visible;
use serde::{Deserialize, Serialize};

use crate::{run_record::RunKey, trap::Answer};

/// The version of the format.
pub(crate) const VERSION: u32 = 1;
/// Maximum number of runs of an experiment.
pub(crate) const MOST_RUNS: u64 = 1_000_000;

/// Work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// Review alone: an answer is presented to the reviewers.
    #[default]
    Review,
    /// The whole task: agents frame the goal, work on it, and review the work, with all retries.
    Task,
}

/// The runs of an experiment: the file `experiment.json`. It identifies arms and traps, and contains no secret of a
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentDescription {
    /// The version of the format.
    pub version: u32,
    /// Work of each run.
    pub mode: RunMode,
    /// Number of runs of each arm with each answer.
    pub repeats: u32,
    /// Answers to run. For whole tasks it is only `planted`, because the agents write their own answer.
    pub answers: Vec<Answer>,
    /// The arms.
    pub arms: Vec<Named>,
    /// The traps.
    pub traps: Vec<NamedTrap>,
}

/// An arm with its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Name of the arm.
    pub name: String,
    /// The SHA-256 of its configuration.
    pub sha256: String,
}

/// A trap with its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedTrap {
    /// Name of the trap.
    pub name: String,
    /// Kind of the planted mistake.
    pub kind: String,
    /// The SHA-256 of its files.
    pub sha256: String,
}

impl ExperimentDescription {
    /// Returns the fault of an invalid description.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "its version is {}, but this version of Nexus supports {VERSION}",
                self.version
            ));
        }
        for (what, count) in
            [("arm", self.arms.len()), ("trap", self.traps.len()), ("answer", self.answers.len())]
        {
            if count == 0 {
                return Err(format!("it has no {what}"));
            }
        }
        if self.repeats == 0 {
            return Err("each arm runs at least once".to_owned());
        }
        let twice = |names: Vec<&str>| {
            names
                .iter()
                .enumerate()
                .find(|(at, name)| names[..*at].contains(name))
                .map(|(_, name)| (*name).to_owned())
        };
        let names = [
            ("arms", twice(self.arms.iter().map(|arm| arm.name.as_str()).collect())),
            ("traps", twice(self.traps.iter().map(|trap| trap.name.as_str()).collect())),
            ("answers", twice(self.answers.iter().map(|answer| answer.as_str()).collect())),
        ];
        if let Some((what, Some(name))) = names.into_iter().find(|(_, name)| name.is_some()) {
            return Err(format!("two of its {what} have the name {:?}", Visible(&name).to_string()));
        }
        match self.checked_runs() {
            Some(runs) if runs <= MOST_RUNS => Ok(()),
            _ => Err(format!("it has more than {MOST_RUNS} runs")),
        }
    }

    fn checked_runs(&self) -> Option<u64> {
        let sizes = [self.traps.len(), self.answers.len(), self.arms.len()];
        // The numbers may come from a file, so their product may overflow.
        sizes.iter().try_fold(u64::from(self.repeats), |runs, size| runs.checked_mul(*size as u64))
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.checked_runs().unwrap_or(0)
    }

    /// Returns a run by its number; `None` beyond the last. All arms run an answer before any arm runs the next answer, and
    /// all answers run once before any runs twice. So changes over time affect all arms alike.
    pub fn key(&self, number: u64) -> Option<RunKey> {
        if number >= self.runs() {
            return None;
        }
        // The number has one digit for each dimension. The arm is the lowest digit, so it changes fastest.
        let turn = |rest: u64, count: usize| {
            (rest / count as u64, usize::try_from(rest % count as u64).unwrap_or(0))
        };
        let (rest, arm) = turn(number, self.arms.len());
        let (rest, answer) = turn(rest, self.answers.len());
        let (rest, trap) = turn(rest, self.traps.len());
        Some(RunKey {
            number,
            repeat: u32::try_from(rest).unwrap_or(u32::MAX) + 1,
            trap: self.traps[trap].name.clone(),
            answer: self.answers[answer],
            arm: self.arms[arm].name.clone(),
        })
    }

    /// Differences from another description, in words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.mode != other.mode {
            found.push(format!("it runs {} there, {} here", mode(self.mode), mode(other.mode)));
        }
        if self.repeats != other.repeats {
            found.push(format!("{} runs of each there, {} here", self.repeats, other.repeats));
        }
        if self.answers != other.answers {
            found.push(format!("the answers are {:?} there, {:?} here", self.answers, other.answers));
        }
        let arms = |one: &Self| {
            one.arms.iter().map(|arm| (arm.name.clone(), arm.sha256.clone())).collect::<Vec<_>>()
        };
        let traps = |one: &Self| {
            one.traps.iter().map(|trap| (trap.name.clone(), trap.sha256.clone())).collect::<Vec<_>>()
        };
        for (what, there, here) in [("arm", arms(self), arms(other)), ("trap", traps(self), traps(other))] {
            for (name, sha256) in &there {
                match here.iter().find(|(other, _)| other == name) {
                    None => found.push(format!("the {what} {name} is only there")),
                    Some((_, other)) if other != sha256 => {
                        found.push(format!("the {what} {name} is another one here"));
                    }
                    Some(_) => {}
                }
            }
            for (name, _) in here.iter().filter(|(name, _)| !there.iter().any(|(other, _)| other == name)) {
                found.push(format!("the {what} {name} is only here"));
            }
        }
        // The lists above compare by name, so they do not notice another order.
        if found.is_empty() && self != other {
            found.push("arms or traps come in another order".to_owned());
        }
        found
    }
}

const fn mode(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Review => "review alone",
        RunMode::Task => "whole tasks",
    }
}
