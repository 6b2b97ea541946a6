//! Classifies an agent's errors.

use agent_client_protocol_schema::v1::AuthMethod;
use nexus_core::{ErrorKind, harness::Failure};
use serde::Deserialize;
use serde_json::Value;

use super::sign_in::AgentLogin;
use crate::vendor_words::{speaks_of_invalid_text, speaks_of_length};

/// JSON-RPC error.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    code: i64,
    message: String,
    data: Value,
}

/// "Authentication required". Source: the protocol, error codes.
const AUTHENTICATION_REQUIRED: i64 = -32000;
/// "Resource not found", as of a session. Source: the protocol, error codes.
const NOT_FOUND: i64 = -32002;
/// Code of one agent for an exceeded rate limit of its server. Source: observed with one of the known agents.
const RATE_LIMITED: i64 = -32003;
/// "Method not found". Source: JSON-RPC 2.0.
const NO_METHOD: i64 = -32601;

/// Classifies an agent's own error messages.
pub(super) type OwnWords = fn(&str) -> Option<ErrorKind>;

/// Request that the agent rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedRequest {
    /// A request that prepares the turn.
    Setup,
    /// A request that resumes a conversation.
    Resume,
    /// The request with the prompt.
    Prompt,
}

/// Classifies an error. The protocol defines the codes; messages and numbers beyond them differ between agents.
///
/// `sign_in` is the agent's login and the sign-in methods that it offers, for a message to a person who must sign in.
pub(super) fn of(
    error: &RpcError,
    refused: RefusedRequest,
    sign_in: (&AgentLogin, &[AuthMethod]),
    own: OwnWords,
) -> Failure {
    let data = match &error.data {
        Value::Null => String::new(),
        Value::String(text) => format!(": {text}"),
        other => format!(": {other}"),
    };
    let words = format!("{}{data}", error.message);
    let kind = match error.code {
        AUTHENTICATION_REQUIRED => ErrorKind::Unauthenticated,
        NOT_FOUND if refused == RefusedRequest::Resume => ErrorKind::ConversationLost,
        RATE_LIMITED => own(&words).unwrap_or(ErrorKind::RateLimited),
        NO_METHOD => ErrorKind::Unsupported,
        // Some agents use HTTP status codes as error codes.
        400 | 413 | 422 if speaks_of_length(&words) => ErrorKind::ContextExceeded,
        code @ 400..600 => by_status(u16::try_from(code).unwrap_or_default()),
        _ => match own(&words).or_else(|| by_words(&words)) {
            Some(kind) => kind,
            // The failure counts as temporary only if the server is known to be the cause.
            None => {
                let kind = match refused {
                    RefusedRequest::Setup => ErrorKind::InvalidRequest,
                    RefusedRequest::Resume => ErrorKind::ConversationLost,
                    RefusedRequest::Prompt => ErrorKind::VendorFailure,
                };
                return Failure::new(kind, words);
            }
        },
    };
    // No agent states a time for a retry.
    let advice = (kind == ErrorKind::Unauthenticated).then(|| sign_in.0.advice(sign_in.1)).flatten();
    let words = match advice {
        Some(advice) => format!("{words}; {advice}"),
        None => words,
    };
    Failure::new(kind, words).with_named_retry(None)
}

/// Classifies an error by its message. Agents include HTTP status codes, or their own text if the server sent no
/// status.
fn by_words(words: &str) -> Option<ErrorKind> {
    let words = words.to_lowercase();
    let has = |part: &str| words.contains(part);
    let status = words
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter_map(|word| word.parse::<u16>().ok())
        .find(|status| {
            matches!(status, 400 | 401 | 402 | 403 | 404 | 408 | 413 | 422 | 429 | 500..=504 | 529)
        });
    if has("usage limit") || has("quota") || has("insufficient credit") || has("credit balance") {
        return Some(ErrorKind::UsageLimit);
    }
    if has("context window") || has("context length") || speaks_of_length(&words) {
        return Some(ErrorKind::ContextExceeded);
    }
    if speaks_of_invalid_text(&words) {
        return Some(ErrorKind::Protocol);
    }
    if has("content_filter") {
        return Some(ErrorKind::Refused);
    }
    if has("max_output_tokens") || has("max_tokens") {
        return Some(ErrorKind::Incomplete);
    }
    if has("invalid_request_error") {
        return Some(ErrorKind::InvalidRequest);
    }
    if let Some(status) = status {
        return Some(by_status(status));
    }
    let table = [
        (&["rate limit", "too many requests"][..], ErrorKind::RateLimited),
        (&["overloaded", "high demand", "at capacity"], ErrorKind::Overloaded),
        (
            &[
                "unauthorized",
                "unauthenticated",
                "authentication",
                "api key",
                "missing environment variable",
                "log in",
                "login",
            ],
            ErrorKind::Unauthenticated,
        ),
        (
            &[
                "model not found",
                "model_not_found",
                "unknown model",
                "model is not supported",
                "does not exist",
                "may not exist",
            ],
            ErrorKind::ModelUnavailable,
        ),
        (
            &[
                "malformed response",
                "stream ended",
                "stream closed",
                "connection",
                "network error",
                "econnrefused",
                "transport error",
                "error sending request",
                "idle timeout",
            ],
            ErrorKind::Transport,
        ),
    ];
    let kind = table.into_iter().find(|(parts, _)| parts.iter().any(|part| has(part))).map(|(_, kind)| kind);
    // No known cause follows the prefix, so the server reported an error of its own in the stream.
    kind.or_else(|| has("stream disconnected before completion: ").then_some(ErrorKind::VendorFailure))
}

