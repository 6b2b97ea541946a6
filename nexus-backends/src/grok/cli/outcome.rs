//! Decides the outcome of a turn from its end.
//!
//! Source: observed with grok 1.0.41.

use nexus_core::{ErrorKind, FinishReason, Limit, harness::Failure};

use super::wire;
use crate::cli::TurnOutcome;

/// Returns the outcome of a turn whose last message is `answer`. `at_limit` is true if the CLI reported that it reached
/// its own limit of model calls.
pub(super) fn of_end(end: &wire::End, answer: Option<&str>, at_limit: bool) -> TurnOutcome {
    let failed = |kind, reason: &str| TurnOutcome::Failed(Failure::new(kind, reason));
    let model_calls =
        || failed(ErrorKind::LimitReached(Limit::ModelCalls), "the vendor's program stopped the turn");
    match end.stop_reason.as_str() {
        "end_turn" => {
            if let Some(problem) = &end.structured_output_error {
                return failed(ErrorKind::OutputInvalid, problem);
            }
            let output = end.structured_output.clone().filter(|value| !value.is_null());
            if answer.is_none_or(|text| text.trim().is_empty()) {
                return failed(ErrorKind::Incomplete, "the turn ended without an answer");
            }
            TurnOutcome::Answered { finish: FinishReason::Stop, output }
        }
        "refusal" => failed(ErrorKind::Refused, "the vendor's filter stopped the answer"),
        "max_tokens" => failed(ErrorKind::Incomplete, "the answer reached the output limit"),
        "max_turn_requests" => model_calls(),
        // The CLI also ends a turn as `cancelled` at its own limit; `at_limit` says that it reported the limit.
        "cancelled" if at_limit => model_calls(),
        // The caller did not cancel the turn. A call needed an approval, which ends the whole turn.
        "cancelled" => failed(ErrorKind::ApprovalRequired, "a tool call needed an approval"),
        other => failed(ErrorKind::VendorFailure, &format!("the turn ended with {other:?}")),
    }
}
