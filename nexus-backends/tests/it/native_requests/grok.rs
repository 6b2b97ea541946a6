//! `grok-sub-token`: xAI's endpoint.

use nexus_backends::grok::GrokSubToken;
use nexus_core::{CostReport, Effort, ErrorKind, OutputSchema, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Fault, Model, RecordedRequest, Reply, Scenario, Sim, Usage};
use serde_json::{Value, json};

use super::support::{
    Recorded, TOKEN, adder, backend, compare, compare_headers, input, of_type, run, sum, warnings,
};

/// Headers of the vendor's program about its own surface, its compaction and its user. The index of the turn
/// counts the turns of a session, which we do not.
const ABOUT_ITSELF: [&str; 10] = [
    "x-authenticateresponse",
    "x-grok-client-mode",
    "x-compactions-remaining",
    "x-compaction-at",
    "x-grok-user-id",
    "x-grok-conv-group-id",
    "x-grok-agent-id",
    "x-grok-turn-idx",
    "x-grok-doom-loop-check",
    "x-grok-exact-repetition-check",
];

async fn requests() -> Vec<RecordedRequest> {
    let sim = Sim::start(Dialect::Xai, Scenario::new(sum()).models(["grok-4.6"]).strict()).unwrap();
    let request = TurnRequest::new("Add 20 and 22.")
        .with_system("You answer with the tools given.")
        .with_model("grok-4.6")
        .with_effort(Effort::Low);
    let (outcome, _) = run(&backend(&GrokSubToken, &sim, json!({})), request, adder()).await;
    assert_eq!(outcome.unwrap().text, "The sum is 42.");
    sim.main_calls()
}

#[tokio::test]
async fn a_request_is_as_the_vendors_program_makes_it() {
    let calls = requests().await;
    let theirs = Recorded::read("request-grok-strict-round3");
    for sent in &calls {
        compare(&sent.json, theirs.body(), &[], &["input", "tools", "prompt_cache_key"]);
        for message in of_type(input(sent), "message") {
            assert!(message["content"].is_string(), "{message}");
        }
    }
    let said = input(&calls[1]);
    // Theirs is the same message, word for word.
    assert_eq!(said[0], theirs.input()[0]);
    assert_eq!(said[1], theirs.input()[2]);
    for kind in ["function_call", "function_call_output"] {
        let (ours, theirs) = (of_type(said, kind)[0], of_type(theirs.input(), kind)[0]);
        compare(ours, theirs, &[], &["arguments", "call_id", "name", "output"]);
    }
    let tool = &calls[0].json["tools"][0];
    for key in ["type", "name", "description", "parameters"] {
        assert!(tool.get(key).is_some() && theirs.body()["tools"][0].get(key).is_some(), "{key}");
    }
}

#[tokio::test]
async fn reasoning_goes_back_bare() {
    let calls = requests().await;
    let ours = of_type(input(&calls[1]), "reasoning");
    let theirs = Recorded::read("request-grok-replay-reasoning-then-call");
    let allowed = of_type(theirs.input(), "reasoning")[0].as_object().unwrap();
    assert_eq!(ours.len(), 1);
    for key in ours[0].as_object().unwrap().keys() {
        assert!(allowed.contains_key(key) || key == "content", "{key}");
    }
    assert!(!ours[0]["summary"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn headers_are_those_of_the_vendors_program_under_our_own_name() {
    let calls = requests().await;
    let absent: Vec<&str> = ABOUT_ITSELF.into_iter().chain(["traceparent"]).collect();
    compare_headers(&calls[0], &Recorded::read("request-grok-strict-round3"), &absent);
    for call in &calls {
        assert_eq!(call.bearer(), Some(TOKEN));
        assert_eq!(call.header("x-xai-token-auth"), Some("xai-grok-cli"));
        assert_eq!(call.header("x-grok-client-version"), Some("1.0.41"));
        assert_eq!(call.header("x-grok-client-identifier"), Some("nexus"));
        assert_eq!(call.header("user-agent"), Some(concat!("nexus/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(call.header("x-grok-model-override"), Some("grok-4.6"));
        assert_eq!(call.header("x-grok-conv-id"), call.json["prompt_cache_key"].as_str());
    }
    assert_ne!(calls[0].header("x-grok-req-id"), calls[1].header("x-grok-req-id"));
}

#[tokio::test]
async fn a_schema_is_asked_for_as_the_vendors_program_asks() {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "n": { "type": "integer" } },
        "required": ["name", "n"],
        "additionalProperties": false,
    });
    let reply = Reply::json(&json!({ "name": "x", "n": 1 }));
    let sim = Sim::start(Dialect::Xai, Scenario::from(reply).models(["grok-4.6"]).strict()).unwrap();
    let request = TurnRequest::new("Answer.")
        .with_model("grok-4.6")
        .with_effort(Effort::High)
        .with_output(OutputSchema::new(schema).unwrap());
    run(&backend(&GrokSubToken, &sim, json!({})), request, TurnHost::new()).await.0.unwrap();
    let theirs = Recorded::read("request-grok-json-schema");
    let sent = &sim.main_calls()[0].json;
    assert_eq!(sent["reasoning"], theirs.body()["reasoning"]);
    compare(&sent["text"]["format"], &theirs.body()["text"]["format"], &[], &["name"]);
}

#[tokio::test]
async fn effort_goes_where_the_menu_has_it_and_nowhere_else() {
    let menu = Model::new("grok-4.5").efforts(["high", "medium", "low"]);
    let none = Model::new("grok-build").efforts(Vec::<String>::new());
    let scenario = Scenario::text("Hello").models([menu, none]).strict();
    let sim = Sim::start(Dialect::Xai, scenario).unwrap();
    let backend = backend(&GrokSubToken, &sim, json!({}));
    let rows = [("grok-4.5", json!("high")), ("grok-build", Value::Null), ("not-listed", Value::Null)];
    for (model, expected) in rows {
        let request = TurnRequest::new("Hi").with_model(model).with_effort(Effort::Max);
        let (outcome, events) = run(&backend, request, TurnHost::new()).await;
        outcome.unwrap();
        let sent = sim.main_calls().pop().unwrap();
        assert_eq!(sent.json["reasoning"]["effort"], expected, "{model}");
        assert!(warnings(&events).iter().any(|text| text.contains("effort")), "{model}");
    }
}

#[tokio::test]
async fn what_an_answer_cost_is_reported() {
    let reply = Reply::text("Hello").usage(Usage { cost_ticks: Some(12_345_678), ..Usage::default() });
    let sim = Sim::start(Dialect::Xai, Scenario::from(reply).models(["grok-4.6"])).unwrap();
    let backend = backend(&GrokSubToken, &sim, json!({}));
    assert_eq!(backend.capabilities().cost, CostReport::Reported);
    let result = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap();
    assert_eq!(result.provenance.model.unwrap().as_str(), "grok-4.6");
    assert!((result.cost.unwrap().usd.0 - 0.001_234_567_8).abs() < 1e-12);
}

#[tokio::test]
async fn a_free_allowance_that_is_used_up_is_a_limit() {
    let sim = Sim::start(Dialect::Xai, Reply::fault(Fault::usage_limit(4_000_000_000))).unwrap();
    let request = TurnRequest::new("Hi").with_model("grok-4.6");
    let error = run(&backend(&GrokSubToken, &sim, json!({})), request, TurnHost::new()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UsageLimit);
    assert_eq!(sim.main_calls().len(), 1);
}
