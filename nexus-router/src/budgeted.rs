//! Runs a turn within its host's budget: reserves before the turn and books the usage after it.

use std::sync::atomic::{AtomicBool, Ordering};

use nexus_core::{
    BackendId, BudgetReservation, Cost, ErrorKind, EventSink, Limit, TurnError, TurnResult, Usage,
};

use crate::run::Run;

/// A turn's reservation of a budget. If the turn is dropped before a backend got it, nothing is booked.
struct Reserved<'r> {
    reservation: Option<BudgetReservation>,
    has_begun: &'r AtomicBool,
}

impl Reserved<'_> {
    fn sets(&self, limit: Limit) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.sets(limit))
    }

    fn settle(mut self, usage: &Usage, cost: Option<Cost>) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(usage, cost);
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.has_begun.load(Ordering::Relaxed)
            && let Some(reservation) = self.reservation.take()
        {
            reservation.settle(&Usage::new(), None);
        }
    }
}

impl Run<'_> {
    /// Runs the turn within the budget of its host.
    pub(crate) async fn run(mut self, sink: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        // Take the budget out of the host, so that a router among the backends does not count the same turn
        // again.
        let Some(budget) = self.host.budget.take() else {
            return self.run_unbudgeted(sink).await;
        };
        let reservation = budget.reserve(&mut self.request.limits).map_err(|used_up| {
            let kind = ErrorKind::LimitReached(Limit::Budget);
            TurnError::new(kind, BackendId::new(self.route.name)).with_message(used_up.to_string())
        })?;
        let reserved = Reserved { reservation: Some(reservation), has_begun: &self.has_begun };
        match self.run_unbudgeted(sink).await {
            Ok(result) => {
                reserved.settle(&result.usage, result.cost);
                Ok(result)
            }
            Err(mut error) => {
                if let ErrorKind::LimitReached(limit) = error.kind()
                    && reserved.sets(limit)
                {
                    error = error.with_kind(ErrorKind::LimitReached(Limit::Budget));
                }
                reserved.settle(&error.partial().usage, error.partial().cost);
                Err(error)
            }
        }
    }
}
