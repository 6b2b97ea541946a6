//! The conversation alone: lines in, steps out.

mod inputs;

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    ApprovalAction, Denial, Effects, ErrorKind, ParticipantScope, Phase, ToolAccess, ToolCall,
    ToolCallStatus, ToolDefinition, ToolResult, ToolRouter, TurnEvent,
    turn::{ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::conversation::ConversationState;
use super::translate::{ClaudeTranslator, Opening};
use crate::cli::caller_tools::CallerTools;
use crate::cli::permission::Permissions;
use crate::cli::settings::Billing;
use crate::cli::{Step, StopRequest, Translator as _, TurnOutcome};

/// The recordings, as they lie beside the tests.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude");

/// Tools that nobody calls.
#[derive(Debug)]
struct ListedTools(Vec<ToolDefinition>);

#[async_trait]
impl ToolRouter for ListedTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.clone()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        ToolResult::error(format!("{} was called", call.name))
    }
}

/// A caller's tools of these names, which write.
pub(super) fn callers(names: &[&str]) -> CallerTools {
    let tool = |name: &&str| ToolDefinition::new(*name, "A tool.", json!({})).with_effects(Effects::Wrote);
    let tools = Arc::new(ListedTools(names.iter().map(tool).collect()));
    let session = nexus_core::Session::mint("tests", ParticipantScope::unrestricted(), tools);
    CallerTools::new(session, "http://127.0.0.1:1/mcp".to_owned())
}

fn conversation(access: ToolAccess, billing: Option<Billing>) -> ClaudeTranslator {
    conversation_with(access, billing, None)
}

fn conversation_with(
    access: ToolAccess,
    billing: Option<Billing>,
    tools: Option<CallerTools>,
) -> ClaudeTranslator {
    ClaudeTranslator::new(Opening {
        tools,
        prompt: super::prompt::text_blocks("canary prompt"),
        system: Some("canary system".to_owned()),
        schema: None,
        access,
        permissions: Permissions::in_folder(access, Path::new("/work")),
        billing,
        model_and_effort: None,
        session: ConversationState::forgotten("claude-cli".into()),
        first_turn: None,
    })
}

fn read(conversation: &mut ClaudeTranslator, line: &Value) -> Step {
    let mut step = Step::default();
    conversation.line(line.to_string().as_bytes(), &mut step);
    step
}

fn initialized(account: &Value) -> Value {
    json!({ "type": "control_response", "response": {
        "subtype": "success", "request_id": "nexus-open", "response": { "account": account },
    }})
}

fn writes(step: &Step) -> String {
    step.writes.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

#[test]
fn the_prompt_is_not_written_before_it_is_known_who_pays() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, Some(Billing::Plan));
    let mut step = Step::default();
    conversation.open(&mut step);
    assert!(writes(&step).contains("canary system") && !writes(&step).contains("canary prompt"));
    assert_eq!(conversation.phase(), Phase::Start);

    let step = read(&mut conversation, &initialized(&json!({ "apiKeySource": "ANTHROPIC_API_KEY" })));
    assert_eq!(writes(&step), "");
    assert!(
        matches!(step.outcome, Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::BillingMismatch)
    );
}

#[test]
fn the_prompt_follows_the_opening() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, Some(Billing::Plan));
    let step = read(&mut conversation, &initialized(&json!({ "tokenSource": "CLAUDE_CODE_OAUTH_TOKEN" })));
    assert!(writes(&step).contains("canary prompt"));
    assert_eq!(conversation.phase(), Phase::FirstByte);
}

/// A turn with the tool `add`, whose conversation is open.
fn with_add() -> (ClaudeTranslator, Step) {
    let tools = callers(&["add"]);
    let mut conversation = conversation_with(ToolAccess::ScopedOnly, None, Some(tools));
    let step = read(&mut conversation, &initialized(&json!({ "apiKeySource": "ANTHROPIC_API_KEY" })));
    (conversation, step)
}

fn answered(id: &str, response: &Value) -> Value {
    json!({ "type": "control_response", "response": {
        "subtype": "success", "request_id": id, "response": response,
    }})
}

