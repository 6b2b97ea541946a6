//! Resources that many turns share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Limit,
    turn::{Cost, Limits, Usage, Usd},
};

/// Resources that many turns share: money, output tokens, or both. Clones share one account: give each host of
/// a task a clone ([`TurnHost::with_budget`](crate::TurnHost::with_budget)).
///
/// Before each turn the router reserves the rest of the budget, passes it to the turn as [`Limits`], and books
/// the turn's usage at its end: also that of a failed turn, and of every attempt of a chain. A turn that begins
/// while others run gets only the unreserved part, so that together they cannot exceed the budget. A turn
/// without a limit of its own reserves all of it: give each of several concurrent turns a limit (the seats of a
/// panel get equal shares). The budget is exceeded by at most as much as a turn exceeds its own limit: limits
/// are checked after each model call. A dropped turn is booked with its whole reservation, because its usage is
/// unknown, or with nothing if no backend got it; a cancelled turn with its usage.
///
/// A turn is not given to a backend that cannot enforce such a limit. Usage that a vendor does not report is
/// not counted.
///
/// ```
/// use nexus_core::{Budget, Cost, CostSource, Limits, TurnHost, Usage, Usd};
///
/// let budget = Budget::new().with_cost(Usd(2.0));
/// let host = TurnHost::new().with_budget(budget.clone());
/// // Any number of turns with clones of the host. The router does this around each:
/// let mut limits = Limits::new();
/// let reservation = budget.reserve(&mut limits)?;
/// assert_eq!(limits.cost, Some(Usd(2.0)));
/// let cost = Cost { usd: Usd(0.5), source: CostSource::Reported };
/// reservation.settle(&Usage::new(), Some(cost));
/// assert_eq!(budget.left().cost, Some(Usd(1.5)));
/// # let _ = host;
/// # Ok::<(), nexus_core::BudgetUsedUp>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Account>);

#[derive(Debug, Default)]
struct Account {
    most: Amount,
    booked: Mutex<Booked>,
}

/// In whole billionths of a dollar, so that what is reserved and given back adds up.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    cost: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Booked {
    spent_cost: u64,
    spent_tokens: u64,
    reserved_cost: u64,
    reserved_tokens: u64,
    turns: u64,
    running: u64,
}

/// Used or remaining part of a budget.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetAmount {
    /// In United States dollars; `None` is "not bounded" where something is left.
    pub cost: Option<Usd>,
    /// Output tokens, reasoning included; `None` is "not bounded" where something is left.
    pub output_tokens: Option<u64>,
}

/// Nothing is left of a budget, or nothing that no other turn has reserved.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct BudgetUsedUp {
    /// Exhausted resource: [`Limit::Cost`] or [`Limit::OutputTokens`].
    pub limit: Limit,
    /// Usage of all turns so far.
    pub spent: BudgetAmount,
    /// Turns that have reserved a part, and still run.
    pub running: u64,
}

impl Budget {
    /// A budget that counts, and bounds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the cost. A new account: what was booked in this one is not in it.
    #[must_use]
    pub fn with_cost(self, cost: Usd) -> Self {
        Self::of(Amount { cost: Some(billionths(cost)), ..self.0.most })
    }

    /// Bounds the output tokens. A new account: what was booked in this one is not in it.
    #[must_use]
    pub fn with_output_tokens(self, tokens: u64) -> Self {
        Self::of(Amount { output_tokens: Some(tokens), ..self.0.most })
    }

    fn of(most: Amount) -> Self {
        Self(Arc::new(Account { most, booked: Mutex::default() }))
    }

    /// Returns the usage so far.
    pub fn spent(&self) -> BudgetAmount {
        self.booked().spent()
    }

    /// Returns the part that no turn has used or reserved.
    pub fn left(&self) -> BudgetAmount {
        let left = self.free(&self.booked());
        BudgetAmount { cost: left.cost.map(usd), output_tokens: left.output_tokens }
    }

