//! What the translation makes of output that no program should write, and what a run's home holds.

mod inputs;
mod tools;

use nexus_core::{BuildContext, Phase, ToolAccess, TurnEvent, TurnRequest};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::PlanLogin;
use super::home;
use super::home::{Folders, Provider, TOKEN_VARIABLE};
use super::sandbox::{SandboxPolicy, SandboxWords};
use super::setting::{EffortChoice, Setting};
use super::translate::{AppServer, Script};
use crate::cli::caller_tools::CallerTools;
use crate::cli::settings::Settings;
use crate::cli::{ProcessEnd, Step, StopRequest, Translator as _, TurnOutcome};
use nexus_process::environment::{Environment, NetworkSettings};

const THREAD: &str = "01a1fc19-aba2-7352-853f-2aa20452b5bd";
const RECORDING: &str = include_str!("../../../tests/transcripts/codex/app-server/fail-cut-once.jsonl");

fn script() -> Script {
    let policy = SandboxWords { sandbox: "readOnly", profile: None };
    Script { thread_method: "thread/start", thread: json!({}), turn: json!({}), policy }
}

/// A setting with nothing special.
pub(super) fn setting(access: ToolAccess) -> Setting {
    let effort = EffortChoice::default();
    Setting { backend: "codex-cli".into(), access, tools: None, without_tools: None, effort, store: None }
}

fn server() -> AppServer {
    AppServer::new(setting(ToolAccess::ReadOnly), script())
}

/// A server whose turn runs.
fn running() -> AppServer {
    let mut server = server();
    let mut step = Step::default();
    server.open(&mut step);
    for line in [
        json!({ "id": 1, "result": { "userAgent": "x" } }),
        json!({ "id": "configuration", "result": { "config": {} } }),
        json!({ "id": 2, "result": { "thread": { "id": THREAD }, "sandbox": { "type": "readOnly" } } }),
        json!({ "id": "servers", "result": { "data": [] } }),
        json!({ "id": 3, "result": { "turn": { "id": "turn-1" } } }),
    ] {
        server.line(line.to_string().as_bytes(), &mut step);
    }
    assert!(step.outcome.is_none(), "{:?}", step.outcome);
    server
}

fn line(server: &mut AppServer, method: &str, params: &Value) -> Step {
    let mut step = Step::default();
    server.line(json!({ "method": method, "params": params }).to_string().as_bytes(), &mut step);
    step
}

fn written(step: &Step) -> Vec<Value> {
    step.writes.iter().map(|bytes| serde_json::from_slice(bytes).unwrap()).collect()
}

#[test]
fn a_wider_sandbox_than_asked_for_ends_the_turn_before_the_prompt_is_sent() {
    let mut server = server();
    let mut step = Step::default();
    server.open(&mut step);
    let opened = json!({ "thread": { "id": THREAD }, "sandbox": { "type": "dangerFullAccess" } });
    server.line(json!({ "id": 2, "result": opened }).to_string().as_bytes(), &mut step);
    assert!(matches!(step.outcome, Some(TurnOutcome::Failed(_))), "{:?}", step.outcome);
    assert!(!written(&step).iter().any(|line| line["method"] == "turn/start"));
}

#[test]
fn an_approval_that_is_asked_for_is_declined() {
    let mut server = running();
    let mut step = Step::default();
    let request = json!({ "id": 7, "method": "item/commandExecution/requestApproval", "params": {} });
    server.line(request.to_string().as_bytes(), &mut step);
    assert_eq!(written(&step), [json!({ "id": 7, "result": { "decision": "decline" } })]);
    let request = json!({ "id": "x", "method": "something/new", "params": {} });
    let mut step = Step::default();
    server.line(request.to_string().as_bytes(), &mut step);
    assert_eq!(written(&step)[0]["error"]["code"], -32601);
}

#[test]
fn a_turn_that_runs_is_interrupted_by_name_and_one_that_does_not_by_the_end_of_input() {
    let mut step = Step::default();
    assert_eq!(running().interrupt(&mut step), StopRequest::Written);
    let asked = &written(&step)[0];
    assert_eq!(asked["method"], "turn/interrupt");
    assert_eq!(asked["params"], json!({ "threadId": THREAD, "turnId": "turn-1" }));
    assert!(!step.close_stdin);

    let mut step = Step::default();
    assert_eq!(server().interrupt(&mut step), StopRequest::Written);
    assert!(step.close_stdin && step.writes.is_empty());
}

#[test]
fn while_a_tool_runs_the_turn_is_in_its_phase() {
    let mut server = running();
    assert_eq!(server.phase(), Phase::FirstByte);
    let item = |status: &str| json!({ "threadId": THREAD, "item": { "type": "commandExecution", "id": "c", "status": status } });
    line(&mut server, "item/started", &item("inProgress"));
    assert_eq!(server.phase(), Phase::Tool);
    line(&mut server, "thread/tokenUsage/updated", &json!({ "tokenUsage": { "total": {}, "last": {} } }));
    assert_eq!(server.phase(), Phase::Tool);
    line(&mut server, "item/completed", &item("completed"));
    assert_eq!(server.phase(), Phase::FirstByte);
}

