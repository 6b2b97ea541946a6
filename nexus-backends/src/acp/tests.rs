//! The exchange with an agent, line by line; and what its settings may say.

use std::{path::Path, sync::Arc, time::Duration};

use nexus_core::{
    ApprovalAction, BuildContext, Denial, ErrorKind, FinishReason, ParticipantScope, Session, Tool,
    ToolAccess, ToolCallStatus, Toolbox, TurnEvent,
};
use serde_json::{Value, json};

use super::agent::{CallNames, UsageReport, any_kind};
use super::sign_in::AgentLogin;
use super::tool_calls::ReportedCalls;
use super::translate::{AcpTranslator, Script};
use crate::cli::caller_tools::CallerTools;
use crate::cli::permission::Permissions;
use crate::cli::{Step, StopRequest, Translator, TurnOutcome};

/// An agent that is asked something, by lines that the test writes.
pub(super) struct Exchange {
    pub(super) translator: AcpTranslator,
    pub(super) step: Step,
}

impl Exchange {
    /// A process at this level, whose session has to be in `mode`, up to the answer to `initialize`.
    pub(super) fn at(access: ToolAccess, mode: Option<&'static str>) -> Self {
        let mut exchange = Self::of(Self::script(access, mode));
        assert_eq!(exchange.written()[0]["method"], "initialize");
        exchange
    }

    pub(super) fn script(access: ToolAccess, mode: Option<&'static str>) -> Script {
        Script {
            backend: "agent".into(),
            working_directory: "/work".into(),
            prompt: vec![json!({ "type": "text", "text": "Go." })],
            authentication: None,
            extensions: Vec::new(),
            meta: None,
            mode,
            model: None,
            tools: None,
            permissions: Permissions::in_folder(access, Path::new("/work")),
            session: None,
            resume: None,
            names: CallNames::default(),
            usage: UsageReport::Answer,
            leaves_session: false,
            takes_questions: false,
            login: AgentLogin::Lent,
            is_broken_uncounted: true,
            own_words: any_kind,
            exit: Duration::ZERO,
            prefix: String::new(),
        }
    }

    pub(super) fn of(script: Script) -> Self {
        let translator = AcpTranslator::new(script);
        let mut exchange = Self { translator, step: Step::default() };
        exchange.translator.open(&mut exchange.step);
        exchange
    }

    /// One whose host answers questions, asked its prompt.
    pub(super) fn with_person() -> Self {
        let script = Script { takes_questions: true, ..Self::script(ToolAccess::ReadOnly, None) };
        let mut exchange = Self::of(script);
        let offered = &exchange.written()[0]["params"]["clientCapabilities"];
        assert_eq!(offered["elicitation"], json!({ "form": {}, "url": {} }));
        exchange.begin(&json!({}));
        exchange
    }

