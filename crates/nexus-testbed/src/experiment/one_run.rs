//! One run of an experiment.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use nexus_core::{CancelToken, RecordFile, harness::try_blocking};
use nexus_process::private_home::remove_tree;
use nexus_tasks::{EvidenceId, ReviewOutcome, ReviewVote, SilentReviewer};
use nexus_trees::{CommitId, Tree};
use nexus_work::AgentFailure;

use super::RunMode;
use crate::{
    arm::{Arm, ArmContext},
    discriminator::{OlderTrees, ReviewAlone},
    error::TestbedError,
    laid_trap::LaidTrap,
    run_record::{RunKey, RunRecord, RunResult},
    scorer::Ending,
    spent::Spent,
    trap::Trap,
    truth::GroundTruth,
    whole_task::WholeTask,
};

/// Folder and programs of the runs of an experiment, which run one after the other.
pub(super) struct RunPlace {
    run: PathBuf,
    truth: PathBuf,
    turns: PathBuf,
}

impl RunPlace {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { run: folder.join("run"), truth: folder.join("scored"), turns: folder.join("turns.jsonl") }
    }

    /// Removes the leftovers of a run.
    pub(super) async fn clear(&self) -> Result<(), TestbedError> {
        let folders = [self.run.clone(), self.truth.clone()];
        let remove = move || {
            folders
                .iter()
                .try_for_each(|folder| remove_tree(folder).map_err(|error| TestbedError::io(folder, error)))
        };
        try_blocking(remove).await
    }

    /// Appends the turns of a whole task to the turns of the experiment, because the task's folder will be removed.
    async fn keep_turns(&self, of_task: PathBuf) -> Result<(), TestbedError> {
        let turns = self.turns.clone();
        let keep = move || {
            // Opening creates the file as owner-only, and fails if the path is not a regular file.
            open_turns(&turns)?;
            let append = || match File::open(&of_task) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                file => io::copy(&mut file?, &mut OpenOptions::new().append(true).open(&turns)?),
            };
            append().map(drop).map_err(|error| TestbedError::io(&turns, error))
        };
        try_blocking(keep).await
    }
}

fn open_turns(path: &Path) -> Result<RecordFile, TestbedError> {
    RecordFile::open(path).map_err(|error| TestbedError::io(path, io::Error::other(error)))
}

/// Result of a run before the ground truth.
struct Finished {
    tree: Tree,
    commit: CommitId,
    ending: Result<Ending, String>,
    votes: Vec<ReviewVote>,
    silent: Vec<SilentReviewer>,
    probes: Vec<(EvidenceId, String)>,
    spent: Spent,
}

impl Finished {
    /// Returns the reason for a turn that could not be recorded, if the run has one. Such a turn did not run, so its agent was
    /// not silent. Reviews and tasks store only the text of a failure.
    fn unrecorded(&self) -> Option<String> {
        let words = AgentFailure::Unrecorded { message: String::new() }.to_string();
        let of_task = self.ending.as_ref().err().filter(|reason| reason.contains(&words));
        let of_seat = self.silent.iter().map(|seat| &seat.reason).find(|reason| reason.starts_with(&words));
        of_seat.or(of_task).cloned()
    }
}

impl From<WholeTask> for Finished {
    fn from(task: WholeTask) -> Self {
        let WholeTask { ending, tree, commit, votes, silent, probes, turns: _, spent } = task;
        Self { tree, commit, ending, votes, silent, probes, spent }
    }
}

/// Executes one run in a folder, which is removed afterwards. Records its turns in `turns`.
pub(super) async fn run(
    key: RunKey,
    mode: RunMode,
    arm: &Arm,
    trap: &Arc<Trap>,
    context: &ArmContext,
    place: &RunPlace,
    cancel: &CancelToken,
) -> Result<RunRecord, TestbedError> {
    place.clear().await?;
    let began = SystemTime::now();
    let router = arm.router(trap, context)?;
    let settings = arm.settings(&router)?;
    let run = match mode {
        RunMode::Review => {
            let laid = LaidTrap::lay_out(trap, &place.run, &settings, cancel).await?;
            let turns = open_turns(&place.turns)?;
            let review =
                ReviewAlone::run(&laid, key.answer, OlderTrees::Shown, &router, Some(turns), cancel).await?;
            // No seat was reached, or the votes could not be counted, so this is not a result of the arm.
            if let ReviewOutcome::Failed { reason, error } = &review.review.outcome {
                return Err(TestbedError::Run { reason: format!("{reason}: {error}") });
            }
            let ending = review.ending();
            Finished {
                tree: laid.tree().clone(),
                commit: review.commit,
                ending,
                votes: review.review.votes,
                silent: review.review.silent,
                probes: review.probes,
                spent: review.spent,
            }
        }
        RunMode::Task => {
            let task = WholeTask::run(trap, &place.run, &settings, router, cancel).await?;
            // Copy the turns before any further step can fail, because a failed run loses its folder.
            place.keep_turns(task.turns.clone()).await?;
            task.into()
        }
    };
    // End the experiment without a record: the agent never ran, so the next call repeats this run.
    if let Some(reason) = run.unrecorded() {
        return Err(TestbedError::Run { reason });
    }
    let result = match run.ending {
        Err(reason) => RunResult::Invalid { reason },
        Ok(ending) => {
            // Run this only now: no agent works any more that could read the ground truth.
            let truth =
                GroundTruth::of(trap, &run.tree, &run.commit, &place.truth, &settings, cancel).await?;
            RunResult::Ended { ending, truth }
        }
    };
    // The clock may have moved back, which gives an error. Measure before the clean-up, which is not part of the run.
    let elapsed = began.elapsed().unwrap_or_default();
    place.clear().await?;
    Ok(RunRecord {
        key,
        began,
        seconds: elapsed.as_secs_f64(),
        result,
        votes: run.votes,
        silent: run.silent,
        probes: run.probes,
        spent: run.spent,
    })
}
