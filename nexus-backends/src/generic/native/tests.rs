//! The settings of any server's way, without a server. Requests as they go out: `tests/it/native_requests.rs`.

use nexus_core::Secret;

use super::*;
use crate::native::outcome::ErrorBody;

fn map(settings: Value) -> Map<String, Value> {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    settings
}

fn generic(own: Value) -> Generic {
    Generic::new(&serde_json::from_value(own).unwrap(), &NativeSettings::default())
}

fn refusal(settings: Value) -> SettingsError {
    let context = BuildContext::in_home("/home").with_base_directory("/base");
    Responses.build("x".into(), &map(settings), &context).map(drop).unwrap_err()
}

#[test]
fn a_server_must_be_named() {
    let error = refusal(json!({ "model": "x" }));
    assert_eq!(error.path, ["base_url"]);
    assert!(error.reason.contains("http://127.0.0.1:11434/v1"), "{error}");
}

#[test]
fn an_error_names_the_key() {
    for (key, value) in [
        ("system", json!("user")),
        ("efforts", json!(["huge"])),
        ("structured_output", json!(true)),
        ("reasoning_summary", json!("long")),
        ("encrypted_reasoning", json!("no")),
        ("cost", json!("guessed")),
        ("client_version", json!("1.0")),
        ("no_such_key", json!(1)),
    ] {
        let mut settings = map(json!({ "base_url": "http://127.0.0.1:1/v1" }));
        settings.insert(key.into(), value);
        assert_eq!(refusal(Value::Object(settings)).path, [key]);
    }
}

#[test]
fn the_defaults_are_what_most_servers_take() {
    let generic = generic(json!({}));
    assert_eq!(generic.shape.system, SystemPosition::Instructions);
    assert_eq!(generic.shape.parallel_tool_calls, None);
    assert_eq!(generic.shape.reasoning_summary, None);
    assert!(!generic.shape.tool_choice);
    assert!(generic.shape.encrypted_reasoning);
    assert_eq!(generic.efforts, EFFORTS);
    let capabilities = generic.capabilities();
    assert_eq!((capabilities.output, capabilities.cost), (OutputSupport::Native, CostReport::Never));
}

#[test]
fn each_setting_changes_what_it_names() {
    let generic = generic(json!({
        "system": "developer", "structured_output": "instructed", "efforts": [], "reasoning_summary": "auto",
        "encrypted_reasoning": false, "prompt_cache_key": false, "cost": "reported",
    }));
    assert_eq!(generic.shape.system, SystemPosition::DeveloperMessage);
    assert_eq!(generic.shape.reasoning_summary, Some("auto"));
    assert!(!generic.shape.encrypted_reasoning && !generic.shape.prompt_cache_key);
    let capabilities = generic.capabilities();
    assert_eq!(capabilities.output, OutputSupport::Instructed);
    assert!(capabilities.efforts.is_empty());
    assert_eq!(capabilities.cost, CostReport::Reported);
    assert_eq!(capabilities.limits.cost, nexus_core::Enforcement::Ours);
}

#[test]
fn every_key_of_its_own_is_in_the_schema() {
    let schema = Responses.settings_schema();
    let properties = schema["properties"].as_object().unwrap();
    let keys =
        ["vendor", "system", "structured_output", "efforts", "reasoning_summary", "encrypted_reasoning"];
    for key in keys.into_iter().chain(["prompt_cache_key", "cost"]) {
        assert!(properties.contains_key(key), "{key}");
    }
    assert!(properties.contains_key("base_url") && !properties.contains_key("client_version"));
}

#[test]
fn the_vendor_is_who_answers() {
    let vendor = |settings| Responses.vendor(&map(settings), &BuildContext::in_home("home"));
    assert_eq!(vendor(json!({ "base_url": "https://api.openai.com/v1" })), "openai".into());
    assert_eq!(vendor(json!({ "base_url": "https://openrouter.ai/api/v1" })), "openrouter.ai".into());
    assert_eq!(vendor(json!({ "base_url": "http://127.0.0.1:11434/v1" })), "localhost:11434".into());
    assert_eq!(vendor(json!({ "base_url": "http://127.0.0.1/v1", "vendor": "me" })), "me".into());
    assert_eq!(vendor(json!({})), "responses".into());
}

#[test]
fn one_server_is_one_vendor_however_its_url_is_written() {
    let vendor = |url: &str| {
        Responses.vendor(&map(json!({ "base_url": url })), &BuildContext::in_home("home")).to_string()
    };
    let loopback = [
        "http://localhost:8080/v1",
        "http://LOCALHOST:8080",
        "http://localhost.:8080/v1",
        "http://a.localhost:8080/v1",
        "http://127.0.0.1:8080/v1/",
        "http://127.8.9.1:8080/v1",
        "http://127.1:8080/v1",
        "http://2130706433:8080/v1",
        "http://0x7f.1:8080/v1",
        "http://0177.0.0.1:8080/v1",
        "http://0.0.0.0:8080/v1",
        "http://[::1]:8080/v1",
        "http://[0:0:0:0:0:0:0:1]:8080/v1",
        "http://[::]:8080/v1",
        "http://[::ffff:127.0.0.1]:8080/v1",
        "http://[::ffff:7f00:1]:8080/v1",
        "https://127.0.0.1:8080/v1",
    ];
    for url in loopback {
        assert_eq!(vendor(url), "localhost:8080", "{url}");
    }
    for (url, same) in [
        ("https://API.Example.com/v1", "https://api.example.com:443/v1"),
        ("http://api.example.com/v1", "https://api.example.com./v1"),
        ("https://b\u{fc}cher.example/v1", "https://xn--bcher-kva.example/v2"),
        ("https://API.X.AI/v1", "https://api.x.ai./v1"),
        ("http://[::ffff:10.0.0.1]/v1", "http://10.0.0.1:80/v1"),
        ("http://[2001:DB8::1]:9/v1", "http://[2001:db8:0::0:1]:9/v1"),
    ] {
        assert_eq!(vendor(url), vendor(same), "{url} and {same}");
    }
    for (url, other) in [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8081/v1"),
        ("http://10.0.0.1/v1", "http://10.0.0.2/v1"),
        ("https://a.example/v1", "https://b.example/v1"),
    ] {
        assert_ne!(vendor(url), vendor(other), "{url} and {other}");
    }
}

