//! The vendors' lists of models: asked once, and no reason to fail a turn.

use futures::future::join_all;
use nexus_backends::{codex::CodexSubToken, grok::GrokSubToken};
use nexus_core::{BackendKind, Effort, ErrorKind, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Model, Purpose, Scenario, Sim};
use serde_json::{Value, json};

use super::support::{TOKEN, adder, backend, run, sum, warnings};

fn looks(sim: &Sim) -> usize {
    let is_look = |request: &&nexus_testkit::sim::RecordedRequest| request.purpose == Purpose::Housekeeping;
    sim.requests().iter().filter(is_look).count()
}

#[tokio::test]
async fn many_turns_ask_for_the_list_once() {
    for (kind, dialect) in
        [(&CodexSubToken as &dyn BackendKind, Dialect::Responses), (&GrokSubToken, Dialect::Xai)]
    {
        let sim = Sim::start(dialect, Scenario::text("Hello").models(["a", "b"])).unwrap();
        let backend = backend(kind, &sim, json!({}));
        let turns = (0..10).map(|_| run(&backend, TurnRequest::new("Hi"), TurnHost::new()));
        for (outcome, _) in join_all(turns).await {
            outcome.unwrap();
        }
        assert_eq!((looks(&sim), sim.main_calls().len()), (1, 10), "{}", kind.name());
        // Without a name, it is the first that is listed.
        assert!(sim.main_calls().iter().all(|call| call.json["model"] == "a"));
        let look = sim.requests().into_iter().find(|request| request.path.ends_with("/models")).unwrap();
        assert_eq!(look.bearer(), Some(TOKEN));
    }
}

#[tokio::test]
async fn the_version_that_the_list_is_asked_for_is_a_setting() {
    let sim = Sim::start(Dialect::Responses, Scenario::text("Hello").models(["a"])).unwrap();
    for (settings, expected) in [
        (json!({}), "client_version=0.169.0"),
        (json!({ "client_version": "1.2.3" }), "client_version=1.2.3"),
    ] {
        let backend = backend(&CodexSubToken, &sim, settings);
        run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap();
        let look = sim.requests().into_iter().rfind(|request| request.path.ends_with("/models")).unwrap();
        assert_eq!(look.query.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn without_a_list_a_model_is_asked_in_the_classic_shape_and_that_is_said() {
    let sim = Sim::start(Dialect::Responses, Scenario::new(sum())).unwrap();
    let request = TurnRequest::new("Add.").with_model("gpt-6.1-sol").with_effort(Effort::High);
    let (outcome, events) = run(&backend(&CodexSubToken, &sim, json!({})), request, adder()).await;
    outcome.unwrap();
    let sent = &sim.main_calls()[0];
    assert!(sent.json["tools"].is_array());
    assert_eq!(sent.header("x-openai-internal-codex-responses-lite"), None);
    assert_eq!(sent.json["reasoning"]["effort"], "high");
    let told = warnings(&events);
    assert!(told.iter().any(|text| text.contains("404") && text.contains("classic")), "{told:?}");
}

#[tokio::test]
async fn a_model_that_is_not_listed_is_asked_in_the_classic_shape_and_that_is_said() {
    let lite = Model::new("gpt-6.1-sol").lite();
    let sim = Sim::start(Dialect::Responses, Scenario::new(sum()).models([lite])).unwrap();
    let backend = backend(&CodexSubToken, &sim, json!({}));
    let (outcome, events) = run(&backend, TurnRequest::new("Add.").with_model("gpt-6.2"), adder()).await;
    outcome.unwrap();
    assert!(sim.main_calls()[0].json["tools"].is_array());
    let told = warnings(&events);
    assert!(told.iter().any(|text| text.contains("gpt-6.2") && text.contains("list")), "{told:?}");
}

#[tokio::test]
async fn a_longer_name_is_asked_as_its_beginning_is() {
    let lite = Model::new("gpt-6.1-sol").lite();
    let scenario = Scenario::new(sum()).models([Model::new("gpt-6.1"), lite]);
    let sim = Sim::start(Dialect::Responses, scenario).unwrap();
    let backend = backend(&CodexSubToken, &sim, json!({ "model": "gpt-6.1-sol-2026" }));
    let (outcome, events) = run(&backend, TurnRequest::new("Add."), adder()).await;
    outcome.unwrap();
    let sent = &sim.main_calls()[0];
    assert_eq!(sent.json["model"], "gpt-6.1-sol-2026");
    assert_eq!(sent.json["input"][0]["type"], "additional_tools");
    assert_eq!(sent.json.get("tools"), None::<&Value>);
    assert!(warnings(&events).is_empty());
}

#[tokio::test]
async fn with_neither_a_name_nor_a_list_a_model_is_to_be_named() {
    for (kind, dialect) in
        [(&CodexSubToken as &dyn BackendKind, Dialect::Responses), (&GrokSubToken, Dialect::Xai)]
    {
        let sim = Sim::start(dialect, Scenario::text("Hello")).unwrap();
        let backend = backend(kind, &sim, json!({}));
        let error = run(&backend, TurnRequest::new("Hi"), TurnHost::new()).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(format!("{error:?}").contains("name a model"), "{error:?}");
        assert!(sim.main_calls().is_empty());
    }
}