    /// Opens the session of an agent with these capabilities of sessions, and sends the prompt.
    pub(super) fn begin(&mut self, sessions: &Value) {
        let agent = json!({ "loadSession": true, "sessionCapabilities": sessions });
        self.hears(&json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": agent } }));
        self.hears(&json!({ "id": 2, "result": { "sessionId": "s" } }));
        assert_eq!(self.written().last().unwrap()["method"], "session/prompt");
    }

    pub(super) fn elicits(&mut self, id: &Value, properties: &Value, required: &Value) {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let params =
            json!({ "sessionId": "s", "mode": "form", "message": "Which?", "requestedSchema": schema });
        self.hears(&json!({ "id": id, "method": "elicitation/create", "params": params }));
    }

    /// The same, asked its prompt.
    pub(super) fn prompted(access: ToolAccess) -> Self {
        let mut exchange = Self::at(access, None);
        exchange.begin(&json!({}));
        exchange
    }

    pub(super) fn hears(&mut self, message: &Value) {
        self.translator.line(message.to_string().as_bytes(), &mut self.step);
    }

    pub(super) fn update(&mut self, update: &Value) {
        let params = json!({ "sessionId": "s", "update": update });
        self.hears(&json!({ "method": "session/update", "params": params }));
    }

    pub(super) fn asks(&mut self, id: &Value, call: &Value, options: &Value) {
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        self.hears(&json!({ "id": id, "method": "session/request_permission", "params": params }));
    }

    pub(super) fn written(&mut self) -> Vec<Value> {
        self.step.writes.drain(..).map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    pub(super) fn failure(&mut self) -> ErrorKind {
        match self.step.outcome.take() {
            Some(TurnOutcome::Failed(failure)) => failure.kind,
            other => panic!("it did not fail: {other:?}"),
        }
    }
}

pub(super) fn options() -> Value {
    json!([
        { "optionId": "always", "name": "Always", "kind": "allow_always" },
        { "optionId": "once", "name": "Once", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" },
    ])
}

fn write_to(path: &str) -> Value {
    json!({ "toolCallId": "c", "kind": "edit", "title": "Write", "rawInput": { "file_path": path } })
}

#[test]
fn the_mode_is_set_before_anything_is_asked() {
    let mut agent = Exchange::at(ToolAccess::ReadOnly, Some("plan"));
    agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 1 } }));
    let modes = json!({ "currentModeId": "auto", "availableModes": [{ "id": "plan", "name": "Plan" }] });
    agent.hears(&json!({ "id": 2, "result": { "sessionId": "s", "modes": modes } }));
    let written = agent.written();
    assert_eq!(written.last().unwrap()["params"], json!({ "sessionId": "s", "modeId": "plan" }));
    agent.hears(&json!({ "id": 3, "result": {} }));
    assert_eq!(agent.written()[0]["method"], "session/prompt");
    agent.update(&json!({ "sessionUpdate": "current_mode_update", "currentModeId": "auto" }));
    assert_eq!(agent.failure(), ErrorKind::Unsupported);
    assert!(agent.step.stops);
}

#[test]
fn without_its_mode_an_agent_is_asked_nothing() {
    let mut agent = Exchange::at(ToolAccess::ReadOnly, Some("plan"));
    agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 1 } }));
    agent.written();
    agent.hears(&json!({ "id": 2, "result": { "sessionId": "s" } }));
    assert!(agent.written().is_empty());
    assert_eq!(agent.failure(), ErrorKind::Unsupported);
}

#[test]
fn another_revision_is_not_spoken() {
    let mut agent = Exchange::at(ToolAccess::ReadOnly, None);
    agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 2 } }));
    assert_eq!(agent.failure(), ErrorKind::Protocol);
}

#[test]
fn what_was_not_offered_is_refused_whatever_the_name_of_the_request() {
    for id in [json!(0), json!("a-b-c"), json!(7)] {
        let mut agent = Exchange::prompted(ToolAccess::Unrestricted);
        let params = json!({ "sessionId": "s", "path": "/work/x", "content": "x" });
        agent.hears(&json!({ "id": id, "method": "fs/write_text_file", "params": params }));
        let written = agent.written();
        assert_eq!((&written[0]["id"], &written[0]["error"]["code"]), (&id, &json!(-32601)));
        assert!(agent.step.events.is_empty() && agent.step.outcome.is_none());
    }
}

#[test]
fn a_level_answers_for_what_it_covers_and_forbids() {
    for (access, path, expected) in [
        (ToolAccess::WorkspaceWrite, "/work/in", "once"),
        (ToolAccess::WorkspaceWrite, "/elsewhere", "no"),
        (ToolAccess::WorkspaceWrite, "/work/../etc/passwd", "no"),
        (ToolAccess::ReadOnly, "/work/in", "no"),
        (ToolAccess::Unrestricted, "/elsewhere", "once"),
    ] {
        let mut agent = Exchange::prompted(access);
        agent.asks(&json!(0), &write_to(path), &options());
        let outcome = &agent.written()[0]["result"]["outcome"];
        assert_eq!(outcome, &json!({ "outcome": "selected", "optionId": expected }), "{access:?} {path}");
    }
}

