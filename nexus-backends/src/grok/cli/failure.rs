//! Classifies Grok's message about a failure.
//!
//! The CLI reports no code, only a message, sometimes with JSON in it. A table of beginnings decides; each row names
//! its recording. A message without a row is [`ErrorKind::VendorFailure`].
//!
//! Source: observed with grok 1.0.41.

use nexus_core::{ErrorKind, Retry, harness::Failure};

use super::session_log::TurnEnd;
use super::wire::InternalError;
use crate::vendor_words::{speaks_of_invalid_text, speaks_of_length};

/// Text before the JSON or the quoted text of most messages.
const INTERNAL: &str = "Internal error: ";

/// Beginnings of the CLI's own messages.
const SENTENCES: &[(&str, ErrorKind)] = &[
    ("Not signed in.", ErrorKind::Unauthenticated), // auth-none
    ("You’ve reached your free Grok Build usage limit", ErrorKind::UsageLimit), // 429, subscription:free-usage-exhausted
    ("Couldn't set model", ErrorKind::ModelUnavailable),                        // opt-model-unknown
    ("--effort/--reasoning-effort:", ErrorKind::InvalidRequest),                // opt-effort-none
    ("Couldn't create session:", ErrorKind::InvalidRequest),                    // home-readonly
    ("Couldn't load session", ErrorKind::ConversationLost), // session-resume of an unknown id
];

/// Beginnings of texts after [`INTERNAL`], quoted or as the message in the JSON.
const CAUSES: &[(&str, ErrorKind)] = &[
    ("Unauthorized (401) from", ErrorKind::Unauthenticated), // fail-http-401, midturn-nort-expires-401
    ("Auth recovery succeeded but", ErrorKind::Unauthenticated), // 401 for ever, with a refresh token
    ("response truncated by max_tokens", ErrorKind::Incomplete), // sse-incomplete-length
    ("empty response from model (", ErrorKind::Incomplete),  // fail-empty-answer, fail-empty-text
    ("reqwest error stream:", ErrorKind::Transport),         // fail-refused, fail-cut-rst
    ("serialization error:", ErrorKind::Protocol),           // sse-unknown-event, fail-bad-json-event
];

/// Text before the status, which the server's own message follows.
const STATUS: &str = "API error (status ";

/// The CLI's message for a stream that ended without its last event.
const NO_LAST_EVENT: &str = "No ResponseCompleted or ResponseIncomplete event received"; // fail-cut

/// Beginnings of the server's error codes, with any status.
const CODES: &[(&str, ErrorKind)] = &[
    ("usage_limit", ErrorKind::UsageLimit), // fail-429-session
    ("subscription:free-usage-exhausted", ErrorKind::UsageLimit),
    ("personal-team-blocked:spending-limit", ErrorKind::UsageLimit),
    ("rate_limit", ErrorKind::RateLimited), // fail-error-event
    ("resource-exhausted", ErrorKind::RateLimited),
    ("unauthenticated:bad-credentials", ErrorKind::Unauthenticated),
    ("context_length_exceeded", ErrorKind::ContextExceeded),
    ("overloaded", ErrorKind::Overloaded),
    ("server_is_overloaded", ErrorKind::Overloaded),
];

/// Builds a failure from the CLI's message and the session's record of the turn, if there is a record.
pub(super) fn from_message(message: &str, record: Option<&TurnEnd>) -> Failure {
    let (kind, words) = classify(message);
    // The record reports a request body that is too large as an exceeded context, so ignore it for status 413.
    let is_vague = is_vague(kind) && internal(message).and_then(|inside| inside.http_status) != Some(413);
    let kind = record.and_then(TurnEnd::error_kind).filter(|_| is_vague).unwrap_or(kind);
    let failure = Failure::new(kind, words);
    match kind {
        // Without a server error, the failure may be permanent.
        ErrorKind::VendorFailure if !is_server_error(message) => failure.with_retry(Retry::Never),
        _ => failure.with_named_retry(None),
    }
}

/// Returns the kind of the failure in a message.
#[cfg(feature = "acp")]
pub(in crate::grok) fn kind_of_words(message: &str) -> ErrorKind {
    classify(message).0
}

/// Returns the kind of a retry within the CLI, from the reason in its record.
pub(super) fn kind_of_retry(reason: &str) -> ErrorKind {
    let named = by_cause(reason).or_else(|| by_code(reason));
    named.or_else(|| kind_of_status(status_in(reason)?)).unwrap_or(ErrorKind::VendorFailure)
}

/// Returns true for a kind that the record may specify better.
fn is_vague(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::VendorFailure | ErrorKind::InvalidRequest | ErrorKind::RateLimited)
}

/// Returns true if the server failed: with a status, or with an error within its stream, whose text follows a code.
fn is_server_error(message: &str) -> bool {
    let Some(inside) = internal(message) else { return false };
    let status = inside.http_status.map(u64::from).or_else(|| status_in(&inside.message));
    status.map_or_else(|| is_code_and_text(&inside.message), |status| status >= 500)
}

/// Returns the status before the server's own message.
fn status_in(message: &str) -> Option<u64> {
    message.strip_prefix(STATUS)?.split([' ', ')']).next()?.parse().ok()
}

/// Returns true if the text has the server's form `code: text`.
fn is_code_and_text(words: &str) -> bool {
    words.split_once(": ").is_some_and(|(code, _)| !code.is_empty() && !code.contains(char::is_whitespace))
}

