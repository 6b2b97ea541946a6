//! Bounds on what the agents of one piece of work use.

use nexus_core::{Budget, RecordLog, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most submissions of one agent that a configuration lets be refused. Source: our own bound; each is a paid call of a model.
pub const MOST_REFUSED_SUBMISSIONS: u32 = 50;

/// Budget of all turns of a task together. A turn that would exceed it is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
// Schemas of tools have had it by this name.
#[schemars(rename = "TaskBudget")]
pub struct WorkBudget {
    /// Money, in US dollars, as far as the vendors tell what a turn costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens that models write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

impl WorkBudget {
    /// The key of a bound that leaves nothing to use.
    pub fn fault(&self) -> Option<&'static str> {
        if self.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
            return Some("usd");
        }
        (self.output_tokens == Some(0)).then_some("output_tokens")
    }

    /// These bounds, with those of `other` where it has one.
    pub fn raised_by(self, other: Self) -> Self {
        Self { usd: other.usd.or(self.usd), output_tokens: other.output_tokens.or(self.output_tokens) }
    }

    /// Returns true if it has a bound.
    pub fn is_bound(&self) -> bool {
        self.usd.is_some() || self.output_tokens.is_some()
    }

    /// Rest of it after the turns of a log. `None` if it has no bound.
    pub fn left_of(&self, used: &RecordLog) -> Option<Budget> {
        let budget = self.usd.map(|usd| Budget::new().with_cost(Usd(usd)));
        let budget = match self.output_tokens {
            Some(tokens) => budget.unwrap_or_default().with_output_tokens(tokens),
            None => budget?,
        };
        for turn in &used.turns {
            budget.book(&turn.usage_so_far(), turn.cost());
        }
        Some(budget)
    }
}
