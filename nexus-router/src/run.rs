//! One turn down a chain of backends, to its end.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use nexus_core::{
    BackendId, Effects, ErrorKind, EventSink, ExecutionBackend, Limit, PromptBlock, Retry, Session, Skipped,
    ToolCallRecord, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usd,
    harness::is_submitted,
    turn::{Fallback, ToolOrigin},
};
use tokio::time::{Instant, sleep_until};

use crate::{
    attempt::TurnEvents,
    binding::Binding,
    config::{Configuration, ConfiguredBackend, EntryState, FallbackRule},
    fallback::{PriorAttempts, is_silent, may_go_on, silence},
    hold::{Admission, Hold, Holds},
    queue::Queues,
};

/// Route of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRoute<'a> {
    pub(crate) configuration: &'a Configuration,
    /// The name of the work-kind, of the seat or of the only backend, for errors that no single backend made.
    pub(crate) name: &'a str,
    pub(crate) binding: &'a Binding,
    pub(crate) rule: FallbackRule,
    /// Whether one that gives no answer is followed by another backend, once.
    pub(crate) asks_again: bool,
}

/// A turn on its route.
pub(crate) struct Run<'a> {
    pub(crate) route: TurnRoute<'a>,
    pub(crate) holds: &'a Arc<Holds>,
    pub(crate) queues: &'a Queues,
    /// As the caller made it.
    pub(crate) request: TurnRequest,
    pub(crate) host: TurnHost,
    /// Whether a backend was given the turn.
    pub(crate) has_begun: AtomicBool,
}