fn by_status(status: u16) -> ErrorKind {
    match status {
        400 | 413 | 422 => ErrorKind::InvalidRequest,
        401 => ErrorKind::Unauthenticated,
        402 => ErrorKind::UsageLimit,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::ModelUnavailable,
        408 => ErrorKind::Transport,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        _ => ErrorKind::VendorFailure,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::agent::any_kind;

    fn kind(code: i64, message: &str, data: Value) -> ErrorKind {
        let error = RpcError { code, message: message.to_owned(), data };
        of(&error, RefusedRequest::Prompt, (&AgentLogin::Lent, &[]), any_kind).kind
    }

    /// Source: what agents answered when their model's server failed.
    #[test]
    fn what_agents_say_of_their_servers_is_understood() {
        let internal = "Internal error";
        let codex = |message: &str| json!({ "message": message, "codex_error_info": "other" });
        for (code, message, data, expected) in [
            (-32000, "Authentication required", json!(null), ErrorKind::Unauthenticated),
            (401, "fake error 401", json!(null), ErrorKind::Unauthenticated),
            (500, "fake", json!(null), ErrorKind::VendorFailure),
            (502, "fake", json!(null), ErrorKind::VendorFailure),
            (504, "fake", json!(null), ErrorKind::VendorFailure),
            (503, "fake", json!(null), ErrorKind::Overloaded),
            (529, "fake", json!(null), ErrorKind::Overloaded),
            (408, "fake", json!(null), ErrorKind::Transport),
            (413, "fake", json!(null), ErrorKind::InvalidRequest),
            (422, "fake", json!(null), ErrorKind::InvalidRequest),
            (-32603, "API Error: 500 fake", json!(null), ErrorKind::VendorFailure),
            (
                400,
                "This model's maximum context length is 4096 tokens.",
                json!(null),
                ErrorKind::ContextExceeded,
            ),
            (
                -32603,
                "stream: UTF8 error: invalid utf-8 sequence of 1 bytes from index 5",
                json!(null),
                ErrorKind::Protocol,
            ),
            (-32003, "slow down", json!(null), ErrorKind::RateLimited),
            (-32603, "Internal error: fake error 401", json!({}), ErrorKind::Unauthenticated),
            (
                -32603,
                internal,
                json!("Unauthorized (401) from http://127.0.0.1:8123/v1/responses"),
                ErrorKind::Unauthenticated,
            ),
            (
                -32603,
                internal,
                codex("exceeded retry limit, last status: 429 Too Many Requests"),
                ErrorKind::RateLimited,
            ),
            (
                -32603,
                internal,
                codex("We're currently experiencing high demand, which may cause temporary errors."),
                ErrorKind::Overloaded,
            ),
            (
                -32603,
                internal,
                codex("stream disconnected before completion: Transport error: network error"),
                ErrorKind::Transport,
            ),
            (-32603, internal, codex("Missing environment variable: `KEY`."), ErrorKind::Unauthenticated),
            (
                -32603,
                internal,
                codex(
                    "stream disconnected before completion: Incomplete response returned, reason: content_filter",
                ),
                ErrorKind::Refused,
            ),
            (
                -32603,
                internal,
                codex("Incomplete response returned, reason: max_output_tokens"),
                ErrorKind::Incomplete,
            ),
            (-32603, internal, json!(null), ErrorKind::VendorFailure),
            (-32601, "Method not found", json!("session/prompt"), ErrorKind::Unsupported),
        ] {
            assert_eq!(kind(code, message, data.clone()), expected, "{code} {message} {data}");
        }
    }

    #[test]
    fn a_session_that_is_not_there_is_a_conversation_that_is_lost() {
        let error = RpcError { code: -32603, message: "Internal error".to_owned(), data: Value::Null };
        assert_eq!(
            of(&error, RefusedRequest::Resume, (&AgentLogin::Lent, &[]), any_kind).kind,
            ErrorKind::ConversationLost
        );
        assert_eq!(
            of(&error, RefusedRequest::Setup, (&AgentLogin::Lent, &[]), any_kind).kind,
            ErrorKind::InvalidRequest
        );
    }

    #[test]
    fn who_has_to_sign_in_is_told_how() {
        let method = json!({ "id": "login", "name": "Log in", "description": "run `agent login`" });
        let methods = [serde_json::from_value(method).unwrap()];
        let error = RpcError { code: AUTHENTICATION_REQUIRED, ..RpcError::default() };
        let login = AgentLogin::Person { command: vec!["agent".into()] };
        let failure = of(&error, RefusedRequest::Prompt, (&login, &methods), any_kind);
        assert!(failure.message.unwrap().contains("Log in (run `agent login`)"));
    }
}
