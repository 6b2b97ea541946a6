//! xAI's Responses in good weather, and the endpoints beside it.

use nexus_testkit::sim::{Dialect, Finish, Odd, Part, Purpose, Reply, Scenario, Sim, ToolCall, Usage};
use serde_json::{Value, json};

use super::client::{End, get, post, responses, responses_body};

fn start(scenario: impl Into<Scenario>) -> Sim {
    Sim::start(Dialect::Xai, scenario).expect("a simulator")
}

#[test]
fn the_terminal_event_repeats_the_output() {
    let usage = Usage { cost_ticks: Some(12_345_678), ..Usage::default() };
    let sim = start(Reply::text("Hello.").and_call(ToolCall::shell("ls")).usage(usage));
    let answer = responses(sim.address(), "hi");
    assert_eq!(answer.end, End::Whole);
    let end = &answer.events_of("response.completed")[0]["response"];
    assert_eq!(end["output"][0]["content"][0]["text"], "Hello.");
    assert_eq!(end["output"][1]["name"], "run_terminal_command");
    assert_eq!(end["usage"]["cost_in_usd_ticks"], 12_345_678);
    assert_eq!(end["usage"]["context_details"]["input_tokens"], 120);
    let numbers: Vec<u64> =
        answer.events().iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn thinking_comes_raw_or_as_a_summary() {
    let mut reply = Reply::thinking("Summed up.");
    reply.parts.push(Part::RawThinking { text: "As it was.".into() });
    let sim = start(reply.and_text("x"));
    let answer = responses(sim.address(), "hi");
    assert_eq!(answer.joined("response.reasoning_summary_text.delta", "/delta"), "Summed up.");
    assert_eq!(answer.joined("response.reasoning_text.delta", "/delta"), "As it was.");
}

#[test]
fn tool_calls_carry_the_harness_names() {
    let calls = [
        ToolCall::write_file("a", "b"),
        ToolCall::read_file("a"),
        ToolCall::mcp("nexus", "add", json!({"a": 1})),
    ];
    let sim = start(Reply::calls(calls));
    let call = |tools: Value| {
        let mut body = responses_body("hi");
        body["tools"] = tools;
        let answer = post(sim.address(), "/v1/responses", &[], &body);
        answer.events_of("response.completed")[0]["response"]["output"].clone()
    };
    let output = call(json!([{"type": "function", "name": "write"}]));
    assert_eq!(output[0]["name"], "write");
    assert_eq!(output[1]["name"], "read_file");
    assert_eq!(output[2]["name"], "use_tool");
    assert_eq!(
        output[2]["arguments"],
        json!({"tool_name": "nexus__add", "tool_input": {"a": 1}}).to_string()
    );
    let output = call(json!([{"type": "function", "name": "search_replace"}]));
    assert_eq!(output[0]["name"], "search_replace");
}

#[test]
fn what_the_vendor_searches_itself_is_a_call_that_nobody_answers() {
    let sim = start(Reply::empty().and_odd(Odd::HostedSearch).and_text("Found."));
    let answer = responses(sim.address(), "hi");
    let output = &answer.events_of("response.completed")[0]["response"]["output"];
    assert_eq!(output[0]["type"], "custom_tool_call");
    assert!(
        output[0]["name"].as_str().is_some_and(|name| name.starts_with("x_") && name.ends_with("_search"))
    );
    assert!(output[0]["call_id"].as_str().is_some_and(|id| id.starts_with("xs_call")));
    assert_eq!(output[1]["content"][0]["text"], "Found.");
}

#[test]
fn news_of_a_loop_is_an_event_and_stands_in_the_end() {
    let sim = start(Reply::text("Again and again.").and_odd(Odd::LoopCheck));
    let answer = responses(sim.address(), "hi");
    let check = json!({"triggers": ["tail_repetition:4@response"]});
    assert_eq!(answer.events_of("response.doom_loop_check")[0]["doom_loop_check"], check);
    assert_eq!(answer.events_of("response.completed")[0]["response"]["doom_loop_check"], check);
}

#[test]
fn a_refusal_is_the_content_filter() {
    let sim = start(Reply::text("No.").finish(Finish::Refusal));
    let answer = responses(sim.address(), "hi");
    let response = &answer.events_of("response.incomplete")[0]["response"];
    assert_eq!(response["incomplete_details"]["reason"], "content_filter");
}

#[test]
fn titles_and_summaries_of_the_program_are_not_main_calls() {
    let sim = start(Scenario::text("the answer"));
    let agent = ("user-agent", "grok-shell/1.0.41 (linux; x86_64)");
    let mut title = responses_body("hi");
    title["tools"] = json!([{"type": "function", "name": "session_title"}]);
    let answer = post(sim.address(), "/v1/responses", &[agent], &title);
    let output = &answer.events_of("response.completed")[0]["response"]["output"][0];
    assert_eq!(output["name"], "session_title");
    post(sim.address(), "/v1/responses", &[agent], &responses_body("sum it up"));
    post(sim.address(), "/v1/responses", &[agent, ("x-grok-turn-idx", "1")], &responses_body("hi"));
    post(sim.address(), "/v1/responses", &[], &responses_body("a client without side calls"));
    let purposes: Vec<Purpose> = sim.requests().iter().map(|request| request.purpose).collect();
    assert_eq!(purposes, [Purpose::SideCall, Purpose::SideCall, Purpose::MainCall, Purpose::MainCall]);
}

#[test]
fn the_endpoints_beside_the_model_are_known() {
    let sim = start(Scenario::text("x"));
    for path in ["/v1/settings", "/v1/user", "/v1/feedback/config", "/"] {
        assert_eq!(get(sim.address(), path, &[]).status, Some(200), "{path}");
    }
    for path in ["/v1/models", "/v1/api-key", "/v1/bundle/archive", "/v1/subagents/bundle"] {
        assert_eq!(get(sim.address(), path, &[]).status, Some(404), "{path}");
    }
    assert!(sim.requests().iter().all(|request| request.purpose == Purpose::Housekeeping));
    assert_eq!(get(sim.address(), "/v1/elsewhere", &[]).status, Some(404));
    assert_eq!(sim.requests().last().map(|request| request.purpose), Some(Purpose::Unknown));
}
