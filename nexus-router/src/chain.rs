//! Runs a turn along its chain of backends: from the first backend that may run it to an answer or the end of the chain.

use std::{
    future::{Future as _, poll_fn},
    mem,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use nexus_core::{
    BackendId, ErrorKind, EventSink, ExecutionBackend, Limit, PromptBlock, SessionMark, Skipped, TurnError,
    TurnEvent, TurnRequest, TurnResult, harness::is_submitted, turn::Fallback,
};
use tokio::time::Instant;

use crate::{
    attempt::TurnEvents,
    config::ConfiguredBackend,
    fallback::{PriorAttempts, is_silent, may_go_on, silence},
    hand_over::HandoverBase,
    hold::{Admission, Hold, Pass},
    permit::RunPermit,
    reset_wait::{ResetWaits, Waited},
    run::{Passed, Run, TurnRoute, caught, held, refused_still, time_left, until},
    spending::SpendingAttempt,
};

impl Run<'_> {
    /// Runs the turn without applying the budget.
    pub(crate) async fn run_unbudgeted(&self, sink: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let started = Instant::now();
        let mut deadline = self.request.limits.deadline.and_then(|limit| started.checked_add(limit));
        let mut events = TurnEvents::new(sink, started);
        self.host.warnings.iter().for_each(|text| events.push(TurnEvent::warning(text)));
        let outcome = ChainWalk::run(self, &mut events, &mut deadline).await;
        // The router's own events may still wait for the sink. Send them now, because no event may follow the return.
        let mut cancelled = pin!(self.host.cancel.cancelled());
        let mut late = pin!(until(deadline));
        poll_fn(|context| {
            let stops = events.poll_flush(context).is_ready()
                || cancelled.as_mut().poll(context).is_ready()
                || late.as_mut().poll(context).is_ready();
            if stops { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        outcome
    }
}

/// A turn and its progress along the chain.
struct ChainWalk<'w, 'r, 's> {
    run: &'w Run<'r>,
    events: &'w mut TurnEvents<'s>,
    /// End of the turn. A wait for a reset delays it.
    deadline: &'w mut Option<Instant>,
    prior: PriorAttempts,
    /// Backends skipped or failed since the last `Fallback` events were sent.
    passed_over: Vec<Skipped>,
    base: HandoverBase,
    /// Position in the session's record at which the turn began.
    mark: SessionMark,
    was_submitted: bool,
    /// True if the next backend runs after a missing answer.
    asks_again: bool,
    /// True if the chain has one backend, so no fallback exists. Its own error is then more useful than `Exhausted`.
    is_alone: bool,
    /// Backends of the chain that refuse turns until a time, and the waits for them.
    resets: ResetWaits,
}

/// A backend that may run the turn now.
struct AdmittedBackend<'e> {
    entry: &'e ConfiguredBackend,
    backend: &'e Arc<dyn ExecutionBackend>,
    permit: Option<RunPermit>,
    pass: Pass,
}

impl<'w, 'r, 's> ChainWalk<'w, 'r, 's> {
    /// Runs the turn on the first suitable backend, and on later ones as the fallback rule allows.
    async fn run(
        run: &'w Run<'r>,
        events: &'w mut TurnEvents<'s>,
        deadline: &'w mut Option<Instant>,
    ) -> Result<TurnResult, TurnError> {
        run.check_restore()?;
        let chain = run.candidates()?;
        let mut walk = Self::begin(run, events, deadline, chain.len() == 1).await?;
        let mut round: Vec<_> = chain.iter().collect();
        loop {
            for (position, entry) in round.iter().enumerate() {
                // Check here too, because a backend that is skipped has no wait that would notice the
                // cancellation.
                if run.host.cancel.is_cancelled() {
                    return Err(walk.own_error(TurnError::new(ErrorKind::Cancelled, entry.id.clone())));
                }
                let Some(admitted) = walk.admit(entry).await? else { continue };
                // Reserve after the wait for a permit, so that a waiting turn does not reduce the budgets of
                // others.
                let Some(spending) = walk.reserve_spending(entry).await? else { continue };
                let request = match walk.next_request(entry).await {
                    Ok(request) => request,
                    Err(error) => {
                        // Cancel explicitly, because a reservation that is dropped counts as a lost turn.
                        if let Some(spending) = spending {
                            spending.cancel().await;
                        }
                        return Err(error);
                    }
                };
                walk.announce(entry);
                let outcome = walk.attempt(admitted, request, spending).await;
                let is_last = position + 1 == round.len();
                if let Some(outcome) = walk.conclude(entry, outcome, is_last) {
                    return outcome;
                }
            }
            // The others could not run the turn for reasons that do not pass.
            let free = walk.wait_for_reset().await?;
            round = chain.iter().filter(|entry| free.contains(&entry.id)).collect();
        }
    }

    /// Waits for the reset of backends that refused the turn, and returns those that take turns again.
    ///
    /// # Errors
    ///
    /// The error of the turn, if it may not wait for any of them.
    async fn wait_for_reset(&mut self) -> Result<Vec<BackendId>, TurnError> {
        let (run, name) = (self.run, self.run.route.name);
        if self.resets.are_forbidden() {
            return Err(mem::take(&mut self.prior).exhausted(name));
        }
        if let Some(next) = self.resets.awaited(run.holds.now()).cloned() {
            // Revert the changes before the wait: afterwards they cannot be distinguished from changes that the user makes meanwhile.
            let deadline = *self.deadline;
            run.restore(&mut self.prior, &mut self.passed_over, &next, &self.mark, self.events, deadline)
                .await?;
        }
        let waited = self.resets.wait(run, self.events, self.deadline).await;
        match waited.map_err(|kind| self.own_error(TurnError::new(kind, name.into())))? {
            Waited::Free(backends) => {
                self.prior.reconsider(&backends, &mut self.passed_over);
                Ok(backends)
            }
            Waited::Over { holds, has_waited } => {
                let now = run.holds.now();
                if let ([hold], true) = (&holds[..], self.is_alone) {
                    return Err(self.own_error(refused_still(hold, now)));
                }
                if has_waited {
                    // The list of skipped backends names the holds from before the wait. Replace them by the current ones.
                    let backends: Vec<BackendId> = holds.iter().map(|hold| hold.backend.clone()).collect();
                    self.prior.reconsider(&backends, &mut self.passed_over);
                    holds.iter().for_each(|hold| self.prior.skip(held(hold, now)));
                }
                Err(mem::take(&mut self.prior).exhausted(name))
            }
        }
    }

    async fn begin(
        run: &'w Run<'r>,
        events: &'w mut TurnEvents<'s>,
        deadline: &'w mut Option<Instant>,
        is_alone: bool,
    ) -> Result<Self, TurnError> {
        let base = run.handover_base(events, *deadline).await?;
        let mut walk = Self {
            run,
            events,
            deadline,
            prior: PriorAttempts::default(),
            passed_over: Vec::new(),
            base,
            mark: run.host.session().mark(),
            was_submitted: run.host.session().is_handed_in(),
            asks_again: run.route.asks_again,
            is_alone,
            resets: ResetWaits::of(run.host.longest_wait),
        };
        // A program may compose a chain with backends that this configuration does not have.
        let backends = &run.route.configuration.backends;
        for id in run.route.binding.chain.iter().filter(|id| !backends.contains_key(*id)) {
            let skipped = Skipped::new(id.clone(), "it is not in the configuration");
            walk.passed_over.push(skipped.clone());
            walk.prior.skip(skipped);
        }
        Ok(walk)
    }

    /// Checks the backend, waits for its permit and checks its hold. Returns `None` if the backend is skipped.
    async fn admit<'e>(
        &mut self,
        entry: &'e ConfiguredBackend,
    ) -> Result<Option<AdmittedBackend<'e>>, TurnError> {
        let backend = match self.run.standing_reason(entry, self.is_alone).await {
            Ok(backend) => backend,
            Err(Passed::Held(hold)) => return self.held(&hold),
            Err(passed) => return Ok(self.pass_over(passed.into_skipped(self.run.holds.now()))),
        };
        let permit = match self.run.permit(entry, self.events, *self.deadline).await {
            Ok(permit) => permit,
            Err(kind) => return Err(self.own_error(TurnError::new(kind, entry.id.clone()))),
        };
        // Check the hold after the wait for a permit: another turn may have been refused meanwhile.
        match self.run.holds.admit(&entry.id).await {
            Admission::Open(pass) => Ok(Some(AdmittedBackend { entry, backend, permit, pass })),
            Admission::Held(hold) => self.held(&hold),
        }
    }

    /// Reserves the expected amount in the budgets of the configuration. Returns `None` if a budget of this backend is used up, and
    /// another backend may run the turn.
    async fn reserve_spending(
        &mut self,
        entry: &ConfiguredBackend,
    ) -> Result<Option<Option<SpendingAttempt<'w>>>, TurnError> {
        let run = self.run;
        let Some(spending) = run.spending else { return Ok(Some(None)) };
        let model = run.route.binding.apply(run.request.clone(), &entry.id).model;
        let TurnRoute { configuration, name, .. } = run.route;
        let begun = spending.begin(configuration, entry, name, &run.request, model.as_ref()).await;
        match begun {
            Ok(attempt) => Ok(Some(Some(attempt))),
            Err(refusal) if refusal.is_of_backend && !self.is_alone => {
                let kind = ErrorKind::LimitReached(Limit::Budget);
                let skipped = Skipped::new(entry.id.clone(), refusal.message.clone());
                Ok(self.pass_over(skipped.with_kind(Some(kind)).with_until(refusal.until)))
            }
            Err(refusal) => Err(self.own_error(refusal.into_error(entry.id.clone()))),
        }
    }

    /// Passes over a held backend. The hold is the turn's error if no other backend could run it, and it may not wait.
    fn held<T>(&mut self, hold: &Hold) -> Result<Option<T>, TurnError> {
        let now = self.run.holds.now();
        if self.is_alone && !self.resets.may_wait_for(hold, now) {
            return Err(self.own_error(refused_still(hold, now)));
        }
        self.resets.add_held(hold.clone());
        Ok(self.pass_over(held(hold, now)))
    }

    /// Returns the request for the next backend, after the host has reverted the earlier changes or the router has recorded them for
    /// it.
    async fn next_request(&mut self, entry: &ConfiguredBackend) -> Result<TurnRequest, TurnError> {
        let (run, deadline) = (self.run, *self.deadline);
        // Compute the limits only now: the wait for a permit has used part of the deadline.
        let remaining = run.remaining(entry, &self.prior, self.events, deadline);
        let mut request = remaining.map_err(|limit| self.used_up(entry, limit))?;
        run.restore(&mut self.prior, &mut self.passed_over, &entry.id, &self.mark, self.events, deadline)
            .await?;
        let continuation =
            run.hand_over(&mut self.prior, &mut self.base, &entry.id, self.events, deadline).await?;
        // The host's hooks may have used more of the deadline.
        let left = time_left(deadline).map_err(|limit| self.used_up(entry, limit))?;
        request.limits.deadline = left.or(request.limits.deadline);
        if let Some(continuation) = continuation {
            let from = &continuation.failed.backend;
            tracing::info!(backend = %from, to = %entry.id, "the record of the work is passed to the next \
                backend");
            self.prior.continued(&continuation.failed, &mut self.passed_over);
            request.prompt.push(PromptBlock::text(continuation.record));
        }
        // The failed backend already took these inputs, and their senders get no second report. So add them to the prompt.
        request.prompt.extend(self.events.inputs().iter().map(PromptBlock::text));
        Ok(request)
    }

    /// Reports the skipped backends, and withdraws the last attempt's messages. Runs only when another backend starts: otherwise the
    /// messages of the last attempt stay.
    fn announce(&mut self, entry: &ConfiguredBackend) {
        self.events.void_attempt();
        for skipped in self.passed_over.drain(..) {
            tracing::info!(backend = %skipped.backend, to = %entry.id, "falling back to another backend");
            self.events.push(Fallback::new(skipped, entry.id.clone()));
        }
        self.events.begin_attempt();
    }

    /// Runs the turn on one backend, and records its outcome for holds.
    async fn attempt(
        &mut self,
        admitted: AdmittedBackend<'_>,
        request: TurnRequest,
        spending: Option<SpendingAttempt<'_>>,
    ) -> Result<TurnResult, TurnError> {
        let AdmittedBackend { entry, backend, permit, pass } = admitted;
        let began = Instant::now();
        // The router alone waits for resets.
        let host = self.run.host.clone().with_longest_wait(None);
        self.run.has_begun.store(true, Ordering::Relaxed);
        // The session may serve other turns too, so compare its effects before and after the attempt.
        let effects_before = self.run.host.session().effects();
        let turn = async { backend.run_turn(request, host, &mut *self.events).await };
        let outcome = match caught(turn).await {
            Ok(outcome) => outcome,
            Err(panic) => Err(self.run.panicked(entry, &*panic, effects_before, self.events)),
        };
        // Book the attempt before the permit is released, so that the next turn sees its spending.
        if let Some(spending) = spending {
            let warning = spending.end(&outcome, began.elapsed()).await;
            warning.into_iter().for_each(|text| self.events.push(TurnEvent::warning(text)));
        }
        // Release the permit before the next backend of the chain runs.
        drop(permit);
        // Record a refusal even if no other backend takes over, so that the next turn skips this backend.
        match &outcome {
            Ok(_) => pass.succeeded().await,
            Err(error) => pass.failed(error).await,
        }
        outcome
    }

    /// Returns the outcome of the turn, or `None` if the next backend takes over.
    fn conclude(
        &mut self,
        entry: &ConfiguredBackend,
        outcome: Result<TurnResult, TurnError>,
        is_last: bool,
    ) -> Option<Result<TurnResult, TurnError>> {
        let mut error = match outcome {
            Ok(result) if !is_last && self.asks_again && is_silent(&result) => silence(result),
            Ok(mut result) => {
                result.messages.iter_mut().for_each(|message| self.events.rename_message(message));
                result.tool_calls.iter_mut().for_each(|call| self.events.rename_call(call));
                return Some(Ok(mem::take(&mut self.prior).into_result(result)));
            }
            Err(error) => error,
        };
        let partial = error.partial_mut();
        partial.messages.iter_mut().for_each(|message| self.events.rename_message(message));
        partial.tool_calls.iter_mut().for_each(|call| self.events.rename_call(call));
        // If a tool already submitted the answer, do not try another backend.
        let is_submitted = !self.was_submitted && is_submitted(self.run.host.session(), &self.run.request);
        let may_go_on = may_go_on(&error, self.run.route.rule, self.asks_again && !is_last);
        let now = self.run.holds.now();
        let refusal = Hold::of_refusal(&entry.id, &error, now);
        // A backend without an alternative may be tried again under a rule that allows no other backend.
        let may_repeat = may_go_on || error.partial().effects.allow_another_try();
        let may_wait = refusal.as_ref().is_some_and(|hold| self.resets.may_wait_for(hold, now));
        let is_over = if self.is_alone { !(may_repeat && may_wait) } else { !may_go_on };
        if is_submitted || is_over {
            return Some(Err(mem::take(&mut self.prior).into_error(error)));
        }
        // A missing answer leads to one more attempt only. A backend that could not run does not count.
        self.asks_again &= error.kind().could_not_run();
        if let Some(hold) = refusal {
            self.resets.add_refusing(hold);
        }
        self.passed_over.push(self.prior.fail(&entry.id, error, now));
        None
    }

    /// Records that a backend does not run the turn. Returns `None`, so that the caller tries the next one.
    fn pass_over<T>(&mut self, skipped: Skipped) -> Option<T> {
        self.passed_over.push(skipped.clone());
        self.prior.skip(skipped);
        None
    }

    fn used_up(&mut self, entry: &ConfiguredBackend, limit: Limit) -> TurnError {
        self.own_error(TurnError::new(ErrorKind::LimitReached(limit), entry.id.clone()))
    }

    /// Adds the usage and output of earlier attempts to an error of the router itself.
    fn own_error(&mut self, error: TurnError) -> TurnError {
        mem::take(&mut self.prior).into_own_error(error)
    }
}
