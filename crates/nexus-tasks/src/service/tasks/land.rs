//! Lands the commits of a task in the person's project.

use std::time::{Duration, SystemTime};

use nexus_core::CancelToken;
use nexus_mcp::page::cut;
use nexus_trees::{CommitId, LandObstacle, Landing, Tree};
use nexus_work::WorkspaceState as _;
use tokio::time::Instant;

use super::{
    super::{
        answer::{LandingOutcome, TaskLanding},
        artifact::ArtifactName,
        inner::read,
        recovery::{clear_copies, recover},
        request::TaskLandRequest,
    },
    LOOK, Tasks,
};
use crate::{
    checks::shown_merge,
    store::{Task, TaskData, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
};

/// Longest wait for another process that tidies up after a task that ended. Source: our own bound; removing the copies of a large
/// project takes minutes.
const TIDY_PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of bytes of an obstacle in an answer.
const MOST_OBSTACLE_BYTES: usize = 2_000;

impl Tasks {
    /// Moves the person's branch to the commits of a task, or reports the obstacle.
    pub async fn land(&self, request: TaskLandRequest) -> Result<TaskLanding, TaskError> {
        if request.merge && request.branch.is_some() {
            let message = "a landing either merges or makes a new branch";
            return Err(TaskError::new(
                TaskErrorKind::InvalidArgument,
                message,
                "leave `merge` or `branch` out",
            ));
        }
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        // A process that still works on an ended task removes its copies of the project.
        if read(&task, |task| Ok(task.data()?.0.is_final())).await? {
            self.0.jobs.progress_at(&task, Instant::now() + TIDY_PATIENCE).await?;
        }
        let _hold = self.0.jobs.lock(&task, LOOK).await?;
        let inner = self.0.handle();
        let prepared = read(&task, move |task| {
            let tree = inner.prepare_tree(task)?;
            recover(task, &tree)?;
            clear_copies(task);
            let (_, data) = task.data()?;
            Ok((tree, data))
        })
        .await;
        // A commit that was decided before the call may have completed the task.
        self.0.follow_up_recovered(&task);
        let (tree, data) = prepared?;
        let head = data.head.clone().filter(|_| !data.commits.is_empty());
        let Some(head) = head else {
            let mut landing = unlanded(&task, LandingOutcome::Nothing);
            landing.obstacle = Some("the task has committed nothing".to_owned());
            return Ok(landing);
        };
        let tip = match request.merge {
            true => self.judged_merge(&task, &tree, &data, &head).await?,
            false => Ok(head),
        };
        read(&task, move |task| {
            let landed = match (tip, &request.branch) {
                (Err(obstacle), _) => Err(obstacle),
                (Ok(tip), None) => Ok(tree.land(&tip)?),
                (Ok(tip), Some(branch)) => Ok(tree.land_as_branch(&tip, branch)?),
            };
            let landing = answer(task, landed);
            let outcome = match landing.outcome {
                LandingOutcome::Landed => "landed",
                LandingOutcome::Patch => "patch",
                LandingOutcome::Nothing => "nothing",
            };
            let _ = task.log(&TaskLogEvent::Landed {
                outcome: outcome.to_owned(),
                obstacle: landing.obstacle.clone(),
            });
            Ok(landing)
        })
        .await
    }

    /// Merges the commits with the branch, and runs the task's tests on the merge. The inner error names the obstacle.
    async fn judged_merge(
        &self,
        task: &Task,
        tree: &Tree,
        data: &TaskData,
        head: &CommitId,
    ) -> Result<Result<CommitId, String>, TaskError> {
        let (of_merge, tip) = (tree.clone(), head.clone());
        let merged = read(task, move |task| {
            let message = format!("Merge the work of {0}\n\nTask: {0}", task.id());
            Ok(of_merge.merge_with_branch(&tip, SystemTime::now(), &message)?)
        })
        .await?;
        let merged = match merged {
            Ok(merged) => merged,
            Err(obstacle) => return Ok(Err(obstacle.to_string())),
        };
        // If the merge adds nothing, reviewers have already judged exactly these files.
        if merged == *head || data.settings.test_command.is_none() {
            return Ok(Ok(merged));
        }
        let checks = self.0.checks(task, tree, data).await?;
        let tests = checks.run_tests(&merged, &CancelToken::new()).await;
        read(task, |task| {
            clear_copies(task);
            Ok(())
        })
        .await?;
        let tests = tests?;
        Ok(match tests.run.is_green() {
            true => Ok(merged),
            false => Err(shown_merge(&tests.run)),
        })
    }
}

fn unlanded(task: &Task, outcome: LandingOutcome) -> TaskLanding {
    TaskLanding {
        task_id: task.id().to_string(),
        outcome,
        branch: None,
        commit: None,
        obstacle: None,
        patch: None,
    }
}

/// Returns the answer to a landing that was tried, or that an obstacle prevented.
fn answer(task: &Task, landed: Result<Landing, String>) -> TaskLanding {
    let mut landing = unlanded(task, LandingOutcome::Patch);
    let obstacle = match landed {
        Ok(Landing::FastForwarded { branch, to, .. }) => {
            landing.outcome = LandingOutcome::Landed;
            landing.branch = Some(branch);
            landing.commit = Some(to.to_string());
            return landing;
        }
        Ok(Landing::Patch { obstacle: obstacle @ LandObstacle::BranchMoved { .. }, .. }) => format!(
            "{obstacle}; or land it by `nexus task land {0} --merge` or `nexus task land {0} --branch NAME`",
            task.id()
        ),
        Ok(Landing::Patch { obstacle, .. }) => obstacle.to_string(),
        Ok(_) => "this version does not know its present state".to_owned(),
        Err(obstacle) => obstacle,
    };
    landing.obstacle = Some(cut(&obstacle, MOST_OBSTACLE_BYTES));
    landing.patch = Some(ArtifactName::Patch.to_string());
    landing
}
