//! `history.json`: decisions and tasks of earlier cycles. Cycles are only added, never changed.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    document::{Document, VERSION},
    plan::ProjectPlan,
    tasks::ProjectTasks,
};
use crate::time::Time;

/// The cycles of a project, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The version of this file: 1.
    pub version: u32,
    /// The cycles.
    pub cycles: Vec<Cycle>,
}

/// A plan and its tasks, as they were at their end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cycle {
    /// Names the cycle, once for all time.
    pub id: String,
    /// Time of its end.
    pub closed_at: Time,
    /// The branch that was checked out then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The plan, with its decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<ProjectPlan>,
    /// The tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ProjectTasks>,
}

impl Default for History {
    fn default() -> Self {
        Self { version: VERSION, cycles: Vec::new() }
    }
}

impl Cycle {
    /// Returns every text of the cycle that a search should find.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let plan = self.plan.iter().flat_map(|plan| {
            let issues = plan.issues.iter().flat_map(|issue| {
                let decisions = issue.decision.iter().chain(&issue.earlier_decisions);
                std::iter::once(&*issue.title).chain(decisions.map(|decision| &*decision.text))
            });
            std::iter::once(&*plan.topic).chain(plan.research_summary.as_deref()).chain(issues)
        });
        let tasks = self.tasks.iter().flat_map(|tasks| &tasks.tasks).flat_map(|task| {
            let texts = [&task.context, &task.approach, &task.acceptance, &task.owner];
            let files = task.files.iter().chain(&task.files_touched).map(String::as_str);
            std::iter::once(&*task.title)
                .chain(texts.into_iter().filter_map(|text| text.as_deref()))
                .chain(files)
        });
        self.branch.as_deref().into_iter().chain(plan).chain(tasks)
    }
}

impl Document for History {
    const NAME: &'static str = "history.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for cycle in &self.cycles {
            if !seen.insert(&cycle.id) {
                return Err(format!("two cycles have the id {:?}", cycle.id));
            }
            cycle.plan.as_ref().map_or(Ok(()), ProjectPlan::check)?;
            cycle.tasks.as_ref().map_or(Ok(()), ProjectTasks::check)?;
        }
        Ok(())
    }
}
