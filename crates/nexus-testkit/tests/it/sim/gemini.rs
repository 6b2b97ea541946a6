//! The Gemini API in good weather, and the faults that only this API has.

use nexus_testkit::sim::{Dialect, Fault, Finish, Item, Reply, Scenario, Sim, StatusFault, ToolCall, Usage};
use serde_json::{Value, json};

use super::client::{Answer, End, get, post};

const PATH: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

fn start(scenario: impl Into<Scenario>) -> Sim {
    Sim::start(Dialect::Gemini, scenario).expect("a simulator")
}

fn ask(sim: &Sim) -> Answer {
    let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] });
    post(sim.address(), PATH, &[], &body)
}

fn parts(answer: &Answer) -> Vec<Value> {
    let events = answer.events();
    let of =
        |chunk: &Value| chunk["candidates"][0]["content"]["parts"].as_array().cloned().unwrap_or_default();
    events.iter().flat_map(of).collect()
}

/// The texts, joined: those that are thinking, or the others.
fn joined(answer: &Answer, thought: bool) -> String {
    let is_wanted = |part: &&Value| part["thought"].as_bool().unwrap_or(false) == thought;
    parts(answer)
        .iter()
        .filter(is_wanted)
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect()
}

fn finish_reason(answer: &Answer) -> String {
    let reason = |chunk: &Value| chunk["candidates"][0]["finishReason"].as_str().map(str::to_owned);
    answer.events().iter().find_map(reason).unwrap_or_default()
}

#[test]
fn text_is_a_whole_stream() {
    let sim = start(Reply::thinking("Hm.").and_text("Hello, wörld 🦀!"));
    let answer = ask(&sim);
    assert_eq!((answer.status, answer.end), (Some(200), End::Whole));
    assert_eq!(
        (joined(&answer, false).as_str(), joined(&answer, true).as_str()),
        ("Hello, wörld 🦀!", "Hm.")
    );
    assert_eq!(finish_reason(&answer), "STOP");
    assert!(!answer.body.contains("event:") && !answer.body.contains("[DONE]"), "{}", answer.body);
}

#[test]
fn usage_is_in_the_last_chunk() {
    let usage = Usage { input: 11, cached: 5, cache_write: 3, output: 7, reasoning: 2, cost_ticks: None };
    let last = ask(&start(Reply::text("x").usage(usage))).events().pop().expect("a chunk");
    let wanted = json!({
        "promptTokenCount": 19, "cachedContentTokenCount": 5, "candidatesTokenCount": 7,
        "thoughtsTokenCount": 2, "totalTokenCount": 28,
    });
    assert_eq!(last["usageMetadata"], wanted);
    let last = ask(&start(Reply::text("x").without_usage())).events().pop().expect("a chunk");
    assert_eq!(last.get("usageMetadata"), None);
}

#[test]
fn the_first_call_of_a_reply_is_signed() {
    let sim = start(Reply::calls([
        ToolCall::function("add", json!({ "a": 1 })),
        ToolCall::raw("add", "{not json"),
    ]));
    let parts = parts(&ask(&sim));
    assert_eq!(parts[0]["functionCall"]["args"], json!({ "a": 1 }));
    assert_eq!(parts[1]["functionCall"]["args"], "{not json");
    assert!(parts[0]["thoughtSignature"].is_string() && parts[1].get("thoughtSignature").is_none());
    assert_ne!(parts[0]["functionCall"]["id"], parts[1]["functionCall"]["id"]);
}

#[test]
fn every_finish_has_its_reason() {
    for (finish, reason) in [
        (Finish::MaxTokens, "MAX_TOKENS"),
        (Finish::ContentFilter, "PROHIBITED_CONTENT"),
        (Finish::Refusal, "SAFETY"),
        (Finish::ContextExceeded, ""),
    ] {
        assert_eq!(finish_reason(&ask(&start(Reply::text("x").finish(finish)))), reason, "{finish:?}");
    }
}

#[test]
fn an_error_has_a_status_a_name_and_details() {
    let answer = ask(&start(Reply::text("Half").broken("rate_limit", "slow down")));
    let error = answer.events().pop().expect("an error");
    assert_eq!(
        error,
        json!({ "error": { "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED" } })
    );
    let fault = StatusFault { retry_after: Some(2), ..StatusFault::new(429) };
    let refused = ask(&start(Reply::fault(Fault::Status(fault))));
    assert_eq!((refused.status, refused.header("retry-after")), (Some(429), Some("2")));
    assert_eq!(refused.json()["error"]["details"][0]["retryDelay"], "2s");
}

