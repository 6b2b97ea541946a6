//! Turns with tools of the caller's: what the program is told, what must be there before the prompt is sent, and whose
//! call is whose.

use std::sync::Arc;

use nexus_core::{
    Effects, ErrorKind, ParticipantScope, Session, Tool, ToolAccess, ToolCallStatus, Toolbox, TurnEvent,
    TurnRequest, turn::ToolOrigin,
};
use serde_json::{Value, json};

use super::{THREAD, configuration_with, line, script, setting, settings, written};
use crate::cli::caller_tools::CallerTools;
use crate::cli::{ProcessEnd, Step, Translator as _, TurnOutcome};
use crate::codex::cli::mcp_config;
use crate::codex::cli::translate::AppServer;

/// Where the tools are said to be.
const URL: &str = "http://127.0.0.1:40123/mcp";

/// Tools of these names, each of which writes.
fn callers(names: &[&str]) -> CallerTools {
    let with = |tools: Toolbox, name: &&str| {
        tools.with(Tool::without_arguments(*name, "Does it.", || async {}).with_effects(Effects::Wrote))
    };
    let tools = names.iter().fold(Toolbox::new(), with);
    CallerTools::new(
        Session::mint("tester", ParticipantScope::unrestricted(), Arc::new(tools)),
        URL.to_owned(),
    )
}

/// A program that has just opened a conversation.
fn opened(tools: &CallerTools) -> (AppServer, Step) {
    opened_with(Some(tools), ToolAccess::ReadOnly, &json!({ "mcp_servers": {} }))
}

/// A program that has just opened a conversation, where it found this configuration.
fn opened_with(tools: Option<&CallerTools>, access: ToolAccess, config: &Value) -> (AppServer, Step) {
    let setting = super::Setting { tools: tools.cloned(), ..setting(access) };
    let mut server = AppServer::new(setting, script());
    let mut step = Step::default();
    server.open(&mut step);
    answer(&mut server, 1, &json!({ "userAgent": "x" }), &mut step);
    answer(&mut server, "configuration", &json!({ "config": config, "origins": {} }), &mut step);
    answer(
        &mut server,
        2,
        &json!({ "thread": { "id": THREAD }, "sandbox": { "type": "readOnly" } }),
        &mut step,
    );
    (server, step)
}

fn answer(server: &mut AppServer, id: impl Into<Value>, result: &Value, step: &mut Step) {
    server.line(json!({ "id": id.into(), "result": result }).to_string().as_bytes(), step);
}

fn listed(names: &[&str]) -> Value {
    let tools: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "name": name, "inputSchema": {} }))).collect();
    json!({ "data": [{ "name": "nexus", "runtimeStatus": "connected", "tools": tools, "toolsError": null }] })
}

fn methods(step: &Step) -> Vec<Value> {
    written(step).iter().map(|line| line["method"].clone()).collect()
}

