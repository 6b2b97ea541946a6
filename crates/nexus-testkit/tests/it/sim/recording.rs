//! What a test can ask about the requests.

use std::time::Duration;

use nexus_testkit::sim::{Dialect, Ended, Item, Purpose, Scenario, Sim};
use serde_json::json;

use super::client::{get, messages, post};

#[test]
fn a_messages_request_is_read_in_full() {
    let sim = Sim::start(Dialect::Anthropic, Scenario::text("ok")).expect("a simulator");
    let body = json!({
        "model": "claude-x", "max_tokens": 64, "stream": true,
        "metadata": {"user_id": "session-7"},
        "output_config": {"effort": "high"},
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "tools": [
            {"name": "Bash", "description": "runs", "input_schema": {}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "yes"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true,
                 "content": [{"type": "text", "text": "gone"}]},
            ]},
        ],
    });
    post(
        sim.address(),
        "/v1/messages?beta=true",
        &[("Authorization", "Bearer secret-1"), ("X-Api-Key", "k")],
        &body,
    );
    let call = &sim.main_calls()[0];
    assert_eq!((call.bearer(), call.header("x-api-key")), (Some("secret-1"), Some("k")));
    assert_eq!((call.path.as_str(), call.query.as_deref()), ("/v1/messages", Some("beta=true")));
    assert_eq!(*call.json, body);
    assert_eq!(call.body.as_ref(), body.to_string().as_bytes());
    assert_eq!((call.status, call.ended), (Some(200), Some(Ended::Sent)));
    let read = &call.conversation;
    assert_eq!(read.model.as_deref(), Some("claude-x"));
    assert_eq!(read.id.as_deref(), Some("session-7"));
    assert_eq!(read.effort.as_deref(), Some("high"));
    assert_eq!(read.max_output_tokens, Some(64));
    assert_eq!(read.system, "Be brief.\nBe kind.");
    assert_eq!(read.tool_names(), ["Bash", "web_search"]);
    assert_eq!(read.last_user_text(), Some("look"));
    assert_eq!(read.assistant_texts(), ["yes"]);
    assert_eq!(read.tool_results(), ["gone"]);
    assert_eq!(read.images(), 1);
    assert!(read.items.contains(&Item::ToolResult { id: "t1".into(), text: "gone".into(), is_error: true }));
    assert!(read.items.contains(&Item::ToolCall {
        id: "t1".into(),
        name: "Bash".into(),
        arguments: r#"{"command":"ls"}"#.into()
    }));
}

#[test]
fn a_lite_responses_request_is_read_in_full() {
    let sim = Sim::start(Dialect::Responses, Scenario::text("ok")).expect("a simulator");
    let body = json!({
        "model": "gpt-x", "stream": true, "prompt_cache_key": "thread-1", "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": [
                {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
            ]},
            {"type": "message", "role": "developer",
             "content": [{"type": "input_text", "text": "Be brief."}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ]},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "e",
             "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "custom_tool_call", "call_id": "c1", "namespace": "functions", "name": "exec",
             "input": "text(1)"},
            {"type": "custom_tool_call_output", "call_id": "c1",
             "output": [{"type": "input_text", "text": "1"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
            {"type": "web_search_call", "id": "ws_1"},
        ],
    });
    post(sim.address(), "/backend-api/codex/responses", &[], &body);
    let call = &sim.main_calls()[0];
    let read = &call.conversation;
    assert_eq!(read.id.as_deref(), Some("thread-1"));
    assert_eq!(read.effort.as_deref(), Some("low"));
    assert_eq!(read.system, "Be brief.");
    assert_eq!(read.tool_names(), ["functions.exec"]);
    assert_eq!(read.output_schema, Some(json!({"type": "object"})));
    assert_eq!(read.user_texts(), ["look"]);
    assert_eq!(read.tool_results(), ["1"]);
    assert!(read.items.contains(&Item::Image { media_type: "image/png".into(), data: "AAAA".into() }));
    assert!(read.items.contains(&Item::Thinking("hm".into())));
    assert!(read.items.contains(&Item::Other("web_search_call".into())));
    assert!(read.items.contains(&Item::ToolCall {
        id: "c1".into(),
        name: "functions.exec".into(),
        arguments: "text(1)".into()
    }));
}

#[test]
fn unknown_paths_and_broken_bodies_are_recorded() {
    let sim = Sim::start(Dialect::Anthropic, Scenario::text("ok")).expect("a simulator");
    assert_eq!(get(sim.address(), "/nowhere?x=1", &[]).status, Some(404));
    let answer = super::client::request("POST", sim.address(), "/v1/messages", &[], "{broken");
    assert_eq!(answer.status, Some(200));
    let requests = sim.requests();
    assert_eq!(requests[0].purpose, Purpose::Unknown);
    assert!(requests[1].json.is_null());
    assert_eq!(requests[1].body.as_ref(), b"{broken");
}

#[tokio::test]
async fn a_test_can_wait_for_what_it_expects() {
    let sim = Sim::start(Dialect::Anthropic, Scenario::text("ok")).expect("a simulator");
    let never = sim.wait_until(Duration::from_millis(50), |sim| !sim.requests().is_empty());
    assert!(!never.await);
    let address = sim.address();
    let client = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        messages(address, "hi");
    });
    let waited = sim.wait_until(super::client::PATIENCE, |sim| {
        sim.main_calls().iter().any(|call| call.ended == Some(Ended::Sent))
    });
    assert!(waited.await);
    client.join().expect("the client");
    assert!(sim.wait_until(super::client::PATIENCE, |sim| sim.open_connections() == 0).await);
}