    /// Turns that were booked.
    pub fn turns(&self) -> u64 {
        self.booked().turns
    }

    /// Books a turn that ran elsewhere, such as before this program was started again.
    pub fn book(&self, usage: &Usage, cost: Option<Cost>) {
        let cost = cost.map_or(0, |cost| billionths(cost.usd));
        self.booked().book(cost, usage.all_output_tokens().unwrap_or(0));
    }

    /// Returns true if both are clones of one budget.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bounds what `limits` leave open by an equal share of what is left, for one of so many turns at once. No share is nothing:
    /// of what is less than the turns, the last ones get none when they reserve.
    pub fn share(&self, limits: &mut Limits, turns: usize) {
        let left = self.free(&self.booked());
        let turns = u64::try_from(turns).unwrap_or(u64::MAX).max(1);
        if let Some(cost) = left.cost {
            limits.cost.get_or_insert(usd((cost / turns).max(1)));
        }
        if let Some(tokens) = left.output_tokens {
            limits.output_tokens.get_or_insert((tokens / turns).max(1));
        }
    }

    /// Reserves what a turn may use: as much as its limits say, and no more than is left. The limits are lowered to it.
    ///
    /// # Errors
    ///
    /// [`BudgetUsedUp`]: the turn must not run. Nothing is reserved.
    pub fn reserve(&self, limits: &mut Limits) -> Result<BudgetReservation, BudgetUsedUp> {
        let mut booked = self.booked();
        let free = self.free(&booked);
        let used_up = |limit| BudgetUsedUp { limit, spent: booked.spent(), running: booked.running };
        if free.cost == Some(0) {
            return Err(used_up(Limit::Cost));
        }
        if free.output_tokens == Some(0) {
            return Err(used_up(Limit::OutputTokens));
        }
        let mut reservation = BudgetReservation {
            budget: self.clone(),
            cost: 0,
            output_tokens: 0,
            is_cost_limit: false,
            is_token_limit: false,
            is_settled: false,
        };
        if let Some(free) = free.cost {
            let asked = limits.cost.filter(|cost| !cost.0.is_nan()).map(billionths);
            reservation.cost = asked.unwrap_or(u64::MAX).min(free);
            reservation.is_cost_limit = asked.is_none_or(|asked| asked > free);
            if reservation.is_cost_limit {
                limits.cost = Some(usd(free));
            }
        }
        if let Some(free) = free.output_tokens {
            reservation.is_token_limit = limits.output_tokens.is_none_or(|asked| asked > free);
            reservation.output_tokens = limits.output_tokens.unwrap_or(u64::MAX).min(free);
            limits.output_tokens = Some(reservation.output_tokens);
        }
        booked.reserved_cost += reservation.cost;
        booked.reserved_tokens += reservation.output_tokens;
        booked.running += 1;
        Ok(reservation)
    }

    fn free(&self, booked: &Booked) -> Amount {
        let free = |most: Option<u64>, spent: u64, reserved: u64| {
            Some(most?.saturating_sub(spent).saturating_sub(reserved))
        };
        Amount {
            cost: free(self.0.most.cost, booked.spent_cost, booked.reserved_cost),
            output_tokens: free(self.0.most.output_tokens, booked.spent_tokens, booked.reserved_tokens),
        }
    }

    fn booked(&self) -> MutexGuard<'_, Booked> {
        self.0.booked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Booked {
    fn spent(&self) -> BudgetAmount {
        BudgetAmount { cost: Some(usd(self.spent_cost)), output_tokens: Some(self.spent_tokens) }
    }

    fn book(&mut self, cost: u64, tokens: u64) {
        self.spent_cost = self.spent_cost.saturating_add(cost);
        self.spent_tokens = self.spent_tokens.saturating_add(tokens);
        self.turns += 1;
    }
}

/// One turn's reservation of a budget. Dropping it unsettled counts all of it as used.
#[derive(Debug)]
#[must_use = "a reservation that is dropped counts as used"]
pub struct BudgetReservation {
    budget: Budget,
    cost: u64,
    output_tokens: u64,
    is_cost_limit: bool,
    is_token_limit: bool,
    is_settled: bool,
}

impl BudgetReservation {
    /// Books what the turn used, and gives the rest back.
    pub fn settle(mut self, usage: &Usage, cost: Option<Cost>) {
        let cost = cost.map_or(0, |cost| billionths(cost.usd));
        self.end(cost, usage.all_output_tokens().unwrap_or(0));
    }