proptest::proptest! {
    #[test]
    fn every_spelling_of_this_machine_is_one_server(
        address in 0x7f00_0000_u32..=0x7fff_ffff, form in 0_usize..6, port in 1_u16.., path in "[a-z0-9/]{0,8}",
    ) {
        let [a, b, c, d] = address.to_be_bytes();
        let host = match form {
            0 => format!("{a}.{b}.{c}.{d}"),
            1 => address.to_string(),
            2 => format!("0x{address:X}"),
            3 => format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
            4 => format!("[::ffff:{a}.{b}.{c}.{d}]"),
            _ => format!("0{a:o}.0x{b:x}.{c}.0{d:o}"),
        };
        let settings = map(json!({ "base_url": format!("http://{host}:{port}/{path}") }));
        let vendor = Responses.vendor(&settings, &BuildContext::in_home("home"));
        let expected = if matches!(port, 80 | 443) { "localhost".to_owned() } else { format!("localhost:{port}") };
        proptest::prop_assert_eq!(vendor.to_string(), expected, "{}", host);
    }
}

#[test]
fn without_a_credential_nothing_is_said_of_one() {
    let generic = generic(json!({}));
    let model = ModelId::from("x");
    let plan = ModelPlan {
        model,
        shape: WireShape::Responses(generic.shape),
        efforts: Vec::new(),
        warnings: Vec::new(),
        path: None,
        context_window: None,
    };
    let key = Credential::new(Secret::new("canary"));
    let headers = |credential| {
        let call = RequestContext { credential, plan: &plan, conversation: "c", sticky: None };
        generic.headers(&call)
    };
    assert!(!headers(None).contains_key("authorization"));
    assert_eq!(headers(Some(&key))["authorization"], "Bearer canary");
    assert_eq!(generic.credential_remedy(), None);
}

#[test]
fn who_pays_is_checked_only_where_it_is_configured() {
    let accepts = |billing, token: &str| {
        let generic = Generic::new(&Own::default(), &NativeSettings { billing, ..NativeSettings::default() });
        generic.accepts(&Credential::new(Secret::new(token))).map_err(|failure| failure.kind)
    };
    assert_eq!(accepts(Some(Billing::Plan), "sk-1"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts(Some(Billing::Metered), "eyJ0"), Err(ErrorKind::BillingMismatch));
    assert_eq!(accepts(None, "sk-1"), Ok(()));
}

#[test]
fn a_refusal_names_the_setting_that_helps() {
    let judged = |status: u16, body: Value| {
        let body = ErrorBody::of(&body);
        let headers = HeaderMap::new();
        let error = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
        generic(json!({})).failure(&error).map(|failure| failure.message.unwrap_or_default())
    };
    let unread = json!({ "error": { "message": "Encrypted content is not supported with this model." } });
    assert!(judged(400, unread).unwrap().contains("encrypted_reasoning: false"));
    for error in [
        json!({ "message": "Unsupported parameter.", "param": "reasoning.effort" }),
        json!({ "message": "litellm.UnsupportedParamsError: together_ai does not support parameters: ['reasoning_effort'], for model=any.", "code": "400" }),
    ] {
        assert!(judged(400, json!({ "error": error })).unwrap().contains("set `efforts`"));
    }
    assert!(judged(400, json!({ "error": { "message": "no" } })).is_none());
}

#[test]
fn no_refusal_names_a_setting_that_is_present() {
    for (own, field) in [
        (json!({ "prompt_cache_key": false }), "prompt_cache_key"),
        (json!({ "encrypted_reasoning": false }), "include"),
        (json!({ "strict": false }), "strict"),
        (json!({ "max_output_tokens": false }), "max_output_tokens"),
        (json!({ "structured_output": "instructed" }), "json_schema"),
        (json!({ "system": "system" }), "instructions"),
    ] {
        let body = ErrorBody::of(&json!({ "error": { "message": "Unknown parameter.", "param": field } }));
        let headers = HeaderMap::new();
        let status = Some(StatusCode::BAD_REQUEST);
        let error = ErrorReply { status, headers: &headers, body: &body };
        assert!(generic(own).failure(&error).is_none(), "{field}");
        let words = generic(json!({})).failure(&error).and_then(|failure| failure.message).unwrap();
        assert!(words.contains("(set `"), "{words}");
    }
}

#[test]
fn a_model_without_eyes_is_not_asked_again() {
    let body = json!({ "error": { "code": 500, "type": "server_error",
        "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj" } });
    let headers = HeaderMap::new();
    let status = Some(StatusCode::INTERNAL_SERVER_ERROR);
    let error = ErrorReply { status, headers: &headers, body: &ErrorBody::of(&body) };
    let failure = generic(json!({})).failure(&error).unwrap();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Unsupported, nexus_core::Retry::Never));
}