#[test]
fn faults_of_this_api_alone_have_its_forms() {
    let reason = ask(&start(Reply::text("Half").broken("MALFORMED_FUNCTION_CALL", "why")));
    assert_eq!(finish_reason(&reason), "MALFORMED_FUNCTION_CALL");
    let blocked = ask(&start(Reply::empty().broken("PROMPT_BLOCKED", "why")));
    assert_eq!(blocked.events()[0]["promptFeedback"]["blockReason"], "SAFETY");
    let fault = Fault::ErrorLine { code: "overloaded".into(), message: "why".into() };
    let bare = ask(&start(Reply { fault: Some(fault), ..Reply::text("Half") }));
    let (_, error) = bare.body.rsplit_once("\n\n").expect("events before the error");
    assert_eq!(serde_json::from_str::<Value>(error).expect("JSON")["error"]["code"], 503);
}

#[test]
fn a_whole_answer_is_a_list_of_chunks() {
    let mut reply = Reply::thinking("Hm.").and_text("a").and_call(ToolCall::function("add", json!({})));
    reply.fault = Some(Fault::Unstreamed);
    let whole = ask(&start(reply)).json();
    let parts = whole[0]["candidates"][0]["content"]["parts"].as_array().expect("parts");
    assert_eq!((&parts[0]["thought"], &parts[1]["text"]), (&json!(true), &json!("a")));
    assert_eq!(parts[2]["functionCall"]["name"], "add");
    assert_eq!(whole[1]["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn a_request_is_read_in_neutral_words() {
    let sim = start(Reply::text("x"));
    let picture = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA" } });
    let request = json!({
        "systemInstruction": { "parts": [{ "text": "Be brief." }] },
        "tools": [{ "functionDeclarations": [{ "name": "add", "description": "d" }] }],
        "generationConfig": {
            "maxOutputTokens": 9, "thinkingConfig": { "thinkingLevel": "low" },
            "responseJsonSchema": { "type": "object" },
        },
        "contents": [
            { "role": "user", "parts": [{ "text": "Look." }, picture] },
            { "role": "model", "parts": [
                { "text": "Hm.", "thought": true },
                { "functionCall": { "id": "1", "name": "add", "args": { "a": 1 } } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "id": "1", "name": "add", "response": { "error": "2" }, "parts": [picture] } },
            ] },
        ],
    });
    post(sim.address(), PATH, &[], &request);
    let call = &sim.main_calls()[0].conversation;
    assert_eq!((call.model.as_deref(), call.stream), (Some("m"), true));
    assert_eq!(
        (call.system.as_str(), call.effort.as_deref(), call.max_output_tokens),
        ("Be brief.", Some("low"), Some(9))
    );
    assert_eq!((call.images(), call.tool_results()), (2, vec!["2"]));
    assert_eq!(call.tool_names(), ["add"]);
    assert!(call.items.contains(&Item::Thinking("Hm.".to_owned())) && call.output_schema.is_some());
}

#[test]
fn a_strict_server_refuses_a_response_without_its_call() {
    let sim = start(Scenario::text("x").strict());
    let response = json!({ "functionResponse": { "name": "add", "response": {} } });
    let request = json!({ "contents": [{ "role": "user", "parts": [response] }] });
    let answer = post(sim.address(), PATH, &[], &request);
    assert_eq!(answer.status, Some(400));
    assert!(answer.body.contains("number of function response parts"), "{}", answer.body);
    assert_eq!(ask(&sim).status, Some(200));
}

#[test]
fn models_are_listed_with_their_methods() {
    let sim = start(Scenario::text("x").models(["a"]));
    let listed = get(sim.address(), "/v1beta/models?pageSize=1000", &[]).json();
    assert_eq!(listed["models"][0]["name"], "models/a");
    assert_eq!(listed["models"][0]["supportedGenerationMethods"][0], "generateContent");
}

#[test]
fn all_dialects_on_one_port_tell_it_by_its_path() {
    let sim = Sim::start(Dialect::All, Scenario::text("x").models(["a"])).expect("a simulator");
    assert_eq!(joined(&ask(&sim), false), "x");
    assert_eq!(sim.main_calls()[0].dialect, Dialect::Gemini);
    let listed = get(sim.address(), "/v1beta/models", &[("x-goog-api-key", "k")]);
    assert!(listed.json()["models"].is_array());
}
