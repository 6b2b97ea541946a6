//! One attempt at a step.

use std::{fmt, path::PathBuf, sync::Arc};

use nexus_core::{Budget, CancelToken, RecordFile};
use nexus_router::Router;
use nexus_trees::{CommitId, Tree};
use nexus_work::AgentTypes;

use super::StepWatcher;
use crate::{
    agent::Prompts, checks::Checks, problem_brief::ProblemBrief, settings::TaskSettings,
    step_record::StepRecord, task_state::Cursor,
};

/// One attempt at a step: who runs its agents, by what brief, on which files.
pub struct StepAttempt<'a> {
    /// Who runs the turns.
    pub router: &'a Router,
    /// The types of agents.
    pub types: &'a AgentTypes,
    /// What agents are told.
    pub prompts: &'a Prompts,
    /// What bounds the task beside its brief.
    pub settings: &'a TaskSettings,
    /// What bounds the task.
    pub brief: &'a ProblemBrief,
    /// Where it happens.
    pub place: AttemptPlace,
    /// Which step, and which attempt at it.
    pub cursor: Cursor,
    /// What to do otherwise this time, in the words of the caller, of the last verdict, or of a reflector.
    pub hints: Vec<String>,
    /// What was settled before in this task, in order: earlier steps, and earlier attempts at this one.
    pub settled: Vec<StepRecord>,
    /// Where the turns of its agents are written down.
    pub turns: Option<RecordFile>,
    /// Who is told what its agents do.
    pub watcher: Arc<dyn StepWatcher>,
    /// What all turns of the task together may use.
    pub budget: Option<Budget>,
    /// Stops it.
    pub cancel: CancelToken,
}

/// Where an attempt happens.
#[derive(Clone, Debug)]
pub struct AttemptPlace {
    /// The task's repository.
    pub tree: Tree,
    /// Runs tests and probes.
    pub checks: Checks,
    /// The folder in which its agents' folders are made: `work/` of the task.
    pub work: PathBuf,
    /// The files with which the task began.
    pub task_base: CommitId,
    /// The files with which the step began: the task's last commit.
    pub step_base: CommitId,
    /// The files with which this attempt begins: `step_base`, or what the attempt before left.
    pub from: CommitId,
}

/// An attempt was cancelled: nothing of it is settled, and it is to be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the step was interrupted; it begins again with the next task_run_turn")]
pub struct StepInterrupted;

impl fmt::Debug for StepAttempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepAttempt")
            .field("cursor", &self.cursor)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
