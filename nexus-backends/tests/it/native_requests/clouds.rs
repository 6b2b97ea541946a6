//! Claude and Gemini at the clouds: what Amazon Bedrock, Vertex AI and Azure get, and how their streams and errors end.

use std::{collections::BTreeMap, sync::Arc};

use nexus_core::{
    Availability, BuildContext, ErrorKind, ExecutionBackend, Tool, Toolbox, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_testkit::sim::{Cut, Dialect, Fault, RecordedRequest, Reply, Scenario, Sim, StatusFault, ToolCall};
use serde_json::{Value, json};

use super::support::{TOKEN, run};

const MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const SECRET: &str = "canary/secret+key";
const SESSION: &str = "canary-session";

/// Builds an entry with a provider as the router does, and moves its host to a simulator.
fn provided(provider: &str, entry: &Value, sim: &Sim) -> Arc<dyn ExecutionBackend> {
    let registry = nexus_backends::registry();
    let mut done =
        registry.providers().unwrap().complete(provider, entry.as_object().unwrap(), None).unwrap();
    let address = done.settings["base_url"].as_str().unwrap().to_owned();
    let path = address.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
    done.settings.insert("base_url".to_owned(), json!(format!("{}{path}", sim.root_url())));
    done.settings.insert("retries".to_owned(), json!(0));
    let variables = [
        ("AWS_BEARER_TOKEN_BEDROCK", TOKEN),
        ("AZURE_OPENAI_API_KEY", TOKEN),
        ("TOKEN", TOKEN),
        ("AWS_ACCESS_KEY_ID", "AKIACLOUD"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", SESSION),
    ];
    let environment: BTreeMap<_, _> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let context = BuildContext::in_home("/nonexistent").with_environment(environment);
    registry.kind(&done.kind).unwrap().build(provider.into(), &done.settings, &context).unwrap()
}

async fn turn(backend: &Arc<dyn ExecutionBackend>) -> (Result<TurnResult, TurnError>, Vec<TurnEvent>) {
    let (outcome, events) = run(backend, TurnRequest::new("Hi"), TurnHost::new()).await;
    let shown = format!("{outcome:?} {events:?}");
    for secret in [TOKEN, SECRET, SESSION] {
        assert!(!shown.contains(secret), "{shown}");
    }
    (outcome, events)
}

/// The request of a turn that succeeds.
async fn request(provider: &str, entry: Value, dialect: Dialect) -> RecordedRequest {
    let sim = Sim::start(dialect, Scenario::text("Hello").strict()).unwrap();
    let backend = provided(provider, &entry, &sim);
    assert_eq!(turn(&backend).await.0.unwrap().text, "Hello");
    sim.main_calls().pop().unwrap()
}

fn bedrock(credential: Option<Value>) -> Value {
    let mut entry = json!({ "region": "us-east-1", "model": MODEL });
    if let Some(credential) = credential {
        entry["credential"] = credential;
    }
    entry
}

#[tokio::test]
async fn bedrock_gets_the_model_in_the_path_and_a_bearer_key() {
    let sent = request("bedrock-anthropic", bedrock(None), Dialect::All).await;
    let path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream";
    assert_eq!((sent.path.as_str(), sent.bearer()), (path, Some(TOKEN)));
    assert_eq!(sent.header("accept"), Some("application/vnd.amazon.eventstream"));
    assert_eq!((sent.header("anthropic-version"), sent.header("x-api-key")), (None, None));
    assert_eq!(sent.json["anthropic_version"], "bedrock-2023-05-31");
    assert_eq!((sent.json.get("model"), sent.json.get("stream")), (None, None));
    assert!(sent.json["max_tokens"].is_u64() && sent.json["messages"].is_array());
}

#[tokio::test]
async fn bedrock_gets_a_signature_and_never_the_secret_key() {
    for provider in ["bedrock-anthropic", "bedrock"] {
        let sent = request(provider, bedrock(Some(json!({ "aws": {} }))), Dialect::All).await;
        let signature = sent.header("authorization").unwrap();
        let scope = signature.strip_prefix("AWS4-HMAC-SHA256 Credential=AKIACLOUD/").unwrap();
        assert!(
            scope.contains("/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;")
        );
        assert_eq!(sent.header("x-amz-security-token"), Some(SESSION));
        assert!(sent.headers.iter().all(|(_, value)| !value.contains(SECRET)));
        assert!(!String::from_utf8_lossy(&sent.body).contains(SECRET));
    }
}

#[tokio::test]
async fn a_key_that_signs_is_sent_to_no_server_without_a_signature() {
    let sim = Sim::start(Dialect::All, Reply::text("Hello")).unwrap();
    for provider in ["groq", "anthropic", "gemini", "ollama"] {
        let entry = json!({ "model": "m", "credential": { "aws": {} }, "auth": "bearer" });
        let entry = match provider {
            "anthropic" | "gemini" => json!({ "model": "m", "credential": { "aws": {} } }),
            _ => entry,
        };
        let (outcome, _) = turn(&provided(provider, &entry, &sim)).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{provider}");
        assert!(error.to_string().contains("set `sigv4:"), "{provider}: {error}");
    }
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn a_call_of_a_tool_is_answered_over_binary_messages() {
    let call = ToolCall::function("echo", json!({ "say": "水" }));
    let sim = Sim::start(Dialect::Anthropic, Scenario::tool_then_text(call, "Done: 水🦀.").strict()).unwrap();
    let backend = provided("bedrock-anthropic", &bedrock(None), &sim);
    let empty = json!({ "type": "object" });
    let echo =
        Tool::with_schema("echo", "Says it again.", empty, |value: Value| async move { value.to_string() });
    let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(echo)));
    let result = run(&backend, TurnRequest::new("Hi"), host).await.0.unwrap();
    assert_eq!(result.text, "Done: 水🦀.");
    assert_eq!((result.tool_calls.len(), sim.main_calls().len()), (1, 2));
    let last = sim.main_calls().pop().unwrap();
    let content = last.json["messages"][2]["content"][0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(content, r#"{"say":"水"}"#);
}

#[tokio::test]
async fn a_binary_stream_that_breaks_off_is_never_a_finished_answer() {
    for fault in [
        Fault::Torn { cut: Cut::Fin },
        Fault::Torn { cut: Cut::CleanEnd },
        Fault::TornCharacter { cut: Cut::CleanEnd },
        Fault::NoEnd,
    ] {
        let sim =
            Sim::start(Dialect::Anthropic, Reply { fault: Some(fault.clone()), ..Reply::text("Hello") })
                .unwrap();
        let (outcome, _) = turn(&provided("bedrock-anthropic", &bedrock(None), &sim)).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Transport, "{fault:?}");
    }
}

#[tokio::test]
async fn an_exception_in_the_stream_and_an_error_have_their_kinds() {
    for (code, kind) in [
        ("throttlingException", ErrorKind::RateLimited),
        ("validationException", ErrorKind::InvalidRequest),
        ("modelStreamErrorException", ErrorKind::VendorFailure),
        ("modelTimeoutException", ErrorKind::Transport),
        ("serviceUnavailableException", ErrorKind::Overloaded),
        ("internalServerException", ErrorKind::VendorFailure),
    ] {
        let fault = Fault::StreamError { code: code.to_owned(), message: "told".to_owned() };
        let sim =
            Sim::start(Dialect::Anthropic, Reply { fault: Some(fault), ..Reply::text("Hello") }).unwrap();
        let error = turn(&provided("bedrock-anthropic", &bedrock(None), &sim)).await.0.unwrap_err();
        assert_eq!(error.kind(), kind, "{code}: {error}");
        assert!(error.to_string().contains("told"), "{error}");
    }
    for (status, message, kind, words) in [
        (429, "Too many requests", ErrorKind::RateLimited, ""),
        (
            403,
            "The security token included in the request is invalid.",
            ErrorKind::Unauthenticated,
            "`credential`",
        ),
        (400, "Input is too long for requested model.", ErrorKind::ContextExceeded, ""),
        (400, "The provided model identifier is invalid.", ErrorKind::ModelUnavailable, "us.anthropic."),
        (
            400,
            "Invocation of model ID x with on-demand throughput isn\u{2019}t supported. Retry your request with the ID \
             or ARN of an inference profile that contains this model.",
            ErrorKind::ModelUnavailable,
            "us.anthropic.",
        ),
        (424, "The model failed", ErrorKind::VendorFailure, ""),
        (503, "Bedrock is unable to process your request.", ErrorKind::Overloaded, ""),
    ] {
        let fault = StatusFault { message: Some(message.to_owned()), ..StatusFault::new(status) };
        let sim = Sim::start(Dialect::Anthropic, Reply::fault(Fault::Status(fault))).unwrap();
        let error = turn(&provided("bedrock-anthropic", &bedrock(None), &sim)).await.0.unwrap_err();
        assert_eq!(error.kind(), kind, "{status} {message}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_signature_names_the_clock() {
    let fault = StatusFault {
        code: Some("InvalidSignatureException".to_owned()),
        message: Some("Signature expired: 20261130T000000Z is now earlier than 20261130T010000Z".to_owned()),
        ..StatusFault::new(403)
    };
    let reply = Reply::fault(Fault::Status(fault)).header("x-amzn-errortype", "InvalidSignatureException");
    let sim = Sim::start(Dialect::Anthropic, reply).unwrap();
    let entry = bedrock(Some(json!({ "aws": {} })));
    let error = turn(&provided("bedrock-anthropic", &entry, &sim)).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.to_string().contains("the clock of this machine"), "{error}");
}

#[tokio::test]
async fn vertex_gets_claude_by_its_path_and_events() {
    let entry = json!({
        "project": "p", "region": "us-east5", "model": "claude-sonnet-4-5@20250929", "credential": { "env": "TOKEN" },
    });
    let sent = request("vertex-anthropic", entry, Dialect::All).await;
    let path = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict";
    assert_eq!((sent.path.as_str(), sent.bearer()), (path, Some(TOKEN)));
    assert_eq!(sent.header("accept"), Some("text/event-stream"));
    assert_eq!(sent.json["anthropic_version"], "vertex-2023-10-16");
    assert_eq!((sent.json.get("model"), &sent.json["stream"]), (None, &json!(true)));
}

#[tokio::test]
async fn vertex_gets_gemini_by_its_path() {
    let entry = json!({
        "project": "p", "region": "us-central1", "model": "gemini-3-pro", "credential": { "env": "TOKEN" },
    });
    let sent = request("vertex-gemini", entry, Dialect::Gemini).await;
    let path =
        "/v1/projects/p/locations/us-central1/publishers/google/models/gemini-3-pro:streamGenerateContent";
    assert_eq!((sent.path.as_str(), sent.bearer()), (path, Some(TOKEN)));
    assert_eq!(sent.query.as_deref(), Some("alt=sse"));
}

#[tokio::test]
async fn azure_gets_the_deployment_in_the_path_and_the_version_in_the_query() {
    let sent =
        request("azure-deployments", json!({ "resource": "mine", "model": "my-gpt" }), Dialect::All).await;
    assert_eq!(sent.path, "/openai/deployments/my-gpt/chat/completions");
    assert_eq!(sent.query.as_deref(), Some("api-version=2024-10-21"));
    assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some(TOKEN), None));
    let entry = json!({ "resource": "mine", "model": "my-gpt", "query": { "api-version": "2025-01-01" } });
    let sent = request("azure-deployments", entry, Dialect::All).await;
    assert_eq!(sent.query.as_deref(), Some("api-version=2025-01-01"));
}

#[tokio::test]
async fn a_probe_of_a_server_with_another_path_requests_no_list() {
    let sim = Sim::start(Dialect::All, Reply::text("Hello")).unwrap();
    let backend = provided("bedrock-anthropic", &bedrock(None), &sim);
    assert!(matches!(backend.probe().await, Availability::Ready { .. }));
    assert!(sim.requests().iter().all(|request| request.method == "HEAD"));
    assert!(backend.models().await.is_err());
}
