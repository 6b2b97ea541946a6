//! A budget that many turns share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Limit,
    turn::{Cost, Limits, Usage, Usd},
};

/// A limit on money, output tokens or both, shared by many turns. Clones share one account: give each host of a task a clone
/// ([`TurnHost::with_budget`](crate::TurnHost::with_budget)).
///
/// Before each turn the router reserves the rest of the budget and passes it to the turn as [`Limits`]. At the end it books the
/// usage of the turn, even of a failed turn, with every attempt of a chain. A turn that begins while others run gets only the
/// unreserved part, so that together they cannot exceed the budget. A turn without a limit of its own reserves all of it: give
/// each of several concurrent turns a limit (the seats of a panel get equal shares). The budget can be exceeded only by as much
/// as a turn exceeds its own limit, because limits are checked after each model call. A dropped turn is booked with its whole
/// reservation, because its usage is unknown, or with nothing if no backend got it; a cancelled turn with its usage.
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

/// Cost in billionths of a dollar. Integers ensure that reserved and returned parts add up exactly.
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
    /// Cost in United States dollars. In the rest of a budget, `None` means no limit.
    pub cost: Option<Usd>,
    /// Output tokens, including reasoning. In the rest of a budget, `None` means no limit.
    pub output_tokens: Option<u64>,
}

/// The budget is used up, or other turns have reserved the rest.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct BudgetUsedUp {
    /// The exhausted limit: [`Limit::Cost`] or [`Limit::OutputTokens`].
    pub limit: Limit,
    /// Usage of all turns so far.
    pub spent: BudgetAmount,
    /// Number of running turns with a reservation.
    pub running: u64,
}

impl Budget {
    /// Creates a budget that counts usage without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the cost. Returns a new account, without the usage booked so far.
    #[must_use]
    pub fn with_cost(self, cost: Usd) -> Self {
        // Create a new account: clones of this budget may already have reservations under the old limit.
        Self::of(Amount { cost: Some(billionths(cost)), ..self.0.most })
    }

    /// Limits the output tokens. Returns a new account, without the usage booked so far.
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

    /// Returns the number of booked turns.
    pub fn turns(&self) -> u64 {
        self.booked().turns
    }

    /// Books a turn that ran elsewhere, for example before a restart of this program.
    pub fn book(&self, usage: &Usage, cost: Option<Cost>) {
        let cost = cost.map_or(0, |cost| billionths(cost.usd));
        self.booked().book(cost, usage.all_output_tokens().unwrap_or(0));
    }

    /// Returns true if both are clones of one budget.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sets each limit that is `None` to an equal share of the rest, for one of `turns` concurrent turns. A share is never
    /// zero. So if the rest has fewer units than there are turns, the last turns find nothing left when they reserve.
    pub fn share(&self, limits: &mut Limits, turns: usize) {
        let left = self.free(&self.booked());
        let turns = u64::try_from(turns).unwrap_or(u64::MAX).max(1);
        if let Some(cost) = left.cost {
            // A zero limit would look like the turn's own limit. With one unit, `reserve` reports the used-up budget.
            limits.cost.get_or_insert(usd((cost / turns).max(1)));
        }
        if let Some(tokens) = left.output_tokens {
            limits.output_tokens.get_or_insert((tokens / turns).max(1));
        }
    }

    /// Reserves the amount that the turn's limits allow, but no more than is left. Lowers the limits to the reserved amount.
    ///
    /// # Errors
    ///
    /// [`BudgetUsedUp`]: the turn must not run. Nothing is reserved.
    pub fn reserve(&self, limits: &mut Limits) -> Result<BudgetReservation, BudgetUsedUp> {
        // One lock covers the check and the reservation, so that concurrent turns never reserve the same
        // amount.
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
            // A limit that is not a number limits nothing, but `billionths` would turn it into 0.
            let asked = limits.cost.filter(|cost| !cost.0.is_nan()).map(billionths);
            reservation.cost = asked.unwrap_or(u64::MAX).min(free);
            // Remember the origin of the limit: the router reports a used-up budget unlike a turn's own limit.
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
        // Saturate: a vendor's absurd usage must use up the budget, and must not wrap to a small number.
        self.spent_cost = self.spent_cost.saturating_add(cost);
        self.spent_tokens = self.spent_tokens.saturating_add(tokens);
        self.turns += 1;
    }
}

/// One turn's reservation of a budget. If it is dropped before [`settle`](Self::settle), all of it counts as used.
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
    /// Books the usage of the turn, and returns the rest to the budget.
    pub fn settle(mut self, usage: &Usage, cost: Option<Cost>) {
        let cost = cost.map_or(0, |cost| billionths(cost.usd));
        self.end(cost, usage.all_output_tokens().unwrap_or(0));
    }

    /// Returns true if this limit of the turn comes from the budget, and not from the turn's request.
    pub fn sets(&self, limit: Limit) -> bool {
        match limit {
            Limit::Cost => self.is_cost_limit,
            Limit::OutputTokens => self.is_token_limit,
            _ => false,
        }
    }

    fn end(&mut self, cost: u64, tokens: u64) {
        // Set the flag first, so that the drop of this value does not book again.
        self.is_settled = true;
        let mut booked = self.budget.booked();
        // Each reservation was added once and ends once, so the sums cannot underflow.
        booked.reserved_cost -= self.cost;
        booked.reserved_tokens -= self.output_tokens;
        booked.running -= 1;
        booked.book(cost, tokens);
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        if !self.is_settled {
            // The usage of a dropped turn is unknown, so assume the worst.
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

/// Converts a cost. An invalid cost, such as a negative one, counts as zero. A cost beyond the range counts as the largest
/// value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast from a float saturates")]
fn billionths(cost: Usd) -> u64 {
    // Round, because truncation could lose a unit of a decimal that has no exact binary form.
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