    /// Returns true if a limit of the turn is the rest of the budget, and not the turn's own.
    pub fn sets(&self, limit: Limit) -> bool {
        match limit {
            Limit::Cost => self.is_cost_limit,
            Limit::OutputTokens => self.is_token_limit,
            _ => false,
        }
    }

    fn end(&mut self, cost: u64, tokens: u64) {
        self.is_settled = true;
        let mut booked = self.budget.booked();
        booked.reserved_cost -= self.cost;
        booked.reserved_tokens -= self.output_tokens;
        booked.running -= 1;
        booked.book(cost, tokens);
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        if !self.is_settled {
            self.end(self.cost, self.output_tokens);
        }
    }
}

impl fmt::Display for BudgetUsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::OutputTokens => {
                write!(f, "{} output tokens are used", self.spent.output_tokens.unwrap_or(0))?;
            }
            _ => write!(f, "{} are spent", self.spent.cost.unwrap_or_default())?,
        }
        match self.running {
            0 => Ok(()),
            running => write!(
                f,
                ", and turns that run ({running}) have reserved the rest: give each a limit of its own"
            ),
        }
    }
}

/// An invalid sum, such as a negative one, counts as zero; a sum above all bounds as the largest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from a float saturates")]
fn billionths(cost: Usd) -> u64 {
    (cost.0 * 1e9).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "a sum of nine digits keeps its cents in an f64")]
