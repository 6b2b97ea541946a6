//! Anthropic Messages in good weather.

use nexus_testkit::sim::{Dialect, Finish, Odd, RateLimit, Reply, Scenario, Sim, ToolCall, Usage, long_text};
use serde_json::{Value, json};

use super::client::{End, get, messages, messages_body, post, request};

fn start(scenario: impl Into<Scenario>) -> Sim {
    Sim::start(Dialect::Anthropic, scenario).expect("a simulator")
}

#[test]
fn text_is_a_whole_stream() {
    let sim = start(Reply::thinking("Hm.").and_text("Hello, wörld 🦀!"));
    let answer = messages(sim.address(), "hi");
    assert_eq!((answer.status, answer.end), (Some(200), End::Whole));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.joined("content_block_delta", "/delta/text"), "Hello, wörld 🦀!");
    assert_eq!(answer.joined("content_block_delta", "/delta/thinking"), "Hm.");
    let kinds: Vec<String> =
        answer.events().iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(kinds.first().map(String::as_str), Some("message_start"));
    assert_eq!(kinds.last().map(String::as_str), Some("message_stop"));
    let starts = kinds.iter().filter(|kind| *kind == "content_block_start").count();
    let stops = kinds.iter().filter(|kind| *kind == "content_block_stop").count();
    assert_eq!((starts, stops), (2, 2));
    let end = &answer.events_of("message_delta")[0];
    assert_eq!(end["delta"]["stop_reason"], "end_turn");
}

#[test]
fn usage_is_told_in_disjoint_buckets() {
    let usage = Usage { input: 11, cached: 5, cache_write: 3, output: 7, reasoning: 2, cost_ticks: None };
    let sim = start(Reply::text("x").usage(usage));
    let answer = messages(sim.address(), "hi");
    let start = &answer.events_of("message_start")[0]["message"]["usage"];
    assert_eq!(start["input_tokens"], 11);
    assert_eq!(start["cache_read_input_tokens"], 5);
    assert_eq!(start["cache_creation_input_tokens"], 3);
    assert_eq!(answer.events_of("message_delta")[0]["usage"]["output_tokens"], 9);
}

#[test]
fn tool_calls_carry_the_harness_names() {
    let sim = start(Reply::calls([
        ToolCall::shell("ls"),
        ToolCall::write_file("a.txt", "b\n"),
        ToolCall::mcp("nexus", "add", json!({"a": 1})),
        ToolCall::raw("Bash", "{not json"),
    ]));
    let answer = messages(sim.address(), "hi");
    let blocks = answer.events_of("content_block_start");
    let names: Vec<&Value> = blocks.iter().map(|block| &block["content_block"]["name"]).collect();
    assert_eq!(names, ["Bash", "Write", "mcp__nexus__add", "Bash"]);
    let input = |index: u64| -> String {
        answer
            .events_of("content_block_delta")
            .iter()
            .filter(|event| event["index"] == index)
            .filter_map(|event| event["delta"]["partial_json"].as_str().map(str::to_owned))
            .collect()
    };
    let shell: Value = serde_json::from_str(&input(0)).expect("JSON arguments");
    assert_eq!(shell["command"], "ls");
    assert_eq!(input(3), "{not json");
    assert_eq!(answer.events_of("message_delta")[0]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn every_finish_has_its_stop_reason() {
    for (finish, reason) in [
        (Finish::MaxTokens, "max_tokens"),
        (Finish::Refusal, "refusal"),
        (Finish::ContentFilter, "refusal"),
        (Finish::Pause, "pause_turn"),
        (Finish::ContextExceeded, "model_context_window_exceeded"),
    ] {
        let sim = start(Reply::text("x").finish(finish));
        let answer = messages(sim.address(), "hi");
        assert_eq!(answer.events_of("message_delta")[0]["delta"]["stop_reason"], reason);
    }
}

#[test]
fn the_unstreamed_repeat_is_one_message() {
    let sim = start(Reply::text("Hello.").and_call(ToolCall::shell("ls")));
    let mut body = messages_body("hi");
    body["stream"] = json!(false);
    let answer = post(sim.address(), "/v1/messages", &[], &body);
    assert_eq!(answer.end, End::Whole);
    let message = answer.json();
    assert_eq!(message["content"][0]["text"], "Hello.");
    assert_eq!(message["content"][1]["name"], "Bash");
    assert_eq!(message["content"][1]["input"]["command"], "ls");
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(sim.main_calls().len(), 1);
}

#[test]
fn a_long_answer_is_exact() {
    let sim = start(Reply::long(300_001));
    let answer = messages(sim.address(), "hi");
    assert_eq!(answer.joined("content_block_delta", "/delta/text"), long_text(300_001));
}

#[test]
fn odd_things_stand_between_the_others() {
    let reply = Reply::empty()
        .and_odd(Odd::Comment)
        .and_odd(Odd::Event)
        .and_odd(Odd::Item)
        .and_odd(Odd::Garbage)
        .and_text("still here");
    let sim = start(reply);
    let answer = messages(sim.address(), "hi");
    assert_eq!(answer.joined("content_block_delta", "/delta/text"), "still here");
    assert_eq!(answer.events_of("simulated_news").len(), 1);
    assert_eq!(answer.events_of("content_block_start")[0]["content_block"]["type"], "simulated_block");
    assert!(answer.body.contains("\n: simulated comment\n"));
    assert!(answer.body.contains("data: {\"type\": \"content_bl\n"));
}

#[test]
fn the_endpoints_beside_the_model_are_harmless() {
    let sim = start(Scenario::text("x"));
    let count = post(sim.address(), "/v1/messages/count_tokens", &[], &messages_body("hi"));
    assert!(count.json()["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    assert_eq!(request("HEAD", sim.address(), "/", &[], "").status, Some(200));
    assert_eq!(get(sim.address(), "/api/claude_code/settings", &[]).status, Some(404));
    let mut probe = messages_body("quota");
    probe["max_tokens"] = json!(1);
    assert_eq!(post(sim.address(), "/v1/messages", &[], &probe).status, Some(200));
    assert!(sim.main_calls().is_empty());
    assert_eq!(sim.requests().len(), 4);
}

#[test]
fn limit_news_comes_in_the_unified_headers() {
    let sim = start(Reply::text("x").rate_limit(RateLimit::warning(85.0, 1_800_000_000)));
    let answer = messages(sim.address(), "hi");
    assert_eq!(answer.header("anthropic-ratelimit-unified-status"), Some("allowed_warning"));
    assert_eq!(answer.header("anthropic-ratelimit-unified-reset"), Some("1800000000"));
    assert_eq!(answer.header("anthropic-ratelimit-unified-5h-utilization"), Some("0.85"));
}
