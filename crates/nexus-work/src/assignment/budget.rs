//! Limits on the usage of the agents of one piece of work.

use nexus_core::{Budget, RecordLog, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of rejected submissions of one agent that a configuration may allow. Source: our own bound; each
/// submission is a paid call of a model.
pub const MOST_REFUSED_SUBMISSIONS: u32 = 50;

/// Budget of all turns of a task together. A turn that would exceed it is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
// The schemas of tools have used this name since before the type was renamed.
#[schemars(rename = "TaskBudget")]
pub struct WorkBudget {
    /// Money, in US dollars, as far as the vendors report costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens that models write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

impl WorkBudget {
    /// Returns the key of a limit that is zero, negative or not finite.
    pub fn fault(&self) -> Option<&'static str> {
        if self.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
            return Some("usd");
        }
        (self.output_tokens == Some(0)).then_some("output_tokens")
    }

    /// Returns these limits, replaced by the limits that `other` has.
    pub fn raised_by(self, other: Self) -> Self {
        Self { usd: other.usd.or(self.usd), output_tokens: other.output_tokens.or(self.output_tokens) }
    }

    /// Returns true if the budget has a limit.
    pub fn is_bound(&self) -> bool {
        self.usd.is_some() || self.output_tokens.is_some()
    }

    /// Returns the rest of the budget after the turns of a log. `None` if it has no limit.
    pub fn left_of(&self, used: &RecordLog) -> Option<Budget> {
        let budget = self.usd.map(|usd| Budget::new().with_cost(Usd(usd)));
        let budget = match self.output_tokens {
            Some(tokens) => budget.unwrap_or_default().with_output_tokens(tokens),
            None => budget?,
        };
        // Vendors charge for failed and unfinished turns as well, so count what those used.
        for turn in &used.turns {
            budget.book(&turn.usage_so_far(), turn.cost());
        }
        Some(budget)
    }
}
