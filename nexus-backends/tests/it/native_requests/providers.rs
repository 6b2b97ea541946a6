//! Providers by name, credentials by command and configured prices: what a server gets, and what a turn reports.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, sync::Arc};

use nexus_core::{
    Availability, Budget, BuildContext, Cost, CostReport, CostSource, ErrorKind, ExecutionBackend, Limit,
    Limits, ModelListError, TurnHost, TurnRequest, Usd,
};
use nexus_testkit::sim::{Dialect, Fault, RecordedRequest, Reply, Scenario, Sim, StatusFault, Usage};
use serde_json::{Value, json};

use super::support::{TOKEN, run, warnings};

/// Builds an entry with a provider as the router does, in front of a simulator. Every variable of a key has the token.
fn provided(provider: &str, entry: &Value, section: Option<&Value>, sim: &Sim) -> Arc<dyn ExecutionBackend> {
    let registry = nexus_backends::registry();
    let providers = registry.providers().unwrap();
    let entry = entry.as_object().unwrap();
    let mut done = providers.complete(provider, entry, section).unwrap();
    let variable =
        done.settings.get("credential").and_then(|from| from["env"].as_str()).map(ToOwned::to_owned);
    done.settings.insert("base_url".to_owned(), json!(sim.base_url()));
    let environment: BTreeMap<_, _> = variable.into_iter().map(|name| (name, TOKEN.to_owned())).collect();
    let context = BuildContext::in_home("/nonexistent").with_environment(environment);
    registry.kind(&done.kind).unwrap().build(provider.into(), &done.settings, &context).unwrap()
}

/// The request of a turn at a provider.
async fn request(provider: &str, entry: Value, section: Option<&Value>, dialect: Dialect) -> RecordedRequest {
    let sim = Sim::start(dialect, Reply::text("Hello")).unwrap();
    let backend = provided(provider, &entry, section, &sim);
    run(&backend, TurnRequest::new("Hi").with_model("some-model"), TurnHost::new()).await.0.unwrap();
    sim.main_calls().pop().unwrap()
}

#[tokio::test]
async fn a_key_is_a_bearer_token_where_a_row_names_no_other_place() {
    let sent = request("groq", json!({}), None, Dialect::Chat).await;
    assert_eq!((sent.path.as_str(), sent.bearer()), ("/v1/chat/completions", Some(TOKEN)));
    assert_eq!(sent.json["model"], "some-model");
}

#[tokio::test]
async fn a_key_is_in_the_header_of_the_row() {
    let sent = request("azure", json!({ "resource": "mine" }), None, Dialect::Responses).await;
    assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some(TOKEN), None));
    let sent = request("anthropic", json!({}), None, Dialect::Anthropic).await;
    assert_eq!((sent.header("x-api-key"), sent.header("authorization")), (Some(TOKEN), None));
}

#[tokio::test]
async fn a_key_is_in_the_query_of_the_row_with_its_headers_and_members() {
    let section = json!({ "mine": {
        "wire": "chat", "base_url": "https://a.test/v1", "auth": { "query": "key" }, "variable": "MY_KEY",
        "headers": { "x-title": "row" }, "body": { "region": "eu" }, "settings": { "output_bound": "omit" },
    } });
    let sent = request("mine", json!({ "body": { "tier": "fast" } }), Some(&section), Dialect::Chat).await;
    assert_eq!(sent.query.as_deref(), Some(&*format!("key={TOKEN}")));
    assert_eq!((sent.header("authorization"), sent.header("x-title")), (None, Some("row")));
    assert_eq!((&sent.json["region"], &sent.json["tier"]), (&json!("eu"), &json!("fast")));
}

#[tokio::test]
async fn no_form_of_a_key_in_the_query_comes_back() {
    const KEY: &str = "canary+Key/1=";
    const ENCODED: &str = "canary%2BKey%2F1%3D";
    const LOWER: &str = "canary%2bKey%2f1%3d";
    let message = format!("no route for /chat?key={ENCODED}, /chat?key={LOWER} or {KEY}");
    let refusal = StatusFault { message: Some(message), ..StatusFault::new(400) };
    let refusals = [Reply::fault(Fault::Status(refusal.clone())), Reply::fault(Fault::Status(refusal))];
    let sim = Sim::start(Dialect::Chat, Scenario::new(refusals)).unwrap();
    let section = json!({ "mine": {
        "wire": "chat", "base_url": "https://a.test/v1", "auth": { "query": "key" }, "variable": "MY_KEY",
    } });
    let registry = nexus_backends::registry();
    let providers = registry.providers().unwrap();
    let mut done = providers.complete("mine", &serde_json::Map::new(), Some(&section)).unwrap();
    done.settings.insert("base_url".to_owned(), json!(sim.base_url()));
    let environment = BTreeMap::from([("MY_KEY".to_owned(), KEY.to_owned())]);
    let context = BuildContext::in_home("/nonexistent").with_environment(environment);
    let backend = registry.kind("chat").unwrap().build("mine".into(), &done.settings, &context).unwrap();
    let (outcome, events) =
        run(&backend, TurnRequest::new("Hi").with_model("some-model"), TurnHost::new()).await;
    let shown = format!("{:?} {events:?}", outcome.unwrap_err());
    assert!(shown.contains("no route") && !shown.contains("canary"), "{shown}");
    assert_eq!(sim.main_calls()[0].query.as_deref(), Some(&*format!("key={ENCODED}")));
}

