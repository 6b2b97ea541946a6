//! Lands the commits of a task in the person's project.

use nexus_mcp::page::cut;
use nexus_trees::Landing;

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
use crate::{store::TaskLogEvent, task_error::TaskError};

impl Tasks {
    /// Moves the person's branch to the commits of a task, or reports the obstacle.
    pub async fn land(&self, request: TaskLandRequest) -> Result<TaskLanding, TaskError> {
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        let _hold = self.0.jobs.lock(&task, LOOK).await?;
        let inner = self.0.handle();
        let landed = read(&task, move |task| {
            let tree = inner.prepare_tree(task)?;
            recover(task, &tree)?;
            clear_copies(task);
            let (_, data) = task.data()?;
            let mut landing = TaskLanding {
                task_id: task.id().to_string(),
                outcome: LandingOutcome::Nothing,
                branch: None,
                commit: None,
                obstacle: None,
                patch: None,
            };
            let head = data.head.filter(|_| !data.commits.is_empty());
            let Some(head) = head else {
                landing.obstacle = Some("the task has committed nothing".to_owned());
                return Ok(landing);
            };
            match tree.land(&head)? {
                Landing::FastForwarded { branch, to, .. } => {
                    landing.outcome = LandingOutcome::Landed;
                    landing.branch = Some(branch);
                    landing.commit = Some(to.to_string());
                }
                Landing::Patch { obstacle, .. } => {
                    landing.outcome = LandingOutcome::Patch;
                    landing.obstacle = Some(cut(&obstacle.to_string(), 2_000));
                    landing.patch = Some(ArtifactName::Patch.to_string());
                }
                _ => landing.obstacle = Some("this version does not know what became of it".to_owned()),
            }
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
        .await;
        // A commit that was decided before the call may have completed the task.
        self.0.follow_up_recovered(&task);
        landed
    }
}
