//! How many calls a session may make.

use std::sync::{Arc, Mutex, PoisonError};

/// Calls that may be made and calls that were. Terminal tools are nobody's business here.
///
/// A budget below another one takes from both.
#[derive(Debug, Default)]
pub(super) struct Budget {
    limit: Option<u32>,
    spent: Mutex<u32>,
    above: Option<Arc<Budget>>,
}

impl Budget {
    /// One of its own.
    pub(super) fn of(limit: Option<u32>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// One that takes from `above`, too.
    pub(super) fn below(above: &Arc<Self>, limit: Option<u32>) -> Self {
        Self { limit, above: Some(Arc::clone(above)), ..Self::default() }
    }

    /// Takes one call out of it. `Err` is the limit that is used up.
    pub(super) fn spend(&self) -> Result<(), u32> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = self.limit.filter(|limit| *spent >= *limit) {
            return Err(limit);
        }
        if let Some(above) = &self.above {
            above.spend()?;
        }
        *spent = spent.saturating_add(1);
        Ok(())
    }

    /// Calls made so far.
    pub(super) fn spent(&self) -> u32 {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_below_another_takes_from_both() {
        let whole = Arc::new(Budget::of(Some(3)));
        let first = Budget::below(&whole, Some(2));
        assert_eq!([first.spend(), first.spend(), first.spend()], [Ok(()), Ok(()), Err(2)]);
        let second = Budget::below(&whole, None);
        assert_eq!([second.spend(), second.spend()], [Ok(()), Err(3)]);
        assert_eq!((whole.spent(), first.spent(), second.spent()), (3, 2, 1));
    }
}
