//! Overview of the state of the work.

use nexus_mcp::page::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{history::DecisionView, plan::PlanState};
use crate::{
    branch,
    error::ProjectError,
    folder::{ProjectFolder, WorkSummary},
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
        let (work, active_skill) = self.looked(|| Ok((self.read_work_summary()?, self.active_skill()?)))?;
        Ok(self.context_of(&work, active_skill))
    }

    /// Returns the state of the work by summaries that were read before.
    pub(crate) fn context_of(&self, work: &WorkSummary, active_skill: Option<String>) -> ContextView {
        let WorkSummary { plan, tasks } = work;
        let decisions = plan
            .iter()
            .flat_map(|plan| &plan.decisions)
            .map(|decided| DecisionView { issue: decided.issue.clone(), decision: decided.decision.clone() });
        ContextView {
            branch: branch::of(self.root()).as_deref().map(|branch| cut(branch, 200)),
            plan: plan.as_ref().map(|plan| PlanInContext {
                topic: plan.topic.clone(),
                state: PlanState::of_pending(plan.pending),
                pending: plan.pending,
            }),
            tasks: tasks.as_ref().map(|tasks| TasksInContext {
                total: tasks.total,
                pending: tasks.pending,
                in_progress: tasks.in_progress,
                completed: tasks.completed,
                ready: tasks.ready.clone(),
            }),
            decisions: decisions.collect(),
            decisions_total: plan.as_ref().map_or(0, |plan| plan.decided),
            active_skill,
        }
    }
}
