//! Settings of the kind `messages`, its headers, and its advice on errors.

use nexus_core::{Secret, turn::RateLimitStatus};
use serde_json::json;

use super::*;
use crate::native::outcome::ErrorBody;

fn built(settings: Value) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    MessagesApi.build(BackendId::from("b"), &settings, &BuildContext::in_home("/home"))
}

#[test]
fn a_wrong_setting_is_named() {
    for (settings, path) in [
        (json!({ "base_url": "http://a.test/v1/messages" }), vec!["base_url"]),
        (json!({ "max_tokens": 0 }), vec!["max_tokens"]),
        (json!({ "thinking": "much" }), vec!["thinking"]),
        (json!({ "body": { "messages": [] } }), vec!["body", "messages"]),
        (json!({ "key_header": "cookie" }), vec!["key_header"]),
    ] {
        assert_eq!(built(settings.clone()).unwrap_err().path, path, "{settings}");
    }
    assert!(built(json!({})).is_ok(), "the server has a default");
}

#[test]
fn the_path_follows_the_form_of_the_base_url() {
    for (base_url, path) in [
        ("https://api.anthropic.com", "/v1/messages"),
        ("https://api.anthropic.com/v1/", "/messages"),
        ("https://api.deepseek.com/anthropic", "/v1/messages"),
        ("http://127.0.0.1:8080/v2", "/messages"),
        ("http://127.0.0.1:8080/vendor", "/v1/messages"),
    ] {
        assert_eq!(path_below(base_url), path, "{base_url}");
    }
}

#[test]
fn the_vendor_is_that_of_the_server() {
    let vendor = |settings: Value| {
        MessagesApi.vendor(settings.as_object().unwrap(), &BuildContext::in_home("home")).as_str().to_owned()
    };
    assert_eq!(vendor(json!({})), "anthropic");
    assert_eq!(vendor(json!({ "base_url": "https://api.anthropic.com/v1" })), "anthropic");
    assert_eq!(vendor(json!({ "base_url": "https://api.deepseek.com/anthropic" })), "api.deepseek.com");
    assert_eq!(vendor(json!({ "vendor": "x" })), "x");
}

#[test]
fn the_key_is_in_the_header_that_the_setting_names_and_nothing_prints_it() {
    for (key_header, name, value) in [
        (KeyHeader::XApiKey, "x-api-key", "canary"),
        (KeyHeader::Authorization, "authorization", "Bearer canary"),
    ] {
        let server = MessagesServer { key_header, ..MessagesServer::default() };
        let credential = Credential::new(Secret::new("canary"));
        let model = ModelId::from("m");
        let plan = ModelPlan {
            model,
            shape: WireShape::Messages(server.shape.clone()),
            efforts: Vec::new(),
            warnings: Vec::new(),
            path: None,
            context_window: None,
        };
        let call =
            RequestContext { credential: Some(&credential), plan: &plan, conversation: "c", sticky: None };
        let headers = server.headers(&call);
        assert_eq!(headers[name], value);
        assert_eq!(headers["anthropic-version"], "2023-06-01");
        assert!(!format!("{headers:?}").contains("canary"));
        let keys = ["x-api-key", "authorization"].into_iter().filter(|name| headers.contains_key(*name));
        assert_eq!(keys.count(), 1);
    }
}

#[test]
fn limits_in_headers_are_reported_when_they_are_near() {
    let headers = |remaining: &str| {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-input-tokens-limit", "1000"),
            ("anthropic-ratelimit-input-tokens-remaining", remaining),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-29T12:00:00Z"),
        ] {
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        advice::limits(&headers)
    };
    assert_eq!(headers("900"), []);
    assert_eq!(headers("x"), []);
    let [near] = headers("100").try_into().unwrap();
    assert_eq!(
        (near.status, near.window.as_deref(), near.used_percent),
        (RateLimitStatus::Warning, Some("input-tokens"), Some(90.0))
    );
    assert!(near.resets_at.is_some());
    assert_eq!(headers("0")[0].status, RateLimitStatus::Rejected);
}

fn advice(status: u16, kind: &str, message: &str) -> (ErrorKind, String) {
    advice_of(&MessagesServer::default(), status, kind, message)
}

fn advice_of(server: &MessagesServer, status: u16, kind: &str, message: &str) -> (ErrorKind, String) {
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string();
    let body = ErrorBody::read(body.as_bytes());
    let headers = HeaderMap::new();
    let reply = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
    let failure = crate::native::outcome::judge(&reply, server.failure(&reply));
    (failure.kind, failure.message.unwrap())
}

#[test]
fn no_error_advises_a_setting_that_is_present() {
    let with =
        |own: Value| MessagesServer::new(&serde_json::from_value(own).unwrap(), &NativeSettings::default());
    for (own, message, fix) in [
        (
            json!({ "thinking": "budget" }),
            "thinking.type.enabled is not supported for this model",
            "(set `thinking: adaptive`",
        ),
        (json!({}), "thinking.type.enabled is not supported for this model", ""),
        (json!({ "thinking": "budget" }), "adaptive thinking is not supported on this model", ""),
        (json!({ "structured_output": "tool" }), "output_format is unknown", ""),
        (json!({ "cache_marks": false }), "cache_control is unknown", ""),
    ] {
        let (_, words) = advice_of(&with(own.clone()), 400, "invalid_request_error", message);
        assert!(words.contains(fix) && words.contains("(set `") != fix.is_empty(), "{own}: {words}");
    }
}

#[test]
fn an_error_names_the_setting_that_fixes_it() {
    use ErrorKind as Kind;
    let bad = "invalid_request_error";
    for (status, kind, message, wanted, fix) in [
        (404, "not_found_error", "model: claude-9", Kind::ModelUnavailable, "set `model`"),
        (404, "not_found_error", "Not found", Kind::InvalidRequest, "set `kind` to `responses` or `chat`"),
        (
            400,
            bad,
            "adaptive thinking is not supported on this model",
            Kind::InvalidRequest,
            "`thinking: budget`",
        ),
        (
            400,
            bad,
            "output_config.format: Extra inputs are not permitted",
            Kind::InvalidRequest,
            "`structured_output: tool`",
        ),
        (
            400,
            bad,
            "max_tokens: 32000 > 4096, which is the maximum allowed number of output tokens",
            Kind::InvalidRequest,
            "`max_tokens`",
        ),
        (400, bad, "prompt is too long: 250000 tokens > 200000 maximum", Kind::ContextExceeded, ""),
        (401, "authentication_error", "invalid x-api-key", Kind::Unauthenticated, ""),
        (529, "overloaded_error", "Overloaded", Kind::Overloaded, ""),
    ] {
        let (found, words) = advice(status, kind, message);
        assert_eq!(found, wanted, "{words}");
        assert!(words.contains(fix), "{fix} is not in {words}");
    }
}
