//! `state/.pending.json`: a change of several files. It exists from the moment at which the change counts until all files
//! have it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    document::{Document, VERSION},
    history::Cycle,
    plan::ProjectPlan,
};

/// A change that ends a plan, tasks, or both, and their replacement. Once this file is written, the change
/// counts as made: the next process finishes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pending {
    /// The version of this file: 1.
    pub(crate) version: u32,
    /// Entry for the history.
    pub(crate) cycle: Cycle,
    /// The plan that replaces the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_plan: Option<ProjectPlan>,
}

impl Pending {
    pub(crate) fn new(cycle: Cycle, next_plan: Option<ProjectPlan>) -> Self {
        Self { version: VERSION, cycle, next_plan }
    }
}

impl Document for Pending {
    const NAME: &'static str = ".pending.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        self.cycle.plan.as_ref().map_or(Ok(()), ProjectPlan::check)?;
        self.cycle.tasks.as_ref().map_or(Ok(()), super::tasks::ProjectTasks::check)?;
        self.next_plan.as_ref().map_or(Ok(()), ProjectPlan::check)
    }
}
