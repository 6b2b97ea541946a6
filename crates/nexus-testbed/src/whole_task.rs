//! The whole task: agents frame a trap's goal, work on it and review it, over all retries, through [`Tasks`].

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{CancelToken, RecordLog, RecordedOutcome, harness::try_blocking};
use nexus_router::Router;
use nexus_tasks::{
    EvidenceId, ReviewVote, SilentReviewer, StepRecord, Task, TaskCreateRequest, TaskError,
    TaskOrchestrateRequest, TaskRunTurnRequest, TaskSettings, TaskStatus, Tasks, TasksOptions, shown_probe,
};
use nexus_trees::{CommitId, Tree};

use crate::{
    error::TestbedError,
    laid_trap::{lay_project, settings_of},
    scorer::Ending,
    spent::Spent,
    trap::Trap,
};

/// Maximum number of probes of a task whose output is stored as text.
const MOST_PROBES: usize = 64;

/// Result of a whole task.
#[derive(Clone, Debug)]
pub struct WholeTask {
    /// Ending: shipped if the task is complete, refused if it is blocked or escalated by its reviewers. An
    /// error is the reason for any other end: a failure of the infrastructure.
    pub ending: Result<Ending, String>,
    /// The repository.
    pub tree: Tree,
    /// Commit of the final files: the last commit, or the refused work. Without any work they are the project's files, which
    /// [`GroundTruth::of`](crate::GroundTruth::of) reports as unchanged.
    pub commit: CommitId,
    /// Votes of the last review.
    pub votes: Vec<ReviewVote>,
    /// Seats of the last review without a vote, with the reasons.
    pub silent: Vec<SilentReviewer>,
    /// Probes of the task, each as text for its agent.
    pub probes: Vec<(EvidenceId, String)>,
    /// File with the turns of all agents, below the folder of the task: records for [`RecordLog`].
    pub turns: PathBuf,
    /// Usage of all agents.
    pub spent: Spent,
}

impl WholeTask {
    /// Runs a task with the goal of a trap to its end, in a folder that is created. The orchestrator writes the brief, and
    /// the executor does the work: no answer of the trap is given to them.
    ///
    /// # Errors
    ///
    /// [`TestbedError`] of the preparation; [`TestbedError::Cancelled`].
    pub async fn run(
        trap: &Arc<Trap>,
        folder: &Path,
        settings: &TaskSettings,
        router: Router,
        cancel: &CancelToken,
    ) -> Result<Self, TestbedError> {
        let (project, laid) = (folder.join("project"), Arc::clone(trap));
        let place = project.clone();
        try_blocking(move || lay_project(&laid, &place)).await?;
        let mut options = TasksOptions::in_home(folder.join("home"));
        options.settings = settings_of(trap, settings);
        options.roots = vec![project.clone()];
        let tasks = Tasks::new(router, options);
        let walked = tokio::select! {
            walked = walk(&tasks, trap, &project) => Some(walked),
            () = cancel.cancelled() => None,
        };
        // Stop the agents before the store is read. The caller may also remove the folder after an error.
        tasks.shutdown().await;
        let walked = walked.ok_or(TestbedError::Cancelled)?;
        let id = walked.map_err(|error| TestbedError::Task(Box::new(error)))?;
        let store = tasks.store().clone();
        try_blocking(move || {
            let task = store.open(&id).map_err(|error| TestbedError::Task(Box::new(error)))?;
            Self::of(&task).map_err(|error| TestbedError::Task(Box::new(error)))
        })
        .await
    }

    fn of(task: &Task) -> Result<Self, TaskError> {
        let (state, data) = task.data()?;
        let tree = task.tree()?;
        let last: Option<StepRecord> = task.step_records(&state)?.pop();
        let head = data.head.unwrap_or_else(|| tree.base().commit.clone());
        let refused = last.as_ref().and_then(|record| record.work.clone());
        let (ending, commit) = match &state.status {
            TaskStatus::Complete { .. } => (Ok(Ending::Shipped), head),
            TaskStatus::Blocked { .. } => (Ok(Ending::Refused), head),
            // An infrastructure failure does not judge the agents, so the run becomes invalid.
            TaskStatus::Escalated { reason, error: Some(error), .. } => {
                (Err(format!("{reason}: {error}")), head)
            }
            TaskStatus::Escalated { entry: None, reason, .. } => (Err(reason.clone()), head),
            TaskStatus::Escalated { .. } => (Ok(Ending::Refused), refused.unwrap_or(head)),
            TaskStatus::ClarificationNeeded { questions } => {
                (Err(format!("it has no brief, because answers are missing: {}", questions.join(" "))), head)
            }
            other => (Err(format!("it did not finish: it is {}", other.name())), head),
        };
        let store = task.probes();
        let numbers = last.iter().flat_map(|record| record.evidence.probes()).take(MOST_PROBES);
        let probe = |number: u32| {
            let id = EvidenceId::probe(number);
            let text = match store.read(number) {
                Ok(probe) => shown_probe(&id, &probe),
                Err(error) => format!("it cannot be shown: {error}"),
            };
            (id, text)
        };
        let probes = numbers.map(probe).collect();
        let spent = task.turn_log().map(|log| spent(&log)).unwrap_or_default();
        let (votes, silent) = last.map(|record| (record.votes, record.silent)).unwrap_or_default();
        Ok(Self { ending, tree, commit, votes, silent, probes, turns: task.turns_path(), spent })
    }
}

/// Advances a task until it waits only for its caller.
async fn walk(tasks: &Tasks, trap: &Trap, project: &Path) -> Result<String, TaskError> {
    let request = TaskCreateRequest {
        goal: trap.goal().to_owned(),
        project: fs::canonicalize(project).unwrap_or_else(|_| project.to_owned()),
        test_command: Some(trap.test_command().to_vec()),
        ..TaskCreateRequest::default()
    };
    let task_id = tasks.create(request).await?.task_id;
    loop {
        let request =
            TaskOrchestrateRequest { task_id: task_id.clone(), ..TaskOrchestrateRequest::default() };
        // One call waits only for a limited time, so call until framing ends.
        let framed = tasks.orchestrate(request).await?;
        if !framed.task.running {
            break;
        }
    }
    loop {
        let state = tasks.store().open(&task_id)?.data()?.0;
        let TaskStatus::Active { .. } = state.status else { return Ok(task_id) };
        tasks
            .run_turn(TaskRunTurnRequest { task_id: task_id.clone(), ..TaskRunTurnRequest::default() })
            .await?;
    }
}

/// Returns the usage of the turns in a log.
fn spent(log: &RecordLog) -> Spent {
    let mut spent = Spent::default();
    for turn in &log.turns {
        spent.turns += 1;
        let (calls, cost) = match &turn.outcome {
            Some(RecordedOutcome::Result(result)) => (result.tool_calls.len(), result.cost),
            Some(RecordedOutcome::Error(error)) => (error.partial.tool_calls.len(), error.partial.cost),
            _ => (0, None),
        };
        spent.tool_calls += u32::try_from(calls).unwrap_or(u32::MAX);
        match cost {
            Some(cost) if cost.usd.0.is_finite() => spent.usd += cost.usd.0,
            _ => spent.turns_without_cost += 1,
        }
    }
    spent
}
