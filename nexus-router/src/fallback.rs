//! When another backend takes a turn over, and what is carried along from those that tried.
//!
//! The next backend of a chain is tried when one *could not run*, and nothing was written so far. What its
//! error kind says ([`ErrorKind::could_not_run`]) decides, and nothing else:
//!
//! | kind | another backend is tried |
//! | --- | --- |
//! | `NotInstalled`, `Unauthenticated`, `Forbidden`, `BillingMismatch` | yes: this one is not set up for the turn |
//! | `RateLimited`, `UsageLimit`, `Overloaded` | yes, and this one is [held](crate::hold) |
//! | `ModelUnavailable`, `Unsupported`, `ToolsUnavailable` | yes: this one lacks something |
//! | `Transport`, `Crashed`, `Protocol`, `VendorFailure` | yes: it broke |
//! | `Starved` at the start, before the first byte, or by the model | yes: it hangs |
//! | `Exhausted` | yes: a router inside a chain ran out |
//! | `Starved` by a tool | no: the tool would be as slow elsewhere |
//! | `Refused`, `Incomplete`, `OutputInvalid`, `ApprovalRequired` | no: that was an answer |
//! | `InvalidRequest`, `ContextExceeded`, `ConversationLost` | no: the request is what must change |
//! | `LimitReached`, `Cancelled` | no: the caller's own word |
//!
//! # Example
//!
//! `alpha` has used up its plan for an hour. The turn goes to `beta`, its result names who was asked before, and the next turn
//! does not ask `alpha` at all.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use nexus_core::{BuildContext, ErrorKind, Registry, Retry, TurnHost, TurnRequest};
//! use nexus_router::Router;
//! # use nexus_core::{
//! #     AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend, FinishReason, LoopMode, Sandbox,
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
//! #         capabilities.access.scoped_only = AccessSupport::Kept(Sandbox::None);
//! #         capabilities
//! #     }
//! #     async fn probe(&self) -> Availability {
//! #         Availability::ready(None)
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
//! // Both are backends of the program's own; a `Registry` with kinds builds them from the file.
//! let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
//!     .backend(Arc::new(alpha))
//!     .backend(Arc::new(beta))
//!     .from_value(serde_json::json!({
//!         "groups": { "anyone": ["alpha", "beta"] },
//!         // `fallback: never` asks the first one alone; `after-writes` goes on whatever was written.
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
//! println!("alpha is asked again from {:?} on", hold.until);
//! # Ok(())
//! # }
//! ```

use std::time::SystemTime;

use nexus_core::{
    BackendId, Cost, CostSource, Effects, ErrorKind, Retry, Skipped, ToolCallRecord, TurnError, TurnResult,
    Usage, Usd,
};

use crate::{
    config::FallbackRule,
    hold::{later, words_of},
};

/// Whether the turn that failed so may be given to the next backend.
pub(crate) fn may_go_on(error: &TurnError, rule: FallbackRule) -> bool {
    let bears_it = match rule {
        FallbackRule::Never => false,
        FallbackRule::BeforeWrites => error.partial().effects.allow_another_try(),
        FallbackRule::AfterWrites => true,
    };
    bears_it && error.kind().could_not_run()
}

/// What the backends that tried so far have used and left.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) tool_calls: Vec<ToolCallRecord>,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<Cost>,
    effects: Effects,
    skipped: Vec<Skipped>,
    returns: Returns,
    last: Option<TurnError>,
}

/// When the first of those that were passed over comes back.
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

impl Spent {
    /// Notes a backend that was passed over.
    pub(crate) fn skip(&mut self, skipped: Skipped) {
        if let Some(until) = skipped.until {
            self.returns.note(until);
        }
        self.skipped.push(skipped);
    }

    /// Notes a backend that tried in vain.
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
        self.tool_calls.append(&mut partial.tool_calls);
        self.usage = self.usage.plus(&partial.usage);
        self.cost = sum(self.cost, partial.cost);
        self.effects = self.effects.and(partial.effects);
        self.last = Some(error);
        skipped
    }

    /// The result of the backend that ran, with what the others had used.
    pub(crate) fn into_result(self, mut result: TurnResult) -> TurnResult {
        result.tool_calls = joined(self.tool_calls, result.tool_calls);
        result.usage = self.usage.plus(&result.usage);
        result.cost = sum(self.cost, result.cost);
        result.effects = self.effects.and(result.effects);
        result.provenance.skipped = joined(self.skipped, result.provenance.skipped);
        result
    }

    /// The error that ended the turn, with what the others had used.
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

    /// The error of a chain that has nobody left.
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

    /// An error of the router's own. What the last backend said is still on the caller's screen, and so it
    /// is in the error; what it had used is counted already.
    pub(crate) fn into_own_error(mut self, mut error: TurnError) -> TurnError {
        if let Some(mut last) = self.last.take() {
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

/// The sum of what is known. It is an estimate as soon as a part of it is.
fn sum(left: Option<Cost>, right: Option<Cost>) -> Option<Cost> {
    match (left, right) {
        (Some(left), Some(right)) => Some(Cost {
            usd: Usd(left.usd.0 + right.usd.0),
            source: if left.source == CostSource::Estimated { left.source } else { right.source },
        }),
        (one, other) => one.or(other),
    }
}
