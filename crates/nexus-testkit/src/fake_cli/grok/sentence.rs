//! Error messages of the vendor's program: a sentence, and no code.

use serde_json::{Value, json};

use super::TRIES;
use crate::sim::StatusFault;

/// The model answered with nothing, twice.
pub(super) const EMPTY: &str = r#"Internal error: "empty response from model (no_visible_content)""#;
/// The stream contained data that is not JSON.
pub(super) const UNREADABLE: &str =
    r#"Internal error: "serialization error: expected value at line 1 column 1""#;

/// The sentence for an HTTP status.
pub(super) fn of_status(fault: &StatusFault) -> String {
    let (code, text) = words(fault);
    let code = fault.code.as_deref().unwrap_or(code);
    let text = fault.message.as_deref().unwrap_or(text);
    match fault.status {
        401 => internal(&Value::String(format!(
            "Unauthorized (401) from http://127.0.0.1/v1/responses: {code}: {text}\n\n  Model:     grok-4.6\n  \
             Auth:      Oidc\n  Version:   1.0.41\n  Available: grok-4.6, grok-4.5"
        ))),
        429 if fault.limit.is_some() => {
            "You’ve reached your free Grok Build usage limit for now. Get SuperGrok for much higher limits, or \
             try again later: https://grok.com/supergrok?referrer=grok-build"
                .to_owned()
        }
        429 => format!("{code}: {text}"),
        status => with_status(status, &format!("{code}: {text}")),
    }
}

/// Number of tries of a model call that gets this answer, with the first.
pub(super) fn tries(fault: &StatusFault) -> u32 {
    match fault.status {
        _ if fault.should_retry == Some(false) => 1,
        429 => 2,
        500.. => TRIES,
        _ => 1,
    }
}

/// The sentence for a stream that reported an error.
pub(super) fn in_stream(code: &str, text: &str) -> String {
    with_status(500, &format!("API error (status 500 Internal Server Error): {code}: {text}"))
}

/// The sentence for a stream that ended without its last event.
pub(super) fn no_last_event() -> String {
    let text = "API error (status 500 Internal Server Error): \
                No ResponseCompleted or ResponseIncomplete event received from Responses API";
    with_status(500, text)
}

/// The sentence for a server that cannot be reached.
pub(super) fn unreachable() -> String {
    let text = "reqwest error stream: error sending request for url (http://127.0.0.1/v1/responses)";
    internal(&Value::String(text.to_owned()))
}

/// The sentence for an answer that reached its bound.
pub(super) fn truncated() -> String {
    internal(&json!({ "message": "response truncated by max_tokens", "error_kind": "max_tokens_truncation" }))
}

/// The sentence for a conversation that outgrew the model.
pub(super) fn too_long() -> String {
    with_status(400, "invalid-argument: This model's maximum prompt length is 500000 tokens")
}

fn with_status(status: u16, text: &str) -> String {
    let name = match status {
        400 => "Bad Request",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "<unknown status code>",
    };
    let message = format!("API error (status {status} {name}): {text}");
    internal(&json!({ "message": message, "http_status": status }))
}

fn internal(inside: &Value) -> String {
    format!("Internal error: {inside:#}")
}

/// The server's code and sentence.
fn words(fault: &StatusFault) -> (&'static str, &'static str) {
    match fault.status {
        _ if fault.overloaded => ("The service is currently unavailable", "The model is at capacity."),
        400 => ("invalid-argument", "Simulated invalid request."),
        401 => ("unauthenticated:bad-credentials", "Simulated refusal of the access token."),
        402 => ("personal-team-blocked:spending-limit", "Simulated spending limit."),
        403 => ("permission-denied", "Simulated lack of permission."),
        404 => ("not-found", "Simulated unknown model."),
        429 => ("resource-exhausted", "Too many requests, please slow down."),
        _ => ("internal", "Simulated server error."),
    }
}
