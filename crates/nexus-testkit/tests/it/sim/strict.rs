//! The catalogue in each vendor's shape, and the requests that a strict scenario refuses.

use nexus_testkit::sim::{Dialect, Model, RateLimit, Reply, Scenario, Sim, Window};
use serde_json::{Value, json};

use super::client::{Answer, get, post, responses, responses_body};

const LITE: (&str, &str) = ("x-openai-internal-codex-responses-lite", "true");
const XAI: [(&str, &str); 2] = [("x-xai-token-auth", "xai-grok-cli"), ("x-grok-client-version", "1.0.41")];

fn scenario() -> Scenario {
    let models = [Model::new("classic"), Model::new("modern").lite().efforts(["low", "max"])];
    Scenario::text("Taken.").models(models).strict()
}

fn start(dialect: Dialect) -> Sim {
    Sim::start(dialect, scenario()).expect("a simulator")
}

/// A request that a Codex client would send to `model`, with `changes` on top; `null` takes a field away.
fn body(model: &str, changes: &Value) -> Value {
    let mut body = responses_body("hi");
    body["model"] = json!(model);
    body["store"] = json!(false);
    if model == "modern" {
        body["reasoning"] = json!({"effort": "low", "context": "all_turns"});
    }
    if let (Some(body), Some(changes)) = (body.as_object_mut(), changes.as_object()) {
        body.extend(changes.clone());
        body.retain(|_, value| !value.is_null());
    }
    body
}

fn openai(sim: &Sim, model: &str, headers: &[(&str, &str)], changes: &Value) -> Answer {
    post(sim.address(), "/v1/responses", headers, &body(model, changes))
}

#[test]
fn a_codex_client_is_told_which_models_are_lite() {
    let sim = start(Dialect::Responses);
    let listed = get(sim.address(), "/v1/models?client_version=0.169.0", &[]);
    let etag = listed.header("etag").expect("a header");
    let again = get(sim.address(), "/v1/models?client_version=0.169.0", &[("if-none-match", etag)]);
    assert_eq!((again.status, again.body.as_str()), (Some(304), ""));
    let models = listed.json()["models"].clone();
    assert_eq!((&models[0]["slug"], &models[0]["use_responses_lite"]), (&json!("classic"), &json!(false)));
    assert_eq!((&models[1]["slug"], &models[1]["use_responses_lite"]), (&json!("modern"), &json!(true)));
    assert_eq!(models[0]["supported_reasoning_levels"][3]["effort"], "xhigh");
    assert_eq!(models[1]["supported_reasoning_levels"][1]["effort"], "max");
    let plain = get(sim.address(), "/v1/models", &[]).json();
    assert_eq!((&plain["object"], &plain["data"][1]["id"]), (&json!("list"), &json!("modern")));
}

#[test]
fn a_grok_client_is_told_the_menu_of_efforts() {
    let models = [Model::new("grok-a"), Model::new("grok-b").efforts(Vec::<String>::new())];
    let sim = Sim::start(Dialect::Xai, Scenario::text("x").models(models)).expect("a simulator");
    let listed = get(sim.address(), "/v1/models", &[]).json();
    let (with_menu, without) = (&listed["data"][0], &listed["data"][1]);
    assert_eq!(with_menu["supports_reasoning_effort"], true);
    assert_eq!(
        with_menu["reasoning_efforts"][1],
        json!({"value": "medium", "label": "medium", "default": true})
    );
    assert!(with_menu["context_window"].is_u64());
    assert_eq!(without["supports_reasoning_effort"], false);
    assert!(without.get("reasoning_efforts").is_none());
}