fn by_cause(words: &str) -> Option<ErrorKind> {
    match speaks_of_invalid_text(words) {
        true => Some(ErrorKind::Protocol),
        false => by_beginning(CAUSES, words),
    }
}

fn classify(message: &str) -> (ErrorKind, String) {
    if let Some(kind) = by_beginning(SENTENCES, message) {
        return (kind, message.to_owned());
    }
    if let Some(inside) = internal(message) {
        let kind = match inside.error_kind.as_deref() {
            Some("max_tokens_truncation") => Some(ErrorKind::Incomplete),
            _ => by_cause(&inside.message),
        };
        let kind = kind.or_else(|| by_code(&inside.message)).or_else(|| by_status(&inside));
        return (kind.unwrap_or(ErrorKind::VendorFailure), inside.message);
    }
    // Only the status 429 is reported as the server's plain `code: text`. Source: fail-429, fail-429-session.
    let kind = by_code(message).or_else(|| is_code_and_text(message).then_some(ErrorKind::RateLimited));
    (kind.unwrap_or(ErrorKind::VendorFailure), message.to_owned())
}

/// Parses the part after [`INTERNAL`]: a JSON object, or a JSON string.
fn internal(message: &str) -> Option<InternalError> {
    let inside = message.strip_prefix(INTERNAL)?;
    let quoted = || {
        let text = serde_json::from_str::<String>(inside).unwrap_or_else(|_| inside.to_owned());
        InternalError { message: text, http_status: None, error_kind: None }
    };
    Some(serde_json::from_str::<InternalError>(inside).unwrap_or_else(|_| quoted()))
}

fn by_beginning(table: &[(&str, ErrorKind)], text: &str) -> Option<ErrorKind> {
    table.iter().find(|(beginning, _)| text.starts_with(beginning)).map(|(_, kind)| *kind)
}

/// Classifies the server's message, after removing all statuses that the CLI put before it.
fn by_code(message: &str) -> Option<ErrorKind> {
    let words = server_words(message);
    if words.starts_with(NO_LAST_EVENT) {
        return Some(ErrorKind::Transport);
    }
    if speaks_of_length(words) {
        return Some(ErrorKind::ContextExceeded);
    }
    by_beginning(CODES, words)
}

fn server_words(message: &str) -> &str {
    let mut words = message;
    while let Some((_, rest)) = words.strip_prefix(STATUS).and_then(|rest| rest.split_once("): ")) {
        words = rest;
    }
    words
}

fn by_status(inside: &InternalError) -> Option<ErrorKind> {
    kind_of_status(inside.http_status?.into())
}

fn kind_of_status(status: u64) -> Option<ErrorKind> {
    Some(match status {
        400 | 413 | 422 => ErrorKind::InvalidRequest,
        401 => ErrorKind::Unauthenticated,
        402 => ErrorKind::UsageLimit,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::ModelUnavailable,
        408 => ErrorKind::Transport,
        // The server requires a newer client.
        426 => ErrorKind::Unsupported,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(message: &str) -> Failure {
        from_message(message, None)
    }

    fn of_body(status: u16, message: &str) -> String {
        format!("{INTERNAL}{}", json!({ "message": message, "http_status": status }))
    }

    /// The record calls a body that is too large `context_length`. Source: transcript fail-http-413.
    #[test]
    fn a_request_that_is_too_large_is_no_full_window_unless_the_server_says_so() {
        let record = TurnEnd::of_error("context_length");
        let kind = |message: &str| from_message(&of_body(413, message), Some(&record)).kind;
        assert_eq!(kind("API error (status 413 Payload Too Large): x: fake 413"), ErrorKind::InvalidRequest);
        let words =
            "API error (status 413 Payload Too Large): This model's maximum context length is 4096 tokens.";
        assert_eq!(kind(words), ErrorKind::ContextExceeded);
        let other = from_message(&of_body(400, "API error (status 400 Bad Request): x"), Some(&record));
        assert_eq!(other.kind, ErrorKind::ContextExceeded);
    }

    #[test]
    fn a_conversation_that_is_too_long_is_known_by_its_words() {
        for words in ["Input exceeds the context window of this model.", "greater than the context length"] {
            let message = of_body(400, &format!("API error (status 400 Bad Request): {words}"));
            assert_eq!(failure(&message).kind, ErrorKind::ContextExceeded, "{words}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_a_fault_of_the_protocol() {
        let words = "UTF8 error: invalid utf-8 sequence of 1 bytes from index 5";
        for message in [
            format!("{INTERNAL}\"reqwest error stream: {words}\""),
            of_body(500, &format!("API error (status 500 Internal Server Error): {words}")),
        ] {
            assert_eq!(failure(&message).kind, ErrorKind::Protocol, "{message}");
        }
    }

    /// An error of the server's within a stream: `{"code","error"}` without an envelope.
    #[test]
    fn an_error_within_a_stream_passes_as_one_by_status_does() {
        for message in ["server_error: it broke", "internal: it broke", "API error (status 500): it broke"] {
            let failure = failure(&format!("{INTERNAL}{}", json!(message)));
            assert_eq!(
                (failure.kind, failure.retry),
                (ErrorKind::VendorFailure, Retry::Guessed(Retry::SERVER_GUESS)),
                "{message}"
            );
        }
    }
}
