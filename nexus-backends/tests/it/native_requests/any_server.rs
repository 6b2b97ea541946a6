//! `responses`: a server of which only the URL is known.

use nexus_backends::generic::Responses;
use nexus_core::{
    BackendId, BackendKind as _, BuildContext, Effort, ErrorKind, OutputSchema, TurnHost, TurnRequest,
};
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use serde_json::{Map, Value, json};

use super::support::{TOKEN, adder, build, input, run, sum, warnings};

#[tokio::test]
async fn a_request_has_what_every_server_takes_and_no_more() {
    let sim = Sim::start(Dialect::Responses, Scenario::new(sum())).unwrap();
    let backend = build(&Responses, &sim.base_url(), json!({ "model": "any" })).unwrap();
    let request = TurnRequest::new("Add 20 and 22.").with_system("Be brief.");
    let (outcome, events) = run(&backend, request, adder()).await;
    assert_eq!(outcome.unwrap().text, "The sum is 42.");
    assert!(warnings(&events).is_empty(), "{events:?}");

    let calls = sim.main_calls();
    let mut keys: Vec<&str> = calls[0].json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected =
        ["include", "input", "instructions", "model", "prompt_cache_key", "store", "stream", "tools"];
    assert_eq!(keys, expected);
    assert_eq!(calls[0].json["instructions"], "Be brief.");
    let prompt = json!([{ "type": "input_text", "text": "Add 20 and 22." }]);
    assert_eq!(input(&calls[0])[..], [json!({ "type": "message", "role": "user", "content": prompt })]);
    assert_eq!(calls[0].header("authorization"), None);
    assert_eq!(sim.requests().len(), calls.len(), "nothing else is asked of it");
}

#[tokio::test]
async fn settings_switch_off_what_a_server_refuses() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let settings = json!({
        "credential": { "env": "TOKEN" }, "headers": { "x-title": "nexus", "User-Agent": "mine/1" }, "system": "system",
        "efforts": ["low", "high"], "reasoning_summary": "auto", "encrypted_reasoning": false,
        "prompt_cache_key": false,
    });
    let backend = build(&Responses, &sim.base_url(), settings).unwrap();
    let request =
        TurnRequest::new("Hi").with_system("Be brief.").with_model("any").with_effort(Effort::XHigh);
    run(&backend, request, TurnHost::new()).await.0.unwrap();
    let sent = sim.main_calls().pop().unwrap();
    for key in ["include", "prompt_cache_key", "instructions", "tools"] {
        assert_eq!(sent.json.get(key), None::<&Value>, "{key}");
    }
    assert_eq!(sent.json["reasoning"], json!({ "effort": "high", "summary": "auto" }));
    assert_eq!(input(&sent)[0]["role"], "system");
    assert_eq!(sent.bearer(), Some(TOKEN));
    assert_eq!(sent.header("x-title"), Some("nexus"));
    let agents: Vec<_> = sent.headers.iter().filter(|(name, _)| name == "user-agent").collect();
    assert_eq!(agents, [&("user-agent".to_owned(), "mine/1".to_owned())], "the configuration wins");
}

#[tokio::test]
async fn an_empty_menu_leaves_effort_out_and_says_so() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let backend = build(&Responses, &sim.base_url(), json!({ "model": "any", "efforts": [] })).unwrap();
    let (outcome, events) =
        run(&backend, TurnRequest::new("Hi").with_effort(Effort::High), TurnHost::new()).await;
    outcome.unwrap();
    assert_eq!(sim.main_calls()[0].json.get("reasoning"), None::<&Value>);
    assert!(warnings(&events).iter().any(|text| text.contains("effort")), "{events:?}");
}

