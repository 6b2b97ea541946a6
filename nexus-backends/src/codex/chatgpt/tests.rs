//! The API's way, without a server. Requests as they go out: `tests/it/native_requests/chatgpt.rs`.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use nexus_core::{Retry, Secret};
use serde_json::{Value, json};

use super::*;
use crate::native::outcome::{ErrorBody, judge};

fn chatgpt() -> Chatgpt {
    Chatgpt::new(&NativeSettings::default())
}

fn judged(status: Option<u16>, headers: &HeaderMap, body: &Value) -> Failure {
    let body = ErrorBody::of(body);
    let status = status.map(|status| StatusCode::from_u16(status).unwrap());
    let reply = ErrorReply { status, headers, body: &body };
    judge(&reply, chatgpt().failure(&reply))
}

#[test]
fn every_documented_code_has_its_kind_by_status_and_within_a_stream() {
    for (status, code, kind) in [
        (403, "subscription_sharing_user_not_eligible", ErrorKind::Forbidden),
        (429, "subscription_sharing_usage_limit_exceeded", ErrorKind::UsageLimit),
        (503, "subscription_sharing_usage_unavailable", ErrorKind::Overloaded),
        (400, "subscription_sharing_unsupported_capability", ErrorKind::InvalidRequest),
        (403, "subscription_sharing_route_not_supported", ErrorKind::Forbidden),
        (401, "subscription_sharing_invalid_user", ErrorKind::Unauthenticated),
        (403, "chatpass_v2_scope_not_authorized", ErrorKind::Forbidden),
        (403, "chatpass_v2_invalid_authorization_context", ErrorKind::Forbidden),
        (503, "subscription_sharing_user_unavailable", ErrorKind::Overloaded),
    ] {
        let body = json!({ "error": { "code": code, "message": "In their words.", "param": null } });
        let failed = json!({ "type": "response.failed", "response": body });
        for (status, body) in [(Some(status), &body), (None, &failed)] {
            let failure = judged(status, &HeaderMap::new(), body);
            assert_eq!(failure.kind, kind, "{code} {status:?}");
            let message = failure.message.unwrap();
            assert!(message.contains("In their words.") && message.contains(code), "{message}");
        }
    }
}

#[test]
fn an_unsupported_model_is_one_that_another_backend_may_have() {
    let body =
        |param| json!({ "error": { "code": "subscription_sharing_unsupported_capability", "param": param } });
    assert_eq!(judged(Some(400), &HeaderMap::new(), &body("model")).kind, ErrorKind::ModelUnavailable);
    assert_eq!(judged(Some(400), &HeaderMap::new(), &body("tools")).kind, ErrorKind::InvalidRequest);
}

#[test]
fn no_time_is_made_up_for_a_plan_that_is_used_up() {
    let body = json!({ "error": { "code": "subscription_sharing_usage_limit_exceeded", "message": "x" } });
    let failure = judged(Some(429), &HeaderMap::new(), &body);
    assert_eq!(failure.retry, Retry::Never);
    assert!(failure.message.unwrap().contains("chatgpt.com/settings/usage"));
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("300"));
    assert_eq!(judged(Some(429), &headers, &body).retry, Retry::After(Duration::from_secs(300)));
}

#[test]
fn an_admission_that_is_refused_without_a_code_goes_by_its_status() {
    for (status, kind) in
        [(401, ErrorKind::Unauthenticated), (403, ErrorKind::Forbidden), (503, ErrorKind::Overloaded)]
    {
        let failure = judged(Some(status), &HeaderMap::new(), &json!({ "detail": "In their words." }));
        assert_eq!(failure.kind, kind);
    }
    assert!(judged(Some(503), &HeaderMap::new(), &json!({ "detail": "x" })).retry.is_guessed());
}

#[test]
fn a_key_is_no_plan() {
    let accepts = |token: &str| chatgpt().accepts(&Credential::new(Secret::new(token))).map_err(|it| it.kind);
    assert_eq!(accepts("sk-1"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts("eyJ0"), Ok(()));
}
