//! Settings of the kind `chat`, and its advice on errors.

use http::HeaderMap;

use super::*;

fn built(settings: Value) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    ChatCompletions.build(BackendId::from("b"), &settings, &BuildContext::in_home("/home"))
}

#[test]
fn a_wrong_setting_is_named() {
    for (settings, path) in [
        (json!({}), vec!["base_url"]),
        (json!({ "base_url": "http://a.test/v1/chat/completions" }), vec!["base_url"]),
        (json!({ "base_url": "http://a.test/v1", "body": { "stream": false } }), vec!["body", "stream"]),
        (json!({ "base_url": "http://a.test/v1", "system": "instructions" }), vec!["system"]),
        (json!({ "base_url": "http://a.test/v1", "output_bound": "tokens" }), vec!["output_bound"]),
        (json!({ "base_url": "http://a.test/v1", "encrypted_reasoning": true }), vec!["encrypted_reasoning"]),
    ] {
        assert_eq!(built(settings.clone()).unwrap_err().path, path, "{settings}");
    }
    assert!(
        built(json!({ "base_url": "http://a.test/v1", "body": { "top_k": 1 }, "call_ids": "short" })).is_ok()
    );
}

#[test]
fn a_setting_reaches_the_shape() {
    let own: ChatSettings = serde_json::from_value(json!({
        "system": "developer", "structured_output": "tool", "efforts": ["low"], "output_bound": "max_completion_tokens",
        "stream_usage": false, "parallel_tool_calls": false, "strict": false, "thinking_back": "never",
        "call_ids": "short", "body": { "a": 1 }, "cost": "reported",
    }))
    .unwrap();
    let server = ChatServer::new(&own, &NativeSettings::default());
    let shape = &server.shape;
    assert_eq!((shape.system, shape.output_bound), ("developer", Some("max_completion_tokens")));
    assert_eq!((shape.stream_usage, shape.strict, shape.parallel_tool_calls), (false, false, Some(false)));
    assert_eq!((shape.thinking_back, shape.id_length), (ThinkingBack::Never, 9));
    assert_eq!(shape.body.as_deref(), Some(r#"{"a":1}"#));
    assert_eq!((server.efforts, server.cost), (vec![Effort::Low], CostReport::Reported));
}

fn advice(status: u16, body: &str) -> (ErrorKind, String) {
    advice_of(&ChatServer::default(), status, body)
}

fn advice_of(server: &ChatServer, status: u16, body: &str) -> (ErrorKind, String) {
    let body = ErrorBody::read(body.as_bytes());
    let headers = HeaderMap::new();
    let reply = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
    let failure = crate::native::outcome::judge(&reply, server.failure(&reply));
    (failure.kind, failure.message.unwrap())
}

#[test]
fn no_error_advises_a_setting_that_is_present() {
    let refused =
        |field: &str| format!(r#"{{"error":{{"message":"Unknown parameter.","param":"{field}"}}}}"#);
    let with =
        |own: Value| ChatServer::new(&serde_json::from_value(own).unwrap(), &NativeSettings::default());
    // Mistral.
    let bound = r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]}"#;
    for (own, is_advised) in [(json!({ "output_bound": "max_completion_tokens" }), true), (json!({}), false)]
    {
        let (_, words) = advice_of(&with(own), 422, bound);
        assert_eq!(words.contains("`output_bound: max_tokens`"), is_advised, "{words}");
    }
    for (own, field) in [
        (json!({ "stream_usage": false }), "stream_options"),
        (json!({ "efforts": [] }), "reasoning_effort"),
        (json!({ "structured_output": "tool" }), "response_format"),
        (json!({ "structured_output": "instructed" }), "tool_choice"),
        (json!({ "strict": false }), "strict"),
        (json!({ "thinking_back": "never" }), "reasoning_content"),
        (json!({ "call_ids": "short" }), "tool_call_id"),
    ] {
        let (_, words) = advice_of(&with(own), 400, &refused(field));
        assert!(!words.contains("(set `"), "{words}");
        let (_, words) = advice(400, &refused(field));
        assert!(words.contains("(set `"), "{words}");
    }
}

#[test]
fn an_error_names_the_setting_that_fixes_it() {
    use ErrorKind as Kind;
    for (status, body, kind, fix) in [
        // The OpenAI API, for reasoning models.
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
            Kind::InvalidRequest,
            "`output_bound: max_completion_tokens`",
        ),
        // Mistral.
        (
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
            Kind::InvalidRequest,
            "`stream_usage: false`",
        ),
        (
            400,
            r#"{"error":{"message":"Unrecognized request argument supplied: reasoning_effort","type":"invalid_request_error","param":null}}"#,
            Kind::InvalidRequest,
            "`efforts: []`",
        ),
        (
            400,
            r#"{"error":{"message":"This response_format type is unavailable now","param":"response_format"}}"#,
            Kind::InvalidRequest,
            "`structured_output: tool`",
        ),
        // Another wire, and pages.
        (404, "404 page not found", Kind::InvalidRequest, "set `kind` to `responses` or `messages`"),
        (404, "<html><head><title>Not Found</title></head></html>", Kind::InvalidRequest, "set `kind` to"),
        (405, r#"{"detail":"Method Not Allowed"}"#, Kind::InvalidRequest, "check `base_url` in nexus.yaml"),
        (200, "<!doctype html><html><title>Sign in</title></html>", Kind::Transport, "check `base_url`"),
        // A model that the server does not have.
        (
            404,
            r#"{"error":{"message":"model 'x' not found","type":"api_error"}}"#,
            Kind::ModelUnavailable,
            "set `model` for this backend in nexus.yaml",
        ),
        (
            400,
            r#"{"error":{"message":"x is not a valid model ID","code":400}}"#,
            Kind::ModelUnavailable,
            "set `model`",
        ),
    ] {
        let (found, words) = advice(status, body);
        assert_eq!(found, kind, "{words}");
        assert!(words.contains(fix), "{fix} is not in {words}");
    }
}
