//! Recorded judgement of an agent: the cases of the conformance suite, and the attempts to escape at each access level.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Judgement of an agent's program before a simulated model.
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
    /// Enforcer of the level: program, sandbox, none where nothing has to be enforced, or no: such a turn is rejected.
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

    /// Returns true if attempts to escape were made at both levels that allow them, unless such a turn is rejected, and none succeeded.
    #[must_use]
    pub fn is_enclosed(&self) -> bool {
        let is_attacked = |name: &str| {
            self.levels.get(name).is_some_and(|level| level.attempts > 0 || level.enforcer == "no")
        };
        ["read-only", "workspace-write"].into_iter().all(is_attacked)
            && self.levels.values().all(|level| level.succeeded.is_empty() && level.fault.is_none())
    }
}
