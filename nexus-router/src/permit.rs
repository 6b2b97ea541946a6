//! Waits for a permit to run one of a backend's concurrent turns: first in this process, then among all processes that share
//! its hold store.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use nexus_core::{ErrorKind, Limit, turn::Queued};
use tokio::time::{Instant, timeout};

use crate::{
    attempt::TurnEvents,
    config::ConfiguredBackend,
    hold::{Slot, SlotClaim},
    queue::{Entered, TurnPermit},
    run::{Run, until},
};

/// Shortest wait for other processes that is reported. A shorter wait is common, because another process may be claiming its
/// own slot.
const TELL_AFTER: Duration = Duration::from_millis(10);

/// Permit to run one of a backend's concurrent turns.
pub(crate) struct RunPermit {
    /// The slot among all processes. It is the first field, so it is released first: the next turn of this process claims it
    /// after it gets the permit.
    _slot: Option<SlotClaim>,
    _permit: TurnPermit,
}

impl Run<'_> {
    /// Waits for a permit on a backend with a limit, as long as the turn may live. Waits in the queue of this process first,
    /// then for the processes that share the hold store.
    pub(crate) async fn permit(
        &self,
        entry: &ConfiguredBackend,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<Option<RunPermit>, ErrorKind> {
        let Some(queue) = self.queues.of(&entry.id) else {
            return Ok(None);
        };
        let mut is_told = false;
        let permit = match queue.enter() {
            Entered::Now(permit) => permit,
            Entered::Wait(waiting) => {
                events.push(Queued::new(entry.id.clone(), queue.limit()));
                is_told = true;
                match self.wait_for(waiting, events, deadline).await? {
                    Ok(permit) => permit,
                    Err(_) => return Ok(None),
                }
            }
        };
        let asked = Instant::now();
        let mut line = pin!(queue.line());
        let _line = match self.wait_for(timeout(TELL_AFTER, line.as_mut()), events, deadline).await? {
            Ok(line) => line,
            Err(_) => {
                if !is_told {
                    events.push(Queued::new(entry.id.clone(), queue.limit()));
                    is_told = true;
                }
                self.wait_for(line, events, deadline).await?
            }
        };
        let (mut next, mut tries) = (None, 0);
        loop {
            // Read the limit again in each round: a reload may change or remove it.
            let limit = queue.limit();
            if limit == usize::MAX {
                return Ok(Some(RunPermit { _slot: None, _permit: permit }));
            }
            // Only the owner of the `Next` slot claims a `Turn` slot, so that no process takes all of them.
            let mut wanted = vec![Slot::Next(entry.id.clone())];
            if next.is_none() {
                next = self.holds.claim(&wanted).await;
                // The wait for a `Turn` slot begins with short pauses again.
                tries = if next.is_some() { 0 } else { tries };
            }
            if next.is_some() {
                wanted = (0..limit).map(|index| Slot::Turn(entry.id.clone(), index)).collect();
                if let Some(slot) = self.holds.claim(&wanted).await {
                    return Ok(Some(RunPermit { _slot: Some(slot), _permit: permit }));
                }
            }
            if !is_told && asked.elapsed() >= TELL_AFTER {
                events.push(Queued::new(entry.id.clone(), limit));
                is_told = true;
            }
            self.wait_for(self.holds.wait_for(&wanted, tries), events, deadline).await?;
            tries = tries.saturating_add(1);
        }
    }

    /// Returns the output of `future`, unless the turn ends first.
    pub(crate) async fn wait_for<F: Future>(
        &self,
        future: F,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<F::Output, ErrorKind> {
        let mut future = pin!(future);
        let mut cancelled = pin!(self.host.cancel.cancelled());
        let mut late = pin!(until(deadline));
        poll_fn(|context| {
            // If the sink is slow, the events stay stored, and the sink wakes this task.
            let _ = events.poll_flush(context);
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ErrorKind::Cancelled));
            }
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ErrorKind::LimitReached(Limit::Deadline)));
            }
            future.as_mut().poll(context).map(Ok)
        })
        .await
    }
}