fn missed(step: &Step) -> &str {
    match &step.outcome {
        Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::ToolsUnavailable => {
            failure.message.as_deref().unwrap_or_default()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_prompt_is_not_written_before_the_callers_tools_are_there() {
    let (mut conversation, step) = with_add();
    let words = writes(&step);
    assert!(words.contains("mcp_set_servers") && words.contains("Bearer "), "{words}");
    assert!(!words.contains("canary prompt"));
    let step = read(&mut conversation, &answered("nexus-tools", &json!({ "errors": {} })));
    assert!(writes(&step).contains("mcp_status") && !writes(&step).contains("canary prompt"));
    assert_eq!(conversation.phase(), Phase::Start);
    let server = json!({ "name": "nexus", "status": "connected", "tools": [{ "name": "add" }] });
    let ready = answered("nexus-tools-ready", &json!({ "mcpServers": [server] }));
    assert!(writes(&read(&mut conversation, &ready)).contains("canary prompt"));
    assert_eq!(conversation.phase(), Phase::FirstByte);
    assert_eq!(writes(&read(&mut conversation, &ready)), "", "it is asked once");
}

#[test]
fn tools_that_are_not_there_end_the_turn_unspent() {
    let refused = json!({ "type": "control_response", "response": {
        "subtype": "error", "request_id": "nexus-tools", "error": "what servers?",
    }});
    let (mut conversation, _) = with_add();
    let step = read(&mut conversation, &refused);
    assert!(missed(&step).contains("add") && missed(&step).contains("what servers?"));
    let (mut conversation, _) = with_add();
    let unreached = answered("nexus-tools", &json!({ "errors": { "nexus": "nobody there" } }));
    assert!(missed(&read(&mut conversation, &unreached)).contains("nobody there"));

    for servers in [
        json!([]),
        json!([{ "name": "nexus", "status": "pending" }]),
        json!([{ "name": "nexus", "status": "connected", "tools": [{ "name": "sub" }] }]),
        json!([{ "name": "other", "status": "connected", "tools": [{ "name": "add" }] }]),
        json!("nonsense"),
    ] {
        let (mut conversation, _) = with_add();
        read(&mut conversation, &answered("nexus-tools", &json!({ "errors": {} })));
        let step = read(&mut conversation, &answered("nexus-tools-ready", &json!({ "mcpServers": servers })));
        assert!(missed(&step).contains("add"), "{servers}");
        assert_eq!(writes(&step), "", "{servers}");
    }
}

#[test]
fn tools_that_the_model_is_not_given_end_the_turn() {
    let (mut conversation, _) = with_add();
    let init = |tools: Value| json!({ "type": "system", "subtype": "init", "tools": tools });
    let step = read(&mut conversation, &init(json!([])));
    assert!(missed(&step).contains("add") && step.stops);
    let (mut conversation, _) = with_add();
    let step = read(&mut conversation, &init(json!(["mcp__nexus__add", "mcp__nexus__sub"])));
    assert!(
        matches!(&step.outcome, Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::Unsupported)
    );
    let (mut conversation, _) = with_add();
    assert!(read(&mut conversation, &init(json!(["mcp__nexus__add"]))).outcome.is_none());
}

/// What becomes of a call of `name`, answered so.
fn called(conversation: &mut ClaudeTranslator, name: &str, answer: &Value) -> Vec<TurnEvent> {
    let call = json!({ "type": "tool_use", "id": name, "name": name, "input": { "a": 1 } });
    let call = json!({ "type": "assistant", "message": { "id": name, "content": [call] } });
    let mut events = read(conversation, &call).events;
    let mut result = json!({ "type": "tool_result", "tool_use_id": name });
    result.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    let answer = json!({ "type": "user", "message": { "content": [result] } });
    events.extend(read(conversation, &answer).events);
    events
}

#[test]
fn a_call_of_the_callers_has_the_callers_words() {
    let (mut conversation, _) = with_add();
    let text = json!([{ "type": "text", "text": "3" }]);
    let events = called(&mut conversation, "mcp__nexus__add", &json!({ "content": text }));
    let [
        TurnEvent::ToolCallStarted(started),
        TurnEvent::ToolCallArguments(arguments),
        TurnEvent::ToolCallFinished(end),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (started.name.as_str(), started.origin, started.effects),
        ("add", ToolOrigin::Caller, Effects::Wrote)
    );
    assert_eq!(arguments.arguments, json!({ "a": 1 }));
    assert_eq!(end.status, ToolCallStatus::Succeeded);
    assert_eq!(end.output, [nexus_core::ToolContent::text("3")]);
}

/// The status at the end of these events.
fn status(events: &[TurnEvent]) -> Option<ToolCallStatus> {
    events.iter().find_map(|event| match event {
        TurnEvent::ToolCallFinished(ToolCallFinished { status, .. }) => Some(*status),
        _ => None,
    })
}

#[test]
fn a_call_that_fails_is_told_from_one_that_is_not_let_through() {
    let (mut conversation, _) = with_add();
    // The tool's own words, however they sound.
    let words = json!({ "content": "Permission to use the calculator is missing", "is_error": true });
    assert_eq!(status(&called(&mut conversation, "mcp__nexus__add", &words)), Some(ToolCallStatus::Failed));
    let words = "<tool_use_error>Error: No such tool available: mcp__nexus__sub</tool_use_error>";
    let events = called(&mut conversation, "mcp__nexus__sub", &json!({ "content": words, "is_error": true }));
    assert_eq!(status(&events), Some(ToolCallStatus::Denied));
    let is_harmless = |event: &TurnEvent| matches!(event, TurnEvent::ToolCallStarted(call) if call.name == "sub" && call.effects == Effects::None);
    assert!(events.iter().any(is_harmless), "{events:?}");
}

#[test]
fn what_the_cli_answers_in_the_place_of_a_tool_is_no_answer() {
    let (mut conversation, _) = with_add();
    conversation.interrupt(&mut Step::default());
    let words =
        json!({ "content": "The user doesn't want to proceed with this tool use.", "is_error": true });
    assert_eq!(status(&called(&mut conversation, "mcp__nexus__add", &words)), None);
}

#[test]
fn an_answer_that_is_cut_is_said() {
    let (mut conversation, _) = with_add();
    let note = json!({ "content": "<persisted-output>\nOutput too large (586KB). Full output saved to: …" });
    let events = called(&mut conversation, "mcp__nexus__add", &note);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, TurnEvent::Warning(warning) if warning.text.contains("add"))),
        "{events:?}"
    );
}