#[tokio::test]
async fn a_probe_starts_no_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("print");
    std::fs::write(&program, "#!/bin/sh\necho run >> \"$0.runs\"\necho canary\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let sim = Sim::start(Dialect::Chat, Scenario::text("Hello").models(["m"])).unwrap();
    let settings =
        json!({ "base_url": sim.base_url(), "model": "m", "credential": { "command": ["./print"] } });
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let context = BuildContext::in_home("/nonexistent")
        .with_base_directory(folder.path())
        .with_environment(environment);
    let registry = nexus_backends::registry();
    let backend =
        registry.kind("chat").unwrap().build("chat".into(), settings.as_object().unwrap(), &context).unwrap();
    let runs =
        || std::fs::read_to_string(folder.path().join("print.runs")).unwrap_or_default().lines().count();
    let Availability::Ready { notes, .. } = backend.probe().await else { panic!("not ready") };
    assert!(notes[0].contains("was not tried"), "{notes:?}");
    assert_eq!((runs(), sim.requests().len()), (0, 1), "the server is reached");
    // With a token from a turn, a probe also tries it.
    run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap();
    let Availability::Ready { notes, .. } = backend.probe().await else { panic!("not ready") };
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!((runs(), sim.requests().pop().unwrap().bearer()), (1, Some("canary")));
}

#[tokio::test]
async fn a_server_without_keys_gets_none() {
    let sent = request("sglang", json!({}), None, Dialect::Chat).await;
    assert_eq!(sent.header("authorization"), None);
}

#[tokio::test]
async fn a_token_that_a_program_prints_is_sent_and_replaced_once_it_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("print");
    std::fs::write(
        &program,
        "#!/bin/sh\necho run >> \"$0.runs\"\necho canary-$(wc -l < \"$0.runs\" | tr -d ' ')\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let replies =
        [Reply::text("one"), Reply::fault(Fault::status(401)), Reply::text("two"), Reply::text("three")];
    let sim = Sim::start(Dialect::Chat, Scenario::new(replies)).unwrap();
    let settings = json!({
        "base_url": sim.base_url(), "model": "m", "credential": { "command": ["./print"], "ttl": "50m" },
    });
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let context = BuildContext::in_home("/nonexistent")
        .with_base_directory(folder.path())
        .with_environment(environment);
    let kind = nexus_backends::registry().kind("chat").unwrap().clone();
    let backend = kind.build("chat".into(), settings.as_object().unwrap(), &context).unwrap();
    for _ in 0..3 {
        let (outcome, events) = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await;
        let shown = format!("{:?} {events:?}", outcome.unwrap());
        assert!(!shown.contains("canary"), "{shown}");
    }
    let sent: Vec<_> = sim.main_calls().iter().map(|call| call.bearer().unwrap().to_owned()).collect();
    assert_eq!(sent, ["canary-1", "canary-1", "canary-2", "canary-2"]);

    std::fs::remove_file(&program).unwrap();
    let backend = kind.build("chat".into(), settings.as_object().unwrap(), &context).unwrap();
    let error = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.to_string().contains("`credential.command`"), "{error}");
}

/// A turn at a server that reports tokens and no cost, with these settings and this limit.
async fn priced(
    settings: Value,
    limit: Option<f64>,
) -> (Result<Option<Cost>, ErrorKind>, Vec<String>, CostReport) {
    let usage = Usage { input: 1000, cached: 2000, output: 3000, reasoning: 4000, ..Usage::default() };
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello").usage(usage)).unwrap();
    let mut entry = json!({ "model": "m" });
    entry.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let backend = provided("ollama", &entry, None, &sim);
    let mut limits = Limits::new();
    limits.cost = limit.map(Usd);
    let (outcome, events) = run(&backend, TurnRequest::new("Hi").with_limits(limits), TurnHost::new()).await;
    let cost = outcome.map(|result| result.cost).map_err(|error| error.kind());
    (cost, warnings(&events), backend.capabilities().cost)
}

#[tokio::test]
async fn a_price_gives_the_cost_of_a_turn_and_its_limit() {
    let prices = json!({ "prices": { "m": { "input": 1000, "cached": 100, "output": 10000 } } });
    let (cost, warned, report) = priced(prices.clone(), None).await;
    let cost = cost.unwrap().unwrap();
    assert_eq!((cost.source, report), (CostSource::Estimated, CostReport::Estimated));
    assert!((cost.usd.0 - (1.0 + 0.2 + 70.0)).abs() < 1e-9, "{cost:?}");
    assert_eq!(warned, Vec::<String>::new());
    let (outcome, _, _) = priced(prices, Some(0.5)).await;
    assert_eq!(outcome.unwrap_err(), ErrorKind::LimitReached(Limit::Cost));
}

