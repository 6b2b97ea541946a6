//! Whatever Grok writes, and whatever its record says, nothing panics and nothing is lost.

use std::path::Path;

use nexus_core::{ProcessExit, Recorder, ToolAccess, turn::MessageVoided};
use proptest::prelude::*;

use super::{record::RetryWatch, sessions::Keeping, translate::GrokConversation};
use crate::delegated::conversation::{Conversation as _, ProcessEnd, Step, Verdict};
use nexus_core::TurnEvent;

struct Run {
    recorder: Recorder,
    voided: Vec<MessageVoided>,
    verdict: Option<Verdict>,
}

/// Reads lines, then the record in `home`.
fn run(lines: &[&[u8]], home: Option<&Path>) -> Run {
    let mut conversation = GrokConversation::new("grok-cli".into(), ToolAccess::Unrestricted, 0);
    if let Some(home) = home {
        let watch = RetryWatch::new(&home.join("grok"), "s", 0);
        conversation = conversation.with_session(Keeping::for_this_turn("s".into()), watch);
    }
    let mut run = Run { recorder: Recorder::new(), voided: Vec::new(), verdict: None };
    let mut step = Step::default();
    for line in lines {
        conversation.line(line, &mut step);
    }
    let end = ProcessEnd { exit: Some(ProcessExit::Code(0)), stderr_tail: "", home, was_stopped: false };
    conversation.ended(&end, &mut step);
    for event in step.events {
        run.recorder.observe(&event);
        if let TurnEvent::MessageVoided(voided) = event {
            run.voided.push(voided);
        }
    }
    run.verdict = step.verdict;
    run
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
    assert!(matches!(run.verdict, Some(Verdict::Answered { .. })));
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
    assert!(matches!(run.verdict, Some(Verdict::Answered { .. })));
}

/// Recordings to mutilate.
fn recordings() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/grok");
    let names = ["tools-streaming-json", "sse-hosted-search", "midturn-nort-expires-401", "sse-dup-calls"];
    names.iter().map(|name| std::fs::read(folder.join(format!("{name}.jsonl"))).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
