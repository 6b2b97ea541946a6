//! Outcome of a turn, from its `result` line and the errors that the CLI reported before it.
//!
//! Neither `subtype: success` nor the exit code proves success. The model's own text is never interpreted. If the CLI
//! reports a failure without a class, a table of sentence beginnings classifies the CLI's message.

use std::time::{Duration, SystemTime};

use nexus_core::{ErrorKind, FinishReason, Limit, ProcessExit, Retry, harness::Failure};
use nexus_files::rfc3339;

use super::wire::{RateLimitInfo, ResultLine};
use crate::cli::ProcessEnd;
use crate::vendor_words::speaks_of_length;

/// Maximum length of a line of standard error in a message, in characters.
const WORDS_CHARACTERS: usize = 300;

/// The CLI's reports of failures before its `result` line.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Error class of the last message that the CLI composed itself.
    pub(super) error: Option<String>,
    /// Rate limit that rejected the last model call.
    pub(super) rejected: Option<RateLimitInfo>,
    /// True if this process resumes an earlier conversation.
    pub(super) resumes: bool,
}

/// Returns the finish reason of an answer, or the failure.
pub(super) fn judge(result: &ResultLine, witness: &Witness) -> Result<FinishReason, Failure> {
    match result.subtype.as_str() {
        "success" if result.is_error => Err(reported(result, witness)),
        "success" => answered(result),
        "error_max_turns" => Err(limit(result, Limit::ModelCalls)),
        "error_max_budget_usd" => Err(limit(result, Limit::Cost)),
        "error_max_structured_output_retries" => Err(Failure::new(ErrorKind::OutputInvalid, words(result))),
        "error_during_execution" => Err(broken_off(result, witness)),
        other => Err(Failure::new(ErrorKind::VendorFailure, format!("{other}: {}", words(result)))),
    }
}

/// Evaluates a result with the subtype `success`.
fn answered(result: &ResultLine) -> Result<FinishReason, Failure> {
    if result.num_turns == Some(0) {
        let reason = format!("the CLI interpreted the prompt as one of its commands: {}", words(result));
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    if result.structured_output.is_some() {
        return Ok(FinishReason::Stop);
    }
    Ok(match result.stop_reason.as_deref() {
        Some("end_turn") => FinishReason::Stop,
        // The stream ended regularly, but without its last event. Observed with claude 2.1.197.
        None => return Err(Failure::new(ErrorKind::Incomplete, "the answer was cut off before its end")),
        Some("stop_sequence") => FinishReason::StopSequence,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("pause_turn") => FinishReason::Paused,
        Some("refusal") => return Err(Failure::new(ErrorKind::Refused, words(result))),
        Some("max_tokens") => {
            return Err(Failure::new(ErrorKind::Incomplete, "the model ran out of output tokens"));
        }
        Some("model_context_window_exceeded") => {
            return Err(Failure::new(ErrorKind::ContextExceeded, words(result)));
        }
        Some(other) => FinishReason::Other(other.to_owned()),
    })
}

/// Returns the failure of a `success` result that is marked as an error.
fn reported(result: &ResultLine, witness: &Witness) -> Failure {
    let kind = if result.stop_reason.as_deref() == Some("refusal") {
        ErrorKind::Refused
    } else {
        by_terminal_reason(result)
            .or_else(|| by_status(result, witness))
            .or_else(|| by_class(witness))
            .unwrap_or_else(|| by_sentence(&words(result)))
    };
    let (kind, named) = match (kind, &witness.rejected) {
        // The CLI also reports a briefly busy server as rejected, but without the fields of a limit.
        (ErrorKind::RateLimited, Some(limit))
            if limit.resets_at.is_some() || limit.rate_limit_type.is_some() =>
        {
            let at =
                limit.resets_at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)));
            (ErrorKind::UsageLimit, at.map(Retry::At))
        }
        (ErrorKind::UsageLimit, _) => (kind, regained_at(&words(result)).map(Retry::At)),
        _ => (kind, None),
    };
    let failure = Failure::new(kind, words(result));
    match kind {
        // Without a status, the failure may be permanent.
        ErrorKind::VendorFailure if result.api_error_status.is_none() => failure.with_retry(Retry::Never),
        _ => failure.with_named_retry(named),
    }
}

/// Beginning of the vendor's message about a limit that the account's owner has set, without the CLI's prefix. Source:
/// public threads about the API's status 400.
const OWN_LIMIT: &str = "You have reached your specified API usage limits";

/// Time at which an account regains access, from "You will regain access on 2026-12-01 at 00:00 UTC". Source:
/// that of [`OWN_LIMIT`].
fn regained_at(words: &str) -> Option<SystemTime> {
    let (_, rest) = words.split_once("regain access on ")?;
    let (date, rest) = rest.split_once(" at ")?;
    let (time, _) = rest.split_once(" UTC")?;
    rfc3339::parse(&format!("{date}T{time}:00Z"))
}

