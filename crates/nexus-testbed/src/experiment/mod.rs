//! An experiment: runs every arm with every answer of every trap, a given number of times, and stores the finished runs.

mod description;
mod one_run;
mod out_of_reach;
mod run_file;

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{CancelToken, log_unrecorded};
use nexus_files::{FileLock, Journal, JournalKind, make_private_folder};
use nexus_tasks::BriefLimits;

pub use description::{ExperimentDescription, Named, NamedTrap, RunMode};

use crate::{
    arm::{Arm, ArmContext},
    error::TestbedError,
    run_record::RunRecord,
    trap::{Answer, Trap},
};
use one_run::RunPlace;
use run_file::RunFile;

/// Maximum number of turns of one agent on one backend: its own, a reminder, and a repetition after its conversation was
/// lost. Each may be tried on every backend of its group.
const MOST_TURNS_OF_AN_AGENT: u64 = 3;
/// Maximum number of requests to a seat that does not vote.
const MOST_ASKS_OF_A_SEAT: u64 = 2;
/// Maximum size of `experiment.json`, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Inputs of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentPlan {
    /// Work of each run.
    pub mode: RunMode,
    /// Number of runs of each arm with each answer.
    pub repeats: u32,
    /// Answers to run. For whole tasks it is only [`Answer::Planted`].
    pub answers: Vec<Answer>,
    /// The arms.
    pub arms: Vec<Arm>,
    /// The traps.
    pub traps: Vec<Arc<Trap>>,
}

/// An experiment in a folder: `experiment.json` lists its runs, `runs.jsonl` holds the finished ones, one per
/// line, and `turns.jsonl` the turns of their agents.
///
/// A run is written when it is finished: a killed process loses the run in flight, and the next process
/// continues after the last line.
#[derive(Debug)]
pub struct Experiment {
    folder: PathBuf,
    plan: ExperimentPlan,
    description: ExperimentDescription,
    finished: Vec<RunRecord>,
    file: RunFile,
    _lock: FileLock,
}

/// Lowest and highest number of turns of the remaining runs. A turn that is tried on several backends of its
/// group counts once for each attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnBounds {
    /// Number of turns if every agent submits its answer in its first turn, and no step is repeated.
    pub fewest: u64,
    /// Number of turns if every agent needs all reminders, each turn fails on all backends of its group but the last, and
    /// every step is repeated as often as allowed.
    pub most: u64,
}

/// The finished runs of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentResults {
    /// The runs of the experiment.
    pub description: ExperimentDescription,
    /// Finished runs, in the order of their numbers.
    pub runs: Vec<RunRecord>,
}

impl ExperimentPlan {
    /// Checks the arms before an experiment begins in a folder, which then has these arms permanently.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] for an arm whose configuration cannot be used, or for an arm with a vendor's backend whose
    /// agents could read the ground truth.
    pub fn check(&self, context: &ArmContext) -> Result<(), TestbedError> {
        let Some(trap) = self.traps.first() else { return Ok(()) };
        let traps: Vec<&Trap> = self.traps.iter().map(AsRef::as_ref).collect();
        for arm in &self.arms {
            let settings = arm.settings(&arm.router(trap, context)?)?;
            if arm.is_real(trap, context)
                && let Some(reach) = out_of_reach::within_reach(&settings, &traps)
            {
                let problem = format!("its agents could reach the ground truth: {reach}");
                return Err(TestbedError::Arm { arm: arm.name().to_owned(), problem });
            }
        }
        Ok(())
    }

    /// Returns the description of the experiment.
    pub fn description(&self) -> ExperimentDescription {
        let arm = |arm: &Arm| Named { name: arm.name().to_owned(), sha256: arm.fingerprint() };
        let trap = |trap: &Arc<Trap>| NamedTrap {
            name: trap.name().to_owned(),
            kind: trap.kind().to_owned(),
            sha256: trap.fingerprint().to_owned(),
        };
        ExperimentDescription {
            version: description::VERSION,
            mode: self.mode,
            repeats: self.repeats,
            answers: match self.mode {
                RunMode::Review => self.answers.clone(),
                RunMode::Task => vec![Answer::Planted],
            },
            arms: self.arms.iter().map(arm).collect(),
            traps: self.traps.iter().map(trap).collect(),
        }
    }
}

