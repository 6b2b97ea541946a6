//! OpenAI's errors: bodies, and the headers that report a plan's limit.

use serde_json::json;

use crate::sim::fault::StatusFault;
use crate::sim::rate_limit::{RateLimit, Standing, Window};
use crate::sim::wire::Answer;

/// The refusal for `fault`.
pub(in crate::sim) fn answer(number: usize, fault: &StatusFault) -> Answer {
    let status = fault.status;
    let mut answer = match (&fault.body, &fault.limit) {
        (Some(body), _) => {
            Answer::whole(status, fault.content_type.as_deref().unwrap_or("application/json"), body.clone())
        }
        // Codex shows the time of the reset to its user, and reads it from this body.
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
            let code = fault.code.as_deref().unwrap_or(code);
            with_status(status, code, fault.message.as_deref().unwrap_or(message))
        }
    };
    answer.headers.extend(fault.retry_headers());
    if let Some(limit) = &fault.limit {
        answer.headers.extend(limit_headers(limit));
    }
    answer.header("x-oai-request-id", format!("req_sim_{number:04}"))
}

/// An error body under any status.
pub(in crate::sim) fn with_status(status: u16, code: &str, message: &str) -> Answer {
    let error = json!({"message": message, "type": code, "param": null, "code": code});
    Answer::json(status, &json!({ "error": error }))
}

/// The headers that come with every answer to a plan's account.
pub(super) fn limit_headers(limit: &RateLimit) -> Vec<(String, String)> {
    let primary = Window {
        used_percent: limit.used_percent,
        window_minutes: limit.window_minutes,
        resets_at: limit.resets_at,
    };
    let windows = [("primary", Some(primary)), ("secondary", limit.secondary)];
    let mut headers = vec![
        ("x-codex-plan-type".into(), limit.plan.clone()),
        ("x-codex-credits-has-credits".into(), "false".into()),
        ("x-codex-credits-unlimited".into(), "false".into()),
    ];
    for (name, window) in windows.into_iter().filter_map(|(name, window)| Some((name, window?))) {
        let prefix = format!("x-codex-{name}");
        headers.push((format!("{prefix}-used-percent"), window.used_percent.to_string()));
        headers.push((format!("{prefix}-window-minutes"), window.window_minutes.to_string()));
        headers.push((format!("{prefix}-reset-at"), window.resets_at.to_string()));
    }
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
        408 => "request_timeout",
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
        408 => "The request took too long to arrive.",
        413 => "Simulated request too large.",
        429 => "Rate limit reached. Please slow down.",
        _ => "The server had an error while processing your request.",
    }
}