/// What the model writes decides nothing: a command may begin as the caller's tools are called, and a call may have arguments to spare.
#[test]
fn a_call_is_not_the_callers_by_what_the_model_wrote() {
    let tools = Toolbox::new().with(Tool::without_arguments("lookup", "Looks.", || async { "found" }));
    let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
    let tools = CallerTools::new(session, "http://127.0.0.1:1/mcp".into());
    let names = CallNames { in_meta: Some("/own/name"), wrapper: Some("use_tool"), are_titles: true };
    let mut calls = ReportedCalls::new(Some(tools), names, String::new());
    let mut is_callers =
        |call: Value| calls.asked(serde_json::from_value(call).unwrap(), &mut Vec::new()).is_callers;
    let named = |name: &str| json!({ "own": { "name": name } });
    let apart = json!({ "server": "nexus", "tool": "lookup", "tool_name": "nexus__lookup" });
    for call in [
        json!({ "toolCallId": "1", "kind": "execute", "title": "nexus/lookup; rm -r ." }),
        json!({ "toolCallId": "2", "kind": "execute", "title": "nexus_lookup", "rawInput": apart }),
        json!({ "toolCallId": "3", "title": "mcp__nexus__lookup" }),
        json!({ "toolCallId": "4", "title": "x", "_meta": named("Bash"), "rawInput": apart }),
        json!({ "toolCallId": "5", "title": "nexus_lookup", "_meta": named("Bash") }),
        json!({ "toolCallId": "6", "title": "x", "_meta": named("use_tool"), "rawInput": { "tool_name": "other__lookup" } }),
        json!({ "toolCallId": "7", "title": "x", "rawInput": { "server": "other", "tool": "lookup" } }),
    ] {
        assert!(!is_callers(call.clone()), "{call}");
    }
    for call in [
        json!({ "toolCallId": "a", "title": "Tool: nexus/lookup", "rawInput": { "server": "nexus", "tool": "lookup" } }),
        json!({ "toolCallId": "b", "title": "x", "_meta": named("mcp__nexus__lookup") }),
        json!({ "toolCallId": "c", "title": "x", "_meta": named("use_tool"), "rawInput": { "tool_name": "nexus__lookup" } }),
        json!({ "toolCallId": "e", "kind": "other", "title": "mcp__nexus__lookup" }),
        // The server answers that there is none.
        json!({ "toolCallId": "d", "title": "x", "_meta": named("mcp__nexus__no_such") }),
    ] {
        assert!(is_callers(call.clone()), "{call}");
    }
}

#[test]
fn a_yes_that_would_last_is_not_given() {
    let mut agent = Exchange::prompted(ToolAccess::WorkspaceWrite);
    let always = json!([{ "optionId": "always", "name": "Always", "kind": "allow_always" }]);
    agent.asks(&json!(0), &write_to("/work/in"), &always);
    assert_eq!(agent.written()[0]["result"]["outcome"], json!({ "outcome": "cancelled" }));
}

#[test]
fn the_host_is_asked_and_a_turn_that_stops_waits_for_no_answer() {
    let command =
        json!({ "toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": { "command": "ls" } });
    let mut agent = Exchange::prompted(ToolAccess::WorkspaceWrite);
    agent.asks(&json!("first"), &command, &options());
    let (question, asked) = agent.step.asks.remove(0);
    assert_eq!(asked.action, ApprovalAction::Execute);
    assert!(agent.written().is_empty());
    agent.translator.approved(question, Ok(()), &mut agent.step);
    assert_eq!(agent.written()[0]["result"]["outcome"]["optionId"], "once");
    agent.translator.approved(question, Err(Denial::Closed), &mut agent.step);
    assert!(agent.written().is_empty(), "it was answered before");

    agent.asks(&json!("second"), &command, &options());
    assert_eq!(agent.translator.interrupt(&mut agent.step), StopRequest::Written);
    let written = agent.written();
    assert_eq!(written[0]["method"], "session/cancel");
    assert_eq!(
        (&written[1]["id"], &written[1]["result"]["outcome"]["outcome"]),
        (&json!("second"), &json!("cancelled"))
    );
}

