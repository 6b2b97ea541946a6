//! A turn with its route, and the checks of limits, holds and needs that decide which backend may run it.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    task::Poll,
    time::{Duration, SystemTime},
};

use nexus_core::{
    BackendId, Effects, ErrorKind, ExecutionBackend, Limit, Retry, Session, Skipped, ToolCallRecord,
    TurnError, TurnEvent, TurnHost, TurnRequest, Usd, turn::ToolOrigin,
};
use tokio::time::{Instant, sleep_until};

use crate::{
    attempt::TurnEvents,
    binding::Binding,
    config::{Configuration, ConfiguredBackend, EntryState, FallbackRule},
    fallback::PriorAttempts,
    hold::{Hold, Holds},
    payer_notices::PayerNotices,
    queue::Queues,
    spending::Spending,
};

/// Configuration, binding and rules for a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRoute<'a> {
    pub(crate) configuration: &'a Configuration,
    /// Name of the work-kind, the seat or the only backend. The router's own errors use it.
    pub(crate) name: &'a str,
    pub(crate) binding: &'a Binding,
    pub(crate) rule: FallbackRule,
    /// True if the next backend runs once after a missing answer.
    pub(crate) asks_again: bool,
}

/// A turn with its route, request and host.
pub(crate) struct Run<'a> {
    pub(crate) route: TurnRoute<'a>,
    pub(crate) holds: &'a Arc<Holds>,
    pub(crate) queues: &'a Queues,
    pub(crate) payer_notices: &'a PayerNotices,
    pub(crate) spending: Option<&'a Spending>,
    /// The caller's request.
    pub(crate) request: TurnRequest,
    pub(crate) host: TurnHost,
    /// True once a backend has received the turn.
    pub(crate) has_begun: AtomicBool,
}

impl Run<'_> {
    /// Returns the error of a backend that panicked. Its shown output comes from its events. Its possible
    /// effects come from the calls that it reported and from calls that reached the caller's session.
    pub(crate) fn panicked(
        &self,
        entry: &ConfiguredBackend,
        panic: &(dyn Any + Send),
        before: Effects,
        events: &mut TurnEvents<'_>,
    ) -> TurnError {
        let words = words_of_panic(panic);
        let mut recorder = events.take_record();
        let since = self.host.session().effects();
        // The session cannot tell the calls of this turn from those of its other turns, so all of them count.
        recorder.add_effects(if since == before { Effects::None } else { since });
        TurnError::new(ErrorKind::Crashed, entry.id.clone())
            .with_message(format!("the backend panicked: {words}"))
            .with_partial(recorder.into_partial())
    }

    /// Returns the backends that may run the turn: the whole chain, or the backend that [continues] its conversation.
    ///
    /// [continues]: Configuration::resumer
    pub(crate) fn candidates(&self) -> Result<Vec<&Arc<ConfiguredBackend>>, TurnError> {
        let configuration = self.route.configuration;
        let Some(handle) = self.request.conversation.handle() else {
            return Ok(configuration.chain(self.route.binding).collect());
        };
        let candidates: Vec<_> = configuration.resumer(self.route.binding, handle).into_iter().collect();
        if candidates.is_empty() {
            let message = format!(
                "the conversation belongs to {}, which is not in the group {}",
                handle.backend(),
                self.route.binding.group
            );
            return Err(TurnError::new(ErrorKind::InvalidRequest, BackendId::new(self.route.name))
                .with_message(message));
        }
        Ok(candidates)
    }

    /// Returns the reason why an entry is skipped, as far as it is known before the turn waits for a permit. A
    /// backend that is alone in its chain checks the request itself.
    pub(crate) async fn standing_reason<'e>(
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

    /// Returns the request for one backend, with the binding's choices and the limits that earlier attempts
    /// left.
    pub(crate) fn remaining(
        &self,
        entry: &ConfiguredBackend,
        spent: &PriorAttempts,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<TurnRequest, Limit> {
        self.payer_notices.report(&entry.id);
        let mut request = self.route.binding.apply(self.request.clone(), &entry.id);
        let has_efforts = entry.backend().is_some_and(|backend| !backend.capabilities().efforts.is_empty());
        // A binding serves a whole chain, so a backend without efforts ignores its effort. The caller's own
        // effort stays.
        if self.request.effort.is_none() && request.effort.is_some() && !has_efforts {
            request.effort = None;
            events.push(TurnEvent::warning(format!(
                "{} has no effort setting: the effort is left out",
                entry.id
            )));
        }
        let limits = &mut request.limits;
        limits.deadline = time_left(deadline)?.or(limits.deadline);
        // If the host reverts all changes, the backend has to repeat the work, so calls count from zero.
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

/// Returns the output of `future`, or its panic.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // `AssertUnwindSafe` is sound here: nothing of the future is used after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

/// Returns the message of a panic.
pub(crate) fn words_of_panic(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// Returns the number of calls that count for the limit on tool calls. Calls that a server made itself and the
/// caller's terminal tools do not count.
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

/// Returns the remainder of a limit; `None` if the limit is used up.
fn left_of<T: Copy + PartialOrd + std::ops::Sub<Output = T> + Default>(limit: T, used: T) -> Option<T> {
    // Without usage, a limit of zero stays too, and the backend enforces it.
    if used == T::default() {
        return Some(limit);
    }
    (used < limit).then(|| limit - used)
}

/// Returns the time until a deadline.
pub(crate) fn time_left(deadline: Option<Instant>) -> Result<Option<Duration>, Limit> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) { Err(Limit::Deadline) } else { Ok(left) }
}

/// Reason why a backend is skipped.
pub(crate) enum Passed {
    Held(Hold),
    Over(Skipped),
}

impl Passed {
    pub(crate) fn into_skipped(self, now: SystemTime) -> Skipped {
        match self {
            Self::Held(hold) => held(&hold, now),
            Self::Over(skipped) => skipped,
        }
    }
}

/// Returns the refusal that caused a hold. The message says that the backend was not asked, so that it differs
/// from a new refusal.
pub(crate) fn refused_still(hold: &Hold, now: SystemTime) -> TurnError {
    TurnError::new(hold.kind, hold.backend.clone())
        .with_retry(Retry::At(hold.until))
        .with_message(format!("not asked, since an earlier turn was refused: {}", hold.spoken(now)))
        .with_skipped(vec![held(hold, now)])
}

pub(crate) fn held(hold: &Hold, now: SystemTime) -> Skipped {
    Skipped::new(hold.backend.clone(), hold.spoken(now))
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
