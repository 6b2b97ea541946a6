//! Anthropic's errors: bodies, statuses, and the headers that report a plan's limit.

use serde_json::{Value, json};

use crate::sim::fault::StatusFault;
use crate::sim::rate_limit::{RateLimit, Standing};
use crate::sim::wire::Answer;

/// The refusal for `fault`.
pub(super) fn answer(number: usize, fault: &StatusFault) -> Answer {
    // Anthropic reports overload by a status of its own.
    let status = if fault.overloaded { 529 } else { fault.status };
    let code = fault.code.clone().unwrap_or_else(|| kind(status).into());
    let message = fault.message.clone().unwrap_or_else(|| sentence(status).into());
    let mut answer = match &fault.body {
        Some(body) => {
            Answer::whole(status, fault.content_type.as_deref().unwrap_or("application/json"), body.clone())
        }
        None => Answer::json(status, &body(number, &code, &message)),
    };
    answer.headers.extend(fault.retry_headers());
    if let Some(limit) = &fault.limit {
        answer.headers.extend(limit_headers(limit));
    }
    answer
}

/// The error that a stream would have reported, for a client that did not ask for a stream.
pub(super) fn in_place_of(number: usize, code: &str, message: &str) -> Answer {
    let code = stream_code(code);
    let status = if code == "overloaded_error" { 529 } else { 500 };
    with_status(status, number, code, message)
}

/// An error body under any status.
pub(super) fn with_status(status: u16, number: usize, code: &str, message: &str) -> Answer {
    Answer::json(status, &body(number, code, message))
}

/// Returns Anthropic's code for a neutral code. Other codes stay unchanged.
pub(super) fn stream_code(code: &str) -> &str {
    match code {
        "overloaded" => "overloaded_error",
        "server" => "api_error",
        "rate_limit" => "rate_limit_error",
        other => other,
    }
}

/// The unified headers, which subscribers get with every answer.
pub(super) fn limit_headers(limit: &RateLimit) -> Vec<(String, String)> {
    let standing = match limit.standing {
        Standing::Allowed => "allowed",
        Standing::Warning => "allowed_warning",
        Standing::Rejected => "rejected",
    };
    // A subscription has two windows: five hours and seven days.
    let (claim, window) = match limit.window_minutes {
        0..=1440 => ("five_hour", "5h"),
        _ => ("seven_day", "7d"),
    };
    let prefix = "anthropic-ratelimit-unified";
    let mut headers = vec![
        (format!("{prefix}-status"), standing.into()),
        (format!("{prefix}-reset"), limit.resets_at.to_string()),
        (format!("{prefix}-representative-claim"), claim.into()),
        (format!("{prefix}-fallback"), "available".into()),
        (format!("{prefix}-{window}-status"), standing.into()),
        (format!("{prefix}-{window}-reset"), limit.resets_at.to_string()),
        // The header has a fraction, unlike the percentage of other vendors.
        (format!("{prefix}-{window}-utilization"), format!("{}", limit.used_percent / 100.0)),
    ];
    if limit.standing == Standing::Warning {
        headers.push((
            format!("{prefix}-{window}-surpassed-threshold"),
            format!("{}", (limit.used_percent / 100.0).min(0.9)),
        ));
    }
    headers
}

fn body(number: usize, code: &str, message: &str) -> Value {
    json!({
        "type": "error",
        "error": {"type": code, "message": message},
        "request_id": format!("req_sim_{number:04}"),
    })
}

fn kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

fn sentence(status: u16) -> &'static str {
    match status {
        400 => "messages: simulated invalid request",
        401 => "invalid x-api-key",
        402 => "simulated billing problem",
        403 => "simulated lack of permission",
        404 => "model: simulated unknown model",
        413 => "Request exceeds the maximum size",
        429 => "This request would exceed your account's rate limit. Please try again later.",
        529 => "Overloaded",
        _ => "Internal server error",
    }
}
