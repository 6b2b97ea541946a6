//! Whole turns and probes on the Gemini API alone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nexus_backends::generic::GeminiApi;
use nexus_core::{
    Availability, BackendId, BackendKind as _, BuildContext, ConversationMode, ErrorKind, ExecutionBackend,
    OnLost, Tool, Toolbox, TurnHost,
};
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use serde_json::{Value, json};

use super::{
    server::{Canned, status, stream},
    stage::{TOKEN, backend, request, run},
    wires::{answer, looking},
};

#[tokio::test]
async fn the_gemini_wire_names_what_it_leaves_out_and_repeats_a_malformed_call() {
    let malformed = stream(b"data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\"}]}\n\n");
    let server = Canned::new([malformed, answer("gemini", "", "Done.", &[])]);
    let named = |name: &str| {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "x" } } });
        Tool::with_schema(name, "Echoes.", schema, |value: Value| async move { value.to_string() })
    };
    let tools = Toolbox::new().with(named("echo")).with(named("2echo"));
    let backend = backend("gemini", &server.base_url(), json!({ "retries": 1 }));
    let ran = run(&*backend, request(), TurnHost::new().with_tools(Arc::new(tools))).await;
    assert_eq!(ran.result().text, "Done.");
    let warnings = ran.warnings().join("\n");
    assert!(warnings.contains("\"echo\": its schema is offered without `pattern`"), "{warnings}");
    assert!(warnings.contains("\"2echo\" is not offered"), "{warnings}");
    let functions = &server.asked()[0].body["tools"][0]["functionDeclarations"];
    assert_eq!(functions.as_array().unwrap().len(), 1);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn pictures_in_a_result_follow_it_where_the_model_requires_that() {
    let words = "Multimodal function responses are not supported for this model.";
    let server = Canned::new([
        answer("gemini", "", "", &[("id_1", "look", "{}")]),
        status(400, &json!({ "error": { "code": 400, "message": words, "status": "INVALID_ARGUMENT" } })),
        answer("gemini", "", "Done.", &[]),
    ]);
    let backend = backend("gemini", &server.base_url(), json!({}));
    let ran = run(&*backend, request(), TurnHost::new().with_tools(Arc::new(looking()))).await;
    assert_eq!(ran.result().text, "Done.");
    assert!(ran.warnings().iter().any(|warning| warning.contains("follow the results")));
    let parts = &server.asked()[2].body["contents"][2]["parts"];
    assert_eq!(parts[0]["functionResponse"].get("parts"), None);
    assert_eq!(parts[2]["inlineData"]["data"], "QUJD");
}

#[tokio::test]
async fn a_gemini_server_that_sends_a_list_is_read() {
    let list = br#"[{"candidates":[{"content":{"parts":[{"text":"Do"}]}}]},
        {"candidates":[{"content":{"parts":[{"text":"ne."}]},"finishReason":"STOP"}]}]"#;
    let head = format!(
        "HTTP/1.1 200 Ok\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        list.len()
    );
    let server = Canned::new([[head.as_bytes(), list].concat()]);
    let ran = run(&*backend("gemini", &server.base_url(), json!({})), request(), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Done.");
}

/// A chunk with a text and an end, as some servers send every chunk.
fn ended(text: &str) -> String {
    let parts = json!([{ "text": text }]);
    let chunk = json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] });
    format!("data: {chunk}\n\n")
}

#[tokio::test]
async fn a_server_that_states_an_end_with_every_chunk_is_read_to_its_end() {
    let torn = [ended("a"), ended("b")].concat();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n";
    let server = Canned::new([[head, &torn].concat().into_bytes(), answer("gemini", "", "Done.", &[])]);
    let backend_of = |server: &Canned| backend("gemini", &server.base_url(), json!({ "retries": 1 }));
    let ran = run(&*backend_of(&server), request(), TurnHost::new()).await;
    assert_eq!((ran.result().text.as_str(), server.asked().len()), ("Done.", 2), "a torn answer is repeated");
    // Longer than the wait for the usage after an end.
    let pause = Duration::from_millis(2_300);
    let slow = Canned::pausing(vec![stream(ended("a").as_bytes()), ended("b").into_bytes()], pause);
    let ran = run(&*backend_of(&slow), request(), TurnHost::new()).await;
    assert_eq!((ran.result().text.as_str(), slow.asked().len()), ("ab", 1));
}