/// Classifies a failure by `terminal_reason`. Source: transcripts `fail_prompt_too_long`, `fail_413`; `blocking_limit`
/// is the CLI's own check before any call, observed with claude 2.1.197 and a prompt of 1 MiB.
fn by_terminal_reason(result: &ResultLine) -> Option<ErrorKind> {
    match result.terminal_reason.as_deref()? {
        "prompt_too_long" | "blocking_limit" => Some(ErrorKind::ContextExceeded),
        "image_error" => Some(ErrorKind::InvalidRequest),
        "aborted_streaming" | "aborted_tools" => Some(ErrorKind::Cancelled),
        _ => None,
    }
}

fn by_status(result: &ResultLine, witness: &Witness) -> Option<ErrorKind> {
    Some(match result.api_error_status? {
        400 if witness.error.as_deref() == Some("billing_error") => ErrorKind::UsageLimit,
        400 if words(result).contains(OWN_LIMIT) => ErrorKind::UsageLimit,
        400 | 413 | 422 if speaks_of_length(&words(result)) => ErrorKind::ContextExceeded,
        401 => ErrorKind::Unauthenticated,
        402 => ErrorKind::UsageLimit,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::ModelUnavailable,
        408 => ErrorKind::Transport,
        429 => ErrorKind::RateLimited,
        400..=499 => ErrorKind::InvalidRequest,
        503 | 529 => ErrorKind::Overloaded,
        _ => ErrorKind::VendorFailure,
    })
}

/// Classifies a failure without a status by the CLI's error class. Ignores `server_error` and `unknown`, because a
/// refused connection also has these classes.
fn by_class(witness: &Witness) -> Option<ErrorKind> {
    match witness.error.as_deref()? {
        "authentication_failed" => Some(ErrorKind::Unauthenticated),
        "billing_error" => Some(ErrorKind::UsageLimit),
        "rate_limit" => Some(ErrorKind::RateLimited),
        "overloaded" => Some(ErrorKind::Overloaded),
        "model_not_found" => Some(ErrorKind::ModelUnavailable),
        "invalid_request" => Some(ErrorKind::InvalidRequest),
        _ => None,
    }
}

/// Beginnings of CLI messages without an error class, and the kinds of their failures.
const SENTENCES: [(&str, ErrorKind); 13] = [
    // Transcript fail_529.
    ("API Error: Repeated 529 Overloaded errors", ErrorKind::Overloaded),
    // Observed with claude 2.1.197 and 2.1.329: an `error` event in the stream, no repeat allowed.
    ("API Error: Overloaded", ErrorKind::Overloaded),
    // Transcripts fail_refused, fail_reset.
    ("API Error: Unable to connect to API", ErrorKind::Transport),
    // Transcript fail_cut_fin_then_ok_CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK1.
    ("API Error: Connection to the API was lost", ErrorKind::Transport),
    // Transcript fail_cut_after_tool, there in the middle of a turn.
    ("API Error: Connection closed mid-response", ErrorKind::Transport),
    // Observed with claude 2.1.329: a cut after a tool call.
    ("API Error: Connection lost mid-response", ErrorKind::Transport),
    // Observed with claude 2.1.329: a reset before the headers.
    ("API Error: Connection dropped", ErrorKind::Transport),
    // Observed with claude 2.1.329: a refused connection.
    ("API Error: Connection refused", ErrorKind::Transport),
    // Observed with claude 2.1.197: a stream that ends in good order without its last event.
    ("API Error: Stream ended without receiving any events", ErrorKind::Transport),
    // Observed with claude 2.1.197 and 2.1.329: a page of HTML with status 200.
    ("API Error: API returned an empty or malformed response (HTTP 200)", ErrorKind::Transport),
    // Observed with claude 2.1.197: no headers within API_TIMEOUT_MS, every time.
    ("Request timed out", ErrorKind::Transport),
    // Transcript fail_max_tokens.
    ("API Error: Claude's response exceeded the", ErrorKind::Incomplete),
    // Observed with claude 2.1.197 and 2.1.329: `model_context_window_exceeded`, four times.
    ("API Error: The model has reached its context window limit", ErrorKind::ContextExceeded),
];

fn by_sentence(sentence: &str) -> ErrorKind {
    let row = SENTENCES.iter().find(|(beginning, _)| sentence.starts_with(beginning));
    row.map_or(ErrorKind::VendorFailure, |(_, kind)| *kind)
}

/// Returns the failure of a turn that was stopped or never began.
fn broken_off(result: &ResultLine, witness: &Witness) -> Failure {
    let kind = match result.terminal_reason.as_deref() {
        Some("aborted_streaming" | "aborted_tools") => ErrorKind::Cancelled,
        // Transcripts session_resume_unknown, session_resume_otherdir.
        None if witness.resumes && result.num_turns == Some(0) => ErrorKind::ConversationLost,
        _ if words(result).starts_with("No conversation found") => ErrorKind::ConversationLost,
        _ => ErrorKind::VendorFailure,
    };
    Failure::new(kind, words(result))
}

