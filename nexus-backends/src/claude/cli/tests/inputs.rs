//! What is said to the agent while its turn runs.

use super::*;

/// A turn whose model waits for the answer to its call of a command.
fn in_a_call() -> ClaudeTranslator {
    let mut conversation = conversation(ToolAccess::Unrestricted, None);
    read(&mut conversation, &initialized(&json!({ "apiKeySource": "ANTHROPIC_API_KEY" })));
    read(&mut conversation, &init());
    assert!(!conversation.takes_input());
    read(
        &mut conversation,
        &said("m1", &json!({ "type": "tool_use", "id": "t1", "name": "Bash", "input": {} })),
    );
    assert!(conversation.takes_input());
    conversation
}

fn init() -> Value {
    json!({ "type": "system", "subtype": "init", "tools": ["Bash"] })
}

fn said(message: &str, block: &Value) -> Value {
    json!({ "type": "assistant", "message": { "id": message, "content": [block] } })
}

fn answer_to_the_call() -> Value {
    json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "ran" }] } })
}

/// Says something, and returns the line that it becomes.
fn say(conversation: &mut ClaudeTranslator, number: u64, text: &str) -> Value {
    let mut step = Step::default();
    conversation.input(number, text, &mut step);
    serde_json::from_slice(&step.writes[0]).unwrap()
}

fn echo(line: &Value) -> Value {
    json!({ "type": "user", "message": line["message"], "uuid": line["uuid"], "isReplay": true })
}

fn result(text: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "stop_reason": "end_turn",
        "result": text,
    })
}

fn answer(conversation: &mut ClaudeTranslator, message: &str, text: &str) -> Step {
    read(conversation, &said(message, &json!({ "type": "text", "text": text })));
    read(conversation, &result(text))
}

#[test]
fn what_is_said_in_a_call_is_delivered_when_it_comes_back() {
    let mut conversation = in_a_call();
    let (first, second) = (say(&mut conversation, 7, "/stop"), say(&mut conversation, 8, "b"));
    assert_eq!(first["message"]["content"][0]["text"], "\n/stop", "it is no command of the program's");
    read(&mut conversation, &answer_to_the_call());
    assert!(!conversation.takes_input());
    assert_eq!(read(&mut conversation, &echo(&first)).delivered, [7]);
    assert_eq!(read(&mut conversation, &echo(&second)).delivered, [8]);
    assert!(read(&mut conversation, &echo(&second)).delivered.is_empty());
    assert!(matches!(answer(&mut conversation, "m2", "done").outcome, Some(TurnOutcome::Answered { .. })));
}

/// The call ended as the message was on its way. Observed with claude 2.1.197 and 2.1.329.
#[test]
fn what_comes_too_late_for_the_call_is_answered_by_a_second_result() {
    let mut conversation = in_a_call();
    let line = say(&mut conversation, 7, "a");
    read(&mut conversation, &answer_to_the_call());
    assert!(answer(&mut conversation, "m2", "first").outcome.is_none());
    read(&mut conversation, &init());
    assert_eq!(read(&mut conversation, &echo(&line)).delivered, [7]);
    assert!(matches!(answer(&mut conversation, "m3", "second").outcome, Some(TurnOutcome::Answered { .. })));
}

#[test]
fn an_answer_stands_if_the_cli_does_not_go_on_with_what_it_was_told() {
    let mut conversation = in_a_call();
    say(&mut conversation, 7, "a");
    read(&mut conversation, &answer_to_the_call());
    assert!(answer(&mut conversation, "m2", "first").outcome.is_none());
    let mut step = Step::default();
    for _ in 0..60 {
        assert!(step.outcome.is_none());
        conversation.look(&String::new, &mut step);
        if step.outcome.is_some() {
            break;
        }
    }
    assert!(matches!(step.outcome, Some(TurnOutcome::Answered { .. })), "{:?}", step.outcome);
    assert!(step.delivered.is_empty());
}

#[test]
fn a_turn_that_fails_does_not_go_on_with_what_it_was_told() {
    let mut conversation = in_a_call();
    say(&mut conversation, 7, "a");
    let failed = json!({ "type": "result", "subtype": "error_max_turns", "is_error": true, "num_turns": 2 });
    let step = read(&mut conversation, &failed);
    assert!(step.stops && matches!(step.outcome, Some(TurnOutcome::Failed(_))), "{:?}", step.outcome);
}

#[test]
fn what_becomes_of_a_message_is_no_call() {
    let mut conversation = in_a_call();
    let line = json!({ "type": "command_lifecycle", "command_uuid": "x", "state": "queued" });
    assert!(read(&mut conversation, &line).events.is_empty());
}
