//! Whatever Grok writes, and whatever its record says, nothing panics and nothing is lost.

use std::{path::Path, sync::Arc};

use nexus_core::{
    Effects, ErrorKind, ParticipantScope, ProcessExit, Recorder, Session, Tool, ToolAccess, ToolCallStatus,
    ToolContent, Toolbox,
    turn::{MessageVoided, ToolOrigin},
};
use proptest::prelude::*;
use serde_json::json;

use super::conversation::StoredConversation;
use super::session_log::RetryWatch;
use super::translate::GrokTranslator;
use crate::cli::caller_tools::CallerTools;
use crate::cli::{ProcessEnd, Step, Translator as _, TurnOutcome};
use nexus_core::TurnEvent;

struct Run {
    recorder: Recorder,
    voided: Vec<MessageVoided>,
    verdict: Option<TurnOutcome>,
}

/// Reads lines, then the record in `home`.
fn run(lines: &[&[u8]], home: Option<&Path>) -> Run {
    let mut conversation = GrokTranslator::new("grok-cli".into(), ToolAccess::Unrestricted, 0);
    if let Some(home) = home {
        let watch = RetryWatch::new(&home.join("grok"), "s", 0);
        conversation = conversation.with_session(StoredConversation::for_this_turn("s".into()), watch);
    }
    finish(conversation, lines, home)
}

/// Has a conversation read lines and its end.
fn finish(mut conversation: GrokTranslator, lines: &[&[u8]], home: Option<&Path>) -> Run {
    let mut run = Run { recorder: Recorder::new(), voided: Vec::new(), verdict: None };
    let mut step = Step::default();
    for line in lines {
        conversation.line(line, &mut step);
    }
    let early = step.outcome.take();
    let end = ProcessEnd { exit: Some(ProcessExit::Code(0)), stderr_tail: "", home, was_stopped: false };
    conversation.ended(&end, &mut step);
    for event in step.events {
        run.recorder.observe(&event);
        if let TurnEvent::MessageVoided(voided) = event {
            run.voided.push(voided);
        }
    }
    run.verdict = early.or(step.outcome);
    run
}

/// Reads lines of a turn with the caller's tools `noon` and `midnight` alone.
fn run_with_callers(lines: &[&[u8]]) -> Run {
    let says = |name: &str| Tool::without_arguments(name, "Says when.", || async { "12:00" }).read_only();
    let toolbox = Toolbox::new().with(says("noon")).with(says("midnight"));
    let session = Session::mint("caller", ParticipantScope::unrestricted(), Arc::new(toolbox));
    let callers = CallerTools::new(session, "http://127.0.0.1:1/mcp".into());
    let conversation = GrokTranslator::new("grok-cli".into(), ToolAccess::ScopedOnly, 0);
    finish(conversation.with_callers(Some(callers)), lines, None)
}