impl Run<'_> {
    /// Runs the turn, whatever the budget.
    pub(crate) async fn run_unbudgeted(&self, sink: &mut dyn EventSink) -> Result<TurnResult, TurnError> {
        let started = Instant::now();
        let deadline = self.request.limits.deadline.and_then(|limit| started.checked_add(limit));
        let mut events = TurnEvents::new(sink, started);
        let outcome = self.go_down_the_chain(&mut events, deadline).await;
        // Events of the router's own may still wait for the sink, and none follows the return: they are sent now, or not at all.
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

    async fn go_down_the_chain(
        &self,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<TurnResult, TurnError> {
        self.check_restore()?;
        let chain = self.candidates()?;
        let mut spent = PriorAttempts::default();
        let mut passed_over: Vec<Skipped> = Vec::new();
        for gone in
            self.route.binding.chain.iter().filter(|id| !self.route.configuration.backends.contains_key(*id))
        {
            let skipped = Skipped::new(gone.clone(), "it is not in the configuration");
            passed_over.push(skipped.clone());
            spent.skip(skipped);
        }
        let mut base = self.handover_base(events, deadline).await?;
        let mark = self.host.session().mark();
        let was_handed_in = self.host.session().is_handed_in();
        let mut asks_again = self.route.asks_again;
        // With nobody to fall back to, the backend's own error says more than that the chain ran out.
        let is_alone = chain.len() == 1;
        for entry in &chain {
            if self.host.cancel.is_cancelled() {
                return Err(spent.into_own_error(TurnError::new(ErrorKind::Cancelled, entry.id.clone())));
            }
            let backend = match self.standing_reason(entry, is_alone).await {
                Ok(backend) => backend,
                Err(Passed::Held(hold)) if is_alone => return Err(refused_still(&hold)),
                Err(passed) => {
                    let skipped = passed.into_skipped();
                    passed_over.push(skipped.clone());
                    spent.skip(skipped);
                    continue;
                }
            };
            let place = match self.place(entry, events, deadline).await {
                Ok(place) => place,
                Err(kind) => return Err(spent.into_own_error(TurnError::new(kind, entry.id.clone()))),
            };
            // Asked again after the wait for a permit, in which another turn may have been refused.
            let pass = match self.holds.admit(&entry.id).await {
                Admission::Open(pass) => pass,
                Admission::Held(hold) if is_alone => return Err(refused_still(&hold)),
                Admission::Held(hold) => {
                    let skipped = held(&hold);
                    passed_over.push(skipped.clone());
                    spent.skip(skipped);
                    continue;
                }
            };
            // Not before: the wait has used up a part of the deadline.
            let used_up = |limit| TurnError::new(ErrorKind::LimitReached(limit), entry.id.clone());
            let mut request = match self.remaining(entry, &spent, events, deadline) {
                Ok(request) => request,
                Err(limit) => return Err(spent.into_own_error(used_up(limit))),
            };
            self.restore(&mut spent, &mut passed_over, &entry.id, &mark, events, deadline).await?;
            let continuation = self.hand_over(&mut spent, &mut base, &entry.id, events, deadline).await?;
            // The host may have taken its time.
            match time_left(deadline) {
                Ok(left) => request.limits.deadline = left.or(request.limits.deadline),
                Err(limit) => return Err(spent.into_own_error(used_up(limit))),
            }
            if let Some(continuation) = continuation {
                let from = &continuation.failed.backend;
                tracing::info!(backend = %from, to = %entry.id, "what was done is handed over");
                spent.continued(&continuation.failed, &mut passed_over);
                request.prompt.push(PromptBlock::text(continuation.record));
            }
            // It was delivered to one that is gone, and whoever said it is told nothing more.
            request.prompt.extend(events.inputs().iter().map(PromptBlock::text));
            // Only now does another backend run. Where none does, what the last one showed stays, and is in the error.
            events.void_attempt();
            for skipped in passed_over.drain(..) {
                tracing::info!(backend = %skipped.backend, to = %entry.id, "another backend takes over");
                events.push(Fallback::new(skipped, entry.id.clone()));
            }
            events.begin_attempt();
            self.has_begun.store(true, Ordering::Relaxed);
            let before = self.host.session().effects();
            let turn = async { backend.run_turn(request, self.host.clone(), &mut *events).await };
            let outcome = match caught(turn).await {
                Ok(outcome) => outcome,
                Err(panic) => Err(self.panicked(entry, &*panic, before, events)),
            };
            // Another backend of the chain must not run with this one's permit.
            drop(place);
            let is_last = chain.last().is_some_and(|last| last.id == entry.id);
            let mut error = match outcome {
                Ok(mut result) => {
                    pass.succeeded().await;
                    if is_last || !asks_again || !is_silent(&result) {
                        result.messages.iter_mut().for_each(|message| events.rename_message(message));
                        result.tool_calls.iter_mut().for_each(|call| events.rename_call(call));
                        return Ok(spent.into_result(result));
                    }
                    silence(result)
                }
                Err(error) => {
                    // Also where no other backend takes over: the next turn need not meet the same refusal.
                    pass.failed(&error).await;
                    error
                }
            };
            let partial = error.partial_mut();
            partial.messages.iter_mut().for_each(|message| events.rename_message(message));
            partial.tool_calls.iter_mut().for_each(|call| events.rename_call(call));
            // An answer that was handed in is not asked for again.
            let is_handed_in = !was_handed_in && is_submitted(self.host.session(), &self.request);
            if is_alone || is_handed_in || !may_go_on(&error, self.route.rule, asks_again && !is_last) {
                return Err(spent.into_error(error));
            }
            asks_again &= error.kind().could_not_run();
            passed_over.push(spent.fail(&entry.id, error, self.holds.now()));
        }
        Err(spent.exhausted(self.route.name))
    }

    /// The error of a backend that panicked. What it had shown is known, and what it may have changed: by the calls that it
    /// told of, and by those that reached the caller's session.
    fn panicked(
        &self,
        entry: &ConfiguredBackend,
        panic: &(dyn Any + Send),
        before: Effects,
        events: &mut TurnEvents<'_>,
    ) -> TurnError {
        let words = words_of_panic(panic);
        let mut recorder = events.take_record();
        let since = self.host.session().effects();
        // Calls of other turns of the session count as well: which of them were this turn's is not told apart.
        recorder.add_effects(if since == before { Effects::None } else { since });
        TurnError::new(ErrorKind::Crashed, entry.id.clone())
            .with_message(format!("the backend panicked: {words}"))
            .with_partial(recorder.into_partial())
    }

    /// The backends that may run the turn: the whole chain, or the one that holds its conversation.
    fn candidates(&self) -> Result<Vec<&Arc<ConfiguredBackend>>, TurnError> {
        let chain = self.route.configuration.chain(self.route.binding);
        let Some(handle) = self.request.conversation.handle() else {
            return Ok(chain.collect());
        };
        let own: Vec<_> = chain.filter(|entry| entry.id == *handle.backend()).collect();
        if own.is_empty() {
            let message = format!(
                "the conversation is one of {}, which is not in the group {}",
                handle.backend(),
                self.route.binding.group
            );
            return Err(TurnError::new(ErrorKind::InvalidRequest, BackendId::new(self.route.name))
                .with_message(message));
        }
        Ok(own)
    }

    /// Why an entry is not tried, as far as that is known before a place is asked for. A backend that is alone
    /// judges itself whether it can do what the request asks.
    async fn standing_reason<'e>(
        &self,
        entry: &'e ConfiguredBackend,
        is_alone: bool,
    ) -> Result<&'e Arc<dyn ExecutionBackend>, Passed> {
        let skipped = |reason: String| Skipped::new(entry.id.clone(), reason);
        if let Some(reason) = &entry.parked {
            return Err(Passed::Over(skipped(format!("parked: {reason}"))));
        }
        let backend = match &entry.state {
            EntryState::Built(backend) => backend,
            EntryState::Absent(reason) => return Err(Passed::Over(skipped(reason.clone()))),
        };
        if let Some(hold) = self.holds.look(&entry.id).await
            && hold.is_standing(self.holds.now())
        {
            return Err(Passed::Held(hold));
        }
        match backend.capabilities().unmet(&self.request, self.host.session().definitions()).first() {
            Some(need) if !is_alone => {
                let skipped = skipped(format!("does not support {need}"));
                Err(Passed::Over(skipped.with_kind(Some(ErrorKind::Unsupported))))
            }
            _ => Ok(backend),
        }
    }

    /// The request for one backend: with the binding's choices, and with what the others left of its limits.
    fn remaining(
        &self,
        entry: &ConfiguredBackend,
        spent: &PriorAttempts,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<TurnRequest, Limit> {
        let mut request = self.route.binding.apply(self.request.clone());
        let has_efforts = entry.backend().is_some_and(|backend| !backend.capabilities().efforts.is_empty());
        if self.request.effort.is_none() && request.effort.is_some() && !has_efforts {
            request.effort = None;
            events.push(TurnEvent::warning(format!("{} has no effort to set: it is left out", entry.id)));
        }
        let limits = &mut request.limits;
        limits.deadline = time_left(deadline)?.or(limits.deadline);
        // Where the host puts everything back, the work is to be done again.
        if let Some(calls) = &mut limits.tool_calls
            && self.route.rule != FallbackRule::Restore
        {
            let used = counted(&spent.tool_calls, self.host.session());
            *calls = left_of(*calls, used).ok_or(Limit::ToolCalls)?;
        }
        if let Some(tokens) = &mut limits.output_tokens {
            let used = spent.usage.all_output_tokens().unwrap_or(0);
            *tokens = left_of(*tokens, used).ok_or(Limit::OutputTokens)?;
        }
        if let (Some(limit), Some(cost)) = (&mut limits.cost, spent.cost) {
            let left = limit.0 - cost.usd.0;
            if left <= 0.0 {
                return Err(Limit::Cost);
            }
            *limit = Usd(left);
        }
        Ok(request)
    }
}

