//! Fallback: when another backend takes over a turn, and what it receives from the earlier backends.
//!
//! The router tries the next backend of a chain if a backend *could not run* and nothing was written so far. Only the error kind
//! decides ([`ErrorKind::could_not_run`]):
//!
//! | kind | another backend is tried |
//! | --- | --- |
//! | `NotInstalled`, `Unauthenticated`, `Forbidden`, `BillingMismatch` | yes: this one is not set up for the turn |
//! | `RateLimited`, `UsageLimit`, `Overloaded` | yes, and this one is [held](crate::hold) |
//! | `ModelUnavailable`, `Unsupported`, `ToolsUnavailable` | yes: this one lacks something |
//! | `Transport`, `Crashed`, `Protocol`, `VendorFailure` | yes: it failed |
//! | `Starved` at the start, before the first byte, or by the model | yes: it hangs |
//! | `Exhausted` | yes: a router inside a chain has no backend left |
//! | `Starved` by a tool | no: the tool would be as slow elsewhere |
//! | `Refused`, `Incomplete`, `OutputInvalid`, `ApprovalRequired` | no: that was an answer |
//! | `InvalidRequest`, `ContextExceeded`, `ConversationLost` | no: the request must change |
//! | `LimitReached`, `Cancelled` | no: the caller's own decision |
//!
//! # After a write
//!
//! A write of a backend ends the chain, unless the type's rule says otherwise ([`FallbackRule`]). With `continue` the
//! changes stay, and the next backend continues from there:
//!
//! - It gets the same request and, after its prompt, a record of the work: each call with its arguments, its end and its answer,
//!   the earlier text, and the changed files if the host reports them
//!   ([`TurnHost::with_file_changes`](nexus_core::TurnHost::with_file_changes)). The record is JSON, so that no text in it can
//!   imitate another part, and names no backend. A call with an unknown outcome is marked as such.
//! - A call that the session allowed and no backend reported is included as a call with an unknown outcome. Reverted calls are not
//!   included.
//! - No call with possible changes is left out. Arguments and answers are cut so that the record has 64 KiB at most,
//!   and read-only calls are only counted if they do not fit; if that is not enough, the chain ends.
//! - If the work is unknown, the chain ends. That is the case for effects [`Unknown`](Effects::Unknown) and for effects without a
//!   reported call. If the host reports files, it is also the case if files changed although the backend reported no changes.
//! - Effects, calls, tokens and cost of all backends add up, and so do limits.
//! - [`Skipped::handover`] records the handover, in the [`Fallback`](nexus_core::turn::Fallback) event and in the provenance.
//!
//! With `restore` the host first reverts the changes
//! ([`TurnHost::with_before_retry`](nexus_core::TurnHost::with_before_retry)), and each backend starts from the
//! beginning:
//!
//! - The host's hook runs only when the next backend is about to run, and only if the last backend may have changed something with
//!   any tool. Deadline and cancellation apply meanwhile. If the hook fails, the turn ends with the error of the last backend and
//!   the reason, and with effects [`Unknown`](Effects::Unknown).
//! - Effects, in the result and in the [session](nexus_core::Session::effects), are those of the last attempt.
//! - Tool calls of reverted attempts stay in the record, marked ([`ToolCallRecord::is_undone`]), and so do the session's decisions.
//!   Calls count from zero for each backend, for the limit of the turn and the budget of the session. The next backend has to
//!   repeat the work, and could not with the last two of sixty calls. The router tries each backend of the chain once, which limits
//!   the repetitions. Time, tokens and money are spent, so their counts continue.
//! - [`Skipped::handover`] records the restore, in the [`Fallback`](nexus_core::turn::Fallback) event and in the provenance.
//! - A turn whose host cannot revert changes is refused before any backend runs.
//!
//! # Example
//!
//! `alpha` has used up its plan for an hour. The turn goes to `beta`, its result names the backend that failed before,
//! and the next turn skips `alpha`.
//! ```
//! use std::{sync::Arc, time::Duration};
//! use nexus_core::{BuildContext, ErrorKind, Registry, Retry, TurnHost, TurnRequest};
//! use nexus_router::Router;
//! # use nexus_core::{
//! #     AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend, FinishReason, LoopMode, AccessEnforcer,
//! #     TurnError, TurnResult, harness::{Failure, RunningTurn}, turn::MessageEnded,
//! # };
//! # #[derive(Debug)]
//! # struct Scripted(BackendId, Result<&'static str, Retry>);
//! # #[async_trait::async_trait]
//! # impl ExecutionBackend for Scripted {
//! #     fn id(&self) -> &BackendId {
//! #         &self.0
//! #     }
//! #     fn capabilities(&self) -> Capabilities {
//! #         let mut capabilities = Capabilities::new(LoopMode::Native);
//! #         capabilities.system = nexus_core::Support::Yes;
//! #         capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
//! #         capabilities
//! #     }
//! #     async fn probe(&self) -> Availability {
//! #         Availability::ready(None)
//! #     }
//! #     async fn forget(&self, _handle: &nexus_core::ResumeHandle) -> Result<nexus_core::Forgotten, nexus_core::ForgetError> {
//! #         Err(nexus_core::ForgetError::Unsupported { backend: self.0.clone() })
//! #     }
//! #     async fn run_turn(
//! #         &self, request: TurnRequest, host: TurnHost, events: &mut dyn EventSink,
//! #     ) -> Result<TurnResult, TurnError> {
//! #         let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
//! #         let outcome = self.1.map(|text| {
//! #             turn.event(MessageEnded::new("m".into(), text));
//! #             (FinishReason::Stop, None)
//! #         });
//! #         let limited = |retry| Failure::new(ErrorKind::UsageLimit, "the plan is used up").with_retry(retry);
//! #         turn.end(outcome.map_err(limited)).await
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let alpha = Scripted("alpha".into(), Err(Retry::After(Duration::from_secs(3_600))));
//! # let beta = Scripted("beta".into(), Ok("Titan."));
//! // The program brings both backends; a `Registry` with kinds builds them from the file.
//! let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
//!     .backend(Arc::new(alpha))
//!     .backend(Arc::new(beta))
//!     .from_value(serde_json::json!({
//!         "groups": { "anyone": ["alpha", "beta"] },
//!         // With `never`, no other backend takes over after a failure. With `continue`, the next one builds on earlier changes.
//!         "types": { "writer": { "group": "anyone", "fallback": "before-writes" } },
//!     }))?;
//!
//! let result = router.run_text("writer", TurnRequest::new("Name a moon of Saturn.")).await?;
//! assert_eq!(result.text, "Titan.");
//! assert_eq!(result.provenance.backend, "beta".into());
//! let passed_over = &result.provenance.skipped[0];
//! assert_eq!((passed_over.backend.as_str(), passed_over.kind), ("alpha", Some(ErrorKind::UsageLimit)));
//!
//! let hold = &router.holds()[0];
//! assert_eq!((hold.backend.as_str(), hold.guessed), ("alpha", false));
//! println!("alpha is used again from {:?} on", hold.until);
//! # Ok(())
//! # }
//! ```