fn failure_of(run: &Run) -> (ErrorKind, String) {
    match &run.verdict {
        Some(TurnOutcome::Failed(failure)) => (failure.kind, failure.message.clone().unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

fn home_with(history: &str, updates: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let session = home.path().join("grok/sessions/%2Fw/s");
    std::fs::create_dir_all(&session).unwrap();
    std::fs::write(session.join("chat_history.jsonl"), history).unwrap();
    std::fs::write(session.join("updates.jsonl"), updates).unwrap();
    home
}

const PROMPT: &str = r#"{"type":"user","content":[],"prompt_index":0}"#;
const END: &[u8] = br#"{"type":"end","stopReason":"end_turn"}"#;

#[test]
fn an_answer_that_was_cut_is_replaced_by_the_one_in_the_record() {
    let history = format!(
        "{PROMPT}\n{}\n{}\n",
        r#"{"type":"assistant","content":"first"}"#, r#"{"type":"assistant","content":"whole"}"#
    );
    let retry = r#"{"params":{"update":{"sessionUpdate":"retry_state","type":"retrying","attempt":1},"_meta":{"agentTimestampMs":0}}}"#;
    let home = home_with(&history, retry);
    let lines: [&[u8]; 6] = [
        br#"{"type":"text","data":"first"}"#,
        br#"{"type":"usage"}"#,
        br#"{"type":"text","data":"ha"}"#,
        br#"{"type":"text","data":"whole"}"#,
        br#"{"type":"usage","usage":{"input_tokens":1,"output_tokens":2}}"#,
        END,
    ];
    let run = run(&lines, Some(home.path()));
    let texts: Vec<_> = run.recorder.messages().iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["first", "whole"]);
    assert_eq!(run.voided.len(), 1);
    assert_eq!(run.voided[0].cause, nexus_core::turn::VoidCause::Retry);
    assert_eq!(run.recorder.usage().output_tokens, Some(2), "counted once");
    assert!(matches!(run.verdict, Some(TurnOutcome::Answered { .. })));
}

#[test]
fn a_record_that_agrees_changes_nothing() {
    let home = home_with(&format!("{PROMPT}\n{}\n", r#"{"type":"assistant","content":"hi"}"#), "");
    let run = run(&[br#"{"type":"text","data":"hi"}"#, br#"{"type":"usage"}"#, END], Some(home.path()));
    assert!(run.voided.is_empty());
    assert_eq!(run.recorder.messages().len(), 1);
}

#[test]
fn an_answer_of_which_nothing_was_shown_is_taken_from_the_record() {
    let home = home_with(&format!("{PROMPT}\n{}\n", r#"{"type":"assistant","content":"hi"}"#), "");
    let run = run(&[END], Some(home.path()));
    assert_eq!(run.recorder.last_message().unwrap().text, "hi");
    assert!(matches!(run.verdict, Some(TurnOutcome::Answered { .. })));
}

const READY: &[u8] =
    br#"{"type":"available_commands","tools":["search_tool","use_tool","nexus__noon","nexus__midnight"]}"#;

#[test]
fn nothing_is_believed_before_every_tool_of_the_callers_is_there() {
    let half = br#"{"type":"available_commands","tools":["search_tool","use_tool","nexus__noon"]}"#;
    let words = br#"{"type":"text","data":"I have no such tool."}"#;
    for lines in [vec![&words[..], END], vec![half, words, END], vec![READY, half, words, END]] {
        let run = run_with_callers(&lines);
        let (kind, reason) = failure_of(&run);
        assert_eq!(kind, ErrorKind::ToolsUnavailable);
        assert!(reason.contains("midnight"), "{reason}");
        assert!(run.recorder.messages().is_empty());
    }
    let run = run_with_callers(&[half, READY, words, br#"{"type":"usage"}"#, END]);
    assert!(matches!(run.verdict, Some(TurnOutcome::Answered { .. })), "{:?}", run.verdict);
}

#[test]
fn what_runs_before_the_stop_is_on_record() {
    let half = br#"{"type":"available_commands","tools":["search_tool","use_tool","nexus__noon"]}"#;
    let run = run_with_callers(&[
        half,
        br#"{"type":"tool_call","toolCallId":"1","toolName":"run_terminal_command","kind":"execute","rawInput":{"command":"date"}}"#,
    ]);
    assert_eq!(failure_of(&run).0, ErrorKind::ToolsUnavailable);
    let [call] = run.recorder.tool_calls() else { panic!("{:?}", run.recorder.tool_calls()) };
    assert_eq!((call.name.as_str(), call.status), ("run_terminal_command", ToolCallStatus::Unfinished));
    assert_eq!(run.recorder.effects(), Effects::Unknown, "so the process is not started again");
}

#[test]
fn a_call_of_another_servers_tool_may_have_changed_anything_unless_it_was_refused() {
    let effects = |end: Option<&[u8]>| {
        let call = br#"{"type":"tool_call","toolCallId":"1","toolName":"use_tool","kind":"use_tool","rawInput":{"tool_name":"left__leak","tool_input":{}}}"#;
        let lines: Vec<&[u8]> = [READY, call].into_iter().chain(end).collect();
        let run = run_with_callers(&lines);
        let [call] = run.recorder.tool_calls() else { panic!("{:?}", run.recorder.tool_calls()) };
        assert_eq!((call.name.as_str(), call.origin), ("use_tool", ToolOrigin::Harness));
        assert!(call.arguments.is_some());
        run.recorder.effects()
    };
    let refused = br#"{"type":"tool_call_update","toolCallId":"1","status":"failed","content":[{"content":{"text":"Tool not found: left__leak"}}]}"#;
    assert_eq!(effects(Some(refused)), Effects::None);
    let done = br#"{"type":"tool_call_update","toolCallId":"1","status":"completed","content":[],"rawOutput":{"type":"MCP","output":{"OkayOutput":"x"}}}"#;
    assert_eq!(effects(Some(done)), Effects::Unknown);
    let failed = br#"{"type":"tool_call_update","toolCallId":"1","status":"failed","content":[],"rawOutput":{"type":"MCP","output":{"Error":"x"},"is_error":true}}"#;
    assert_eq!(effects(Some(failed)), Effects::Unknown, "the server was asked");
    assert_eq!(effects(None), Effects::Unknown, "nobody knows");
}

#[test]
fn a_prompt_that_was_stopped_names_the_tools_that_it_was_held_back_for() {
    let (kind, reason) = failure_of(&run_with_callers(&[br#"{"type":"end","stopReason":"cancelled"}"#]));
    assert_eq!(kind, ErrorKind::ToolsUnavailable);
    assert!(reason.contains("noon, midnight"), "{reason}");
    // Another reason is told as it is.
    let run = run_with_callers(&[br#"{"type":"error","message":"Not signed in."}"#]);
    assert_eq!(failure_of(&run).0, ErrorKind::Unauthenticated);
}

#[test]
fn a_level_that_is_a_list_of_tools_is_not_kept_without_one() {
    let answer: [&[u8]; 2] = [br#"{"type":"text","data":"hi"}"#, br#"{"type":"usage"}"#];
    let call = br#"{"type":"tool_call","toolCallId":"c","toolName":"write","kind":"edit"}"#;
    let lists: [&[u8]; 3] = [
        br#"{"type":"available_commands","commands":[]}"#,
        br#"{"type":"available_commands","tools":{"read_file":true}}"#,
        br#"{"type":"commands","tools":["read_file"]}"#,
    ];
    for access in ToolAccess::ALL {
        for list in lists {
            let conversation = || GrokTranslator::new("grok-cli".into(), access, 0);
            let run = finish(conversation(), &[&[list], &answer[..], &[END]].concat(), None);
            assert_eq!(run.recorder.effects(), Effects::Unknown);
            let is_refused = matches!(&run.verdict, Some(TurnOutcome::Failed(failure)) if failure.kind == ErrorKind::Unsupported);
            assert_eq!(is_refused, super::tools::is_list(access), "{access:?}");
            // It does not get as far as its end where it calls something.
            let run = finish(conversation(), &[list, call], None);
            assert_eq!(
                matches!(run.verdict, Some(TurnOutcome::Failed(_))),
                super::tools::is_list(access),
                "{access:?}"
            );
        }
    }
}

#[test]
fn a_call_in_words_that_nobody_knows_may_have_changed_anything() {
    let list: &[u8] = br#"{"type":"available_commands","tools":["write"]}"#;
    let answer: &[u8] = br#"{"type":"tool_call_update","toolCallId":"c","status":"completed"}"#;
    for (call, expected) in [
        (&br#"{"type":"tool_call","toolCallId":"c","toolName":"write","kind":"edit"}"#[..], Effects::Wrote),
        (br#"{"type":"call","toolCallId":"c","toolName":"write","kind":"edit"}"#, Effects::Unknown),
        (br#"{"type":"tool_call","callId":"c","toolName":"write","kind":"edit"}"#, Effects::Unknown),
        // The call is in no line at all.
        (br#"{"type":"plan","entries":[]}"#, Effects::Unknown),
    ] {
        let run = run(&[list, call, answer, br#"{"type":"usage"}"#, END], None);
        assert_eq!(run.recorder.effects(), expected, "{}", String::from_utf8_lossy(call));
    }
    let quiet =
        run(&[list, br#"{"type":"plan","entries":[]}"#, br#"{"type":"text","data":"hi"}"#, END], None);
    assert_eq!(quiet.recorder.effects(), Effects::None);
}

#[test]
fn a_number_of_another_type_does_not_cost_the_answer() {
    for usage in [
        r#""usage":{"input_tokens":3.0,"output_tokens":2}"#,
        r#""usage":{"input_tokens":"3","output_tokens":2}"#,
        r#""usage":{"input_tokens":[],"output_tokens":2.5}"#,
        r#""usage":"much","total_cost_usd_ticks":12.0,"modelUsage":7"#,
        r#""total_cost_usd":"0.25","structuredOutputError":5"#,
    ] {
        let end = format!(r#"{{"type":"end","stopReason":"end_turn",{usage}}}"#);
        let run = run(&[br#"{"type":"text","data":"hi"}"#, end.as_bytes()], None);
        assert!(matches!(run.verdict, Some(TurnOutcome::Answered { .. })), "{end}: {:?}", run.verdict);
        assert_eq!(run.recorder.last_message().unwrap().text, "hi");
    }
}

#[test]
fn a_tool_that_is_not_the_callers_is_an_excess() {
    let more = br#"{"type":"available_commands","tools":["search_tool","use_tool","nexus__noon","nexus__midnight","read_file"]}"#;
    let (kind, reason) = failure_of(&run_with_callers(&[more, END]));
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(reason.contains("read_file"), "{reason}");
}

#[test]
fn a_call_is_the_callers_however_it_was_made() {
    let run = run_with_callers(&[
        READY,
        br#"{"type":"tool_call","toolCallId":"1","toolName":"search_tool","kind":"search_tool","rawInput":{"query":"noon"}}"#,
        br#"{"type":"tool_call_update","toolCallId":"1","status":"completed","content":[]}"#,
        br#"{"type":"tool_call","toolCallId":"2","toolName":"use_tool","kind":"use_tool","rawInput":{"tool_name":"nexus__noon","tool_input":{"at":1}}}"#,
        br#"{"type":"tool_call","toolCallId":"3","toolName":"nexus__midnight","kind":"other","rawInput":{"at":2}}"#,
        br#"{"type":"tool_call","toolCallId":"4","toolName":"use_tool","kind":"use_tool","rawInput":{"tool_name":"nexus__secret","tool_input":{}}}"#,
        br#"{"type":"tool_call_update","toolCallId":"3","status":"failed","content":[],"rawOutput":{"type":"MCP","output":{"Error":"too dark"},"is_error":true}}"#,
        br#"{"type":"tool_call_update","toolCallId":"2","status":"completed","content":[],"rawOutput":{"type":"MCP","output":{"OkayOutput":"12:00\ndata:image/png;base64,AAAA"}}}"#,
        br#"{"type":"tool_call_update","toolCallId":"4","status":"failed","content":[{"content":{"text":"Tool `nexus__secret` failed via `use_tool`: Tool not found: nexus__secret"}}]}"#,
        br#"{"type":"text","data":"Noon."}"#,
        br#"{"type":"usage"}"#,
        END,
    ]);
    let calls = run.recorder.tool_calls();
    let told: Vec<_> = calls
        .iter()
        .map(|call| (call.name.as_str(), call.origin, call.effects, call.arguments.clone(), call.status))
        .collect();
    let (harness, caller) = (ToolOrigin::Harness, ToolOrigin::Caller);
    let expected = [
        ("search_tool", harness, Effects::None, Some(json!({ "query": "noon" })), ToolCallStatus::Succeeded),
        ("noon", caller, Effects::Read, Some(json!({ "at": 1 })), ToolCallStatus::Succeeded),
        ("midnight", caller, Effects::Read, Some(json!({ "at": 2 })), ToolCallStatus::Failed),
        ("secret", caller, Effects::None, Some(json!({})), ToolCallStatus::Denied),
    ];
    assert_eq!(told, expected);
    let picture = ToolContent::Image { media_type: "image/png".into(), data: "AAAA".into() };
    assert_eq!(calls[1].output, [ToolContent::text("12:00"), picture]);
    assert_eq!(calls[2].output, [ToolContent::text("too dark")]);
}

/// Recordings to mutilate.
fn recordings() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/grok");
    let names = ["tools-streaming-json", "sse-hosted-search", "midturn-nort-expires-401", "sse-dup-calls"];
    names.iter().map(|name| std::fs::read(folder.join(format!("{name}.jsonl"))).unwrap()).collect()
}

proptest! {
    #[test]
    fn no_mutilated_recording_panics(which in 0_usize..4, cut in 0_usize..4000, at in 0_usize..4000, byte in any::<u8>()) {
        let mut bytes = recordings().swap_remove(which);
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(cut.max(1));
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        run(&lines, None);
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
        run(&[&line], None);
    }

    #[test]
    fn no_known_line_with_odd_fields_panics(
        kind in prop::sample::select(vec!["text", "tool_call", "tool_call_update", "usage", "end", "error", "available_commands"]),
        number in any::<f64>(),
        depth in 1_usize..300,
    ) {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let line = format!(
            r#"{{"type":"{kind}","data":"x","toolCallId":"c","rawInput":{nested},"rawOutput":{nested},"stopReason":"end_turn","message":"Internal error: {{","usage":{{"input_tokens":18446744073709551615,"output_tokens":{number:e}}}}}"#
        );
        run(&[line.as_bytes()], None);
    }
}

#[test]
fn halves_of_a_character_in_neighbouring_pieces_are_joined() {
    let run = run(
        &[
            br#"{"type":"text","data":"a\ud83d"}"#,
            br#"{"type":"text","data":"\ude00b\ud800"}"#,
            br#"{"type":"end","stopReason":"EndTurn","total_cost_usd":NaN}"#,
        ],
        None,
    );
    let texts: Vec<&str> = run.recorder.messages().iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["a\u{1f600}b\u{fffd}"]);
    assert_eq!(run.recorder.effects(), Effects::None);
}
