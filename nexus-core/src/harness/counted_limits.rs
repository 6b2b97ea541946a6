//! Checks the record of a turn against the counted limits of its request.

use crate::{ErrorKind, Limit, Limits, turn::ToolOrigin};

use super::{Failure, TurnLog};

/// Returns the first counted limit that the record exceeds, as [`ErrorKind::LimitReached`]. The order is: tool calls, model
/// calls, output tokens, cost. A limit of `n` is exceeded by `n + 1`. Tool calls of the vendor's own servers
/// ([`ToolOrigin::Hosted`]) do not count. Usage and cost that the vendor does not report count as zero.
pub fn over_limit(log: &TurnLog, limits: &Limits) -> Option<Failure> {
    let calls = log.recorder.tool_calls().iter().filter(|call| call.origin != ToolOrigin::Hosted).count();
    over_limit_with(calls, log, limits)
}

/// Like [`over_limit`], with `calls` tool calls, for a record that does not show which calls count.
pub fn over_limit_with(calls: usize, log: &TurnLog, limits: &Limits) -> Option<Failure> {
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
