//! `state/plan.json`: issues to decide, and decisions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Document, VERSION};
use crate::time::Time;

/// A planning session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectPlan {
    /// The version of this file: 1.
    pub version: u32,
    /// Names the plan, once for all time.
    pub id: String,
    /// Topic of the plan.
    pub topic: String,
    /// Knowledge about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research_summary: Option<String>,
    /// Issues to decide, in order.
    pub issues: Vec<Issue>,
    /// The highest number that an issue was ever given.
    pub last_issue: u32,
    /// Time of its creation.
    pub created_at: Time,
}

/// Something to be decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    /// Its number in the plan, from 1, never given twice.
    pub id: u32,
    /// Question to decide.
    pub title: String,
    /// The decision. Without it the issue is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PlanDecision>,
    /// Decisions from before the issue was opened again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_decisions: Vec<PlanDecision>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDecision {
    /// The decision and its reason.
    pub text: String,
    /// When.
    pub at: Time,
}

/// Progress of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IssueStatus {
    /// It is to be decided.
    Pending,
    /// It is decided.
    Decided,
}

impl Issue {
    /// Creates a pending issue.
    pub fn new(id: u32, title: impl Into<String>) -> Self {
        Self { id, title: title.into(), decision: None, earlier_decisions: Vec::new() }
    }

    /// Returns the progress of the issue.
    pub fn status(&self) -> IssueStatus {
        if self.decision.is_some() { IssueStatus::Decided } else { IssueStatus::Pending }
    }
}

impl ProjectPlan {
    /// Creates a plan with this creation time.
    pub(crate) fn new(
        id: String,
        topic: String,
        research_summary: Option<String>,
        titles: Vec<String>,
    ) -> Self {
        let issues: Vec<_> = (1..).zip(titles).map(|(id, title)| Issue::new(id, title)).collect();
        let last_issue = issues.last().map_or(0, |issue| issue.id);
        Self { version: VERSION, id, topic, research_summary, issues, last_issue, created_at: Time::now() }
    }

    /// Returns the pending issues.
    pub fn pending(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter().filter(|issue| issue.decision.is_none())
    }
}

impl Document for ProjectPlan {
    const NAME: &'static str = "plan.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        for issue in &self.issues {
            if !ids.insert(issue.id) {
                return Err(format!("two issues have the number {}", issue.id));
            }
            if issue.id == 0 || issue.id > self.last_issue {
                return Err(format!("issue {} is not from 1 to `last_issue`, {}", issue.id, self.last_issue));
            }
        }
        Ok(())
    }
}
