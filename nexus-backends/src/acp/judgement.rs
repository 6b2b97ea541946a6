//! Recorded judgement of an agent: the cases of the conformance suite, and the attempts to escape at each access level.

use std::collections::BTreeMap;

use nexus_core::{AccessEnforcer, AccessSupport, ToolAccess};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Enforcer of a level whose turns are rejected.
const NOT_ENFORCED: &str = "no";

/// Judgement of an agent's program against a simulated model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentJudgement {
    /// Version of the program, as it reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Day of the judgement, such as 2027-01-31.
    pub date: String,
    /// The cases of the suite, by name.
    pub cases: BTreeMap<String, JudgedCase>,
    /// The access levels, by name.
    pub levels: BTreeMap<String, JudgedLevel>,
}

/// Outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgedCase {
    /// The promise holds.
    Passed,
    /// The promise does not hold, with the finding.
    Failed(String),
    /// The agent does not have the feature of this name, as its row says.
    NotDeclared(String),
    /// The row says that the agent cannot fulfil the promise, with the reason.
    Cannot(String),
}

/// Judgement of one access level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgedLevel {
    /// Enforcer of the level: `program` or `sandbox`; `none` if nothing has to be enforced; `no` if a turn at this level is rejected.
    pub enforcer: String,
    /// Number of attempts to get out of the working directory. Zero if the level was not attacked.
    pub attempts: usize,
    /// Numbers of the attempts that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<usize>,
    /// Reason why the attempts could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl JudgedLevel {
    /// Returns the name of the enforcer in a record and in lists: `program`, `sandbox`, `none`, or `no` for a level whose turns are
    /// rejected.
    #[must_use]
    pub fn enforcer_name(support: AccessSupport) -> &'static str {
        match support {
            AccessSupport::Kept(AccessEnforcer::Nexus) => "sandbox",
            AccessSupport::Kept(AccessEnforcer::None) => "none",
            AccessSupport::Kept(_) => "program",
            _ => NOT_ENFORCED,
        }
    }

    /// Returns true if attempts to escape are made at a level with this enforcer. At the widest level everything is allowed, and at
    /// the narrowest no command can make the attempts.
    #[must_use]
    pub fn is_attacked(level: ToolAccess, enforcer: &str) -> bool {
        matches!(level, ToolAccess::ReadOnly | ToolAccess::WorkspaceWrite) && enforcer != NOT_ENFORCED
    }
}

impl AgentJudgement {
    /// Returns the number of cases that passed, and of those that were run.
    #[must_use]
    pub fn score(&self) -> (usize, usize) {
        let passed = self.cases.values().filter(|case| **case == JudgedCase::Passed).count();
        let failed = self.cases.values().filter(|case| matches!(case, JudgedCase::Failed(_))).count();
        (passed, passed + failed)
    }

    /// Returns true if no case failed and no attempt to escape succeeded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let (passed, run) = self.score();
        passed == run && self.is_enclosed()
    }

    /// Returns true if attempts to escape were made at each level that allows them, and none succeeded.
    #[must_use]
    pub fn is_enclosed(&self) -> bool {
        let holds = |level: ToolAccess| {
            self.levels.get(level.as_str()).is_some_and(|judged| {
                judged.attempts > 0 || !JudgedLevel::is_attacked(level, &judged.enforcer)
            })
        };
        [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite].into_iter().all(holds)
            && self.levels.values().all(|level| level.succeeded.is_empty() && level.fault.is_none())
    }
}