use std::time::SystemTime;

use nexus_core::{
    BackendId, Cost, Effects, ErrorKind, FailedAttempt, FinishReason, Handover, Limit, Retry, Skipped,
    ToolCallRecord, TurnError, TurnResult, Usage,
};

use crate::{
    config::FallbackRule,
    hold::{later, words_of},
};

/// Returns true if the next backend may take over the failed turn. With `asks_again` a missing answer is also a reason.
pub(crate) fn may_go_on(error: &TurnError, rule: FallbackRule, asks_again: bool) -> bool {
    let bears_it = match rule {
        FallbackRule::Never => false,
        FallbackRule::BeforeWrites => error.partial().effects.allow_another_try(),
        FallbackRule::Continue => error.partial().effects != Effects::Unknown,
        FallbackRule::Restore => true,
    };
    bears_it && (error.kind().could_not_run() || asks_again && may_answer_elsewhere(error.kind()))
}

/// Returns true if another backend may give the missing answer.
fn may_answer_elsewhere(kind: ErrorKind) -> bool {
    match kind {
        // Another model might not repeat the calls. Every other limit applies to it as well.
        ErrorKind::LimitReached(limit) => limit == Limit::RepeatedCalls,
        ErrorKind::InvalidRequest | ErrorKind::ConversationLost | ErrorKind::Cancelled => false,
        _ => true,
    }
}

/// Returns true if an answer is empty. An answer that a tool submitted is not.
pub(crate) fn is_silent(result: &TurnResult) -> bool {
    let is_handed_in = result.finish == FinishReason::Submitted;
    !is_handed_in && result.output.is_none() && result.text.trim().is_empty()
}

/// Converts an empty answer into a failure.
pub(crate) fn silence(result: TurnResult) -> TurnError {
    let mut error = TurnError::new(ErrorKind::Incomplete, result.provenance.backend.clone())
        .with_message("it answered nothing");
    let partial = error.partial_mut();
    (partial.text, partial.messages, partial.tool_calls) = (result.text, result.messages, result.tool_calls);
    (partial.usage, partial.cost, partial.effects) = (result.usage, result.cost, result.effects);
    (partial.resume, partial.provenance) = (result.resume, Some(result.provenance));
    error
}

