//! What a session keeps: what was decided, how many calls were made, and whether it is over.

use std::{
    collections::VecDeque,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use super::{Decision, Denial, Verdict};

/// Most decisions that are kept; of more, the oldest are forgotten. Source: our own bound.
const MAX_KEPT: usize = 65_536;

/// Most memory that decisions take, in bytes, as far as it can be told; beyond it the oldest are forgotten. Source:
/// our own bound.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// How many calls with a wrong token are kept: what a stranger sends displaces nothing that the participant did.
/// Source: our own bound.
const MAX_STRANGERS: u64 = 1_000;

/// What one session keeps, and those above it with it.
///
/// A call is counted and its decision is written down under one lock. So the order of the decisions is the one in which
/// calls took from the budget, and once a session was closed nothing is let through.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    kept: Mutex<Kept>,
    above: Option<Arc<Ledger>>,
}

#[derive(Debug, Default)]
struct Kept {
    limit: Option<u32>,
    spent: u32,
    over_budget: u32,
    is_closed: bool,
    decisions: VecDeque<Entry>,
    bytes: usize,
    strangers: u64,
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    decision: Arc<Decision>,
    bytes: usize,
}

/// How a call counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// As one call.
    Once,
    /// Not: it hands in the answer.
    Never,
    /// Not: whoever called is not the participant.
    Stranger,
}

/// What stands against any call at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Open,
    /// The session is over.
    Closed,
    /// So many calls were allowed, and made.
    OverBudget(u32),
}

impl Ledger {
    /// That of a session of its own; `limit` calls may be made.
    pub(super) fn of(limit: Option<u32>) -> Self {
        Self { kept: Mutex::new(Kept { limit, ..Kept::default() }), above: None }
    }

    /// That of a session below another one: what happens in it happens in the other one, too.
    pub(super) fn below(above: &Arc<Self>, limit: Option<u32>) -> Self {
        Self { above: Some(Arc::clone(above)), ..Self::of(limit) }
    }

    /// Counts a call, and writes `decision` down with the verdict that `decide` comes to.
    pub(super) fn settle<T>(
        &self,
        mut decision: Decision,
        counts: Counts,
        decide: impl FnOnce(Standing) -> Result<T, Denial>,
    ) -> Result<T, Denial> {
        let mut chain: Vec<_> = self.chain().map(Self::lock).collect();
        let is_closed = chain.iter().any(|kept| kept.is_closed);
        let used_up = chain.iter().find_map(|kept| kept.limit.filter(|limit| kept.spent >= *limit));
        let standing = match (counts, used_up) {
            (Counts::Stranger, _) => Standing::Open,
            _ if is_closed => Standing::Closed,
            (Counts::Once, Some(limit)) => {
                chain.iter_mut().for_each(|kept| kept.over_budget = kept.over_budget.saturating_add(1));
                Standing::OverBudget(limit)
            }
            (Counts::Once, None) => {
                chain.iter_mut().for_each(|kept| kept.spent = kept.spent.saturating_add(1));
                Standing::Open
            }
            (Counts::Never, _) => Standing::Open,
        };
        let decided = decide(standing);
        if let Err(denial) = &decided {
            decision.verdict = Verdict::Denied(denial.clone());
        }
        let bytes = weight(&decision);
        let entry = Entry { decision: Arc::new(decision), bytes };
        chain.iter_mut().for_each(|kept| kept.add(entry.clone(), counts));
        decided
    }

    /// Calls that counted.
    pub(super) fn spent(&self) -> u32 {
        self.lock().spent
    }

    /// Calls that were one too many.
    pub(super) fn over_budget(&self) -> u32 {
        self.lock().over_budget
    }

    /// From now on, every call finds the session closed.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Whether this one, or one above it, was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.chain().any(|ledger| ledger.lock().is_closed)
    }

    /// The decisions, oldest first.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        let entries: Vec<Entry> = self.lock().decisions.iter().cloned().collect();
        entries.iter().map(|entry| Decision::clone(&entry.decision)).collect()
    }

    /// The newest decision that `is_meant`.
    pub(super) fn newest(&self, is_meant: impl Fn(&Decision) -> bool) -> Option<Arc<Decision>> {
        let kept = self.lock();
        let found = kept.decisions.iter().rev().find(|entry| is_meant(&entry.decision))?;
        Some(Arc::clone(&found.decision))
    }

    /// How many decisions are not kept any more.
    pub(super) fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }

    /// This one and those above it, in the one order in which they are ever locked.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |ledger| ledger.above.as_deref())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, entry: Entry, counts: Counts) {
        if counts == Counts::Stranger {
            self.strangers += 1;
            if self.strangers > MAX_STRANGERS {
                self.forgotten += 1;
                return;
            }
        }
        self.bytes += entry.bytes;
        self.decisions.push_back(entry);
        while self.decisions.len() > MAX_KEPT || self.bytes > MAX_KEPT_BYTES {
            let Some(oldest) = self.decisions.pop_front() else { return };
            self.bytes -= oldest.bytes;
            self.forgotten += 1;
        }
    }
}

