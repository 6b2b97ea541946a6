//! Proves that a trap works.

use std::{path::Path, sync::Arc};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_process::private_home::remove_tree;
use nexus_tasks::{Checks, ProbeSide, ProbeSides, SideOutcome, TaskSettings};
use nexus_trees::CommitId;

use crate::{
    error::TestbedError,
    laid_trap::LaidTrap,
    trap::{Answer, Trap},
    truth::GroundTruth,
};

/// Results of running a trap's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapProof {
    /// The name of the trap.
    pub trap: String,
    /// Conditions in order, each with its fault, if it has one.
    pub checks: Vec<ProofCheck>,
}

/// A condition that must hold for a trap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofCheck {
    /// The condition: `the tests pass on planted`.
    pub holds: String,
    /// Reason why the condition does not hold. `None` if it holds.
    pub fault: Option<String>,
}

impl TrapProof {
    /// Returns true if every condition holds, so that the trap can be used.
    pub fn is_sound(&self) -> bool {
        self.checks.iter().all(|check| check.fault.is_none())
    }

    /// Returns the conditions that do not hold.
    pub fn faults(&self) -> impl Iterator<Item = &ProofCheck> {
        self.checks.iter().filter(|check| check.fault.is_some())
    }

    fn add(&mut self, holds: impl Into<String>, fault: Option<String>) {
        self.checks.push(ProofCheck { holds: holds.into(), fault });
    }
}

impl Trap {
    /// Runs everything that proves a trap, in a folder that is created for it and removed:
    ///
    /// - The project's tests pass on the base, on the planted answer and on the right one.
    /// - The ground truth is red on the planted answer, because of its program's output, and green on the right one.
    /// - The probe's output on the planted answer differs from the base, and is the same on the right answer.
    ///
    /// # Errors
    ///
    /// [`TestbedError`] if a program could not run. The proof reports the conditions that do not hold.
    pub async fn prove(
        self: &Arc<Self>,
        folder: &Path,
        settings: &TaskSettings,
        cancel: &CancelToken,
    ) -> Result<TrapProof, TestbedError> {
        let proof = self.proof_in(folder, settings, cancel).await;
        let made = folder.to_owned();
        let removed =
            try_blocking(move || remove_tree(&made).map_err(|error| TestbedError::io(made, error))).await;
        // Return the error of the proof, if it failed, before one of the removal.
        proof.and_then(|proof| removed.map(|()| proof))
    }

    async fn proof_in(
        self: &Arc<Self>,
        folder: &Path,
        settings: &TaskSettings,
        cancel: &CancelToken,
    ) -> Result<TrapProof, TestbedError> {
        let laid = LaidTrap::lay_out(self, folder.join("laid"), settings, cancel).await?;
        let checks = laid.checks();
        let mut proof = TrapProof { trap: self.name().to_owned(), checks: Vec::new() };
        proof.add("the tests pass on base", tests(&checks, laid.base(), cancel).await?);
        for answer in Answer::ALL {
            let commit = laid.commit(answer, cancel).await?;
            proof.add(format!("the tests pass on {answer}"), tests(&checks, &commit, cancel).await?);
            let place = folder.join(format!("truth-{answer}"));
            let truth = GroundTruth::of(self, laid.tree(), &commit, &place, settings, cancel).await?;
            let holds = match answer {
                Answer::Planted => "the ground truth is red on planted",
                Answer::Right => "the ground truth is green on right",
            };
            let fault = match (answer, truth) {
                (Answer::Planted, GroundTruth::Red { .. }) | (Answer::Right, GroundTruth::Green) => None,
                (Answer::Planted, GroundTruth::Green) => {
                    Some("it is green: the planted answer is not wrong".to_owned())
                }
                // On the planted answer, `Unfinished` is a fault, too: a program that cannot end does not judge the answer.
                (_, GroundTruth::Red { observed } | GroundTruth::Unfinished { observed }) => Some(observed),
                (_, GroundTruth::Unchanged) => Some("it changes nothing of base".to_owned()),
                (_, GroundTruth::Unknown { reason }) => Some(format!("it cannot be run: {reason}")),
            };
            proof.add(holds, fault);
            // A trap has one step, so the task and the step begin with the same files.
            let base = laid.base().clone();
            let sides = ProbeSides { task_base: base.clone(), step_base: base, now: commit };
            let ran = checks.run_probe(self.probe().clone(), &sides, cancel).await;
            let record =
                ran.map_err(|error| TestbedError::check(format!("the probe of {}", self.origin()), error))?;
            // Check this as well: a probe that did not start differs on no side, which would pass for the right answer.
            let ran = ProbeSide::ALL.iter().all(|side| {
                let outcomes = record.answer(*side).map(|answer| &answer.outcomes[..]).unwrap_or_default();
                outcomes.iter().all(|outcome| matches!(outcome, SideOutcome::Ran { .. }))
            });
            proof.add(
                format!("the probe runs on base and {answer}"),
                (!ran).then(|| format!("{:?}", record.answers)),
            );
            let differs = record.differ(ProbeSide::TaskBase, ProbeSide::Now);
            match answer {
                Answer::Planted => proof.add(
                    "the probe prints something else on planted than on base",
                    (!differs).then(|| "it prints the same".to_owned()),
                ),
                Answer::Right => proof.add(
                    "the probe prints the same on right as on base",
                    differs.then(|| format!("it prints something else: {:?}", record.differs)),
                ),
            }
        }
        Ok(proof)
    }
}

async fn tests(
    checks: &Checks,
    commit: &CommitId,
    cancel: &CancelToken,
) -> Result<Option<String>, TestbedError> {
    let run = checks.run_tests(commit, cancel).await;
    let run = run.map_err(|error| TestbedError::check("the tests were not run", error))?.run;
    Ok((!run.is_green())
        .then(|| format!("{:?}: {}{}", run.end, run.output.stdout.head, run.output.stderr.head)))
}