/// Usage and effects of the backends that the turn tried so far.
#[derive(Debug, Default)]
pub(crate) struct PriorAttempts {
    pub(crate) tool_calls: Vec<ToolCallRecord>,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Cost>,
    /// Effects of attempts that were not reverted.
    effects: Effects,
    skipped: Vec<Skipped>,
    returns: Returns,
    /// The backend that ran last, and its error.
    last: Option<(BackendId, TurnError)>,
    /// Index in `tool_calls` of the first call of the last attempt.
    last_calls: usize,
}

/// Earliest time at which a skipped or failed backend can run again.
#[derive(Clone, Copy, Debug, Default)]
struct Returns {
    now: bool,
    at: Option<SystemTime>,
}

impl Returns {
    fn note(&mut self, at: SystemTime) {
        self.at = Some(self.at.map_or(at, |before| before.min(at)));
    }
}

impl PriorAttempts {
    /// Records a backend that was skipped.
    pub(crate) fn skip(&mut self, skipped: Skipped) {
        if let Some(until) = skipped.until {
            self.returns.note(until);
        }
        self.skipped.push(skipped);
    }

    /// Forgets that the turn passed over these backends, which it tries again. A backend that left work stays: the next one continues
    /// or reverts that work.
    pub(crate) fn reconsider(&mut self, again: &[BackendId], told: &mut Vec<Skipped>) {
        let left_work = self.last.as_ref().filter(|_| !self.last_effects().allow_another_try());
        let left_work = left_work.map(|(backend, _)| backend.clone());
        let stays = |skipped: &Skipped| {
            !again.contains(&skipped.backend)
                || Some(&skipped.backend) == left_work.as_ref()
                || skipped.handover != Handover::Nothing
        };
        self.skipped.retain(stays);
        told.retain(stays);
        self.returns = Returns::default();
    }

    /// Records a backend that ran the turn and failed.
    pub(crate) fn fail(&mut self, backend: &BackendId, mut error: TurnError, now: SystemTime) -> Skipped {
        let until = match error.retry() {
            Retry::Now => {
                self.returns.now = true;
                None
            }
            Retry::At(at) => Some(at),
            other => other.delay(now).map(|wait| later(now, wait)),
        };
        if let Some(until) = until {
            self.returns.note(until);
        }
        let skipped =
            Skipped::new(backend.clone(), words_of(&error)).with_kind(Some(error.kind())).with_until(until);
        self.skipped.push(skipped.clone());

        let partial = error.partial_mut();
        // The calls of this attempt follow those of earlier ones.
        self.last_calls = self.tool_calls.len();
        self.tool_calls.append(&mut partial.tool_calls);
        self.usage = self.usage.plus(&partial.usage);
        self.cost = sum(self.cost, partial.cost);
        self.effects = self.effects.and(partial.effects);
        self.last = Some((backend.clone(), error));
        skipped
    }

    /// Returns the last attempt, if its changes may still exist. `is_handed_in` is true if the attempt submitted an answer.
    pub(crate) fn standing_attempt(&self, next: &BackendId, is_handed_in: bool) -> Option<FailedAttempt> {
        let stands = is_handed_in || !self.effects.allow_another_try();
        self.last_attempt(next).filter(|_| stands)
    }

    /// Records that the host reverted all changes so far. `told` is the list of skipped backends whose events are not sent yet.
    pub(crate) fn put_back(&mut self, failed: &FailedAttempt, told: &mut [Skipped]) {
        self.effects = Effects::None;
        self.tool_calls.iter_mut().for_each(|call| call.is_undone = true);
        self.hand_over(&failed.backend, told, Handover::Restored);
    }

    /// Records that the next backend continues the work so far. A last backend that did nothing has no work to hand over. `told` is
    /// the list of skipped backends whose events are not sent yet.
    pub(crate) fn continued(&mut self, failed: &FailedAttempt, told: &mut [Skipped]) {
        if self.last_calls().next().is_some() || self.last_effects() != Effects::None {
            self.hand_over(&failed.backend, told, Handover::Continued);
        }
    }

    fn hand_over(&mut self, failed: &BackendId, told: &mut [Skipped], handover: Handover) {
        let skipped = self.skipped.iter_mut().chain(told);
        skipped.filter(|skipped| skipped.backend == *failed).for_each(|skipped| skipped.handover = handover);
    }

    /// Returns the last attempt, with or without changes.
    pub(crate) fn last_attempt(&self, next: &BackendId) -> Option<FailedAttempt> {
        let (backend, error) = self.last.as_ref()?;
        Some(FailedAttempt::new(backend.clone(), error.kind(), words_of(error), self.effects, next.clone()))
    }

    /// Returns the effects that the last attempt reported.
    pub(crate) fn last_effects(&self) -> Effects {
        self.last.as_ref().map_or(Effects::None, |(_, error)| error.partial().effects)
    }