fn failure(step: &Step) -> (ErrorKind, String) {
    match &step.outcome {
        Some(TurnOutcome::Failed(failure)) => (failure.kind, failure.message.clone().unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_prompt_waits_until_the_program_says_that_every_tool_is_there() {
    let tools = callers(&["add", "submit"]);
    let (mut server, mut step) = opened(&tools);
    assert_eq!(methods(&step).last().unwrap(), "mcpServerStatus/list");
    assert!(!methods(&step).contains(&json!("turn/start")));
    answer(&mut server, "servers", &listed(&["add", "submit", "more"]), &mut step);
    assert_eq!(methods(&step).last().unwrap(), "turn/start");
    assert!(step.outcome.is_none());
}

#[test]
fn a_tool_that_is_not_there_ends_the_turn_before_the_prompt_and_is_named() {
    let tools = callers(&["add", "submit"]);
    for (list, missing) in [
        (listed(&["add"]), "submit"),
        (json!({ "data": [] }), "add, submit"),
        (json!({ "data": 7 }), "add, submit"),
        (json!({}), "add, submit"),
    ] {
        let (mut server, mut step) = opened(&tools);
        answer(&mut server, "servers", &list, &mut step);
        let (kind, message) = failure(&step);
        assert_eq!(kind, ErrorKind::ToolsUnavailable, "{list}");
        assert!(message.contains(&format!("codex has not connected {missing}:")), "{message}");
        assert!(!methods(&step).contains(&json!("turn/start")), "{list}");
    }
    let (mut server, mut step) = opened(&tools);
    server.line(br#"{"id":"servers","error":{"code":-32600,"message":"no such method"}}"#, &mut step);
    assert_eq!(failure(&step).0, ErrorKind::ToolsUnavailable);
}

#[test]
fn a_server_that_is_not_the_callers_ends_the_turn_before_the_prompt_and_is_named() {
    let tools = callers(&["add"]);
    let entry = |name: &str, status: &str, tools: Value| json!({ "name": name, "runtimeStatus": status, "tools": tools });
    let own = entry("nexus", "connected", json!({ "add": {} }));
    for access in ToolAccess::ALL {
        for (tools, list, foreign) in [
            (None, json!([own]), "\"nexus\""),
            (None, json!([entry("left", "failed", json!({}))]), "\"left\""),
            (Some(&tools), json!([own, entry("left", "connected", json!({ "leak": {} }))]), "\"left\""),
            (Some(&tools), json!([entry("left", "disabled", json!({ "leak": {} })), own]), "\"left\""),
        ] {
            let (mut server, mut step) = opened_with(tools, access, &json!({}));
            answer(&mut server, "servers", &json!({ "data": list, "nextCursor": null }), &mut step);
            let (kind, message) = failure(&step);
            assert_eq!(kind, ErrorKind::Unsupported, "{access:?} {list}");
            assert!(message.contains(foreign) && message.contains("/etc/codex/config.toml"), "{message}");
            assert!(step.stops && !methods(&step).contains(&json!("turn/start")), "{access:?} {list}");
        }
        let (mut server, mut step) = opened_with(Some(&tools), access, &json!({}));
        let list = json!({ "data": [own, entry("left", "disabled", json!({}))] });
        answer(&mut server, "servers", &list, &mut step);
        assert_eq!(methods(&step).last().unwrap(), "turn/start", "one that is switched off is none");
    }
}

#[test]
fn a_program_that_does_not_tell_its_servers_is_asked_nothing() {
    for answer in [
        json!({ "id": "servers", "error": { "code": -32601, "message": "no such method" } }),
        json!({ "id": "servers", "result": {} }),
        json!({ "id": "servers", "result": { "data": [], "nextCursor": "more" } }),
    ] {
        let (mut server, mut step) = opened_with(None, ToolAccess::ScopedOnly, &json!({}));
        server.line(answer.to_string().as_bytes(), &mut step);
        assert_eq!(failure(&step).0, ErrorKind::Unsupported, "{answer}");
        assert!(!methods(&step).contains(&json!("turn/start")), "{answer}");
    }
}

#[test]
fn servers_that_some_configuration_brings_are_switched_off_when_the_conversation_opens() {
    let tools = callers(&["add"]);
    let config = json!({ "mcp_servers": { "nexus": { "url": URL }, "a.b": {}, "left": { "command": "x" } } });
    let opening = |tools| {
        let (_, step) = opened_with(tools, ToolAccess::ScopedOnly, &config);
        let asked = written(&step).into_iter().find(|line| line["method"] == "thread/start").unwrap();
        asked["params"]["config"]["mcp_servers"].clone()
    };
    let off = json!({ "enabled": false });
    assert_eq!(opening(Some(&tools)), json!({ "a.b": off, "left": off }));
    assert_eq!(opening(None), json!({ "a.b": off, "left": off, "nexus": off }));
}

#[test]
fn a_tool_by_the_name_of_a_helper_of_the_programs_is_refused_by_name() {
    let refusal =
        mcp_config::taken_names(&callers(&["add", "list_mcp_resources", "read_mcp_resource"])).unwrap();
    assert_eq!(refusal.kind, ErrorKind::Unsupported);
    let message = refusal.message.unwrap();
    assert!(message.contains(r#""list_mcp_resources", "read_mcp_resource""#), "{message}");
    assert!(mcp_config::taken_names(&callers(&["add", "list-mcp-resources"])).is_none());
}

#[test]
fn a_server_that_the_program_cannot_reach_is_why_no_conversation_opens() {
    let tools = callers(&["add"]);
    let refusal = |message: &str| {
        let setting = super::Setting { tools: Some(tools.clone()), ..setting(ToolAccess::ReadOnly) };
        let mut server = AppServer::new(setting, script());
        let mut step = Step::default();
        server.open(&mut step);
        answer(&mut server, 1, &json!({ "userAgent": "x" }), &mut step);
        answer(&mut server, "configuration", &json!({ "config": {} }), &mut step);
        let line = json!({ "id": 2, "error": { "code": -32603, "message": message } });
        server.line(line.to_string().as_bytes(), &mut step);
        failure(&step)
    };
    let (kind, message) = refusal(
        "error creating thread: Fatal error: Failed to initialize session: required MCP servers failed to initialize: \
         nexus: handshaking with MCP server failed",
    );
    assert_eq!(kind, ErrorKind::ToolsUnavailable);
    assert!(message.contains("codex has not connected add:"), "{message}");
    assert_eq!(refusal("error creating thread: of another kind").0, ErrorKind::InvalidRequest);
}

#[test]
fn the_configuration_names_server_and_tools_and_holds_no_token() {
    let tools = callers(&["add", "submit"]);
    for access in ToolAccess::ALL {
        let request = TurnRequest::new("x").with_tool_access(access);
        let written = configuration_with(&request, Some(&tools), &settings(json!({})));
        let read: toml::Table = written.parse().unwrap();
        let server = &read["mcp_servers"]["nexus"];
        assert_eq!(server["url"].as_str(), Some(URL));
        assert_eq!(server["required"].as_bool(), Some(true));
        assert_eq!(server["default_tools_approval_mode"].as_str(), Some("approve"));
        assert_eq!(server["enabled_tools"].as_array().unwrap().len(), 2);
        let hidden = read["shell_environment_policy"]["exclude"].to_string();
        assert!(hidden.contains("NEXUS_TOOLS_TOKEN") && hidden.contains("NEXUS_CODEX_TOKEN"), "{hidden}");
        assert!(!written.contains(tools.token().expose()), "{access:?}");
    }
}

#[test]
fn a_name_that_the_model_does_not_see_as_it_is_is_told_to_the_caller() {
    let tools = callers(&["add", "sub_tract", &"n".repeat(64)]);
    assert_eq!(mcp_config::renamed(&tools), None);
    let tools = callers(&["add", "read-file", "read_file"]);
    let warning = mcp_config::renamed(&tools).unwrap();
    assert!(warning.contains(r#""read-file", "read_file""#) && !warning.contains("add"), "{warning}");
}

/// The first event of a call, the last one, and the output.
fn call(events: &[TurnEvent]) -> (String, ToolOrigin, Effects, ToolCallStatus) {
    let mut started = None;
    for event in events {
        match event {
            TurnEvent::ToolCallStarted(call) => {
                started = Some((call.name.clone(), call.origin, call.effects));
            }
            TurnEvent::ToolCallFinished(call) => {
                let (name, origin, effects) = started.unwrap();
                return (name, origin, effects, call.status);
            }
            _ => {}
        }
    }
    panic!("no call ended: {events:?}")
}

#[test]
fn a_call_of_the_callers_bears_its_own_name_and_a_helper_of_the_program_is_the_programs() {
    let tools = callers(&["add"]);
    let item = |server: &str, tool: &str, status: &str| {
        let (mut program, mut step) = opened(&tools);
        answer(&mut program, "servers", &listed(&["add"]), &mut step);
        let item = json!({
            "type": "mcpToolCall", "id": "c1", "server": server, "tool": tool, "status": status, "arguments": null,
            "result": { "content": [{ "type": "text", "text": "5" }] },
        });
        line(&mut program, "item/completed", &json!({ "threadId": THREAD, "item": item })).events
    };
    let (caller, own) = (ToolOrigin::Caller, ToolOrigin::Harness);
    let (good, bad) = (ToolCallStatus::Succeeded, ToolCallStatus::Failed);
    let seen = |server, tool, status| call(&item(server, tool, status));
    assert_eq!(seen("nexus", "add", "completed"), ("add".into(), caller, Effects::Wrote, good));
    assert_eq!(seen("nexus", "add", "failed"), ("add".into(), caller, Effects::Wrote, bad));
    let reads = "read_mcp_resource";
    assert_eq!(seen("nexus", reads, "failed"), (reads.into(), own, Effects::None, bad));
    for lists in ["list_mcp_resources", "list_mcp_resource_templates"] {
        for server in ["codex", "nexus"] {
            assert_eq!(
                seen(server, lists, "completed"),
                (lists.into(), own, Effects::None, good),
                "{server}"
            );
        }
    }
    let other = "mcp__lab__add".to_owned();
    assert_eq!(seen("lab", "add", "completed"), (other, own, Effects::Unknown, good));
}

#[test]
fn a_call_that_the_program_refused_by_itself_changed_nothing() {
    let tools = callers(&["add"]);
    let home = tempfile::tempdir().unwrap();
    let sessions = crate::codex::cli::home::sessions(home.path()).join("2026/11/21");
    std::fs::create_dir_all(&sessions).unwrap();
    let note = |kind: &str, payload: Value| json!({ "type": kind, "payload": payload }).to_string();
    let asks = |id: &str, name: &str, arguments: &str| {
        let call = json!({ "type": "function_call", "call_id": id, "namespace": "mcp__nexus", "name": name, "arguments": arguments });
        note("response_item", call)
    };
    let told = |id: &str, output: Value| {
        note("response_item", json!({ "type": "function_call_output", "call_id": id, "output": output }))
    };
    let lines = [
        note("event_msg", json!({ "type": "task_started", "turn_id": "turn-1" })),
        asks("c1", "wipe", "{}"),
        told("c1", json!("unsupported call: mcp__nexuswipe")),
        asks("c2", "add", "{"),
        told("c2", json!([{ "type": "input_text", "text": "err: EOF while parsing" }])),
    ];
    std::fs::write(sessions.join(format!("rollout-x-{THREAD}.jsonl")), lines.join("\n")).unwrap();

    let (mut program, mut step) = opened(&tools);
    answer(&mut program, "servers", &listed(&["add"]), &mut step);
    answer(&mut program, 3, &json!({ "turn": { "id": "turn-1" } }), &mut step);
    let mut step = Step::default();
    let end = ProcessEnd { exit: None, stderr_tail: "", home: Some(home.path()), was_stopped: false };
    program.ended(&end, &mut step);
    let (first, second) = step.events.split_at(3);
    let none = Effects::None;
    assert_eq!(call(first), ("wipe".into(), ToolOrigin::Caller, none, ToolCallStatus::Denied));
    assert_eq!(call(second), ("add".into(), ToolOrigin::Caller, none, ToolCallStatus::Failed));
}