/// Returns the failure of a process that ended without a `result` line. The first line of standard error is the reason,
/// if there is any.
pub(super) fn without_record(end: &ProcessEnd<'_>) -> Failure {
    let exit = end.exit.unwrap_or(ProcessExit::Unknown);
    let reason = match end.stderr_tail.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!("{exit}: {}", line.chars().take(WORDS_CHARACTERS).collect::<String>()),
        None => exit.to_string(),
    };
    Failure::new(ErrorKind::Crashed, reason)
}

fn limit(result: &ResultLine, limit: Limit) -> Failure {
    Failure::new(ErrorKind::LimitReached(limit), words(result))
}

/// Returns the CLI's message.
fn words(result: &ResultLine) -> String {
    match &result.result {
        Some(text) => text.clone(),
        None => result.errors.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(value: serde_json::Value) -> ResultLine {
        serde_json::from_value(value).unwrap()
    }

    fn failure(value: serde_json::Value, error: &str) -> Failure {
        let witness = Witness { error: Some(error.to_owned()), ..Witness::default() };
        judge(&result(value), &witness).unwrap_err()
    }

    #[test]
    fn a_status_wins_over_the_class() {
        let value = json!({ "subtype": "success", "is_error": true, "api_error_status": 403, "result": "x" });
        assert_eq!(failure(value, "authentication_failed").kind, ErrorKind::Forbidden);
    }

    #[test]
    fn a_rejected_limit_names_its_end() {
        let value = json!({ "subtype": "success", "is_error": true, "api_error_status": 429, "result": "x" });
        let rejected = RateLimitInfo { resets_at: Some(1_800_000_000), ..RateLimitInfo::default() };
        let witness = Witness { rejected: Some(rejected), ..Witness::default() };
        let failure = judge(&result(value), &witness).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::UsageLimit);
        assert_eq!(failure.retry, Retry::At(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)));
    }

    #[test]
    fn a_rejection_that_names_no_limit_asks_for_patience() {
        let value = json!({ "subtype": "success", "is_error": true, "api_error_status": 429, "result": "x" });
        let witness = Witness { rejected: Some(RateLimitInfo::default()), ..Witness::default() };
        let failure = judge(&result(value), &witness).unwrap_err();
        assert_eq!(
            (failure.kind, failure.retry),
            (ErrorKind::RateLimited, Retry::Guessed(Retry::RATE_LIMIT_GUESS))
        );
    }

    #[test]
    fn a_time_beyond_the_clock_is_no_time() {
        let value = json!({ "subtype": "success", "is_error": true, "api_error_status": 429, "result": "x" });
        let rejected = RateLimitInfo { resets_at: Some(u64::MAX), ..RateLimitInfo::default() };
        let witness = Witness { rejected: Some(rejected), ..Witness::default() };
        assert_eq!(judge(&result(value), &witness).unwrap_err().retry, Retry::Never);
    }

    #[test]
    fn a_limit_that_the_accounts_owner_set_is_a_usage_limit() {
        let words = "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01.";
        let value =
            json!({ "subtype": "success", "is_error": true, "api_error_status": 400, "result": words });
        assert_eq!(failure(value, "invalid_request").kind, ErrorKind::UsageLimit);
    }

    /// A gateway before another vendor's model answers in that vendor's words.
    #[test]
    fn a_conversation_that_is_too_long_is_known_by_its_words() {
        let words = "API Error: 400 This model's maximum context length is 4096 tokens.";
        for status in [400, 413] {
            let value = json!({ "subtype": "success", "is_error": true, "api_error_status": status, "result": words });
            assert_eq!(failure(value, "invalid_request").kind, ErrorKind::ContextExceeded, "{status}");
        }
    }

    #[test]
    fn a_usage_limit_ends_on_the_day_that_the_sentence_names() {
        let words = "API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.";
        let value =
            json!({ "subtype": "success", "is_error": true, "api_error_status": 400, "result": words });
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_083_200);
        assert_eq!(failure(value, "invalid_request").retry, Retry::At(day));
    }

    #[test]
    fn an_answer_without_a_reason_to_stop_is_incomplete() {
        let value = json!({ "subtype": "success", "num_turns": 1, "result": "half", "stop_reason": null });
        assert_eq!(judge(&result(value), &Witness::default()).unwrap_err().kind, ErrorKind::Incomplete);
    }

    #[test]
    fn an_unknown_sentence_is_a_failure_of_the_vendor() {
        let value = json!({ "subtype": "success", "is_error": true, "result": "API Error: surprise" });
        assert_eq!(failure(value, "server_error").kind, ErrorKind::VendorFailure);
    }
}
