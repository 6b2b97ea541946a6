//! Which reply a call gets.

use std::thread;
use std::time::Duration;

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use serde_json::json;

use super::client::{get, messages, messages_body, post, responses, responses_body};

fn said(sim: &Sim, prompt: &str) -> String {
    messages(sim.address(), prompt).joined("content_block_delta", "/delta/text")
}

#[test]
fn the_last_reply_repeats_or_gives_way() {
    let scenario = Scenario::new([Reply::text("one"), Reply::text("two")]);
    let sim = Sim::start(Dialect::Anthropic, scenario.clone()).expect("a simulator");
    let heard: Vec<String> = (0..4).map(|_| said(&sim, "hi")).collect();
    assert_eq!(heard, ["one", "two", "two", "two"]);
    let sim = Sim::start(Dialect::Anthropic, scenario.then(Reply::text("after"))).expect("a simulator");
    let heard: Vec<String> = (0..4).map(|_| said(&sim, "hi")).collect();
    assert_eq!(heard, ["one", "two", "after", "after"]);
}

#[test]
fn a_rule_takes_its_prompts_and_counts_for_itself() {
    let scenario = Scenario::text("default")
        .when_prompt("task-1", [Reply::text("1a"), Reply::text("1b")])
        .when_prompt("task-2", [Reply::text("2a")]);
    let sim = Sim::start(Dialect::Anthropic, scenario).expect("a simulator");
    assert_eq!(said(&sim, "do task-1 now"), "1a");
    assert_eq!(said(&sim, "do task-2 now"), "2a");
    assert_eq!(said(&sim, "do task-1 now"), "1b");
    assert_eq!(said(&sim, "anything"), "default");
    let places: Vec<_> = sim.main_calls().iter().filter_map(|call| call.scripted).collect();
    assert_eq!(places[2].rule, Some(0));
    assert_eq!(places[2].index, 1);
}

#[test]
fn the_newest_prompt_decides_and_tool_results_do_not() {
    let scenario = Scenario::text("default")
        .when_prompt("old", [Reply::text("for old")])
        .when_prompt("new", [Reply::text("for new")]);
    let sim = Sim::start(Dialect::Anthropic, scenario).expect("a simulator");
    let mut body = messages_body("the old one");
    body["messages"] = json!([
        {"role": "user", "content": "the old one"},
        {"role": "assistant", "content": [{"type": "text", "text": "old"}]},
        {"role": "user", "content": [{"type": "text", "text": "the new one"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "an old file"}]},
    ]);
    let answer = post(sim.address(), "/v1/messages", &[], &body);
    assert_eq!(answer.joined("content_block_delta", "/delta/text"), "for new");
}

#[test]
fn conversations_may_count_for_themselves() {
    let scenario = Scenario::tool_then_text(ToolCall::shell("true"), "done").per_conversation();
    let sim = Sim::start(Dialect::Responses, scenario).expect("a simulator");
    let address = sim.address();
    let turns: Vec<_> = (0..8)
        .map(|turn| {
            thread::spawn(move || {
                let mut body = responses_body("the same prompt");
                body["prompt_cache_key"] = json!(format!("session-{turn}"));
                let first = post(address, "/v1/responses", &[], &body);
                let second = post(address, "/v1/responses", &[], &body);
                let called = first.joined("response.function_call_arguments.delta", "/delta");
                (called, second.joined("response.output_text.delta", "/delta"))
            })
        })
        .collect();
    for turn in turns {
        let (called, said) = turn.join().expect("a turn");
        assert_eq!((called.as_str(), said.as_str()), (r#"{"cmd":"true"}"#, "done"));
    }
    assert_eq!(sim.main_calls().len(), 16);
}

#[test]
fn a_script_can_be_replaced() {
    let sim = Sim::start(Dialect::Anthropic, Scenario::text("before")).expect("a simulator");
    assert_eq!(said(&sim, "hi"), "before");
    sim.set_scenario([Reply::text("after")]);
    assert_eq!(said(&sim, "hi"), "after");
    assert_eq!(sim.main_calls()[1].scripted.map(|place| place.index), Some(0));
}

#[test]
fn one_port_serves_all_dialects() {
    let sim = Sim::start(Dialect::All, Scenario::text("hello")).expect("a simulator");
    messages(sim.address(), "hi");
    responses(sim.address(), "hi");
    post(sim.address(), "/v1/responses", &[("x-grok-turn-idx", "1")], &responses_body("hi"));
    get(sim.address(), "/v1/models", &[("user-agent", "grok-shell/1.0.41")]);
    let dialects: Vec<Dialect> = sim.requests().iter().map(|request| request.dialect).collect();
    assert_eq!(dialects, [Dialect::Anthropic, Dialect::Responses, Dialect::Xai, Dialect::Xai]);
}

#[test]
fn a_dropped_simulator_is_gone_at_once_even_in_a_stall() {
    let sim = Sim::start(Dialect::Anthropic, Reply::text("x").stalled()).expect("a simulator");
    let address = sim.address();
    let client = thread::spawn(move || messages(address, "hi"));
    assert!(sim.wait_until_blocking(super::client::PATIENCE, |sim| {
        sim.requests().first().is_some_and(|request| request.status.is_some())
    }));
    let dropping = std::time::Instant::now();
    drop(sim);
    assert!(dropping.elapsed() < Duration::from_secs(30), "a stall has no end of its own");
    assert_ne!(client.join().expect("the client").end, super::client::End::Silence);
    // A process that another test starts has the port for a moment: sockets are open in it until it executes its program.
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(dropping.elapsed() < super::client::PATIENCE, "the port stays open");
        thread::sleep(Duration::from_millis(5));
    }
}