fn probed(base_url: &str, model: &str) -> Arc<dyn ExecutionBackend> {
    let settings = json!({ "base_url": base_url, "model": model, "credential": { "env": "KEY" } });
    let environment = BTreeMap::from([("KEY".to_owned(), TOKEN.to_owned())]);
    let context = BuildContext::in_home("/nonexistent/nexus").with_environment(environment);
    GeminiApi.build(BackendId::new("g"), settings.as_object().unwrap(), &context).unwrap()
}

#[tokio::test]
async fn a_probe_reads_the_list_and_sends_the_key_in_its_header() {
    let sim =
        Sim::start(Dialect::Gemini, Scenario::new([Reply::text("Hello")]).models(["gemini-a"])).unwrap();
    for (model, is_ready) in [("gemini-a", true), ("models/gemini-a", true), ("gemini-b", false)] {
        let found = probed(&sim.base_url(), model).probe().await;
        assert_eq!(found.is_ready(), is_ready, "{model}: {found:?}");
    }
    for request in sim.requests() {
        assert_eq!(request.header("x-goog-api-key"), Some(TOKEN));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(
            (request.path.as_str(), request.query.as_deref()),
            ("/v1beta/models", Some("pageSize=1000"))
        );
    }
    assert!(sim.main_calls().is_empty());
}

#[tokio::test]
async fn an_invalid_key_is_told_by_a_probe_and_by_a_turn_although_its_status_is_400() {
    let reason =
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }]);
    let error = json!({ "error": {
        "code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": reason,
    } });
    let server = Canned::new([status(400, &error)]);
    let backend = probed(&server.base_url(), "m");
    let Availability::Unauthenticated { remedy } = backend.probe().await else {
        panic!("the key is invalid")
    };
    assert!(remedy.contains("KEY") && !remedy.contains(TOKEN), "{remedy}");
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{:?}", ran.error()).contains(TOKEN));
}

#[tokio::test]
async fn a_signature_returns_with_its_call_in_the_next_turn_of_the_same_server_and_model() {
    let script = [
        Reply::thinking("Hm.").and_text("Look.").and_call(ToolCall::function("look", json!({}))),
        Reply::text("Seen."),
    ];
    let sim = Sim::start(Dialect::Gemini, Scenario::new(script).strict()).unwrap();
    let backend = backend("gemini", &sim.base_url(), json!({}));
    let mut turn = request();
    turn.conversation = ConversationMode::Keep;
    let first = run(&*backend, turn, TurnHost::new().with_tools(Arc::new(looking()))).await;
    let handle = first.result().resume.clone().unwrap();
    for (model, is_same) in [("grok-4.6", true), ("another", false)] {
        let mut next = request().with_model(model);
        next.conversation = ConversationMode::Resume { handle: handle.clone(), on_lost: OnLost::Fail };
        let ran = run(&*backend, next, TurnHost::new()).await;
        assert_eq!(ran.result().text, "Seen.");
        let sent = sim.main_calls().last().unwrap().json.to_string();
        assert_eq!(sent.contains("c2ltLXNpZ25hdHVyZS0"), is_same, "{sent}");
        assert_eq!(sent.contains("skip_thought_signature_validator"), !is_same, "{sent}");
        assert_eq!(ran.warnings().iter().any(|warning| warning.contains("is left out")), !is_same);
        assert!(sent.contains("QUJD") && sent.contains("Look.") && !sent.contains("Hm."), "{sent}");
    }
}
