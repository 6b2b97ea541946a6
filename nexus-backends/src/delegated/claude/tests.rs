//! The conversation alone: lines in, steps out.

use nexus_core::{Effects, ErrorKind, Phase, ToolAccess, TurnEvent, turn::ToolCallStarted};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    session::Session,
    translate::{ClaudeConversation, Opening},
};
use crate::delegated::{
    conversation::{Conversation as _, Polite, Step, Verdict},
    settings::Billing,
};

/// The recordings, as they lie beside the tests.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude");

fn conversation(access: ToolAccess, billing: Option<Billing>) -> ClaudeConversation {
    ClaudeConversation::new(Opening {
        prompt: super::prompt::text_blocks("canary prompt"),
        system: Some("canary system".to_owned()),
        schema: None,
        access,
        billing,
        model_and_effort: None,
        session: Session::forgotten("claude-cli".into()),
        first_turn: None,
    })
}

fn read(conversation: &mut ClaudeConversation, line: &Value) -> Step {
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
        matches!(step.verdict, Some(Verdict::Failed(failure)) if failure.kind == ErrorKind::BillingMismatch)
    );
}

#[test]
fn the_prompt_follows_the_opening() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, Some(Billing::Plan));
    let step = read(&mut conversation, &initialized(&json!({ "tokenSource": "CLAUDE_CODE_OAUTH_TOKEN" })));
    assert!(writes(&step).contains("canary prompt"));
    assert_eq!(conversation.phase(), Phase::FirstByte);
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
        matches!(&step.verdict, Some(Verdict::Failed(failure)) if failure.kind == ErrorKind::Unsupported)
    );
    assert!(writes(&step).contains("interrupt"));
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
    let mut conversation = conversation(ToolAccess::WorkspaceWrite, None);
    let ask = |subtype: &str| json!({ "type": "control_request", "request_id": "r", "request": { "subtype": subtype, "tool_use_id": "c" } });
    assert!(writes(&read(&mut conversation, &ask("can_use_tool"))).contains("deny"));
    let step = read(&mut conversation, &ask("something_new"));
    assert!(writes(&step).contains("error"));
    assert!(step.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))));
}

#[test]
fn a_stop_before_the_prompt_takes_the_input_away() {
    let mut conversation = conversation(ToolAccess::ScopedOnly, None);
    let mut step = Step::default();
    assert_eq!(conversation.interrupt(&mut step), Polite::Written);
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
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_fatal(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, any_value(), any::<prop::sample::Index>()), 1..30),
    ) {
        static LINES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
        let lines = LINES.get_or_init(lines);
        let mut conversation = conversation(ToolAccess::Unrestricted, None);
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