#[test]
fn the_tokens_of_a_second_prompt_are_counted_once() {
    let after = |input: u64, output: u64| {
        let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
        let mut answer = |id: u64, input: u64, output: u64| {
            let usage =
                json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
            agent.hears(&json!({ "id": id, "result": { "stopReason": "end_turn", "usage": usage } }));
            let usage = agent.step.usage.take().unwrap();
            agent.translator.repair("Answer with JSON.", &mut agent.step);
            (usage.input_tokens.unwrap(), usage.output_tokens.unwrap())
        };
        assert_eq!(answer(3, 100, 50), (100, 50));
        answer(4, input, output)
    };
    assert_eq!(after(160, 60), (160, 60), "totals of the session");
    assert_eq!(after(160, 10), (260, 60), "counts of the second prompt");
}

#[test]
fn an_end_is_no_success_by_itself() {
    let text =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Half an" } });
    let uncounted = json!({ "stopReason": "end_turn", "usage": { "inputTokens": 0, "outputTokens": 0 } });
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    agent.update(&text);
    agent.hears(&json!({ "id": 3, "result": uncounted }));
    assert_eq!(agent.failure(), ErrorKind::Incomplete);

    for (reason, expected) in [
        ("end_turn", ErrorKind::Incomplete),
        ("refusal", ErrorKind::Refused),
        ("cancelled", ErrorKind::VendorFailure),
    ] {
        let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
        agent.hears(&json!({ "id": 3, "result": { "stopReason": reason } }));
        assert_eq!(agent.failure(), expected, "{reason}");
    }

    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    agent.update(&text);
    agent.hears(&json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let outcome = agent.step.outcome.take();
    assert!(matches!(outcome, Some(TurnOutcome::Answered { finish: FinishReason::Stop, .. })), "{outcome:?}");
}

#[test]
fn calls_are_told_once_in_whatever_pieces_they_come() {
    let mut agent = Exchange::prompted(ToolAccess::Unrestricted);
    // An update of a call that was not announced, the same call announced twice, and another under the name of one that is over.
    let input = json!({ "command": "ls" });
    agent.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": input }));
    agent.update(
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "status": "in_progress" }),
    );
    let failed = json!({ "type": "Bash", "exit_code": 3 });
    agent.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "rawOutput": failed }));
    agent.update(
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "pwd", "status": "in_progress" }),
    );
    agent.update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" }));
    let ends = agent.step.events.iter().filter_map(|event| match event {
        TurnEvent::ToolCallFinished(finished) => Some((finished.call.as_str().to_owned(), finished.status)),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let begins =
        agent.step.events.iter().filter(|event| matches!(event, TurnEvent::ToolCallStarted(_))).count();
    assert_eq!(begins, 2);
    let (first, second) =
        (("c".to_owned(), ToolCallStatus::Failed), ("c+1".to_owned(), ToolCallStatus::Succeeded));
    assert_eq!(ends, [first, second]);
}

#[test]
fn what_cannot_be_read_is_told_and_harms_nothing() {
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    for line in
        ["nonsense", "[]", "{}", r#"{"id":99,"result":{}}"#, r#"{"method":"session/update","params":7}"#]
    {
        agent.translator.line(line.as_bytes(), &mut agent.step);
    }
    agent.update(&json!({ "sessionUpdate": "of_a_later_revision" }));
    agent.hears(&json!({ "method": "_own/notification", "params": {} }));
    let unknown =
        agent.step.events.iter().filter(|event| matches!(event, TurnEvent::Unrecognized(_))).count();
    assert_eq!(unknown, 5, "{:?}", agent.step.events);
    assert!(agent.step.outcome.is_none());
    agent.hears(&json!({ "id": 3, "result": "no answer" }));
    assert_eq!(agent.failure(), ErrorKind::Protocol);
}

#[test]
fn settings_that_contradict_each_other_are_named() {
    let kind = crate::registry().kind("acp").cloned().unwrap();
    let context = BuildContext::in_home("/nowhere");
    for (settings, key) in [
        (json!({}), "agent"),
        (json!({ "agent": "nobody" }), "agent"),
        (json!({ "agent": "grok", "command": ["grok"] }), "command"),
        (json!({ "command": [] }), "command"),
        (json!({ "command": [""] }), "command"),
        (json!({ "command": ["x"], "executable": "y" }), "executable"),
        (json!({ "command": ["x"], "credential": { "env": "X" } }), "credential"),
        (json!({ "command": ["x"], "base_url": "http://127.0.0.1:1" }), "base_url"),
        (json!({ "agent": "grok", "billing": "plan" }), "billing"),
        (json!({ "agent": "grok", "versions": "tested" }), "versions"),
    ] {
        let Value::Object(map) = &settings else { unreachable!() };
        let error = kind.build("a".into(), map, &context).map(|_| ()).unwrap_err();
        assert_eq!(error.path, [key], "{settings}: {error}");
    }
}

#[test]
fn halves_of_a_character_in_neighbouring_chunks_are_joined() {
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    for text in [r"ab\ud83d", r"\ude00cd\ud83d"] {
        let line = format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        );
        agent.translator.line(line.as_bytes(), &mut agent.step);
    }
    agent
        .translator
        .line(br#"{"id":3,"result":{"stopReason":"end_turn","_meta":{"cost":NaN}}}"#, &mut agent.step);
    let events = &agent.step.events;
    let text = events.iter().find_map(|event| match event {
        TurnEvent::MessageEnded(ended) => Some(ended.text.as_str()),
        _ => None,
    });
    assert_eq!(text, Some("ab\u{1f600}cd\u{fffd}"), "{events:?}");
    assert!(matches!(agent.step.outcome, Some(TurnOutcome::Answered { .. })), "{:?}", agent.step.outcome);
}

#[test]
fn a_chunk_that_cannot_be_read_makes_the_answer_incomplete() {
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    agent.update(
        &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "a" } }),
    );
    let cut = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"te"#;
    agent.translator.line(cut.as_bytes(), &mut agent.step);
    agent.hears(&json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    assert_eq!(agent.failure(), ErrorKind::Incomplete);
}