/// About how much memory a decision takes, in bytes.
fn weight(decision: &Decision) -> usize {
    /// The denials that are longest are still short.
    const DENIAL: usize = 4 << 10;
    let denial = if decision.verdict == Verdict::Allowed { 0 } else { DENIAL };
    size_of::<Decision>() + decision.tool.len() + weight_of(&decision.arguments) + denial
}

fn weight_of(value: &Value) -> usize {
    /// What an entry of a map takes beside its key and its value.
    const ENTRY: usize = 64;
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight_of).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| ENTRY + name.len() + weight_of(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(tool: &str, arguments: &Value) -> Decision {
        Decision::new("clerk".into(), tool, arguments)
    }

    fn settle(ledger: &Ledger, counts: Counts) -> Result<(), Denial> {
        ledger.settle(decision("look", &json!({})), counts, |standing| match standing {
            Standing::Open => Ok(()),
            Standing::Closed => Err(Denial::Closed),
            Standing::OverBudget(budget) => Err(Denial::OverBudget { budget, terminal: Vec::new() }),
        })
    }

    fn over(budget: u32) -> Result<(), Denial> {
        Err(Denial::OverBudget { budget, terminal: Vec::new() })
    }

    #[test]
    fn a_ledger_below_another_takes_from_both_budgets() {
        let whole = Arc::new(Ledger::of(Some(3)));
        let first = Ledger::below(&whole, Some(2));
        assert_eq!([0; 3].map(|_| settle(&first, Counts::Once)), [Ok(()), Ok(()), over(2)]);
        let second = Ledger::below(&whole, None);
        assert_eq!([0; 2].map(|_| settle(&second, Counts::Once)), [Ok(()), over(3)]);
        assert_eq!((whole.spent(), first.spent(), second.spent()), (3, 2, 1));
        assert_eq!((whole.over_budget(), first.over_budget(), second.over_budget()), (2, 1, 1));
        assert_eq!(settle(&first, Counts::Never), Ok(()));
        assert_eq!((whole.decisions().len(), first.decisions().len()), (6, 4));
    }

    #[test]
    fn what_is_closed_above_is_closed_below_and_counts_nothing() {
        let whole = Arc::new(Ledger::of(None));
        let below = Ledger::below(&whole, None);
        whole.close();
        assert!(below.is_closed());
        assert_eq!(settle(&below, Counts::Once), Err(Denial::Closed));
        assert_eq!((below.spent(), whole.decisions().len()), (0, 1));
    }

    #[test]
    fn of_too_many_decisions_the_oldest_are_forgotten() {
        let ledger = Ledger::of(None);
        for number in 0..MAX_KEPT + 3 {
            let decision = decision("look", &json!(number));
            ledger.settle(decision, Counts::Once, |_| Ok(())).unwrap();
        }
        assert_eq!((ledger.decisions().len(), ledger.forgotten()), (MAX_KEPT, 3));
        assert_eq!(ledger.decisions()[0].arguments, json!(3));
    }

    #[test]
    fn large_arguments_are_forgotten_sooner() {
        let ledger = Ledger::of(None);
        let zeros = json!(vec![0; 7_000]);
        for _ in 0..1_000 {
            ledger.settle(decision("look", &zeros), Counts::Once, |_| Ok(())).unwrap();
        }
        assert!(ledger.lock().bytes <= MAX_KEPT_BYTES);
        assert_eq!(ledger.decisions().len() as u64 + ledger.forgotten(), 1_000);
        assert!((200..500).contains(&ledger.decisions().len()), "{}", ledger.decisions().len());
    }

    #[test]
    fn strangers_displace_nothing() {
        let ledger = Ledger::of(Some(1));
        settle(&ledger, Counts::Once).unwrap();
        for _ in 0..100_000 {
            let wrong = ledger.settle(decision("look", &Value::Null), Counts::Stranger, |_| {
                Err::<(), _>(Denial::WrongToken)
            });
            assert_eq!(wrong, Err(Denial::WrongToken));
        }
        let decisions = ledger.decisions();
        assert_eq!(
            (decisions.len() as u64, ledger.forgotten()),
            (1 + MAX_STRANGERS, 100_000 - MAX_STRANGERS)
        );
        assert_eq!((&decisions[0].verdict, ledger.spent()), (&Verdict::Allowed, 1));
    }
}