impl Experiment {
    /// Opens the experiment in a folder to continue it, or begins it there. It blocks.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Experiment`] if the plan has no runs; if the folder contains another experiment (with the
    /// differences) or other files; if its runs were changed from outside; or if another process works on it.
    /// [`TestbedError::Io`].
    pub fn open(folder: impl Into<PathBuf>, plan: ExperimentPlan) -> Result<Self, TestbedError> {
        let folder = folder.into();
        let folder = std::path::absolute(&folder).map_err(|error| TestbedError::io(&folder, error))?;
        let description = plan.description();
        let fault = |problem: String| TestbedError::Experiment { path: folder.clone(), problem };
        description.check().map_err(fault)?;
        let path = folder.join(DESCRIPTION);
        // Check this before any write, so that a folder with other content stays unchanged.
        if read_description(&path)?.is_none() && holds_something_else(&folder)? {
            return Err(fault("is not empty, and contains no experiment: choose another folder".to_owned()));
        }
        make_private_folder(&folder).map_err(|error| TestbedError::io(&folder, error))?;
        let lock = lock(&folder)?;
        // Read it again under the lock: another process may have begun an experiment here meanwhile.
        match read_description(&path)? {
            Some(there) if there == description => {}
            Some(there) => {
                let differences = there.differences(&description).join("; ");
                return Err(fault(format!(
                    "contains another experiment: {differences}; choose another folder"
                )));
            }
            None => {
                write_description(&path, &description)?;
            }
        }
        let runs = folder.join("runs.jsonl");
        let file = RunFile::at(runs);
        // Read before `begin`, which changes the file: a file with faults stays as it is.
        let finished = file.read(&description)?;
        file.begin()?;
        Ok(Self { folder, plan, description, finished, file, _lock: lock })
    }

    /// Returns the description of the experiment.
    pub fn description(&self) -> &ExperimentDescription {
        &self.description
    }

    /// Returns the finished runs.
    pub fn finished(&self) -> &[RunRecord] {
        &self.finished
    }

    /// Returns the bounds of the remaining turns, and the arms that name backends other than scripts, which cost money.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] for a configuration that cannot be used.
    pub fn turns(&self, context: &ArmContext) -> Result<(TurnBounds, Vec<&str>), TestbedError> {
        let mut real = Vec::new();
        let mut bounds = TurnBounds::default();
        let Some(trap) = self.plan.traps.first() else { return Ok((bounds, real)) };
        for arm in &self.plan.arms {
            let router = arm.router(trap, context)?;
            let settings = arm.settings(&router)?;
            let left = (self.finished.len() as u64..self.description.runs())
                // Runs execute in the order of their numbers, so the number of finished runs is the next number.
                .filter(|number| self.description.key(*number).is_some_and(|key| key.arm == arm.name()))
                .count() as u64;
            let panel = arm.reviewers(&router)?;
            let seats = panel.seats.len() as u64;
            let tries: u64 = panel.seats.iter().map(|seat| seat.binding.chain.len() as u64).sum();
            let review = tries * MOST_ASKS_OF_A_SEAT * MOST_TURNS_OF_AN_AGENT;
            // Number of turns of one agent that does not review. A work-kind without a binding has no turns.
            let agent = |kind: &str| {
                router.binding(kind).map_or(0, |binding| MOST_TURNS_OF_AN_AGENT * binding.chain.len() as u64)
            };
            let (fewest, most) = match self.plan.mode {
                RunMode::Review => (seats, review),
                RunMode::Task => {
                    let attempts = 1 + u64::from(settings.max_review_retries);
                    let step = agent("executor") + agent("reflector") + agent("cartographer") + review;
                    // At least one turn each of the orchestrator, of the executor and of every reviewer.
                    (2 + seats, agent("orchestrator") + BriefLimits::ENTRIES as u64 * attempts * step)
                }
            };
            bounds.fewest += left * fewest;
            bounds.most += left * most;
            if left > 0 && arm.is_real(trap, context) {
                real.push(arm.name());
            }
        }
        Ok((bounds, real))
    }

