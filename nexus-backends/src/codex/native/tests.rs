//! The endpoint's way, without a server. Requests as they go out: `tests/it/native_requests.rs`.

use std::time::{Duration, SystemTime};

use nexus_core::{Secret, turn::RateLimitStatus};
use serde_json::{Value, json};

use super::*;
use crate::native::outcome::ErrorBody;

fn codex() -> CodexEndpoint {
    CodexEndpoint::new(&NativeSettings::default(), CLIENT_VERSION)
}

fn entry(lite: bool) -> ModelEntry {
    serde_json::from_value(json!({ "slug": "m", "use_responses_lite": lite })).unwrap()
}

fn sent(plan: &ModelPlan, sticky: Option<&str>) -> HeaderMap {
    let credential = Credential::new(Secret::new("canary")).with_account("account-1");
    let conversation = "5f8f3c5e-0000-4000-8000-000000000000";
    codex().headers(&RequestContext { credential: Some(&credential), plan, conversation, sticky })
}

#[test]
fn the_flag_decides_the_shape_and_the_name_does_not() {
    let plan = |lite| CodexEndpoint::plan(ModelId::from("gpt-6-lite"), Some(&entry(lite)), None);
    assert_eq!(plan(true).shape.responses().unwrap().tools, ToolPosition::FirstItem);
    assert_eq!(plan(true).shape.responses().unwrap().parallel_tool_calls, Some(false));
    assert_eq!(plan(true).shape.responses().unwrap().reasoning_context, Some("all_turns"));
    assert_eq!(plan(false).shape.responses().unwrap().tools, ToolPosition::Field);
    assert_eq!(plan(false).shape.responses().unwrap().parallel_tool_calls, Some(true));
    assert_eq!(plan(false).shape.responses().unwrap().reasoning_context, None);
}

#[test]
fn the_lite_header_goes_with_the_lite_shape_alone() {
    let plan = |lite| CodexEndpoint::plan(ModelId::from("m"), Some(&entry(lite)), None);
    assert_eq!(sent(&plan(true), None)[LITE_HEADER], "true");
    assert!(!sent(&plan(false), None).contains_key(LITE_HEADER));
}

#[test]
fn we_go_by_our_own_name() {
    let plan = CodexEndpoint::plan(ModelId::from("m"), None, None);
    let headers = sent(&plan, Some("state-1"));
    assert_eq!(headers["originator"], "nexus");
    assert!(headers["user-agent"].to_str().unwrap().starts_with("nexus/"));
    assert_eq!(headers["chatgpt-account-id"], "account-1");
    assert_eq!(headers["authorization"], "Bearer canary");
    assert_eq!(headers["session-id"], headers["thread-id"]);
    assert_eq!(headers["x-client-request-id"], headers["session-id"]);
    assert_eq!(headers[TURN_STATE], "state-1");
    for absent in ["openai-beta", "version", "x-codex-turn-metadata"] {
        assert!(!headers.contains_key(absent), "{absent}");
    }
    assert!(!sent(&plan, None).contains_key(TURN_STATE));
}

#[test]
fn a_key_is_not_taken_for_a_plan_nor_a_plan_for_a_key() {
    let accepts = |billing, token: &str| {
        let codex =
            CodexEndpoint::new(&NativeSettings { billing, ..NativeSettings::default() }, CLIENT_VERSION);
        codex.accepts(&Credential::new(Secret::new(token))).map_err(|failure| failure.kind)
    };
    assert_eq!(accepts(None, "sk-1"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts(Some(Billing::Metered), "eyJ0"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts(None, "eyJ0"), Ok(()));
    assert_eq!(accepts(Some(Billing::Metered), "sk-1"), Ok(()));
}

#[test]
fn the_head_of_an_answer_is_read() {
    let mut headers = HeaderMap::new();
    headers.insert("openai-model", HeaderValue::from_static("gpt-other"));
    headers.insert(TURN_STATE, HeaderValue::from_static("state-2"));
    headers.insert("x-codex-primary-used-percent", HeaderValue::from_static("95"));
    let head = codex().head(&headers);
    assert_eq!(head.model, Some(ModelId::from("gpt-other")));
    assert_eq!(head.sticky.as_deref(), Some("state-2"));
    assert_eq!(head.limits[0].status, RateLimitStatus::Warning);
}

#[test]
fn events_of_the_endpoints_own_are_known() {
    let data = br#"{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":1}}}"#;
    assert_eq!(codex().event("codex.rate_limits", data).unwrap().len(), 1);
    assert!(codex().event("codex.rate_limits", b"{").is_none());
    assert!(codex().event("response.metadata", b"{}").unwrap().is_empty());
    assert!(codex().event("response.other", b"{}").is_none());
}

fn judged(status: u16, headers: &HeaderMap, body: &Value) -> Option<Failure> {
    let body = ErrorBody::of(body);
    codex().failure(&ErrorReply { status: StatusCode::from_u16(status).ok(), headers, body: &body })
}

fn at(seconds: u64) -> Retry {
    Retry::At(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[test]
fn a_used_up_plan_says_when_it_is_reset() {
    let mut headers = HeaderMap::new();
    headers.insert("x-codex-primary-used-percent", HeaderValue::from_static("100"));
    headers.insert("x-codex-primary-reset-at", HeaderValue::from_static("1795221060"));
    let limit =
        json!({ "error": { "type": "usage_limit_reached", "message": "The usage limit has been reached" } });
    let failure = judged(429, &headers, &limit).unwrap();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::UsageLimit, at(1_795_221_060)));
    assert_eq!(failure.message.as_deref(), Some("The usage limit has been reached"));

    let dated =
        json!({ "error": { "type": "usage_limit_reached", "message": "x", "resets_at": 1_795_000_000 } });
    assert_eq!(judged(429, &headers, &dated).unwrap().retry, at(1_795_000_000));
    // Without a time of the endpoint's own, the table that all dialects share decides.
    assert!(judged(429, &HeaderMap::new(), &limit).is_none());
}

#[test]
fn a_reached_limit_may_be_told_by_headers_alone() {
    let mut headers = HeaderMap::new();
    headers.insert("x-codex-rate-limit-reached-type", HeaderValue::from_static("rate_limit_reached"));
    let failure = judged(429, &headers, &json!({ "detail": "Too many" })).unwrap();
    assert_eq!(failure.kind, ErrorKind::UsageLimit);
    assert!(judged(429, &HeaderMap::new(), &json!({ "detail": "Too many" })).is_none());
    assert!(judged(500, &headers, &json!({ "detail": "x" })).is_none());
}

#[test]
fn a_plan_without_codex_is_no_limit() {
    let body = json!({ "error": { "type": "usage_not_included", "message": "upgrade" } });
    let failure = judged(429, &HeaderMap::new(), &body).unwrap();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Forbidden, Retry::Never));
}

#[test]
fn a_model_that_the_plan_does_not_have_is_told_by_its_words() {
    let message = "The 'mystery-1' model is not supported when using Codex with a ChatGPT account.";
    let body = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    for body in [&body, &json!({ "detail": message })] {
        let failure = judged(400, &HeaderMap::new(), body).unwrap();
        assert_eq!((failure.kind, failure.retry), (ErrorKind::ModelUnavailable, Retry::Never));
        assert!(judged(500, &HeaderMap::new(), body).is_none());
    }
}
