//! Ends of turns as stop reasons and errors of the protocol.

use agent_client_protocol_schema::v1::{Error, ErrorCode, StopReason};
use nexus_conversations::{ConversationError, ConversationErrorKind};
use nexus_core::{ErrorKind, FinishReason, TurnError, TurnResult, error::Limit};
use serde_json::json;

/// Returns the stop reason of a turn. `last`: the finish reason of its last message, if known.
///
/// # Errors
///
/// The turn failed, and no stop reason describes the failure.
pub(crate) fn stop_reason(
    outcome: &Result<TurnResult, TurnError>,
    last: Option<&FinishReason>,
) -> Result<StopReason, Error> {
    let error = match outcome {
        Ok(result) if result.finish == FinishReason::Length => return Ok(StopReason::MaxTokens),
        Ok(_) => return Ok(StopReason::EndTurn),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::Cancelled => Ok(StopReason::Cancelled),
        ErrorKind::Refused => Ok(StopReason::Refusal),
        ErrorKind::LimitReached(Limit::OutputTokens) => Ok(StopReason::MaxTokens),
        // The turn has no result, so the finish reason of its last message decides.
        ErrorKind::Incomplete if last == Some(&FinishReason::Length) => Ok(StopReason::MaxTokens),
        ErrorKind::LimitReached(Limit::ModelCalls | Limit::ToolCalls) => Ok(StopReason::MaxTurnRequests),
        _ => Err(said(error)),
    }
}

/// Converts a failed turn to an error of the protocol.
fn said(error: &TurnError) -> Error {
    let code = if needs_login(error) { ErrorCode::AuthRequired } else { ErrorCode::InternalError };
    let remedy = if needs_login(error) { remedy(ErrorKind::Unauthenticated) } else { remedy(error.kind()) };
    let mut message = error.to_string();
    if let Some(remedy) = remedy {
        message = format!("{message}; {remedy}");
    }
    Error::new(code.into(), message).data(json!({
        "kind": error.kind(),
        "backend": error.backend(),
        "remedy": remedy,
        "retry": error.retry(),
        "skipped": error.skipped(),
    }))
}

/// Returns true if the backend, or every backend of its chain, needs a login.
fn needs_login(error: &TurnError) -> bool {
    let skipped = error.skipped();
    let is_missing = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Unauthenticated);
    match error.kind() {
        ErrorKind::Unauthenticated => true,
        ErrorKind::Exhausted => !skipped.is_empty() && skipped.iter().all(|skipped| is_missing(skipped.kind)),
        _ => false,
    }
}

/// Returns advice for the person, if the failure's own message has none.
fn remedy(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NotInstalled => "install the program, or set its path in nexus.yaml (`executable`)",
        ErrorKind::Unauthenticated => {
            "log in with the vendor's own program or with `nexus login`; `nexus status` shows the logins"
        }
        ErrorKind::Forbidden => "ask the administrator of the account",
        ErrorKind::RateLimited | ErrorKind::UsageLimit | ErrorKind::Overloaded => {
            "try later, or name another backend for this type in nexus.yaml"
        }
        ErrorKind::ModelUnavailable => "name another model in nexus.yaml",
        ErrorKind::ContextExceeded => "begin a new session",
        ErrorKind::BillingMismatch => "see `billing` of the backend in nexus.yaml",
        ErrorKind::Unsupported => "set another mode or access level, or name another backend in nexus.yaml",
        _ => return None,
    })
}

/// Converts a failure of the stored conversation to an error of the protocol.
pub(crate) fn of_conversation(error: &ConversationError) -> Error {
    let kind = match error.kind {
        ConversationErrorKind::InUse => "in_use",
        ConversationErrorKind::Damaged => "damaged",
        ConversationErrorKind::NewerVersion => "newer_version",
        ConversationErrorKind::NoSpace => "no_space",
        ConversationErrorKind::PermissionDenied => "permission_denied",
        _ => "failed",
    };
    Error::new(ErrorCode::InternalError.into(), error.to_string()).data(json!({ "kind": kind }))
}

/// Returns the error for a configuration that cannot be used.
pub(crate) fn of_configuration(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InternalError.into(), message).data(json!({ "kind": "configuration" }))
}