    /// Executes the unfinished runs, one after the other, and calls `finished` when each is stored. Arms take turns. Each
    /// finished run is recorded in the journal of the context's home.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Cancelled`]: finished runs are stored, and the next call continues. Errors of
    /// [`ExperimentPlan::check`],
    /// [`ReviewAlone::run`](crate::ReviewAlone::run), [`WholeTask::run`](crate::WholeTask::run) and
    /// [`GroundTruth::of`](crate::GroundTruth::of). Errors of storing a run. [`TestbedError::Run`] if a turn of its agents
    /// could not be recorded.
    pub async fn run(
        &mut self,
        context: &ArmContext,
        cancel: &CancelToken,
        mut finished: impl FnMut(&RunRecord),
    ) -> Result<(), TestbedError> {
        self.plan.check(context)?;
        let journal = Journal::in_home(&context.build.home);
        while let Some(key) = self.description.key(self.finished.len() as u64) {
            if cancel.is_cancelled() {
                return Err(TestbedError::Cancelled);
            }
            let arm = self.plan.arms.iter().find(|arm| arm.name() == key.arm);
            let trap = self.plan.traps.iter().find(|trap| trap.name() == key.trap);
            // The description was built from this plan, so both exist.
            let (Some(arm), Some(trap)) = (arm, trap) else { break };
            let place = RunPlace::in_folder(&self.folder);
            let run = one_run::run(key, self.plan.mode, arm, trap, context, &place, cancel).await;
            let run = match run {
                Ok(run) => run,
                Err(error) => {
                    // Return the error of the run, not one of the clean-up.
                    let _ = place.clear().await;
                    return Err(error);
                }
            };
            // Store the run before the journal and the caller learn of it. Otherwise a crash could lose a reported run.
            self.file.add(&run)?;
            log_unrecorded(journal.record(JournalKind::Testbed, &self.folder.to_string_lossy(), "run_ended"));
            finished(&run);
            self.finished.push(run);
        }
        Ok(())
    }
}

impl ExperimentResults {
    /// Reads the finished runs of the experiment in a folder, even while it runs. It blocks.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Experiment`] if the folder contains no experiment, or its runs were changed from outside;
    /// [`TestbedError::Io`].
    pub fn read(folder: &Path) -> Result<Self, TestbedError> {
        let path = folder.join(DESCRIPTION);
        let description = read_description(&path)?.ok_or_else(|| TestbedError::Experiment {
            path: folder.to_owned(),
            problem: "contains no experiment: experiment.json is missing".to_owned(),
        })?;
        let runs = RunFile::at(folder.join("runs.jsonl")).read(&description)?;
        Ok(Self { description, runs })
    }
}

const DESCRIPTION: &str = "experiment.json";
const LOCK: &str = ".lock";

fn lock(folder: &Path) -> Result<FileLock, TestbedError> {
    let path = folder.join(LOCK);
    FileLock::try_lock(&path).map_err(|error| TestbedError::io(path, error))?.ok_or_else(|| {
        TestbedError::Experiment {
            path: folder.to_owned(),
            problem: "another process is working on it".to_owned(),
        }
    })
}

fn read_description(path: &Path) -> Result<Option<ExperimentDescription>, TestbedError> {
    let read = nexus_files::read_bounded(path, MOST_BYTES).map_err(|error| TestbedError::io(path, error))?;
    let Some(bytes) = read else { return Ok(None) };
    let fault = |problem: String| TestbedError::Experiment { path: path.to_owned(), problem };
    let read: ExperimentDescription =
        serde_json::from_slice(&bytes).map_err(|error| fault(format!("is not an experiment: {error}")))?;
    read.check().map_err(fault)?;
    Ok(Some(read))
}

/// Writes the description in one step.
fn write_description(path: &Path, description: &ExperimentDescription) -> Result<(), TestbedError> {
    let text = serde_json::to_vec_pretty(description).map_err(io::Error::from);
    let written = text.and_then(|text| nexus_files::replace(path, &text));
    written.map_err(|error| TestbedError::io(path, error))
}

/// Returns true if a folder exists and contains files that do not belong to an experiment. Files of an experiment that
/// another process has just begun there do not count.
fn holds_something_else(folder: &Path) -> Result<bool, TestbedError> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(TestbedError::io(folder, error)),
        Ok(entries) => {
            let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            let has_begun = names.iter().any(|name| name == DESCRIPTION);
            // Without a description, only leftovers of an interrupted beginning may be in the folder.
            Ok(!has_begun && names.iter().any(|name| !is_of_a_beginning(name)))
        }
    }
}

/// Returns true for a file of an interrupted beginning: the lock, or a description with a temporary name.
fn is_of_a_beginning(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name == LOCK || (name.starts_with(".experiment.json.") && name.ends_with(".new"))
}
