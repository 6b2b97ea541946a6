//! `state/tasks.json`: work to do, in an order that dependencies set.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Document, VERSION};
use crate::time::Time;

/// The tasks of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectTasks {
    /// The version of this file: 1.
    pub version: u32,
    /// Names this set of tasks, once for all time.
    pub id: String,
    /// The tasks, in the order in which they were added. The number of each is its place, from 1.
    pub tasks: Vec<ProjectTask>,
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectTask {
    /// Its number, from 1.
    pub id: u32,
    /// Work to do.
    pub title: String,
    /// Its status.
    pub status: ProjectTaskStatus,
    /// Knowledge that its agent needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Approach to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approach: Option<String>,
    /// Condition that shows that the task is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<String>,
    /// The role that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Rule for resuming the agent of an earlier task of this owner. Without it the role decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_reuse_policy: Option<OwnerReusePolicy>,
    /// The tasks that must be completed before it begins, by number.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dependencies: BTreeSet<u32>,
    /// The files that it is about, relative to the project.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files: BTreeSet<String>,
    /// The agent that did it, or does it, by the harness's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The files that its agent changed, relative to the project.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files_touched: BTreeSet<String>,
    /// Time of its creation.
    pub created_at: Time,
    /// Time of the last change of its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Time>,
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectTaskStatus {
    /// Not begun.
    Pending,
    /// An agent or a person works on it.
    InProgress,
    /// It is done.
    Completed,
}

impl ProjectTaskStatus {
    /// Returns the word in files and tools.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// Rule for resuming the agent of an earlier task with the next task of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnerReusePolicy {
    /// Another agent does it.
    Fresh,
    /// Resume the agent that worked on the same files, if no other agent has changed them since.
    ResumeIfSameArtifact,
    /// The last agent of the owner.
    Resume,
}

impl ProjectTasks {
    /// Creates an empty set of tasks.
    pub(crate) fn new(id: String) -> Self {
        Self { version: VERSION, id, tasks: Vec::new() }
    }

    /// Returns the task with this number.
    pub fn task(&self, id: u32) -> Option<&ProjectTask> {
        // The number of a task is its position, from 1.
        self.tasks.get(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    /// Returns the dependencies of a task that are not completed.
    pub fn missing_for<'t>(&'t self, task: &'t ProjectTask) -> impl Iterator<Item = u32> + 't {
        let is_open =
            |id: &u32| self.task(*id).is_some_and(|task| task.status != ProjectTaskStatus::Completed);
        task.dependencies.iter().copied().filter(is_open)
    }

    /// Returns the tasks that can begin: pending, with every dependency completed.
    pub fn ready(&self) -> impl Iterator<Item = &ProjectTask> {
        self.tasks.iter().filter(|task| {
            task.status == ProjectTaskStatus::Pending && self.missing_for(task).next().is_none()
        })
    }

    /// Returns the tasks that are not completed.
    pub fn open(&self) -> impl Iterator<Item = &ProjectTask> {
        self.tasks.iter().filter(|task| task.status != ProjectTaskStatus::Completed)
    }

    /// Returns the number of tasks in each status.
    pub fn counts(&self) -> BTreeMap<ProjectTaskStatus, usize> {
        let mut counts = BTreeMap::new();
        for task in &self.tasks {
            *counts.entry(task.status).or_default() += 1;
        }
        counts
    }
}

impl Document for ProjectTasks {
    const NAME: &'static str = "tasks.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        for (place, task) in (1..).zip(&self.tasks) {
            if task.id != place {
                return Err(format!(
                    "task {} is at position {place}: the number of a task must be its position",
                    task.id
                ));
            }
            // A task depends only on earlier tasks, so cycles are impossible.
            if let Some(later) = task.dependencies.iter().find(|id| **id == 0 || **id >= task.id) {
                return Err(format!("task {} depends on {later}, which is not an earlier task", task.id));
            }
        }
        Ok(())
    }
}