#[test]
fn an_answer_to_the_prompt_ends_the_turn_whatever_is_wrong_in_it() {
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    agent.translator.line(br#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":}}"#, &mut agent.step);
    assert_eq!(agent.failure(), ErrorKind::Protocol);
}

#[test]
fn a_permission_that_rests_on_a_repaired_line_is_refused() {
    for path in [r#""/work/a\ud83d""#, "NaN", r#""/work/a","file_path":"/work/b""#] {
        let mut agent = Exchange::prompted(ToolAccess::Unrestricted);
        agent.written();
        let call = format!(
            r#"{{"toolCallId":"c","kind":"edit","title":"Write","rawInput":{{"file_path":{path}}}}}"#
        );
        let line = format!(
            r#"{{"id":7,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{call},"options":{}}}}}"#,
            options()
        );
        agent.translator.line(line.as_bytes(), &mut agent.step);
        assert_eq!(agent.written()[0]["result"]["outcome"]["optionId"], "no", "{path}");
    }
}

/// As on every backend: `docs/reference/failures.md`, "the answer reaches its bound".
#[test]
fn an_answer_that_reaches_its_bound_is_incomplete() {
    let mut agent = Exchange::prompted(ToolAccess::Unrestricted);
    agent.update(
        &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "Half of" } }),
    );
    agent.hears(&json!({ "id": 3, "result": { "stopReason": "max_tokens" } }));
    assert_eq!(agent.failure(), ErrorKind::Incomplete);
}