#[test]
fn what_nobody_knows_is_kept_word_for_word() {
    let mut server = running();
    for (method, params) in [
        ("thread/novelty", json!({ "a": 1 })),
        ("item/completed", json!({ "item": { "type": "novelty", "id": "x" } })),
        ("item/agentMessage/delta", json!({ "delta": 7 })),
    ] {
        let step = line(&mut server, method, &params);
        let [TurnEvent::Unrecognized(event)] = step.events.as_slice() else { panic!("{:?}", step.events) };
        assert!(event.raw.to_string().contains(&params["item"].to_string()) || event.raw["params"] == params);
    }
}

#[test]
fn the_end_of_another_conversation_ends_nothing() {
    let mut server = running();
    let turn = json!({ "id": "turn-9", "status": "failed" });
    for params in [json!({ "threadId": "child", "turn": turn }), json!({ "threadId": THREAD, "turn": turn })]
    {
        assert!(line(&mut server, "turn/completed", &params).outcome.is_none());
    }
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(text in ".*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut server = running();
        let mut step = Step::default();
        server.line(text.as_bytes(), &mut step);
        server.line(&bytes, &mut step);
        let wrapped = json!({ "method": "item/completed", "params": { "item": text } });
        server.line(wrapped.to_string().as_bytes(), &mut step);
    }

    #[test]
    fn a_recording_cut_anywhere_makes_no_answer_of_half_a_turn(cut in 0..RECORDING.len()) {
        let mut server = server();
        let mut step = Step::default();
        server.open(&mut step);
        let head = RECORDING.as_bytes().get(..cut).unwrap_or_default();
        for line in head.split(|byte| *byte == b'\n') {
            server.line(line, &mut step);
        }
        let is_whole = head.windows(14).any(|window| window == b"turn/completed") && head.ends_with(b"\n");
        if !is_whole && cut + 1 < RECORDING.len() {
            let is_answered = matches!(step.outcome, Some(TurnOutcome::Answered { .. }));
            prop_assert!(!is_answered);
        }
        let end = ProcessEnd { exit: None, stderr_tail: "", home: None, was_stopped: false };
        server.ended(&end, &mut step);
    }

    #[test]
    fn numbers_and_depth_without_bound_are_read_or_kept(number in any::<u64>(), depth in 0_usize..300) {
        let mut server = running();
        let tokens = format!(r#"{{"inputTokens":{number},"cachedInputTokens":{number},"outputTokens":1e400}}"#);
        let usage = format!(
            r#"{{"method":"thread/tokenUsage/updated","params":{{"tokenUsage":{{"total":{tokens},"last":{tokens}}}}}}}"#
        );
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = format!(r#"{{"method":"item/started","params":{{"item":{nested}}}}}"#);
        let limits = json!({ "rateLimits": { "primary": { "usedPercent": 1e300, "resetsAt": number >> 1 } } });
        let mut step = Step::default();
        server.line(usage.as_bytes(), &mut step);
        server.line(deep.as_bytes(), &mut step);
        step.events.extend(line(&mut server, "account/rateLimits/updated", &limits).events);
        prop_assert!(step.events.len() >= 2);
    }
}

fn settings(value: Value) -> Settings {
    let Value::Object(value) = value else { return Settings::default() };
    Settings::read(&value, &BuildContext::in_home("/nexus").with_base_directory("/base")).unwrap()
}

fn configuration(request: &TurnRequest, settings: &Settings) -> String {
    configuration_with(request, None, settings)
}

fn configuration_with(request: &TurnRequest, tools: Option<&CallerTools>, settings: &Settings) -> String {
    configuration_by(PlanLogin::Codex, request, tools, settings)
}

fn configuration_by(
    login: PlanLogin,
    request: &TurnRequest,
    tools: Option<&CallerTools>,
    settings: &Settings,
) -> String {
    let provider = Provider { settings, login, account: Some("the-account"), version: Some("0.169.0") };
    let folders = Folders::below(std::path::Path::new("/run"));
    let policy = SandboxPolicy::new(request, []).unwrap();
    home::configuration(request, &policy, tools, &provider, &folders, Some("/home/user")).unwrap()
}

#[test]
fn billing_chooses_the_endpoint_and_who_is_named() {
    let configured = |value| configuration(&TurnRequest::new("x"), &settings(value));
    let plan = configured(json!({}));
    assert!(plan.contains("base_url = \"https://chatgpt.com/backend-api/codex\""), "{plan}");
    assert!(plan.contains("ChatGPT-Account-Id = \"the-account\""), "{plan}");
    let metered = configured(json!({ "billing": "metered" }));
    assert!(metered.contains("base_url = \"https://api.openai.com/v1\""), "{metered}");
    assert!(!metered.contains("the-account"), "{metered}");
    // Source: OpenAI's page on Codex app-server and "Sign in with ChatGPT".
    let public = configuration_by(PlanLogin::Chatgpt, &TurnRequest::new("x"), None, &settings(json!({})));
    for line in [
        "base_url = \"https://api.openai.com/v1\"",
        "wire_api = \"responses\"",
        "env_key = \"NEXUS_CODEX_TOKEN\"",
        "supports_websockets = false",
        "name = \"nexus\"",
    ] {
        assert!(public.contains(line), "{line}: {public}");
    }
    assert!(!public.contains("the-account") && !public.contains("version = "), "{public}");
    let gateway = configured(json!({ "base_url": "http://127.0.0.1:1/v1" }));
    assert!(gateway.contains("base_url = \"http://127.0.0.1:1/v1\""), "{gateway}");
}

#[test]
fn extra_roots_are_written_where_the_sandbox_lets_the_agent_write() {
    let request = TurnRequest::new("x").with_extra_root("/data");
    let writes =
        configuration(&request.clone().with_tool_access(ToolAccess::WorkspaceWrite), &settings(json!({})));
    assert!(
        writes.contains("writable_roots = [\"/data\"]") && writes.contains("exclude_slash_tmp = true"),
        "{writes}"
    );
    let reads = configuration(&request.with_tool_access(ToolAccess::ReadOnly), &settings(json!({})));
    assert!(!reads.contains("/data"), "{reads}");
}

#[test]
fn the_environment_is_an_allow_list_and_the_home_is_private() {
    let host = [
        ("PATH", "/bin"),
        ("HOME", "/home/user"),
        ("OPENAI_API_KEY", "canary"),
        ("CODEX_HOME", "/home/user/.codex"),
        ("ASKED_FOR", "1"),
        ("https_proxy", "http://proxy"),
    ];
    let host = host.map(|(name, value)| (name.into(), value.into()));
    let environment = |settings: &Settings, network, request: &TurnRequest, folders: &Folders| {
        let builder = Environment::from_host(host.clone()).network(network);
        home::with_variables(builder, settings, Some(request), folders).build().unwrap()
    };
    let folders = Folders::below(std::path::Path::new("/run"));
    let request = TurnRequest::new("x").with_tool_access(ToolAccess::Unrestricted).with_variable("ASKED_FOR");
    let hidden = environment(&settings(json!({})), NetworkSettings::Hide, &request, &folders);
    let names: Vec<_> = hidden.names().filter_map(|name| name.to_str()).collect();
    assert_eq!(names, ["ASKED_FOR", "CODEX_HOME", "HOME", "PATH", "RUST_LOG", "TMPDIR"]);
    assert_eq!(hidden.value("HOME").unwrap(), "/run/user");
    assert!(!names.contains(&TOKEN_VARIABLE));
    let network = settings(json!({ "network": { "inherit_proxy": true, "ca_file": "ca.pem" } }));
    let passed = environment(&network, NetworkSettings::Pass, &request, &folders);
    assert_eq!(passed.value("https_proxy").unwrap(), "http://proxy");
    assert_eq!(passed.value("CODEX_CA_CERTIFICATE").unwrap(), "/base/ca.pem");
}

#[test]
fn halves_of_a_character_in_neighbouring_deltas_are_joined_and_end_the_turn() {
    let mut server = running();
    let mut step = Step::default();
    let thread = THREAD;
    for line in [
        format!(
            r#"{{"method":"item/agentMessage/delta","params":{{"threadId":"{thread}","itemId":"i","delta":"a\ud83d"}}}}"#
        ),
        format!(
            r#"{{"method":"item/agentMessage/delta","params":{{"threadId":"{thread}","itemId":"i","delta":"\ude00b"}}}}"#
        ),
        format!(
            r#"{{"method":"item/completed","params":{{"threadId":"{thread}","item":{{"type":"agentMessage","id":"i","text":"a\ud83d\ude00b\ud800"}}}}}}"#
        ),
    ] {
        server.line(line.as_bytes(), &mut step);
    }
    let shown: String = step
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::TextDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    assert!(shown.starts_with("a\u{1f600}b"), "{:?}", step.events);
    let ended = step.events.iter().find_map(|event| match event {
        TurnEvent::MessageEnded(ended) => Some(ended.text.as_str()),
        _ => None,
    });
    assert_eq!(ended, Some("a\u{1f600}b\u{fffd}"), "{:?}", step.events);
    assert!(
        !step.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))),
        "{:?}",
        step.events
    );
}
