//! Spending of turns: a record of each turn, and budgets by hour, day and month.
//!
//! The router asks a [`SpendingBook`] before each attempt at a backend, and reports the usage after it. So every program that runs
//! turns through one router is in one record. A turn that exceeds a [`SpendingBudget`] of the configuration does not start.
//!
//! [`FileSpendingBook`] (feature `spending`) is the book of all processes of a machine. [`SpendingReport`] sums its lines.

mod attempt;
mod book;
mod budget;
#[cfg(feature = "spending")]
mod estimate;
#[cfg(feature = "spending")]
mod file;
mod labels;
mod line;
#[cfg(feature = "spending")]
mod period;
#[cfg(feature = "spending")]
mod report;

pub(crate) use attempt::{Spending, SpendingAttempt};
pub use book::{SpendingBook, SpendingEnd, SpendingEntry, SpendingRefusal};
pub use budget::{BudgetPeriod, BudgetSubject, SpendingBudget};
#[cfg(feature = "spending")]
pub use file::FileSpendingBook;
pub use labels::WorkLabel;
pub use line::{CostOrigin, PlannedTurn, SpendingAmount, SpendingLine, TurnBilling};
#[cfg(feature = "spending")]
pub use report::{SpendingReport, UsageColumn, UsageRow, day_of};
