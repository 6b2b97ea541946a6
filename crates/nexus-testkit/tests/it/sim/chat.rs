//! Chat Completions in good weather, and the faults that only this API has.

use nexus_testkit::sim::{Dialect, Fault, Finish, Reply, Scenario, Sim, ToolCall, Usage};
use serde_json::{Value, json};

use super::client::{Answer, End, get, post};

fn start(scenario: impl Into<Scenario>) -> Sim {
    Sim::start(Dialect::Chat, scenario).expect("a simulator")
}

fn body(prompt: &str) -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": prompt }] })
}

fn ask(sim: &Sim) -> Answer {
    post(sim.address(), "/v1/chat/completions", &[], &body("hi"))
}

/// The strings at `pointer` of the first choice of all chunks, joined.
fn joined(answer: &Answer, pointer: &str) -> String {
    let text = |chunk: &Value| chunk["choices"][0]["delta"].pointer(pointer)?.as_str().map(str::to_owned);
    answer.events().iter().filter_map(text).collect()
}

fn finish_reason(answer: &Answer) -> String {
    let reason = |chunk: &Value| chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned);
    answer.events().iter().find_map(reason).unwrap_or_default()
}

#[test]
fn text_is_a_whole_stream() {
    let sim = start(Reply::thinking("Hm.").and_text("Hello, wörld 🦀!"));
    let answer = ask(&sim);
    assert_eq!((answer.status, answer.end), (Some(200), End::Whole));
    assert_eq!(joined(&answer, "/content"), "Hello, wörld 🦀!");
    assert_eq!(joined(&answer, "/reasoning_content"), "Hm.");
    assert_eq!(finish_reason(&answer), "stop");
    assert!(answer.body.starts_with(": ") && answer.body.ends_with("data: [DONE]\n\n"), "{}", answer.body);
    assert!(!answer.body.contains("event:"), "the API names no events");
}

#[test]
fn usage_follows_in_a_chunk_without_choices() {
    let usage = Usage { input: 11, cached: 5, cache_write: 3, output: 7, reasoning: 2, cost_ticks: None };
    let last = ask(&start(Reply::text("x").usage(usage))).events().pop().expect("a chunk");
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        (&last["usage"]["prompt_tokens"], &last["usage"]["completion_tokens"]),
        (&json!(19), &json!(9))
    );
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    let last = ask(&start(Reply::text("x").without_usage())).events().pop().expect("a chunk");
    assert_eq!(last.get("usage"), None);
}

#[test]
fn calls_come_in_pieces() {
    let sim = start(Reply::calls([
        ToolCall::function("add", json!({ "a": 1, "b": "a longer argument" })),
        ToolCall::raw("add", "{not json"),
    ]));
    let answer = ask(&sim);
    let pieces = |index: u64| -> String {
        let call = |chunk: &Value| {
            let call = chunk["choices"][0]["delta"]["tool_calls"][0].clone();
            (call["index"] == index)
                .then(|| call["function"]["arguments"].as_str().unwrap_or_default().to_owned())
        };
        answer.events().iter().filter_map(call).collect()
    };
    assert_eq!(serde_json::from_str::<Value>(&pieces(0)).expect("JSON")["a"], 1);
    assert_eq!(pieces(1), "{not json");
    assert_eq!(finish_reason(&answer), "tool_calls");
}

#[test]
fn every_finish_has_its_reason() {
    for (finish, reason) in [
        (Finish::MaxTokens, "length"),
        (Finish::ContentFilter, "content_filter"),
        (Finish::Refusal, "stop"),
        (Finish::ContextExceeded, "error"),
    ] {
        assert_eq!(finish_reason(&ask(&start(Reply::text("x").finish(finish)))), reason, "{finish:?}");
    }
    let refusal = ask(&start(Reply::text("I cannot.").finish(Finish::Refusal)));
    assert_eq!(
        (joined(&refusal, "/refusal").as_str(), joined(&refusal, "/content").as_str()),
        ("I cannot.", "")
    );
}

#[test]
fn an_error_in_the_stream_has_a_numeric_code_and_the_usual_end() {
    let answer = ask(&start(Reply::text("Half").broken("rate_limit", "slow down")));
    let error = answer.events().into_iter().find(|chunk| chunk.get("error").is_some()).expect("an error");
    assert_eq!(error["error"], json!({ "code": 429, "message": "slow down" }));
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn a_whole_completion_has_what_the_stream_has() {
    let mut reply = Reply::thinking("Hm.").and_text("a").and_call(ToolCall::function("add", json!({})));
    reply.fault = Some(Fault::Unstreamed);
    let whole = ask(&start(reply)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("a"), &json!("Hm.")));
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn a_request_is_read_in_neutral_words() {
    let sim = start(Reply::text("x"));
    let request = json!({
        "model": "m", "stream": true, "max_tokens": 9, "reasoning_effort": "low",
        "tools": [{ "type": "function", "function": { "name": "add", "description": "d", "parameters": {} } }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": { "type": "object" } } },
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "text", "text": "Look." },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
            ] },
            { "role": "assistant", "content": null, "reasoning_content": "Hm.",
              "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "add", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "1", "content": "2" },
        ],
    });
    post(sim.address(), "/v1/chat/completions", &[], &request);
    let call = &sim.main_calls()[0].conversation;
    assert_eq!(
        (call.system.as_str(), call.effort.as_deref(), call.max_output_tokens),
        ("Be brief.", Some("low"), Some(9))
    );
    assert_eq!(
        (call.images(), call.tool_results(), call.tool_names()),
        (1, vec!["2"], vec!["add".to_owned()])
    );
    assert!(call.output_schema.is_some());
}

#[test]
fn a_strict_server_refuses_a_result_without_its_call() {
    let sim = start(Scenario::text("x").strict());
    let request =
        json!({ "model": "m", "messages": [{ "role": "tool", "tool_call_id": "1", "content": "2" }] });
    let answer = post(sim.address(), "/v1/chat/completions", &[], &request);
    assert_eq!(answer.status, Some(400));
    assert!(answer.body.contains("preceding message"), "{}", answer.body);
    assert_eq!(ask(&sim).status, Some(200));
}

#[test]
fn all_dialects_on_one_port_tell_it_by_its_path() {
    let sim = Sim::start(Dialect::All, Reply::text("x")).expect("a simulator");
    assert_eq!(joined(&ask(&sim), "/content"), "x");
    assert_eq!(sim.main_calls()[0].dialect, Dialect::Chat);
    assert_eq!(get(sim.address(), "/v1/nothing", &[]).status, Some(404));
}
