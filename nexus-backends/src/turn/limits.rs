//! Which limit of a request a turn has exceeded.

use std::time::Duration;

use nexus_core::{ErrorKind, Limit, Limits, turn::ToolOrigin};

use super::{Failure, TurnLog};

/// The first limit of the request that is exceeded, by the record so far.
pub(crate) fn over_limit(log: &TurnLog, limits: &Limits) -> Option<Failure> {
    let calls = log.recorder.tool_calls().iter().filter(|call| call.origin != ToolOrigin::Hosted).count();
    over_limit_with(calls, log, limits)
}

/// As [`over_limit`], where the record does not show which tool calls count.
pub(crate) fn over_limit_with(calls: usize, log: &TurnLog, limits: &Limits) -> Option<Failure> {
    let recorder = &log.recorder;
    let output_tokens = recorder.usage().all_output_tokens().unwrap_or(0);
    let cost = recorder.cost.map(|cost| cost.usd);
    let limit = if limits.tool_calls.is_some_and(|limit| calls > limit as usize) {
        Limit::ToolCalls
    } else if limits.model_calls.is_some_and(|limit| log.model_calls > limit) {
        Limit::ModelCalls
    } else if limits.output_tokens.is_some_and(|limit| output_tokens > limit) {
        Limit::OutputTokens
    } else if limits.cost.is_some_and(|limit| cost.is_some_and(|cost| cost > limit)) {
        Limit::Cost
    } else {
        return None;
    };
    let reason = match limit {
        Limit::ToolCalls => format!("{calls} calls"),
        Limit::ModelCalls => format!("{} calls", log.model_calls),
        Limit::OutputTokens => format!("{output_tokens} tokens"),
        _ => cost.map(|cost| cost.to_string()).unwrap_or_default(),
    };
    Some(Failure::new(ErrorKind::LimitReached(limit), reason))
}

/// The failure of a turn whose time ran out `elapsed` after it began.
pub(crate) fn out_of_time(kind: ErrorKind, elapsed: Duration) -> Failure {
    Failure::new(kind, format!("after {:.1} s", elapsed.as_secs_f64()))
}