/// What `future` comes to, or what it panicked with.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // After a panic nothing of the future is used again.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// What a panic says.
pub(crate) fn words_of_panic(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// Calls that count for the limit on tool calls: neither those that a server made by itself, nor those of terminal
/// tools of the caller's.
fn counted(calls: &[ToolCallRecord], session: &Session) -> u32 {
    let is_terminal =
        |name: &str| session.definitions().iter().any(|tool| tool.terminal && tool.name == name);
    let counts = |call: &&ToolCallRecord| match call.origin {
        ToolOrigin::Hosted => false,
        ToolOrigin::Caller => !is_terminal(&call.name),
        _ => true,
    };
    u32::try_from(calls.iter().filter(counts).count()).unwrap_or(u32::MAX)
}

/// What is left of a limit; `None` if others used it up.
fn left_of<T: Copy + PartialOrd + std::ops::Sub<Output = T> + Default>(limit: T, used: T) -> Option<T> {
    if used == T::default() {
        return Some(limit);
    }
    (used < limit).then(|| limit - used)
}

/// What is left until a deadline.
fn time_left(deadline: Option<Instant>) -> Result<Option<Duration>, Limit> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) { Err(Limit::Deadline) } else { Ok(left) }
}

/// Why a backend is passed over.
enum Passed {
    Held(Hold),
    Over(Skipped),
}

impl Passed {
    fn into_skipped(self) -> Skipped {
        match self {
            Self::Held(hold) => held(&hold),
            Self::Over(skipped) => skipped,
        }
    }
}

/// The refusal that holds a backend, once more.
fn refused_still(hold: &Hold) -> TurnError {
    TurnError::new(hold.kind, hold.backend.clone())
        .with_retry(Retry::At(hold.until))
        .with_message(hold.reason.clone())
        .with_skipped(vec![held(hold)])
}

fn held(hold: &Hold) -> Skipped {
    Skipped::new(hold.backend.clone(), hold.reason.clone())
        .with_kind(Some(hold.kind))
        .with_until(Some(hold.until))
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{Effects, Recorder, Tool, Toolbox, turn::ToolCallStarted};

    use super::*;

    #[test]
    fn an_answer_that_was_handed_in_and_calls_of_a_server_cost_the_next_backend_nothing() {
        let tools = Toolbox::new()
            .with(Tool::without_arguments("look", "", || async {}))
            .with(Tool::without_arguments("submit", "", || async {}).terminal());
        let host = TurnHost::new().with_tools(Arc::new(tools));
        let mut recorder = Recorder::new();
        for (call, name, origin) in [
            ("1", "look", ToolOrigin::Caller),
            ("2", "submit", ToolOrigin::Caller),
            ("3", "submit", ToolOrigin::Harness),
            ("4", "web_search", ToolOrigin::Hosted),
        ] {
            recorder.observe(&ToolCallStarted::new(call.into(), name, origin, Effects::None).into());
        }
        assert_eq!(counted(recorder.tool_calls(), host.session()), 2);
    }
}
