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

/// One attempt at a step, with everything that it needs to run.
pub struct StepAttempt<'a> {
    /// Router that runs the turns.
    pub router: &'a Router,
    /// Registered types of agents.
    pub types: &'a AgentTypes,
    /// System prompts of agents.
    pub prompts: &'a Prompts,
    /// Bounds of the task beside its brief.
    pub settings: &'a TaskSettings,
    /// Bounds of the task.
    pub brief: &'a ProblemBrief,
    /// Trees and folders of the attempt.
    pub place: AttemptPlace,
    /// The step, and the attempt at it.
    pub cursor: Cursor,
    /// Advice for this attempt, from the caller, the last verdict, or a reflector.
    pub hints: Vec<String>,
    /// Settled records of this task, in order: earlier steps, and earlier attempts at this one.
    pub settled: Vec<StepRecord>,
    /// Log of its agents' turns.
    pub turns: Option<RecordFile>,
    /// Observer of its agents.
    pub watcher: Arc<dyn StepWatcher>,
    /// Budget of all turns of the task together.
    pub budget: Option<Budget>,
    /// Cancels the attempt.
    pub cancel: CancelToken,
}

/// Trees and folders of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptPlace {
    /// The task's repository.
    pub tree: Tree,
    /// Runs tests and probes.
    pub checks: Checks,
    /// Folder for the folders of its agents: `work/` of the task.
    pub work: PathBuf,
    /// Files at the start of the task.
    pub task_base: CommitId,
    /// Files at the start of the step: the task's last commit.
    pub step_base: CommitId,
    /// Files at the start of this attempt: `step_base`, or those of the attempt before.
    pub from: CommitId,
}

/// The attempt was cancelled. Nothing of it is settled, and it has to be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the step was interrupted; the next task_run_turn starts it again")]
pub struct StepInterrupted;

impl fmt::Debug for StepAttempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepAttempt")
            .field("cursor", &self.cursor)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