#[test]
fn the_vendors_text_is_replaced_or_followed() {
    for (access, field) in
        [(ToolAccess::ScopedOnly, "systemPrompt"), (ToolAccess::WorkspaceWrite, "appendSystemPrompt")]
    {
        let mut step = Step::default();
        conversation(access, None).open(&mut step);
        assert!(writes(&step).contains(&format!("\"{field}\"")), "{}", writes(&step));
    }
}

#[test]
fn a_tool_that_the_level_does_not_have_ends_the_turn() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    let step = read(&mut conversation, &json!({ "type": "system", "subtype": "init", "tools": ["Bash"] }));
    assert!(
        matches!(&step.outcome, Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::Unsupported)
    );
    assert!(step.stops);
}

#[test]
fn a_level_that_is_a_list_of_tools_is_not_kept_without_one() {
    let is_refused = |step: &Step| {
        step.stops
            && matches!(&step.outcome, Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::Unsupported)
    };
    let inits = [
        json!({}),
        json!({ "tools": null }),
        json!({ "tools": [{ "name": "Read" }] }),
        json!({ "tools": "Read" }),
    ];
    for access in ToolAccess::ALL {
        let is_list = super::tools::is_list(access);
        for more in &inits {
            let mut init = json!({ "type": "system", "subtype": "init" });
            init.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let mut conversation = conversation(access, None);
            let step = read(&mut conversation, &init);
            assert_eq!(is_refused(&step), is_list, "{access:?} {init}");
            assert_eq!(effects_of(&[step]), Effects::Unknown, "{access:?} {init}");
        }
        // The line may have another name, or never come.
        let mut conversation = conversation(access, None);
        let said = json!({ "type": "assistant", "message": { "id": "m", "content": [{ "type": "text", "text": "Hi" }] } });
        assert_eq!(is_refused(&read(&mut conversation, &said)), is_list, "{access:?}");
    }
}