fn usd(billionths: u64) -> Usd {
    Usd(billionths as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::CostSource;

    fn cost(usd: f64) -> Option<Cost> {
        Some(Cost { usd: Usd(usd), source: CostSource::Reported })
    }

    fn output(tokens: u64) -> Usage {
        Usage { output_tokens: Some(tokens), ..Usage::new() }
    }

    #[test]
    fn a_turn_gets_the_rest_and_gives_back_what_it_did_not_use() {
        let budget = Budget::new().with_cost(Usd(1.0)).with_output_tokens(100);
        let mut limits = Limits::new();
        let first = budget.reserve(&mut limits).unwrap();
        assert_eq!((limits.cost, limits.output_tokens), (Some(Usd(1.0)), Some(100)));
        assert!(first.sets(Limit::Cost) && first.sets(Limit::OutputTokens) && !first.sets(Limit::ToolCalls));
        let refused = budget.reserve(&mut Limits::new()).unwrap_err();
        assert_eq!((refused.limit, refused.running), (Limit::Cost, 1));
        assert_eq!(
            refused.to_string(),
            "$0.0000 are spent, and turns that run (1) have reserved the rest: give each a limit of its own"
        );
        first.settle(&output(30), cost(0.25));
        assert_eq!(budget.left(), BudgetAmount { cost: Some(Usd(0.75)), output_tokens: Some(70) });
        assert_eq!(budget.turns(), 1);
        budget.book(&output(70), None);
        let refused = budget.reserve(&mut Limits::new()).unwrap_err();
        assert_eq!(refused.to_string(), "100 output tokens are used");
    }

    #[test]
    fn a_turn_with_a_limit_of_its_own_reserves_no_more() {
        let budget = Budget::new().with_cost(Usd(1.0)).with_output_tokens(100);
        let mut limits = Limits::new().with_cost(Usd(0.4)).with_output_tokens(60);
        let first = budget.reserve(&mut limits).unwrap();
        assert!(!first.sets(Limit::Cost) && !first.sets(Limit::OutputTokens));
        let mut more = limits.clone();
        let second = budget.reserve(&mut more).unwrap();
        assert_eq!((more.cost, more.output_tokens), (Some(Usd(0.4)), Some(40)));
        assert!(second.sets(Limit::OutputTokens));
        drop(first);
        assert_eq!(budget.spent(), BudgetAmount { cost: Some(Usd(0.4)), output_tokens: Some(60) });
        second.settle(&Usage::new(), None);
        assert_eq!(budget.left(), BudgetAmount { cost: Some(Usd(0.6)), output_tokens: Some(40) });
    }

    #[test]
    fn shares_are_equal_and_leave_own_limits_alone() {
        let budget = Budget::new().with_cost(Usd(0.9)).with_output_tokens(100);
        let mut limits = [Limits::new(), Limits::new().with_output_tokens(5), Limits::new()];
        limits.iter_mut().for_each(|limits| budget.share(limits, 3));
        assert_eq!(limits.each_ref().map(|limits| limits.output_tokens), [Some(33), Some(5), Some(33)]);
        let reserved = limits.each_mut().map(|limits| budget.reserve(limits).unwrap());
        assert_eq!(budget.left(), BudgetAmount { cost: Some(Usd(0.0)), output_tokens: Some(29) });
        reserved.into_iter().for_each(|one| one.settle(&Usage::new(), None));
        assert_eq!(budget.left(), BudgetAmount { cost: Some(Usd(0.9)), output_tokens: Some(100) });
    }

    #[test]
    fn sums_that_are_none_break_nothing() {
        let budget = Budget::new().with_cost(Usd(1.0)).with_output_tokens(u64::MAX);
        for odd in [f64::NAN, -3.0, f64::NEG_INFINITY, -0.0] {
            budget.book(&Usage::new(), cost(odd));
        }
        assert_eq!(budget.spent().cost, Some(Usd(0.0)));
        let mut limits = Limits::new().with_cost(Usd(f64::NAN)).with_output_tokens(u64::MAX);
        let reservation = budget.reserve(&mut limits).unwrap();
        assert_eq!((limits.cost, limits.output_tokens), (Some(Usd(1.0)), Some(u64::MAX)));
        reservation.settle(&output(u64::MAX), cost(f64::INFINITY));
        budget.book(&output(u64::MAX), cost(f64::MAX));
        assert_eq!(budget.left(), BudgetAmount { cost: Some(Usd(0.0)), output_tokens: Some(0) });
        assert_eq!(budget.reserve(&mut Limits::new()).unwrap_err().limit, Limit::Cost);
    }

    #[test]
    fn a_budget_without_bounds_counts_all_the_same() {
        let budget = Budget::new();
        let mut limits = Limits::new();
        let turns = [0; 5].map(|_| budget.reserve(&mut limits).unwrap());
        assert_eq!(limits, Limits::new());
        turns.into_iter().for_each(|turn| turn.settle(&output(2), cost(0.1)));
        assert_eq!(budget.spent(), BudgetAmount { cost: Some(Usd(0.5)), output_tokens: Some(10) });
        assert_eq!(budget.left(), BudgetAmount::default());
    }

    #[test]
    fn many_threads_get_no_more_than_there_is() {
        let budget = Budget::new().with_output_tokens(1_000);
        let threads = std::thread::scope(|scope| {
            let run = || {
                let mut turns = 0;
                while let Ok(reservation) = budget.reserve(&mut Limits::new().with_output_tokens(7)) {
                    reservation.settle(&output(7), None);
                    turns += 1;
                }
                turns
            };
            let threads = [0; 8].map(|_| scope.spawn(run));
            threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
        });
        assert_eq!(budget.turns(), threads);
        // Seven by seven; the last turn gets what is left, and is one over its limit at most.
        assert!((1_000..1_007).contains(&budget.spent().output_tokens.unwrap()), "{budget:?}");
    }
}
