//! The endpoint's way, without a server. Requests as they go out: `tests/it/native_requests.rs`.

use nexus_core::Secret;
use serde_json::{Value, json};

use super::*;
use crate::native::outcome::ErrorBody;

fn grok() -> GrokEndpoint {
    GrokEndpoint::new(&NativeSettings::default(), CLIENT_VERSION.to_owned())
}

#[test]
fn we_go_by_our_own_name() {
    let credential = Credential::new(Secret::new("canary"));
    let plan = ModelPlan {
        model: ModelId::from("grok-4.6"),
        shape: WireShape::Responses(SHAPE),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    };
    let call = RequestContext {
        credential: Some(&credential),
        plan: &plan,
        conversation: "conversation-1",
        sticky: None,
    };
    let headers = grok().headers(&call);
    for (name, value) in [
        ("authorization", "Bearer canary"),
        ("x-xai-token-auth", "xai-grok-cli"),
        ("x-grok-client-version", "1.0.41"),
        ("x-grok-client-identifier", "nexus"),
        ("x-grok-conv-id", "conversation-1"),
        ("x-grok-session-id", "conversation-1"),
        ("x-grok-model-override", "grok-4.6"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers["user-agent"].to_str().unwrap().starts_with("nexus/"));
    assert_ne!(headers["x-grok-req-id"], grok().headers(&call)["x-grok-req-id"]);
}

#[test]
fn a_key_is_not_taken_for_a_subscription() {
    let accepts =
        |token: &str| grok().accepts(&Credential::new(Secret::new(token))).map_err(|failure| failure.kind);
    assert_eq!(accepts("xai-1"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts("eyJ0"), Ok(()));
}

#[test]
fn a_loop_that_the_vendor_sees_is_told() {
    let event = br#"{"type":"response.doom_loop_check","doom_loop_check":{"triggers":["tail_repetition:4@response"]}}"#;
    let events = grok().event("response.doom_loop_check", event).unwrap();
    assert!(
        matches!(&events[..], [TurnEvent::Warning(warning)] if warning.text.contains("tail_repetition:4"))
    );
    assert!(grok().event("response.doom_loop_check", b"{").is_none());
    assert!(grok().event("response.created", b"{}").is_none());
}

fn judged(status: u16, body: &Value) -> Option<(ErrorKind, Retry)> {
    let body = ErrorBody::of(body);
    let headers = HeaderMap::new();
    let error = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
    grok().failure(&error).map(|failure| (failure.kind, failure.retry))
}

#[test]
fn what_xai_means_by_a_status() {
    let code = |code: &str| json!({ "code": code, "error": "words" });
    let words = |words: &str| json!({ "code": "x", "error": words });
    let rows = [
        (403, code("unauthenticated:bad-credentials"), Some(ErrorKind::Unauthenticated)),
        (403, words("The access token could not be validated."), Some(ErrorKind::Unauthenticated)),
        (403, words("Access to the chat endpoint is denied."), None),
        (429, code("personal-team-blocked:spending-limit"), Some(ErrorKind::UsageLimit)),
        (429, code("resource-exhausted"), None),
        (426, words("Your Grok CLI version is outdated"), Some(ErrorKind::InvalidRequest)),
        (400, words("Model x does not support parameter reasoningEffort"), None),
        (500, words("internal"), None),
    ];
    for (status, body, kind) in rows {
        let found = judged(status, &body);
        assert_eq!(found.map(|(kind, _)| kind), kind, "{status} {body}");
        assert!(found.is_none_or(|(_, retry)| retry == Retry::Never), "{status} {body}");
    }
}

#[test]
fn a_free_allowance_comes_back_in_a_day() {
    let body = json!({ "code": "subscription:free-usage-exhausted", "error": "words" });
    let expected = (ErrorKind::UsageLimit, Retry::Guessed(FREE_USAGE_RESET));
    assert_eq!(judged(429, &body), Some(expected));
}

#[test]
fn an_outdated_version_names_its_setting() {
    let body = ErrorBody::of(&json!({ "error": "Your Grok CLI version 1.0.41 is outdated" }));
    let headers = HeaderMap::new();
    let error = ErrorReply { status: Some(StatusCode::UPGRADE_REQUIRED), headers: &headers, body: &body };
    let message = grok().failure(&error).unwrap().message.unwrap();
    assert!(message.contains("`client_version`") && message.contains("1.0.41"), "{message}");
}