/// What a turn of these steps may have changed.
fn effects_of(steps: &[Step]) -> Effects {
    let mut recorder = nexus_core::Recorder::new();
    steps.iter().flat_map(|step| &step.events).for_each(|event| recorder.observe(event));
    recorder.effects()
}

#[test]
fn a_call_in_words_that_nobody_knows_may_have_changed_anything() {
    let listed = json!({ "type": "system", "subtype": "init", "tools": ["Write"] });
    let answer = json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "ok" }] } });
    let call = |content: Value| json!({ "type": "assistant", "message": { "id": "m", "content": content } });
    let block = |kind: &str| json!([{ "type": kind, "id": "c", "name": "Write", "input": {} }]);
    for (line, expected) in [
        (call(block("tool_use")), Effects::Wrote),
        (call(block("tool_call")), Effects::Unknown),
        (call(json!({ "tool_use": block("tool_use") })), Effects::Unknown),
        (json!({ "type": "model", "message": { "content": block("tool_use") } }), Effects::Unknown),
        (
            json!({ "type": "assistant", "message": { "id": "m", "blocks": block("tool_use") } }),
            Effects::Unknown,
        ),
        // The call is in no line at all.
        (json!({ "type": "system", "subtype": "status" }), Effects::Unknown),
    ] {
        let mut conversation = conversation(ToolAccess::Unrestricted, None);
        let steps = [&listed, &line, &answer].map(|line| read(&mut conversation, line));
        assert_eq!(effects_of(&steps), expected, "{line}");
    }
}

#[test]
fn a_tool_that_is_in_no_list_and_runs_all_the_same_is_found_out() {
    let call = json!({ "type": "tool_use", "id": "c", "name": "Bash", "input": {} });
    let call = json!({ "type": "assistant", "message": { "id": "m", "content": [call] } });
    let answer = |is_error: bool| {
        json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": is_error }] } })
    };
    for (access, is_error, stops, effects) in [
        (ToolAccess::ScopedOnly, true, false, Effects::None),
        (ToolAccess::ScopedOnly, false, true, Effects::Unknown),
        (ToolAccess::ReadOnly, false, true, Effects::Unknown),
        (ToolAccess::Unrestricted, false, false, Effects::Unknown),
    ] {
        let mut conversation = conversation(access, None);
        let listed = json!({ "type": "system", "subtype": "init", "tools": [] });
        let steps = [&listed, &call, &answer(is_error)].map(|line| read(&mut conversation, line));
        assert_eq!(steps[2].stops, stops, "{access:?}");
        assert_eq!(effects_of(&steps), effects, "{access:?}");
    }
}

#[test]
fn usage_that_cannot_be_found_is_missed_aloud() {
    let warns = |model_usage: Value| {
        let mut conversation = conversation(ToolAccess::Unrestricted, None);
        let line = json!({ "type": "result", "subtype": "success", "num_turns": 1, "result": "Hi", "modelUsage": model_usage });
        let step = read(&mut conversation, &line);
        let is_warned = step.events.iter().any(|event| matches!(event, TurnEvent::Warning(_)));
        (is_warned, step.usage.and_then(|usage| usage.input_tokens))
    };
    assert_eq!(warns(json!({ "m": { "inputTokens": 3 } })), (false, Some(3)));
    assert_eq!(warns(json!({ "m": { "inputTokens": "3" } })), (false, Some(3)));
    assert_eq!(warns(json!({ "m": { "inputTokens": 3.0 } })), (false, Some(3)));
    assert!(warns(json!({ "m": { "input": 3 } })).0);
    assert!(warns(json!(null)).0);
}

