//! The contract between the router and a record of spending.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{Cost, Usage};

use super::{budget::SpendingBudget, line::PlannedTurn};

/// Records what turns spend, and checks budgets before they start.
#[async_trait]
pub trait SpendingBook: fmt::Debug + Send + Sync + 'static {
    /// Reserves the expected amount of a turn in the budgets that apply to it. The reservation ends with
    /// [`end`](Self::end), or when the caller drops the entry.
    ///
    /// # Errors
    ///
    /// [`SpendingRefusal`]: the turn must not start. Without budgets there is none.
    async fn begin(
        &self,
        turn: PlannedTurn,
        budgets: &[SpendingBudget],
    ) -> Result<SpendingEntry, SpendingRefusal>;

    /// Returns the reservation of a turn that did not run after all.
    async fn cancel(&self, entry: SpendingEntry);

    /// Records a turn that ended. Never fails: a book that cannot write reports that itself.
    async fn end(&self, entry: SpendingEntry, end: SpendingEnd);
}

/// A turn that runs, in a book of spending.
pub struct SpendingEntry {
    pub(super) id: String,
    pub(super) turn: PlannedTurn,
    /// Owner of the reservation. Dropping it gives the entry up, and must not block.
    #[expect(dead_code, reason = "it is only dropped")]
    guard: Box<dyn Send + Sync>,
}

impl SpendingEntry {
    /// Creates the entry of a turn. The book drops `guard` with it.
    pub fn new(id: impl Into<String>, turn: PlannedTurn, guard: impl Send + Sync + 'static) -> Self {
        Self { id: id.into(), turn, guard: Box::new(guard) }
    }

    /// Returns the id of the entry.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the turn.
    pub fn turn(&self) -> &PlannedTurn {
        &self.turn
    }
}

impl fmt::Debug for SpendingEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpendingEntry").field("id", &self.id).finish_non_exhaustive()
    }
}

/// End of a turn.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct SpendingEnd {
    /// `ok`, or the kind of the error.
    pub outcome: String,
    /// Model that the vendor named.
    pub model: Option<nexus_core::ModelId>,
    /// Tokens.
    pub usage: Usage,
    /// Cost, if it is known.
    pub cost: Option<Cost>,
    /// Duration on the backend.
    pub duration: Duration,
}

impl SpendingEnd {
    /// Creates the end of a turn with this outcome.
    pub fn new(outcome: impl Into<String>, usage: Usage, cost: Option<Cost>, duration: Duration) -> Self {
        Self { outcome: outcome.into(), model: None, usage, cost, duration }
    }
}

/// Reason why a turn must not start.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendingRefusal {
    /// The budget, what is spent, and the time at which it begins again; or the failure of the book.
    pub message: String,
    /// Time at which the budget begins again.
    pub until: Option<SystemTime>,
    /// True if another backend may run the turn.
    pub is_of_backend: bool,
}

impl SpendingRefusal {
    /// Creates the refusal of every backend.
    pub fn new(message: impl Into<String>, until: Option<SystemTime>) -> Self {
        Self { message: message.into(), until, is_of_backend: false }
    }
}
