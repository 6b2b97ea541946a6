//! Settings of the kind `gemini`, its headers, and its advice on errors.

use std::time::{Duration, UNIX_EPOCH};

use nexus_core::Secret;
use serde_json::json;

use super::advice::{DAY, until_reset};
use super::*;
use crate::native::outcome::ErrorBody;

fn built(settings: Value) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    GeminiApi.build(BackendId::from("b"), &settings, &BuildContext::in_home("/home"))
}

#[test]
fn a_wrong_setting_is_named() {
    for (settings, path) in [
        (json!({ "base_url": "http://a.test/v1beta/models/gemini-3:generateContent" }), vec!["base_url"]),
        (json!({ "thinking": "much" }), vec!["thinking"]),
        (json!({ "result_pictures": "nowhere" }), vec!["result_pictures"]),
        (json!({ "body": { "contents": [] } }), vec!["body", "contents"]),
        (json!({ "body": { "generationConfig": 1 } }), vec!["body", "generationConfig"]),
        (
            json!({ "body": { "generationConfig": { "thinkingConfig": {} } } }),
            vec!["body", "generationConfig", "thinkingConfig"],
        ),
        (json!({ "body": { "system_instruction": {} } }), vec!["body", "system_instruction"]),
        (json!({ "body": { "tool_config": {} } }), vec!["body", "tool_config"]),
        (json!({ "body": { "generation_config": [] } }), vec!["body", "generation_config"]),
        (
            json!({ "body": { "generation_config": { "thinking_config": {} } } }),
            vec!["body", "generation_config", "thinking_config"],
        ),
        (
            json!({ "body": { "generationConfig": {}, "generation_config": {} } }),
            vec!["body", "generation_config"],
        ),
        (json!({ "key_header": "cookie" }), vec!["key_header"]),
    ] {
        assert_eq!(built(settings.clone()).unwrap_err().path, path, "{settings}");
    }
    assert!(built(json!({})).is_ok(), "the server has a default");
    assert!(built(json!({ "body": { "generationConfig": { "temperature": 0.1 } } })).is_ok());
    assert!(built(json!({ "body": { "safety_settings": [], "generation_config": { "top_k": 1 } } })).is_ok());
}

#[test]
fn the_configuration_is_taken_from_the_body_in_either_spelling() {
    for name in ["generationConfig", "generation_config"] {
        let Value::Object(mut body) = json!({ name: { "topK": 1 }, "labels": {} }) else { panic!("{name}") };
        assert_eq!(Value::Object(take_generation(&mut body).unwrap()), json!({ "topK": 1 }));
        assert_eq!(Value::Object(body), json!({ "labels": {} }));
    }
}

#[test]
fn the_vendor_is_that_of_the_server() {
    let vendor = |settings: Value| {
        GeminiApi.vendor(settings.as_object().unwrap(), &BuildContext::in_home("home")).as_str().to_owned()
    };
    assert_eq!(vendor(json!({})), "google");
    assert_eq!(vendor(json!({ "base_url": BASE_URL })), "google");
    assert_eq!(vendor(json!({ "base_url": "https://gateway.test/v1beta" })), "gateway.test");
    assert_eq!(vendor(json!({ "vendor": "x" })), "x");
    let capabilities = built(json!({})).unwrap().capabilities();
    assert_eq!(capabilities.provider.as_deref(), Some("gcp.gemini"));
}

