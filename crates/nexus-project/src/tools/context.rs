//! Overview of the state of the work.

use nexus_mcp::page::{cut, fitted, most_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    history::DecisionView,
    plan::{PlanState, state_of},
};
use crate::{
    branch,
    error::ProjectError,
    folder::{ProjectFolder, WorkFiles},
    state::ProjectTaskStatus,
};

/// Arguments of `context`: none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextRequest {}

/// Result of `context`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContextView {
    /// The branch that is checked out. Without it the project is in no repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The plan, if the project has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanInContext>,
    /// The tasks in numbers, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksInContext>,
    /// The plan's decisions so far; long texts are cut.
    pub decisions: Vec<DecisionView>,
    /// Number of decisions.
    pub decisions_total: usize,
    /// The skill that is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_skill: Option<String>,
}

/// A plan, in short.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanInContext {
    /// Topic of the plan.
    pub topic: String,
    /// State of the plan.
    pub state: PlanState,
    /// Number of undecided issues.
    pub pending: usize,
}

/// Tasks, in numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TasksInContext {
    /// Number of tasks.
    pub total: usize,
    /// Number of tasks that are not begun.
    pub pending: usize,
    /// Number of tasks in progress.
    pub in_progress: usize,
    /// Number of completed tasks.
    pub completed: usize,
    /// Numbers of the tasks that can begin; the first 100.
    pub ready: Vec<u32>,
}

impl ProjectFolder {
    /// Returns the state of the work.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn context(&self) -> Result<ContextView, ProjectError> {
        let (work, active_skill) = self.looked(|| Ok((self.read_work_files()?, self.active_skill()?)))?;
        Ok(self.context_of(&work, active_skill))
    }

    /// Returns the state of the work by files that were read before.
    pub(crate) fn context_of(&self, work: &WorkFiles, active_skill: Option<String>) -> ContextView {
        let WorkFiles { plan, tasks } = work;
        let branch = branch::of(self.root());
        let decided: Vec<_> = plan
            .iter()
            .flat_map(|plan| &plan.issues)
            .filter_map(|issue| Some((&*issue.title, &*issue.decision.as_ref()?.text)))
            .collect();
        let tasks = tasks.as_ref().map(|tasks| {
            let counts = tasks.counts();
            let count = |status| counts.get(&status).copied().unwrap_or_default();
            TasksInContext {
                total: tasks.tasks.len(),
                pending: count(ProjectTaskStatus::Pending),
                in_progress: count(ProjectTaskStatus::InProgress),
                completed: count(ProjectTaskStatus::Completed),
                ready: tasks.ready().map(|task| task.id).take(100).collect(),
            }
        });
        fitted(|most| ContextView {
            branch: branch.as_deref().map(|branch| cut(branch, 200)),
            plan: plan.as_ref().map(|plan| PlanInContext {
                topic: plan.topic.clone(),
                state: state_of(plan),
                pending: plan.pending().count(),
            }),
            tasks: tasks.clone(),
            decisions: decided
                .iter()
                .take(most_of(50, most))
                .map(|(issue, decision)| DecisionView {
                    issue: cut(issue, most),
                    decision: cut(decision, most),
                })
                .collect(),
            decisions_total: decided.len(),
            active_skill: active_skill.clone(),
        })
    }
}