/// The result counts a sub-agent's model too, and the context is that of the last call, not the sum of all calls.
#[test]
fn the_fill_of_the_context_is_that_of_the_last_message() {
    let mut conversation = conversation(ToolAccess::Unrestricted, None);
    let message = |id: &str, input: u64| {
        json!({ "type": "assistant", "message": { "id": id, "content": [{ "type": "text", "text": "Hi" }],
            "stop_reason": "end_turn",
            "usage": { "input_tokens": input, "cache_read_input_tokens": 30, "output_tokens": 5 } } })
    };
    read(
        &mut conversation,
        &json!({ "type": "system", "subtype": "init", "model": "claude-sonnet-5", "tools": [] }),
    );
    read(&mut conversation, &message("m1", 100));
    read(&mut conversation, &message("m2", 200));
    let line = json!({ "type": "result", "subtype": "success", "num_turns": 2, "result": "Hi", "modelUsage": {
        "claude-haiku-5": { "inputTokens": 7, "contextWindow": 200_000 },
        "claude-sonnet-5[1m]": { "inputTokens": 300, "contextWindow": 1_000_000 },
    } });
    let step = read(&mut conversation, &line);
    let found = step.events.iter().find_map(|event| match event {
        TurnEvent::ContextUsage(usage) => Some((usage.used_tokens, usage.window_tokens)),
        _ => None,
    });
    assert_eq!(found, Some((235, Some(1_000_000))));
}

#[test]
fn a_call_of_a_tool_that_is_not_there_changes_nothing() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    read(&mut conversation, &json!({ "type": "system", "subtype": "init", "tools": [] }));
    let call = json!({ "type": "tool_use", "id": "c", "name": "Bash", "input": {} });
    let step =
        read(&mut conversation, &json!({ "type": "assistant", "message": { "id": "m", "content": [call] } }));
    let is_harmless = |event: &TurnEvent| {
        matches!(event, TurnEvent::ToolCallStarted(ToolCallStarted { effects: Effects::None, .. }))
    };
    assert!(step.events.iter().any(is_harmless), "{:?}", step.events);
    assert_eq!(conversation.phase(), Phase::Tool);
}

#[test]
fn nobody_lets_a_call_through_by_being_asked() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    let ask = |subtype: &str| json!({ "type": "control_request", "request_id": "r", "request": { "subtype": subtype, "tool_use_id": "c" } });
    assert!(writes(&read(&mut conversation, &ask("can_use_tool"))).contains("deny"));
    let step = read(&mut conversation, &ask("something_new"));
    assert!(writes(&step).contains("error"));
    assert!(step.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))));
}

/// The CLI asks whether it may call a tool.
fn asks_to_call(tool: &str, input: &Value, blocked: Option<&str>) -> Value {
    json!({ "type": "control_request", "request_id": format!("r-{tool}"), "request": {
        "subtype": "can_use_tool", "tool_name": tool, "tool_use_id": "c", "input": input, "blocked_path": blocked,
    } })
}

#[test]
fn the_host_is_asked_about_what_the_level_leaves_open() {
    let mut conversation = conversation(ToolAccess::WorkspaceWrite, None);
    let input = json!({ "command": "cargo test" });
    let step = read(&mut conversation, &asks_to_call("Bash", &input, None));
    assert!(step.writes.is_empty(), "the CLI waits");
    let [(question, request)] = &step.asks[..] else { panic!("{:?}", step.asks) };
    assert_eq!((request.action, request.title.as_deref()), (ApprovalAction::Execute, Some("cargo test")));
    let mut answered = Step::default();
    conversation.approved(*question, Ok(()), &mut answered);
    let said: Value = serde_json::from_str(writes(&answered).trim()).unwrap();
    assert_eq!(said["response"]["request_id"], "r-Bash");
    assert_eq!(said["response"]["response"], json!({ "behavior": "allow", "updatedInput": input }));

    let step = read(&mut conversation, &asks_to_call("WebFetch", &json!({ "url": "http://x" }), None));
    let question = step.asks[0].0;
    let mut answered = Step::default();
    conversation.approved(question, Err(Denial::Closed), &mut answered);
    assert!(writes(&answered).contains("deny") && writes(&answered).contains("the session is over"));
    let mut again = Step::default();
    conversation.approved(question, Ok(()), &mut again);
    assert!(again.writes.is_empty(), "an answer counts once");
}

