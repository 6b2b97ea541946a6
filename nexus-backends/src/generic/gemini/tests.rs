//! Settings of the kind `gemini`, its headers, and its advice on errors.

use nexus_core::Secret;
use serde_json::json;

use super::*;

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
        (json!({ "key_header": "cookie" }), vec!["key_header"]),
    ] {
        assert_eq!(built(settings.clone()).unwrap_err().path, path, "{settings}");
    }
    assert!(built(json!({})).is_ok(), "the server has a default");
    assert!(built(json!({ "body": { "generationConfig": { "temperature": 0.1 } } })).is_ok());
}

#[test]
fn the_vendor_is_that_of_the_server() {
    let vendor = |settings: Value| GeminiApi.vendor(settings.as_object().unwrap()).as_str().to_owned();
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
    let body = ErrorBody::read(body.to_string().as_bytes());
    let headers = HeaderMap::new();
    let reply = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
    crate::native::outcome::judge(&reply, GeminiServer::default().failure(&reply))
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
            "Thinking budget is not supported for this model.",
            Kind::InvalidRequest,
            "`thinking: level`",
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
            "Function call is missing a thought_signature in functionCall parts.",
            Kind::InvalidRequest,
            "`thinking: level`",
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
    let day =
        judged(429, &error(429, json!([delay, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")])));
    assert_eq!((day.kind, day.retry), (ErrorKind::UsageLimit, Retry::Guessed(QUOTA_DAY)));
}
