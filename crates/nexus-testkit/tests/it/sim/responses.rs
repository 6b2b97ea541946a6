//! OpenAI Responses in good weather, classic and lite.

use nexus_testkit::sim::{Dialect, Finish, RateLimit, Reply, Scenario, Sim, ToolCall, Usage};
use serde_json::{Value, json};

use super::client::{Answer, End, get, post, responses, responses_body};

fn start(scenario: impl Into<Scenario>) -> Sim {
    Sim::start(Dialect::Responses, scenario).expect("a simulator")
}

/// The finished items, as clients take them.
fn items(answer: &Answer) -> Vec<Value> {
    answer.events_of("response.output_item.done").into_iter().map(|mut event| event["item"].take()).collect()
}

/// A request for a lite model: its tools travel inside the input.
fn lite_body() -> Value {
    let mut body = responses_body("hi");
    body["input"].as_array_mut().expect("a list").insert(
        0,
        json!({"type": "additional_tools", "role": "developer", "tools": [
            {"type": "namespace", "name": "functions", "tools": [
                {"type": "custom", "name": "exec"}, {"type": "function", "name": "wait"},
            ]},
            {"type": "namespace", "name": "mcp__direct", "tools": [{"type": "function", "name": "add"}]},
        ]}),
    );
    body
}

#[test]
fn text_is_a_whole_stream() {
    let sim = start(Reply::thinking("Hm.").and_text("Hello, wörld 🦀!"));
    let answer = responses(sim.address(), "hi");
    assert_eq!((answer.status, answer.end), (Some(200), End::Whole));
    assert_eq!(answer.joined("response.output_text.delta", "/delta"), "Hello, wörld 🦀!");
    assert_eq!(answer.joined("response.reasoning_summary_text.delta", "/delta"), "Hm.");
    let items = items(&answer);
    assert_eq!(items[0]["summary"][0]["text"], "Hm.");
    assert!(items[0]["encrypted_content"].is_string());
    assert_eq!(items[1]["content"][0]["text"], "Hello, wörld 🦀!");
    let end = &answer.events_of("response.completed")[0]["response"];
    assert_eq!(end["usage"]["input_tokens"], 120);
    assert_eq!(end["usage"]["input_tokens_details"]["cached_tokens"], 20);
    assert_eq!(end["usage"]["output_tokens"], 30);
    assert_eq!(answer.events().last().map(|event| &event["type"]), Some(&json!("response.completed")));
}

#[test]
fn usage_may_be_missing() {
    let sim = start(Reply::text("x").without_usage());
    let answer = responses(sim.address(), "hi");
    assert!(answer.events_of("response.completed")[0]["response"].get("usage").is_none());
}

#[test]
fn cache_writes_are_told_when_there_are_any() {
    let usage = Usage { cache_write: 4, ..Usage::default() };
    let sim = start(Reply::text("x").usage(usage));
    let answer = responses(sim.address(), "hi");
    let usage = &answer.events_of("response.completed")[0]["response"]["usage"];
    assert_eq!(usage["input_tokens_details"]["cache_write_tokens"], 4);
    assert_eq!(usage["input_tokens"], 124);
}

