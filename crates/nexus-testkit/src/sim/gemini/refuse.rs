//! Google's errors: bodies with the details of its error model.

use serde_json::{Value, json};

use crate::sim::fault::StatusFault;
use crate::sim::wire::Answer;

/// The refusal for `fault`.
pub(super) fn answer(fault: &StatusFault) -> Answer {
    let status = fault.status;
    let mut answer = match &fault.body {
        Some(body) => {
            Answer::whole(status, fault.content_type.as_deref().unwrap_or("application/json"), body.clone())
        }
        None => {
            let code = fault.code.as_deref().unwrap_or(name(status));
            let message = match fault.overloaded {
                true => "The model is overloaded. Please try again later.",
                false => sentence(status),
            };
            let mut body = error(status, code, fault.message.as_deref().unwrap_or(message));
            let details = details(fault);
            if !details.is_empty() {
                body["error"]["details"] = json!(details);
            }
            Answer::json(status, &body)
        }
    };
    answer.headers.extend(fault.retry_headers());
    answer
}

/// An error body.
pub(super) fn error(status: u16, code: &str, message: &str) -> Value {
    json!({ "error": { "code": status, "message": message, "status": code } })
}

/// Returns the status of a neutral code, and its name. Other codes stay unchanged.
pub(super) fn stream_code(code: &str) -> (u16, &str) {
    match code {
        "overloaded" => (503, "UNAVAILABLE"),
        "server" => (500, "INTERNAL"),
        "rate_limit" => (429, "RESOURCE_EXHAUSTED"),
        other => (500, other),
    }
}

/// The delay and the quota, each as a detail.
fn details(fault: &StatusFault) -> Vec<Value> {
    let mut details = Vec::new();
    if fault.limit.is_some() {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier" }],
        }));
    }
    // Google reports the delay in the body, as a duration. A date has no form there.
    if let Some(seconds) = fault.retry_after.filter(|_| !fault.retry_after_date) {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s"),
        }));
    }
    details
}

fn name(status: u16) -> &'static str {
    match status {
        400 | 413 | 422 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}

fn sentence(status: u16) -> &'static str {
    match status {
        400 | 422 => "Request contains an invalid argument.",
        401 => "Request had invalid authentication credentials.",
        403 => "The caller does not have permission",
        404 => {
            "models/simulated is not found for API version v1beta, or is not supported for generateContent. Call \
             ListModels to see the list of available models and their supported methods."
        }
        413 => "Request payload size exceeds the limit.",
        429 => "You exceeded your current quota, please check your plan and billing details.",
        503 | 529 => "The service is currently unavailable.",
        504 => "Deadline expired before operation could complete.",
        _ => "An internal error has occurred.",
    }
}