#[tokio::test]
async fn a_schema_is_told_to_the_server_or_to_the_model() {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } },
        "required": ["n"], "additionalProperties": false,
    });
    for (word, told_to_server) in [("native", true), ("instructed", false)] {
        let sim = Sim::start(Dialect::Responses, Reply::json(&json!({ "n": 7 }))).unwrap();
        let settings = json!({ "model": "any", "structured_output": word });
        let backend = build(&Responses, &sim.base_url(), settings).unwrap();
        let request = TurnRequest::new("Count.").with_output(OutputSchema::new(schema.clone()).unwrap());
        let result = run(&backend, request, TurnHost::new()).await.0.unwrap();
        assert_eq!(result.output, Some(json!({ "n": 7 })));
        let sent = sim.main_calls().pop().unwrap();
        assert_eq!(sent.json.get("text").is_some(), told_to_server, "{word}");
        let prompt = input(&sent)[0].to_string();
        assert_eq!(prompt.contains("JSON Schema"), !told_to_server, "{word}");
        assert_eq!(input(&sent).len(), 1, "templates want user and assistant to take turns");
    }
}

#[tokio::test]
async fn a_model_must_be_named_by_somebody() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let backend = build(&Responses, &sim.base_url(), json!({})).unwrap();
    assert!(backend.capabilities().needs_model);
    let named = build(&Responses, &sim.base_url(), json!({ "model": "m" })).unwrap();
    assert!(!named.capabilities().needs_model);
    let error = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(format!("{error:?}").contains("name a model"), "{error:?}");
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn a_probe_finds_out_that_the_model_of_a_local_server_is_missing() {
    let scenario = Scenario::new([Reply::text("Hello")]).models(["qwen3:latest", "other"]);
    let sim = Sim::start(Dialect::Responses, scenario).unwrap();
    for (model, is_ready) in [("other", true), ("qwen3", true), ("qwen3:8b", false), ("othr", false)] {
        let backend = build(&Responses, &sim.base_url(), json!({ "model": model })).unwrap();
        let found = backend.probe().await;
        assert_eq!(found.is_ready(), is_ready, "{model}: {found:?}");
        if let nexus_core::Availability::Unusable { reason } = found {
            assert!(reason.contains("it lists qwen3:latest, other"), "{reason}");
        }
    }
    // A backend without a model is judged by its caller, which knows the types.
    assert!(build(&Responses, &sim.base_url(), json!({})).unwrap().probe().await.is_ready());
    assert!(sim.main_calls().is_empty());
}

#[tokio::test]
async fn a_probe_sends_a_configured_key_to_its_server_alone_and_borrows_none_of_the_host() {
    let scenario = Scenario::new([Reply::text("Hello")]).models(["any"]);
    let sim = Sim::start(Dialect::Responses, scenario).unwrap();
    let settings = json!({ "model": "any", "credential": { "env": "TOKEN" }, "billing": "plan" });
    let context = BuildContext::in_home("/nonexistent/nexus")
        .with_environment([("TOKEN".to_owned(), "sk-metered".to_owned())].into());
    let Value::Object(mut settings) = settings else { unreachable!() };
    settings.insert("base_url".to_owned(), json!(sim.base_url()));
    let build =
        |settings: &Map<String, Value>| Responses.build(BackendId::new("main"), settings, &context).unwrap();
    // A turn would be refused for its payer.
    let found = build(&settings).probe().await;
    assert!(matches!(&found, nexus_core::Availability::Unusable { .. }), "{found:?}");
    assert!(sim.requests().is_empty());
    settings.insert("billing".to_owned(), json!("metered"));
    assert!(build(&settings).probe().await.is_ready());
    let requests = sim.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].bearer(), Some("sk-metered"));
}

#[tokio::test]
async fn a_probe_asks_no_model_and_shows_no_credential() {
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let backend = build(&Responses, &sim.base_url(), json!({ "model": "any" })).unwrap();
    assert!(matches!(backend.probe().await, nexus_core::Availability::Ready { .. }));
    let settings = json!({ "model": "any", "credential": { "env": "NOT_SET" } });
    let backend = build(&Responses, &sim.base_url(), settings).unwrap();
    assert!(matches!(backend.probe().await, nexus_core::Availability::Unauthenticated { .. }));
    assert!(sim.main_calls().is_empty());
    // Whether the server answers is asked without anything that is its caller's.
    assert_eq!(sim.requests().len(), 1);
    assert!(sim.requests().iter().all(|request| request.bearer().is_none()));
}
