//! Lands the commits of a task in the person's project.

use std::time::{Duration, SystemTime};

use nexus_core::CancelToken;
use nexus_mcp::page::cut;
use nexus_trees::{BranchJoin, CommitId, JoinedCommits, LandObstacle, Landing, Tree};
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
    checks::shown_landing,
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
        let ways = [request.merge, request.rebase, request.branch.is_some()];
        if ways.iter().filter(|is_wanted| **is_wanted).count() > 1 {
            let message = "a landing either merges, rebases or makes a new branch";
            let advice = "give only one of `merge`, `rebase` and `branch`";
            return Err(TaskError::new(TaskErrorKind::InvalidArgument, message, advice));
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
        let join = join_of(&request, &task);
        let joined = match &join {
            Some(join) => Some(self.judged_join(&task, &tree, &data, &head, join).await?),
            None => None,
        };
        read(&task, move |task| {
            let landed = match (joined, &request.branch) {
                (Some(Err(obstacle)), _) => Err(obstacle),
                (Some(Ok(joined)), _) => Ok(tree.land_joined(&joined)?),
                (None, None) => Ok(tree.land(&head)?),
                (None, Some(branch)) => Ok(tree.land_as_branch(&head, branch)?),
            };
            let landed = landed.and_then(|landing| match landing {
                Landing::Patch { obstacle, .. } => Err(with_advice(task, &obstacle, join.as_ref())),
                landing => Ok(landing),
            });
            let landing = answer(task, landed);
            let outcome = match landing.outcome {
                LandingOutcome::Landed => "landed",
                LandingOutcome::Patch => "patch",
                LandingOutcome::Nothing => "nothing",
            };
            let _ = task.log(&TaskLogEvent::Landed {
                outcome: outcome.to_owned(),
                obstacle: landing.obstacle.clone(),
                commit: Some(head.to_string()),
            });
            Ok(landing)
        })
        .await
    }

    /// Combines the commits with the branch, and runs the task's tests on the result. The inner error names the obstacle.
    async fn judged_join(
        &self,
        task: &Task,
        tree: &Tree,
        data: &TaskData,
        head: &CommitId,
        join: &BranchJoin,
    ) -> Result<Result<JoinedCommits, String>, TaskError> {
        let (of_join, tip, way) = (tree.clone(), head.clone(), join.clone());
        let joined = match read(task, move |_| Ok(of_join.join_branch(&tip, &way)?)).await? {
            Ok(joined) => joined,
            Err(obstacle) => return Ok(Err(with_advice(task, &obstacle, Some(join)))),
        };
        // If nothing was combined, reviewers have already judged exactly these files.
        if joined.commit() == head || joined.adds_nothing() || data.settings.test_command.is_none() {
            return Ok(Ok(joined));
        }
        let checks = self.0.checks(task, tree, data).await?;
        let tests = checks.run_tests(joined.commit(), &CancelToken::new()).await;
        // Remove the copies before an error of the tests is returned.
        read(task, |task| {
            clear_copies(task);
            Ok(())
        })
        .await?;
        let tests = tests?;
        let what = match join {
            BranchJoin::Rebase => "the commits rebased on the branch",
            _ => "the merge with the branch",
        };
        Ok(match tests.run.is_green() {
            true => Ok(joined),
            false => Err(shown_landing(what, &tests.run)),
        })
    }
}

/// Returns the requested way to combine the commits with a branch that has moved.
fn join_of(request: &TaskLandRequest, task: &Task) -> Option<BranchJoin> {
    if request.rebase {
        return Some(BranchJoin::Rebase);
    }
    let message = || format!("Merge the work of {0}\n\nTask: {0}", task.id());
    request.merge.then(|| BranchJoin::Merge { time: SystemTime::now(), message: message() })
}

/// Describes an obstacle with the commands that may land the task nevertheless.
fn with_advice(task: &Task, obstacle: &LandObstacle, join: Option<&BranchJoin>) -> String {
    let land = format!("nexus task land {}", task.id());
    match (obstacle, join) {
        (LandObstacle::BranchMoved { .. }, None) => {
            format!("{obstacle}; or land it by `{land} --merge`, `{land} --rebase` or `{land} --branch NAME`")
        }
        (LandObstacle::BranchMoved { to }, Some(_)) => {
            format!("the branch moved to {to} while the tests ran: land again")
        }
        (LandObstacle::BranchRewritten { .. }, _) => {
            format!("{obstacle}; or land it by `{land} --rebase` or `{land} --branch NAME`")
        }
        (LandObstacle::Conflict(_), _) => format!(
            "{obstacle}: `{land} --branch NAME` makes a branch of the commits, and `git merge NAME` shows the conflicts"
        ),
        _ => obstacle.to_string(),
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
        Ok(_) => "this version does not know its present state".to_owned(),
        Err(obstacle) => obstacle,
    };
    landing.obstacle = Some(cut(&obstacle, MOST_OBSTACLE_BYTES));
    landing.patch = Some(ArtifactName::Patch.to_string());
    landing
}