#[tokio::test]
async fn the_path_has_the_model_and_a_version_once() {
    for (base_url, list, call) in [
        (BASE_URL, "/models?pageSize=1000", "/models/m:streamGenerateContent?alt=sse"),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google",
            "/models?pageSize=1000",
            "/models/m:streamGenerateContent?alt=sse",
        ),
        (
            "https://aiplatform.googleapis.com/v1beta1/publishers/google/",
            "/models?pageSize=1000",
            "/models/m:streamGenerateContent?alt=sse",
        ),
        (
            "https://gateway.ai.cloudflare.com/v1/account/gateway/google-ai-studio",
            "/v1beta/models?pageSize=1000",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        (
            "https://gateway.test/v2ray",
            "/v1beta/models?pageSize=1000",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        (
            "https://gateway.test/gemini",
            "/v1beta/models?pageSize=1000",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
    ] {
        let settings = NativeSettings { base_url: Some(base_url.to_owned()), ..NativeSettings::default() };
        let server = GeminiServer::new(&GeminiSettings::default(), &settings);
        assert_eq!(server.probed_model().unwrap().path, list);
        let transport = Transport::new(&settings, &BuildContext::in_home("/home")).unwrap();
        let plan = server.model(Some(&ModelId::from("m")), &transport, None).await.unwrap();
        assert_eq!(plan.shape.path(), call);
        let failure = server.model(Some(&ModelId::from("../m")), &transport, None).await.unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidRequest);
    }
}

#[test]
fn the_key_is_in_the_header_that_the_setting_names_and_nothing_prints_it() {
    for (key_header, name, value) in [
        (ApiKeyHeader::XGoogApiKey, "x-goog-api-key", "canary"),
        (ApiKeyHeader::Authorization, "authorization", "Bearer canary"),
    ] {
        let server = GeminiServer { key_header, ..GeminiServer::default() };
        let headers = server.list_headers(Some(&Credential::new(Secret::new("canary"))));
        assert_eq!(headers[name], value);
        assert!(!format!("{headers:?}").contains("canary"));
        let keys = ["x-goog-api-key", "authorization"].into_iter().filter(|name| headers.contains_key(*name));
        assert_eq!(keys.count(), 1);
        assert!(server.list_headers(None).keys().all(|name| name == "user-agent"));
    }
}

fn judged(status: u16, body: &Value) -> Failure {
    judged_by(&GeminiServer::default(), status, body)
}

fn judged_by(server: &GeminiServer, status: u16, body: &Value) -> Failure {
    let body = ErrorBody::read(body.to_string().as_bytes());
    let headers = HeaderMap::new();
    let reply = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
    crate::native::outcome::judge(&reply, server.failure(&reply))
}

#[test]
fn no_error_advises_a_setting_that_is_present_or_does_not_concern_it() {
    let error =
        |words: &str| json!({ "error": { "code": 400, "message": words, "status": "INVALID_ARGUMENT" } });
    let with = |own: Value| {
        let own: GeminiSettings = serde_json::from_value(own).unwrap();
        GeminiServer::new(&own, &NativeSettings::default())
    };
    for (own, words) in [
        (json!({}), "function_declarations[0].parameters_json_schema: unknown keyword \"x\""),
        (json!({}), "Function call is missing a thought_signature in functionCall parts."),
        (json!({ "thinking": "budget" }), "Thinking level is not supported for this model."),
        (json!({ "thinking": "none" }), "Thinking is not supported by this model."),
        (json!({ "structured_output": "tool" }), "response_schema is unsupported"),
        (json!({ "structured_output": "instructed" }), "allowed_function_names is unsupported"),
        (json!({ "result_pictures": "beside" }), "Invalid value at function_response.parts"),
        (json!({ "call_ids": false }), "Unknown name \"id\" at function_call"),
    ] {
        let words = judged_by(&with(own.clone()), 400, &error(words)).message.unwrap();
        assert!(!words.contains("(set `"), "{own}: {words}");
    }
    for words in [
        "Function call is missing a thought_signature in functionCall parts.",
        "Thinking budget is not supported for this model.",
    ] {
        let words = judged_by(&with(json!({ "thinking": "budget" })), 400, &error(words)).message.unwrap();
        assert!(words.contains("(set `thinking: level`"), "{words}");
    }
}

#[test]
fn quotas_of_a_day_return_at_a_fixed_hour() {
    for (hours, left) in [(0, 8), (7, 1), (8, 24), (9, 23), (24 * 365 + 23, 9)] {
        let now = UNIX_EPOCH + Duration::from_secs(hours * 3_600);
        assert_eq!(until_reset(now), Duration::from_secs(left * 3_600), "{hours}");
    }
    assert_eq!(until_reset(UNIX_EPOCH + Duration::from_secs(8 * 3_600 - 1)), Duration::from_secs(1));
}

#[test]
fn an_error_names_the_setting_that_fixes_it() {
    use ErrorKind as Kind;
    let bad = "INVALID_ARGUMENT";
    for (status, kind, message, wanted, fix) in [
        (
            404,
            "NOT_FOUND",
            "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.",
            Kind::ModelUnavailable,
            "set `model`",
        ),
        (
            404,
            "NOT_FOUND",
            "Requested entity was not found.",
            Kind::InvalidRequest,
            "set `kind` to `responses` or `chat`",
        ),
        (
            400,
            bad,
            "Thinking level is not supported for this model.",
            Kind::InvalidRequest,
            "`thinking: budget`",
        ),
        (
            400,
            bad,
            "Unable to submit request because thinking is not supported by this model.",
            Kind::InvalidRequest,
            "`thinking: none`",
        ),
        (
            400,
            bad,
            "Function calling with a response mime type: 'application/json' is unsupported",
            Kind::InvalidRequest,
            "`structured_output: tool`",
        ),
        (
            400,
            bad,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            Kind::ContextExceeded,
            "",
        ),
        (
            400,
            bad,
            "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.",
            Kind::InvalidRequest,
            "`call_ids: false`",
        ),
        (
            400,
            bad,
            "Invalid value at 'contents[2].parts[0].function_response.parts'",
            Kind::InvalidRequest,
            "`result_pictures: beside`",
        ),
        (400, bad, "API key not valid. Please pass a valid API key.", Kind::Unauthenticated, ""),
        (
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers (callers without established identity).",
            Kind::Unauthenticated,
            "",
        ),
        (400, "FAILED_PRECONDITION", "User location is not supported for the API use.", Kind::Forbidden, ""),
        (503, "UNAVAILABLE", "The model is overloaded.", Kind::Overloaded, ""),
        (504, "DEADLINE_EXCEEDED", "The request timed out.", Kind::Transport, ""),
    ] {
        let failure =
            judged(status, &json!({ "error": { "code": status, "message": message, "status": kind } }));
        let words = failure.message.unwrap();
        assert_eq!(failure.kind, wanted, "{words}");
        assert!(words.contains(fix) && words.contains(kind), "{fix} and {kind} are not in {words}");
    }
}

#[test]
fn details_name_the_key_the_delay_and_the_quota() {
    let error = |code: u16, details: Value| {
        let status = if code == 400 { "INVALID_ARGUMENT" } else { "RESOURCE_EXHAUSTED" };
        json!([{ "error": { "code": code, "message": "m", "status": status, "details": details } }])
    };
    let key = json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }]);
    assert_eq!(judged(400, &error(400, key)).kind, ErrorKind::Unauthenticated);
    let delay = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s" });
    let quota = |id: &str| json!({ "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{ "quotaId": id }] });
    let minute = judged(429, &error(429, json!([quota("GenerateRequestsPerMinutePerProject"), delay])));
    assert_eq!(
        (minute.kind, minute.retry),
        (ErrorKind::RateLimited, Retry::After(Duration::from_millis(34_500)))
    );
    let day = judged(429, &error(429, json!([delay, quota("GenerateRequestsPerDayPerProject")])));
    assert_eq!(day.kind, ErrorKind::UsageLimit);
    assert!(matches!(day.retry, Retry::Guessed(wait) if wait <= Duration::from_secs(DAY)), "{:?}", day.retry);
    let of_model =
        judged(429, &error(429, json!([delay, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")])));
    assert_eq!((of_model.kind, of_model.retry), (ErrorKind::ModelUnavailable, Retry::Never));
    assert!(of_model.message.unwrap().contains("name another model"));
}