#[test]
fn what_the_level_forbids_is_never_asked() {
    let write = |path: &str| asks_to_call("Write", &json!({ "file_path": path }), Some(path));
    let outside = asks_to_call("Bash", &json!({ "command": "touch /etc/x" }), Some("/etc/x"));
    for (access, call) in [
        (ToolAccess::WorkspaceWrite, write("/etc/x")),
        (ToolAccess::WorkspaceWrite, outside),
        (ToolAccess::ReadOnly, asks_to_call("Bash", &json!({}), None)),
        (ToolAccess::ScopedOnly, asks_to_call("Read", &json!({}), None)),
    ] {
        let mut conversation = conversation(access, None);
        let step = read(&mut conversation, &call);
        assert!(step.asks.is_empty() && writes(&step).contains("deny"), "{access:?}: {call}");
    }
}

#[test]
fn a_command_that_the_cli_stops_at_a_path_inside_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let hook = folder.path().join(".git/hooks/pre-commit");
    let mut conversation = conversation(ToolAccess::WorkspaceWrite, None);
    conversation.opening_for_tests().permissions =
        Permissions::in_folder(ToolAccess::WorkspaceWrite, folder.path());
    for tool in ["Bash", "Write"] {
        let step = read(&mut conversation, &asks_to_call(tool, &json!({}), hook.to_str()));
        assert!(step.writes.is_empty() && step.asks.len() == 1, "{tool}: nothing is allowed unasked");
    }
}

#[test]
fn a_question_that_is_open_when_the_turn_stops_is_answered_no() {
    let mut conversation = conversation(ToolAccess::WorkspaceWrite, None);
    let step = read(&mut conversation, &asks_to_call("Bash", &json!({}), None));
    assert_eq!(step.asks.len(), 1);
    let mut step = Step::default();
    conversation.interrupt(&mut step);
    assert!(writes(&step).contains("deny"));
    let step = read(&mut conversation, &asks_to_call("Bash", &json!({}), None));
    assert!(step.asks.is_empty() && writes(&step).contains("deny"), "nor is a later one asked");
}

#[test]
fn a_stop_before_the_prompt_takes_the_input_away() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    let mut step = Step::default();
    assert_eq!(conversation.interrupt(&mut step), StopRequest::Written);
    assert!(step.close_stdin && step.writes.is_empty());
}

#[test]
fn what_is_not_known_is_kept_word_for_word() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    for line in [&br#"{"type":"novelty","x":1}"#[..], b"not JSON", b"[1,2]", b"{\"type\":3}", b"\xff\xfe"] {
        let mut step = Step::default();
        conversation.line(line, &mut step);
        assert!(matches!(&step.events[..], [TurnEvent::Unrecognized(_)]), "{line:?}: {:?}", step.events);
    }
}

/// Every line of every recording.
fn lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(FOLDER).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = std::fs::read(path).unwrap();
            lines.extend(
                bytes.split(|byte| *byte == b'\n').filter(|line| line.len() < 20_000).map(<[u8]>::to_vec),
            );
        }
    }
    assert!(lines.len() > 500, "{} lines", lines.len());
    lines
}

/// A value that a vendor might put anywhere.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(u64::MAX)),
        Just(json!(-1)),
        Just(json!(1e308)),
        Just(json!("")),
        Just(json!([[{}]])),
        Just(json!({ "type": {} })),
        Just(serde_json::from_str(&format!("{}{}", "[".repeat(100), "]".repeat(100))).unwrap()),
    ]
}

