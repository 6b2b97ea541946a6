//! OpenAI's errors: bodies, and the headers that tell a plan's limit.

use serde_json::json;

use crate::sim::fault::{RateLimit, Standing, StatusFault};
use crate::sim::wire::Answer;

/// The refusal for `fault`.
pub(super) fn answer(number: usize, fault: &StatusFault) -> Answer {
    let status = fault.status;
    let mut answer = match (&fault.body, &fault.limit) {
        (Some(body), _) => {
            Answer::whole(status, fault.content_type.as_deref().unwrap_or("application/json"), body.clone())
        }
        (None, Some(limit)) => Answer::json(
            status,
            &json!({"error": {
                "type": fault.code.as_deref().unwrap_or("usage_limit_reached"),
                "message": fault.message.as_deref().unwrap_or("The usage limit has been reached"),
                "plan_type": limit.plan,
                "resets_at": limit.resets_at,
            }}),
        ),
        (None, None) => {
            let (code, message) = if fault.overloaded {
                ("server_is_overloaded", "The server is overloaded. Please try again later.")
            } else {
                (kind(status), sentence(status))
            };
            Answer::json(
                status,
                &json!({"error": {
                    "message": fault.message.as_deref().unwrap_or(message),
                    "type": fault.code.as_deref().unwrap_or(code),
                    "param": null,
                    "code": fault.code.as_deref().unwrap_or(code),
                }}),
            )
        }
    };
    if let Some(seconds) = fault.retry_after {
        answer = answer.header("retry-after", seconds);
    }
    if let Some(should_retry) = fault.should_retry {
        answer = answer.header("x-should-retry", should_retry);
    }
    if let Some(limit) = &fault.limit {
        answer.headers.extend(limit_headers(limit));
    }
    answer.header("x-oai-request-id", format!("req_sim_{number:04}"))
}

/// The headers that come with every answer to a plan's account.
pub(super) fn limit_headers(limit: &RateLimit) -> Vec<(String, String)> {
    let mut headers = vec![
        ("x-codex-plan-type".into(), limit.plan.clone()),
        ("x-codex-primary-used-percent".into(), limit.used_percent.to_string()),
        ("x-codex-primary-window-minutes".into(), limit.window_minutes.to_string()),
        ("x-codex-primary-reset-at".into(), limit.resets_at.to_string()),
    ];
    if limit.standing == Standing::Rejected {
        headers.push(("x-codex-rate-limit-reached-type".into(), "rate_limit_reached".into()));
    }
    headers
}

fn kind(status: u16) -> &'static str {
    match status {
        400 | 413 | 422 => "invalid_request_error",
        401 => "invalid_authentication",
        403 => "permission_denied",
        404 => "model_not_found",
        429 => "rate_limit_exceeded",
        _ => "server_error",
    }
}

fn sentence(status: u16) -> &'static str {
    match status {
        400 | 422 => "Simulated invalid request.",
        401 => "Simulated refusal of the access token.",
        403 => "Simulated lack of permission.",
        404 => "Simulated unknown model.",
        413 => "Simulated request too large.",
        429 => "Rate limit reached. Please slow down.",
        _ => "The server had an error while processing your request.",
    }
}