#[test]
fn a_classic_model_calls_functions_and_custom_tools() {
    let sim = start(Reply::calls([
        ToolCall::shell("echo 'a b'"),
        ToolCall::write_file("a.txt", "one\ntwo\n"),
        ToolCall::mcp("my-lab", "echo", json!({"text": "x"})),
        ToolCall::custom("apply_patch", "*** nonsense"),
    ]));
    let mut body = responses_body("hi");
    body["tools"] =
        json!([{"type": "function", "name": "exec_command"}, {"type": "custom", "name": "apply_patch"}]);
    let answer = post(sim.address(), "/v1/responses", &[], &body);
    let items = items(&answer);
    assert_eq!(items[0]["name"], "exec_command");
    assert_eq!(items[0]["arguments"], json!({"cmd": "echo 'a b'"}).to_string());
    assert_eq!(items[1]["type"], "custom_tool_call");
    assert_eq!(items[1]["input"], "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch\n");
    assert_eq!((&items[2]["namespace"], &items[2]["name"]), (&json!("mcp__my_lab"), &json!("echo")));
    assert_eq!(items[3]["input"], "*** nonsense");
    let deltas = answer.joined("response.custom_tool_call_input.delta", "/delta");
    assert!(deltas.ends_with("*** nonsense"));
    let ids: std::collections::HashSet<String> =
        items.iter().map(|item| item["call_id"].to_string()).collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn without_apply_patch_a_file_is_written_by_the_shell() {
    let sim = start(Reply::call(ToolCall::write_file("it's", "a'b")));
    let answer = responses(sim.address(), "hi");
    let arguments: Value =
        serde_json::from_str(items(&answer)[0]["arguments"].as_str().expect("a string")).expect("JSON");
    assert_eq!(arguments["cmd"], r"printf %s 'a'\''b' > 'it'\''s'");
}

#[test]
fn a_lite_model_calls_tools_from_javascript() {
    let sim = start(Reply::calls([
        ToolCall::shell("ls \"x\""),
        ToolCall::write_file("a.txt", "b\n"),
        ToolCall::mcp("hidden", "add", json!({"a": 1})),
        ToolCall::mcp("direct", "add", json!({"a": 1})),
    ]));
    let answer = post(sim.address(), "/v1/responses", &[], &lite_body());
    let items = items(&answer);
    assert_eq!((&items[0]["namespace"], &items[0]["name"]), (&json!("functions"), &json!("exec")));
    let script = |index: usize| items[index]["input"].as_str().unwrap_or_default().to_owned();
    assert!(script(0).contains(r#"tools.exec_command({"cmd":"ls \"x\""})"#), "{}", script(0));
    assert!(script(1).contains(r#"tools.apply_patch("*** Begin Patch\n"#), "{}", script(1));
    assert!(script(2).contains(r#"tools.mcp__hidden__add({"a":1})"#), "{}", script(2));
    assert_eq!((&items[3]["namespace"], &items[3]["type"]), (&json!("mcp__direct"), &json!("function_call")));
}

#[test]
fn every_finish_has_its_terminal_event() {
    let ends = |finish| {
        let sim = start(Reply::text("x").finish(finish));
        responses(sim.address(), "hi")
    };
    for (finish, reason) in
        [(Finish::MaxTokens, "max_output_tokens"), (Finish::ContentFilter, "content_filter")]
    {
        let answer = ends(finish);
        let response = &answer.events_of("response.incomplete")[0]["response"];
        assert_eq!(response["incomplete_details"]["reason"], reason);
    }
    let failed = ends(Finish::ContextExceeded);
    assert_eq!(
        failed.events_of("response.failed")[0]["response"]["error"]["code"],
        "context_length_exceeded"
    );
    let refused = ends(Finish::Refusal);
    assert_eq!(items(&refused)[0]["content"][0], json!({"type": "refusal", "refusal": "x"}));
    assert_eq!(refused.joined("response.refusal.delta", "/delta"), "x");
    let paused = ends(Finish::Pause);
    assert_eq!(paused.events_of("response.completed")[0]["response"]["end_turn"], false);
}

#[test]
fn pictures_in_the_answer_of_a_tool_are_read() {
    let sim = start(Reply::text("x"));
    let mut body = responses_body("hi");
    body["input"] = json!([{"type": "function_call_output", "call_id": "c", "output": [
        {"type": "input_text", "text": "a heron"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]}]);
    post(sim.address(), "/v1/responses", &[], &body);
    let conversation = &sim.main_calls()[0].conversation;
    assert_eq!((conversation.tool_results(), conversation.images()), (vec!["a heron"], 1));
}

#[test]
fn limit_news_comes_as_headers_and_as_an_event() {
    let sim = start(Reply::text("x").rate_limit(RateLimit::allowed(12.5, 1_800_000_000)));
    let answer = responses(sim.address(), "hi");
    assert_eq!(answer.header("x-codex-primary-used-percent"), Some("12.5"));
    assert_eq!(answer.header("x-codex-primary-reset-at"), Some("1800000000"));
    let event = &answer.events_of("codex.rate_limits")[0];
    assert_eq!(event["rate_limits"]["primary"]["window_minutes"], 300);
}

#[test]
fn the_catalogue_is_the_scenarios() {
    let sim = start(Scenario::text("x"));
    assert_eq!(get(sim.address(), "/v1/models", &[]).status, Some(404));
    let sim = start(Scenario::text("x").models(["one", "two"]));
    let listed = get(sim.address(), "/v1/models", &[]).json();
    assert_eq!(listed["data"][1]["id"], "two");
}