#[tokio::test]
async fn a_limit_on_cost_is_refused_before_the_first_call_of_a_model_without_a_price() {
    for (settings, report) in [
        (json!({ "prices": { "other": { "input": 1, "output": 1 } } }), CostReport::Estimated),
        (json!({}), CostReport::Never),
    ] {
        let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
        let backend = provided("ollama", &settings, None, &sim);
        assert_eq!(backend.capabilities().cost, report);
        let request = TurnRequest::new("Hi").with_model("m");
        let limited = request.clone().with_limits(Limits::new().with_cost(Usd(0.5)));
        let error = run(&backend, limited, TurnHost::new()).await.0.unwrap_err();
        assert_eq!((error.kind(), sim.main_calls().len()), (ErrorKind::Unsupported, 0), "{error}");
        assert_eq!(
            error.to_string().contains("add `m` to `prices`"),
            report == CostReport::Estimated,
            "{error}"
        );
        assert_eq!(run(&backend, request, TurnHost::new()).await.0.unwrap().cost, None);
    }
}

#[tokio::test]
async fn a_reply_of_unknown_cost_ends_a_turn_with_a_limit_on_cost() {
    // The server promises its cost and reports none.
    let sim = Sim::start(Dialect::Responses, Reply::text("Hello")).unwrap();
    let backend = provided("ollama", &json!({ "cost": "reported", "model": "m" }), None, &sim);
    // A budget limits the cost of each of its turns.
    let mut limits = Limits::new();
    let _reservation = Budget::new().with_cost(Usd(5.0)).reserve(&mut limits).unwrap();
    let error =
        run(&backend, TurnRequest::new("Hi").with_limits(limits), TurnHost::new()).await.0.unwrap_err();
    assert_eq!((error.kind(), sim.main_calls().len()), (ErrorKind::LimitReached(Limit::Cost), 1));
    assert!(error.to_string().contains("the cost of a reply of m is not known"), "{error}");
}

#[tokio::test]
async fn a_reported_cost_wins_over_a_price() {
    let usage = Usage { cost_ticks: Some(5_000_000_000), ..Usage::default() };
    let sim = Sim::start(Dialect::Xai, Reply::text("Hello").usage(usage)).unwrap();
    let entry = json!({ "model": "m", "cost": "reported", "prices": { "m": { "input": 1, "output": 1 } } });
    let backend = provided("xai", &entry, None, &sim);
    let result = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap();
    assert_eq!(result.cost, Some(Cost { usd: Usd(0.5), source: CostSource::Reported }));
    assert_eq!(backend.capabilities().cost, CostReport::Reported);
}

#[tokio::test]
async fn a_server_lists_its_models_with_the_key_in_its_place() {
    for (dialect, wire, auth) in [
        (Dialect::Chat, "chat", json!({ "query": "key" })),
        (Dialect::Responses, "responses", json!({ "header": "api-key" })),
        (Dialect::Anthropic, "messages", json!({ "header": "x-api-key" })),
    ] {
        let sim = Sim::start(dialect, Scenario::text("Hello").models(["small", "big"])).unwrap();
        let section = json!({ "mine": { "wire": wire, "base_url": "https://a.test", "auth": auth, "variable": "MY_KEY" } });
        let backend = provided("mine", &json!({}), Some(&section), &sim);
        let models = backend.models().await.unwrap_or_else(|error| panic!("{wire}: {error}"));
        let ids: Vec<&str> = models.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["big", "small"], "{wire}");
        let sent = sim.requests().pop().unwrap();
        assert_eq!((sent.method.as_str(), sent.path.ends_with("/models")), ("GET", true), "{}", sent.path);
        let key = match wire {
            "chat" => sent.query.as_deref().and_then(|query| query.strip_prefix("key=")),
            "responses" => sent.header("api-key"),
            _ => sent.header("x-api-key"),
        };
        assert_eq!(key, Some(TOKEN), "{wire}");
        assert!(sim.main_calls().is_empty());
    }
}

#[tokio::test]
async fn a_server_without_a_list_and_a_program_say_so() {
    let sim = Sim::start(Dialect::Chat, Reply::text("Hello")).unwrap();
    let lost = provided("groq", &json!({}), None, &sim);
    drop(sim);
    assert!(matches!(lost.models().await, Err(ModelListError::Failed { .. })));
    let registry = nexus_backends::registry();
    let build = |kind: &str| {
        let kind = registry.kind(kind).unwrap();
        kind.build(kind.name().into(), &serde_json::Map::new(), &BuildContext::in_home("/nonexistent"))
            .unwrap()
    };
    for (kind, advice) in [
        ("codex-cli", "codex-cli does not list models: run `codex debug models`"),
        ("claude-cli", "claude-cli does not list models: the documentation of its program names them"),
        ("codex-sub-token", "codex-sub-token does not list models: the endpoint of a plan"),
    ] {
        let error = build(kind).models().await.unwrap_err();
        assert!(error.to_string().starts_with(advice), "{error}");
    }
}