#[test]
fn models_are_written_by_name_or_in_full() {
    let written = r#"{"models": ["a", {"name": "b", "lite": true}, {"name": "c", "efforts": []}]}"#;
    let read: Scenario = serde_json::from_str(written).expect("a scenario");
    let wanted = [Model::new("a"), Model::new("b").lite(), Model::new("c").efforts(Vec::<String>::new())];
    assert_eq!(read.models, wanted);
    let again: Scenario =
        serde_json::from_value(serde_json::to_value(&read).expect("JSON")).expect("a scenario");
    assert_eq!(again, read);
    assert!(serde_json::from_str::<Scenario>(r#"{"models": [{"name": "b", "light": true}]}"#).is_err());
}

#[test]
fn what_the_vendor_takes_is_taken() {
    let sim = start(Dialect::Responses);
    assert_eq!(openai(&sim, "classic", &[], &json!({})).status, Some(200));
    assert_eq!(openai(&sim, "modern", &[LITE], &json!({})).status, Some(200));
    assert_eq!(openai(&sim, "unlisted", &[], &json!({})).status, Some(200));
    let sim = start(Dialect::Xai);
    let effort = json!({"reasoning": {"effort": "low", "summary": "concise"}});
    assert_eq!(openai(&sim, "classic", &XAI, &effort).status, Some(200));
}

#[test]
fn the_wrong_shape_for_a_model_is_refused() {
    let sim = start(Dialect::Responses);
    let answer = openai(&sim, "modern", &[], &json!({}));
    assert_eq!(answer.status, Some(404));
    assert_eq!(answer.json()["detail"], "Model not found modern");
    assert_eq!(openai(&sim, "classic", &[LITE], &json!({})).status, Some(400));
    let tools = json!({"tools": [{"type": "function", "name": "a"}]});
    assert_eq!(openai(&sim, "classic", &[], &tools).status, Some(200));
    assert_eq!(openai(&sim, "modern", &[LITE], &tools).json()["error"]["param"], "tools");
    let no_context = json!({"reasoning": {"effort": "low"}});
    assert_eq!(openai(&sim, "modern", &[LITE], &no_context).json()["error"]["code"], "unsupported_value");
    let hosted = json!({"input": [{"type": "additional_tools", "tools": [{"type": "web_search"}]}]});
    assert_eq!(openai(&sim, "modern", &[LITE], &hosted).status, Some(400));
    let scripted: Vec<_> = sim.main_calls().iter().map(|call| call.scripted.is_some()).collect();
    assert_eq!(scripted, [false, false, true, false, false, false], "a refusal takes no reply");
}

#[test]
fn fields_that_the_vendor_does_not_take_are_refused() {
    let sim = start(Dialect::Responses);
    for field in ["max_output_tokens", "previous_response_id", "temperature"] {
        let answer = openai(&sim, "classic", &[], &json!({ field: 1 }));
        assert_eq!(answer.status, Some(400), "{field}");
        assert_eq!(answer.json()["detail"], format!("Unsupported parameter: {field}"));
    }
    for store in [json!(true), json!(null)] {
        assert_eq!(openai(&sim, "classic", &[], &json!({ "store": store })).status, Some(400));
    }
}

#[test]
fn xai_wants_its_headers_and_refuses_its_fields() {
    let models = [Model::new("grok-a"), Model::new("grok-b").efforts(Vec::<String>::new())];
    let sim = Sim::start(Dialect::Xai, Scenario::text("x").models(models).strict()).expect("a simulator");
    let refused = |headers: &[(&str, &str)], model: &str, changes: Value| {
        let answer = openai(&sim, model, headers, &changes);
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(&[], "grok-a", json!({})).0, Some(403));
    assert_eq!(refused(&XAI[..1], "grok-a", json!({})).0, Some(426));
    let effort = json!({"reasoning": {"effort": "low"}});
    let invalid = (Some(400), "invalid-argument".to_owned());
    assert_eq!(refused(&XAI, "grok-b", effort.clone()), invalid);
    assert_eq!(openai(&sim, "grok-a", &XAI, &effort).status, Some(200));
    for field in ["previous_response_id", "service_tier", "stop", "stream_options"] {
        assert_eq!(refused(&XAI, "grok-a", json!({ field: "x" })), invalid, "{field}");
    }
    let reasoning = |item: Value| json!({"input": [item]});
    let with_status = json!({"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"});
    assert_eq!(refused(&XAI, "grok-a", reasoning(with_status)), invalid);
    let without = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    assert_eq!(openai(&sim, "grok-a", &XAI, &reasoning(without)).status, Some(200));
    let twin = json!({"tools": [{"type": "web_search"}, {"type": "function", "name": "web_search"}]});
    assert_eq!(refused(&XAI, "grok-a", twin), invalid);
    let offer = |schema: Value| json!({"tools": [{"type": "function", "name": "a", "parameters": schema}]});
    let exclusive = json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(refused(&XAI, "grok-a", offer(exclusive)), invalid);
    let of_objects = json!({"oneOf": [{"type": "object"}, {"type": "object"}]});
    let inside =
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
    for schema in [of_objects, inside] {
        assert_eq!(openai(&sim, "grok-a", &XAI, &offer(schema)).status, Some(200));
    }
}

#[test]
fn without_the_flag_everything_is_taken() {
    let sim = Sim::start(Dialect::Responses, Scenario::text("x").models(["one"])).expect("a simulator");
    let loose = json!({"max_output_tokens": 5, "store": true});
    assert_eq!(openai(&sim, "one", &[LITE], &loose).status, Some(200));
}

#[test]
fn a_second_window_is_told_in_headers_and_in_the_event() {
    let window = Window { used_percent: 40.5, window_minutes: 10_080, resets_at: 1_800_009_999 };
    let limit = RateLimit::allowed(12.5, 1_800_000_000).and_window(window);
    for reply in [Reply::text("x"), Reply::status(429)] {
        let sim = Sim::start(Dialect::Responses, reply.rate_limit(limit.clone())).expect("a simulator");
        let answer = responses(sim.address(), "hi");
        assert_eq!(answer.header("x-codex-primary-used-percent"), Some("12.5"));
        assert_eq!(answer.header("x-codex-secondary-used-percent"), Some("40.5"));
        assert_eq!(answer.header("x-codex-secondary-window-minutes"), Some("10080"));
        assert_eq!(answer.header("x-codex-secondary-reset-at"), Some("1800009999"));
        assert_eq!(answer.header("x-codex-credits-has-credits"), Some("false"));
        if answer.status == Some(200) {
            let event = &answer.events_of("codex.rate_limits")[0]["rate_limits"];
            assert_eq!(event["secondary"]["used_percent"], 40.5);
        }
    }
}

#[test]
fn an_answer_names_its_model_and_its_turn() {
    let sim = start(Dialect::Responses);
    let answer = openai(&sim, "classic", &[], &json!({}));
    assert_eq!(answer.header("openai-model"), Some("classic"));
    assert!(answer.header("x-codex-turn-state").is_some_and(|state| !state.is_empty()));
}