/// Puts `value` at the `place`-th field of a line.
fn disturb(line: &mut Value, place: &mut usize, value: &Value) {
    let fields: Vec<&mut Value> = match line {
        Value::Object(fields) => fields.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => return,
    };
    for field in fields {
        if *place == 0 {
            field.clone_from(value);
        }
        *place = place.wrapping_sub(1);
        disturb(field, place, value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_fatal(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, any_value(), any::<prop::sample::Index>()), 1..30),
    ) {
        static LINES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
        let lines = LINES.get_or_init(lines);
        let tools = Some(callers(&["add"]));
        let mut conversation = conversation_with(ToolAccess::Unrestricted, None, tools);
        for (index, mut place, value, cut) in picks {
            let line = index.get(lines);
            let mut step = Step::default();
            if let Ok(mut parsed) = serde_json::from_slice::<Value>(line) {
                disturb(&mut parsed, &mut place, &value);
                conversation.line(parsed.to_string().as_bytes(), &mut step);
            }
            conversation.line(&line[..cut.index(line.len() + 1)], &mut step);
            conversation.phase();
        }
    }
}

/// Conversation that was asked its prompt.
fn asked() -> ClaudeTranslator {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    conversation.open(&mut Step::default());
    read(&mut conversation, &initialized(&json!({})));
    conversation
}

#[test]
fn half_a_character_ends_the_turn_with_its_answer() {
    let mut conversation = asked();
    let mut step = Step::default();
    for line in [
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\ud83d"}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"\ude00b\ud800"}}}"#,
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a\ud83d\ude00b\ud800"}]}}"#,
        r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"}}}"#,
        r#"{"type":"stream_event","event":{"type":"message_stop"}}"#,
        r#"{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","result":"a\ud83d\ude00b\ud800","total_cost_usd":NaN}"#,
    ] {
        conversation.line(line.as_bytes(), &mut step);
    }
    assert!(matches!(step.outcome, Some(TurnOutcome::Answered { .. })), "{:?}", step.outcome);
    assert!(
        !step.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))),
        "{:?}",
        step.events
    );
    let ended = step.events.iter().find_map(|event| match event {
        TurnEvent::MessageEnded(ended) => Some(ended.text.as_str()),
        _ => None,
    });
    assert_eq!(ended, Some("a\u{1f600}b\u{fffd}"));
    let shown: String = step
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::TextDelta(delta) => Some(delta.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "a\u{1f600}b\u{fffd}");
}

#[test]
fn a_result_line_ends_the_turn_whatever_is_wrong_in_it() {
    for line in [
        r#"{"type":"result","subtype":"success","result":"a"#.to_owned(),
        r#"{"type":"result","subtype":"success","result":}"#.to_owned(),
        format!(
            r#"{{"type":"result","subtype":"success","result":{}1{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        ),
    ] {
        let mut conversation = asked();
        let mut step = Step::default();
        conversation.line(line.as_bytes(), &mut step);
        assert!(step.outcome.is_some(), "{line}: {:?}", step.events);
    }
}

#[test]
fn a_permission_that_rests_on_a_repaired_line_is_refused() {
    let mut conversation = conversation(ToolAccess::Unrestricted, None);
    conversation.open(&mut Step::default());
    read(&mut conversation, &initialized(&json!({})));
    for input in [
        r#"{"file_path":"/work/a\ud83d"}"#,
        r#"{"file_path":"/work/a","file_path":"/etc/b"}"#,
        r#"{"limit":NaN}"#,
    ] {
        let mut step = Step::default();
        let request = format!(
            r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"can_use_tool","tool_name":"Write","tool_use_id":"t","input":{input}}}}}"#
        );
        conversation.line(request.as_bytes(), &mut step);
        let written = writes(&step);
        assert!(written.contains("\"deny\"") && step.asks.is_empty(), "{input}: {written} {:?}", step.events);
    }
}

#[test]
fn a_structured_answer_of_a_repaired_line_is_not_taken() {
    for value in [r#"{"verdict":"\ud83d"}"#, r#"{"score":NaN}"#, r#"{"verdict":"no","verdict":"yes"}"#] {
        let mut conversation = asked();
        let mut step = Step::default();
        let line = format!(
            r#"{{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","result":"","structured_output":{value}}}"#
        );
        conversation.line(line.as_bytes(), &mut step);
        assert!(matches!(step.outcome, Some(TurnOutcome::Failed(_))), "{value}: {:?}", step.outcome);
    }
}