    /// Returns the calls that the last attempt reported.
    pub(crate) fn last_calls(&self) -> impl Iterator<Item = &ToolCallRecord> {
        self.tool_calls[self.last_calls..].iter()
    }

    /// Returns the text of the last attempt.
    pub(crate) fn last_words(&self) -> &str {
        self.last.as_ref().map_or("", |(_, error)| &error.partial().text)
    }

    /// Marks the changes as unknown: the host reverted only a part, or a call outside of the record made them.
    pub(crate) fn may_have_changed_more(&mut self) {
        self.effects = Effects::Unknown;
    }

    /// Returns the error of the last backend, with the reason why no other backend took over.
    pub(crate) fn into_last_error(mut self, failed: &FailedAttempt, why: &str) -> TurnError {
        // The returned error itself reports this backend.
        self.skipped.retain(|skipped| skipped.backend != failed.backend);
        let retry = self.last.as_ref().map_or(Retry::Never, |(_, error)| error.retry());
        let error = TurnError::new(failed.kind, failed.backend.clone())
            .with_retry(retry)
            .with_message(format!("{}; {why}", failed.reason));
        self.into_own_error(error)
    }

    /// Returns the result of the backend that ran, with the usage of earlier attempts added.
    pub(crate) fn into_result(self, mut result: TurnResult) -> TurnResult {
        result.tool_calls = joined(self.tool_calls, result.tool_calls);
        result.usage = self.usage.plus(&result.usage);
        result.cost = sum(self.cost, result.cost);
        result.effects = self.effects.and(result.effects);
        result.provenance.skipped = joined(self.skipped, result.provenance.skipped);
        result
    }

    /// Returns the error that ended the turn, with the usage of earlier attempts added.
    pub(crate) fn into_error(self, mut error: TurnError) -> TurnError {
        let partial = error.partial_mut();
        partial.tool_calls = joined(self.tool_calls, std::mem::take(&mut partial.tool_calls));
        partial.usage = self.usage.plus(&partial.usage);
        partial.cost = sum(self.cost, partial.cost);
        partial.effects = self.effects.and(partial.effects);
        if let Some(provenance) = &mut partial.provenance {
            provenance.skipped = joined(self.skipped.clone(), std::mem::take(&mut provenance.skipped));
        }
        let skipped = joined(self.skipped, error.skipped().to_vec());
        error.with_skipped(skipped)
    }

    /// Returns the error of a chain without a remaining backend.
    pub(crate) fn exhausted(self, name: &str) -> TurnError {
        let retry = match (self.returns.now, self.returns.at) {
            (true, _) => Retry::Now,
            (false, Some(at)) => Retry::At(at),
            (false, None) => Retry::Never,
        };
        let reasons = self.skipped.iter().map(|skipped| format!("{}: {}", skipped.backend, skipped.reason));
        let error = TurnError::new(ErrorKind::Exhausted, name.into())
            .with_retry(retry)
            .with_message(reasons.collect::<Vec<_>>().join("; "));
        self.into_own_error(error)
    }

    /// Completes an error of the router itself. The caller still shows the text of the last backend, so the error contains that
    /// text. The usage of that backend is already counted.
    pub(crate) fn into_own_error(mut self, mut error: TurnError) -> TurnError {
        if let Some((_, mut last)) = self.last.take() {
            if let Some(process) = last.process() {
                error = error.with_process(process.clone());
            }
            let shown = std::mem::take(last.partial_mut());
            let partial = error.partial_mut();
            (partial.text, partial.messages) = (shown.text, shown.messages);
            (partial.resume, partial.provenance) = (shown.resume, shown.provenance);
        }
        self.into_error(error)
    }
}

fn joined<T>(mut before: Vec<T>, mut after: Vec<T>) -> Vec<T> {
    before.append(&mut after);
    before
}

/// Returns the sum of the known parts. It is an estimate if a part is an estimate. A negative or invalid sum
/// counts as unknown, because it would enlarge a limit.
fn sum(left: Option<Cost>, right: Option<Cost>) -> Option<Cost> {
    let known = |cost: &Cost| cost.usd.0 >= 0.0;
    match (left.filter(known), right.filter(known)) {
        (Some(left), Some(right)) => Some(left.plus(&right)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{CostSource, Usd};

    use super::*;

    #[test]
    fn no_sum_makes_room_in_a_limit() {
        let cost = |usd| Some(Cost { usd: Usd(usd), source: CostSource::Reported });
        for odd in [-3.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(sum(cost(0.5), cost(odd)), cost(0.5));
            assert_eq!(sum(cost(odd), None), None);
        }
        assert_eq!(sum(cost(0.5), cost(0.25)), cost(0.75));
    }
}
