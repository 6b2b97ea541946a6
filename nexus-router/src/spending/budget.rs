//! A budget of the configuration: how much turns may spend in an hour, a day or a month.

use std::fmt;

use nexus_core::Usd;
use serde::{Deserialize, Serialize};

use super::line::PlannedTurn;

/// Period after which a budget begins again, in the user's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// An hour of the clock.
    Hour,
    /// A day, from midnight.
    Day,
    /// A month, from midnight of its first day.
    Month,
}

impl BudgetPeriod {
    /// All periods, the shortest first.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// Returns the period's name in `nexus.yaml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// Property of turns by which a budget selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetSubject {
    /// Backend.
    Backend,
    /// Vendor.
    Vendor,
    /// Type of work.
    Type,
    /// Task.
    Task,
    /// Debate.
    Debate,
    /// Agent of the broker.
    Agent,
    /// Trigger.
    Trigger,
}

impl BudgetSubject {
    /// All subjects.
    pub const ALL: [Self; 7] =
        [Self::Backend, Self::Vendor, Self::Type, Self::Task, Self::Debate, Self::Agent, Self::Trigger];

    /// Returns the subject's name in `nexus.yaml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Vendor => "vendor",
            Self::Type => "type",
            Self::Task => "task",
            Self::Debate => "debate",
            Self::Agent => "agent",
            Self::Trigger => "trigger",
        }
    }

    /// Returns this property of a turn. `None` if the turn does not have it.
    pub fn of(self, turn: &PlannedTurn) -> Option<&str> {
        match self {
            Self::Backend => Some(turn.backend.as_str()),
            Self::Vendor => turn.vendor.as_ref().map(nexus_core::VendorId::as_str),
            Self::Type => Some(&turn.kind),
            Self::Task => turn.task.as_deref(),
            Self::Debate => turn.debate.as_deref(),
            Self::Agent => turn.agent.as_deref(),
            Self::Trigger => turn.trigger.as_deref(),
        }
    }
}

/// A budget of the configuration. A turn that does not fit into each budget that applies to it does not start.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct SpendingBudget {
    /// Name of the budget in the configuration.
    pub name: String,
    /// Line of the budget in the configuration, from 1.
    pub line: usize,
    /// Period after which it begins again.
    pub period: BudgetPeriod,
    /// Property of which each value has the whole budget, such as each task.
    pub each: Option<BudgetSubject>,
    /// Properties that a turn must have. Other turns do not count.
    pub only: Vec<(BudgetSubject, String)>,
    /// Most United States dollars.
    pub usd: Option<Usd>,
    /// Most tokens, of all sorts.
    pub tokens: Option<u64>,
    /// Most turns.
    pub turns: Option<u64>,
}

impl SpendingBudget {
    /// Creates a budget without a bound.
    pub fn new(name: impl Into<String>, period: BudgetPeriod) -> Self {
        Self {
            name: name.into(),
            line: 1,
            period,
            each: None,
            only: Vec::new(),
            usd: None,
            tokens: None,
            turns: None,
        }
    }

    /// Returns true if the budget counts a turn.
    pub fn applies_to(&self, turn: &PlannedTurn) -> bool {
        let has = |(subject, value): &(BudgetSubject, String)| subject.of(turn) == Some(value.as_str());
        self.only.iter().all(has) && self.each.is_none_or(|each| each.of(turn).is_some())
    }

    /// Returns true if the budget counts both turns together. It applies to `turn`.
    pub fn counts_with(&self, turn: &PlannedTurn, other: &PlannedTurn) -> bool {
        self.applies_to(other) && self.each.is_none_or(|each| each.of(turn) == each.of(other))
    }

    /// Returns true if another backend might run a turn that this budget refuses.
    pub fn is_of_backend(&self) -> bool {
        let depends =
            |subject: BudgetSubject| matches!(subject, BudgetSubject::Backend | BudgetSubject::Vendor);
        self.each.is_some_and(depends) || self.only.iter().any(|(subject, _)| depends(*subject))
    }
}

impl fmt::Display for SpendingBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budgets.{} (line {} of the configuration)", self.name, self.line)
    }
}
