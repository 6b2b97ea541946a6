//! Questions, the fill of the context, sign-in, and the end of a session, line by line.

use nexus_core::{
    ErrorKind, QuestionReply, ToolAccess, TurnEvent,
    turn::{ContextUsage, QuestionCompleted},
};
use serde_json::json;

use super::home::StoredSession;
use super::sign_in::AgentLogin;
use super::tests::{Exchange, options};
use crate::cli::{StopRequest, Translator, TurnOutcome};

#[test]
fn how_full_the_context_is_becomes_an_event_and_no_usage() {
    let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
    for (used, size) in [(json!(10), json!(200)), (json!(10), json!(200)), (json!(11.5), json!(0))] {
        agent.update(&json!({ "sessionUpdate": "usage_update", "used": used, "size": size }));
    }
    let expected: Vec<TurnEvent> =
        vec![ContextUsage::new(10, Some(200)).into(), ContextUsage::new(11, None).into()];
    assert_eq!(agent.step.events, expected);
    agent.update(&json!({ "sessionUpdate": "usage_update", "used": -1, "size": 200 }));
    let last = agent.step.events.last().unwrap();
    assert!(matches!(last, TurnEvent::Unrecognized(unknown) if unknown.is_harmless), "{last:?}");
    assert!(agent.step.usage.is_none());
}

#[test]
fn the_cost_of_earlier_turns_is_not_counted_again() {
    let mut script = Exchange::script(ToolAccess::ReadOnly, None);
    script.resume = Some("s".into());
    let mut agent = Exchange::of(script);
    let agent_capabilities = json!({ "loadSession": true });
    agent.hears(
        &json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": agent_capabilities } }),
    );
    let cost = |usd: f64| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": usd, "currency": "USD" } });
    for before in [1.0, -1.0, 3.0, 1e300] {
        agent.update(&cost(before));
    }
    assert!(agent.step.cost.is_none());
    agent.hears(&json!({ "id": 2, "result": {} }));
    assert!(agent.step.events.is_empty(), "{:?}", agent.step.events);
    agent.update(&cost(3.5));
    assert_eq!(agent.step.cost.unwrap().usd.0, 0.5);
}

#[test]
fn questions_are_put_to_the_host_two_at_once_and_beside_a_permission() {
    let mut agent = Exchange::with_person();
    let command = json!({ "toolCallId": "c", "kind": "fetch", "title": "get" });
    agent.asks(&json!(7), &command, &options());
    agent.elicits(&json!("one"), &json!({ "name": { "type": "string" } }), &json!(["name"]));
    agent.elicits(&json!(9), &json!({ "sure": { "type": "boolean" } }), &json!([]));
    assert!(agent.step.asks.len() <= 1 && agent.step.questions.len() == 2);
    agent.written();
    let (second, first) = (agent.step.questions.pop().unwrap(), agent.step.questions.pop().unwrap());
    assert_eq!((first.1.message.as_str(), first.1.fields()[0].name.as_str()), ("Which?", "name"));

    let values = json!({ "sure": true }).as_object().unwrap().clone();
    agent.translator.replied(second.0, QuestionReply::Answered { values }, &mut agent.step);
    agent.translator.replied(first.0, QuestionReply::declined("not now"), &mut agent.step);
    let written = agent.written();
    assert_eq!(
        (&written[0]["id"], &written[0]["result"]),
        (&json!(9), &json!({ "action": "accept", "content": { "sure": true } }))
    );
    assert_eq!((&written[1]["id"], &written[1]["result"]["action"]), (&json!("one"), &json!("decline")));
    assert_eq!(written[1]["result"]["_meta"]["nexus"]["reason"], "not now");
    agent.translator.replied(first.0, QuestionReply::Cancelled, &mut agent.step);
    assert!(agent.written().is_empty(), "it was answered before");
}

#[test]
fn open_questions_are_cancelled_with_the_turn_and_later_ones_at_once() {
    let mut agent = Exchange::with_person();
    agent.elicits(&json!(7), &json!({}), &json!([]));
    assert_eq!(agent.translator.interrupt(&mut agent.step), StopRequest::Written);
    agent.elicits(&json!(8), &json!({}), &json!([]));
    let written = agent.written();
    assert_eq!(written[0]["method"], "session/cancel");
    for (answer, id) in written[1..].iter().zip([7, 8]) {
        assert_eq!((&answer["id"], &answer["result"]), (&json!(id), &json!({ "action": "cancel" })));
    }
    assert_eq!((written.len(), agent.step.questions.len()), (3, 1));
}

#[test]
fn a_question_that_no_person_can_see_is_declined_with_a_warning() {
    let mut without_person = Exchange::prompted(ToolAccess::ReadOnly);
    without_person.elicits(&json!(7), &json!({}), &json!([]));
    let mut unknown = Exchange::with_person();
    unknown.elicits(&json!(7), &json!({ "c": { "type": "color" } }), &json!(["c"]));
    for mut agent in [without_person, unknown] {
        assert_eq!(agent.written()[0]["result"]["action"], "decline");
        let [TurnEvent::Warning(warning)] = &agent.step.events[..] else { panic!("{:?}", agent.step.events) };
        assert!(warning.text.starts_with("a question of the agent was declined: "), "{}", warning.text);
        assert!(agent.step.questions.is_empty());
    }

    let mut agent = Exchange::with_person();
    let other = json!({ "sessionId": "other", "mode": "form", "message": "x", "requestedSchema": {} });
    for params in [json!({ "mode": "form" }), other] {
        agent.hears(&json!({ "id": 7, "method": "elicitation/create", "params": params }));
        assert_eq!(agent.written()[0]["error"]["code"], -32602, "{params}");
    }
    agent.elicits(&json!(8), &json!({ "c": { "type": "color" }, "b": { "type": "boolean" } }), &json!([]));
    assert_eq!(agent.step.questions[0].1.fields().len(), 1);
    let has_warned = agent.step.events.iter().any(|event| matches!(event, TurnEvent::Warning(_)));
    assert!(has_warned, "{:?}", agent.step.events);
}

#[test]
fn a_page_is_agreed_to_without_values_and_its_completion_is_an_event() {
    let mut agent = Exchange::with_person();
    let page = json!({ "sessionId": "s", "mode": "url", "message": "Go.", "elicitationId": "e", "url": "https://a" });
    agent.hears(&json!({ "id": 7, "method": "elicitation/create", "params": page }));
    let (number, _) = agent.step.questions.remove(0);
    let reply = QuestionReply::Answered { values: serde_json::Map::new() };
    agent.translator.replied(number, reply, &mut agent.step);
    assert_eq!(agent.written()[0]["result"], json!({ "action": "accept" }));
    for completed in ["other", "e", "e"] {
        agent.hears(&json!({ "method": "elicitation/complete", "params": { "elicitationId": completed } }));
    }
    agent.hears(&json!({ "method": "elicitation/complete", "params": {} }));
    assert_eq!(agent.step.events, [QuestionCompleted::new("e").into()]);
}

#[test]
fn a_session_is_closed_or_deleted_as_the_agent_offers_and_the_turn_stores() {
    let both = json!({ "close": {}, "delete": {} });
    for (is_stored, leaves_session, offered, expected) in [
        (true, false, both.clone(), vec!["session/close"]),
        (true, false, json!({}), vec![]),
        (false, true, both.clone(), vec!["session/close", "session/delete"]),
        (false, true, json!({ "close": {} }), vec![]),
        (false, false, both, vec![]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut script = Exchange::script(ToolAccess::ReadOnly, None);
        script.leaves_session = leaves_session;
        script.session = is_stored.then(|| StoredSession::in_folder(folder.path()));
        let mut agent = Exchange::of(script);
        agent.begin(&offered);
        agent.hears(&json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
        agent.step.events.clear();
        let waits = agent.translator.closing(&mut agent.step);
        assert_eq!(waits, !expected.is_empty());
        let written = agent.written();
        let methods: Vec<_> = written.iter().map(|line| line["method"].as_str().unwrap()).collect();
        assert_eq!(methods, expected, "{is_stored} {leaves_session} {offered}");
        for line in written {
            assert_eq!(line["params"], json!({ "sessionId": "s" }));
            assert!(!agent.step.close_stdin, "the input is closed before the last answer");
            // The session may be gone already.
            agent.hears(&json!({ "id": line["id"], "error": { "code": -32002, "message": "gone" } }));
        }
        assert_eq!(agent.step.close_stdin, waits);
        assert!(agent.step.events.is_empty(), "{:?}", agent.step.events);
    }
}

#[test]
fn a_session_is_resumed_where_the_agent_can_and_loaded_otherwise_and_a_deleted_one_is_lost() {
    for (sessions, loads, expected) in
        [(json!({ "resume": {} }), true, "session/resume"), (json!({}), true, "session/load")]
    {
        let mut script = Exchange::script(ToolAccess::ReadOnly, None);
        script.resume = Some("s".into());
        let mut agent = Exchange::of(script);
        agent.written();
        let offered = json!({ "loadSession": loads, "sessionCapabilities": sessions });
        agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": offered } }));
        assert_eq!(agent.written()[0]["method"], expected);
        agent.hears(&json!({ "id": 2, "error": { "code": -32002, "message": "Resource not found" } }));
        assert_eq!(agent.failure(), ErrorKind::ConversationLost);
    }
}

#[test]
fn options_that_are_not_lists_change_nothing() {
    let mut script = Exchange::script(ToolAccess::ReadOnly, None);
    script.model = Some("m".into());
    let mut agent = Exchange::of(script);
    agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 1 } }));
    let options = json!([
        { "id": "fast", "name": "Fast", "category": "model", "type": "boolean", "currentValue": true },
        { "id": "later", "name": "L", "type": "of_a_later_revision", "currentValue": { "x": 1 } },
        { "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "n", "options": [] },
    ]);
    agent.written();
    agent.hears(&json!({ "id": 2, "result": { "sessionId": "s", "configOptions": options } }));
    let expected = json!({ "sessionId": "s", "configId": "model", "value": "m" });
    assert_eq!(agent.written()[0]["params"], expected);
    agent.hears(&json!({ "id": 3, "result": { "configOptions": options } }));
    assert_eq!(agent.written()[0]["method"], "session/prompt");
    let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
    agent.update(&update);
    assert!(agent.step.events.is_empty() && agent.step.outcome.is_none());
}

#[test]
fn a_person_who_must_sign_in_is_told_the_command() {
    let mut script = Exchange::script(ToolAccess::Unrestricted, None);
    script.login = AgentLogin::Person { command: vec!["/bin/my-agent".into(), "acp".into()] };
    let mut agent = Exchange::of(script);
    let offered = agent.written()[0]["params"]["clientCapabilities"].clone();
    assert_eq!((&offered["auth"], &offered["terminal"]), (&json!({ "terminal": true }), &json!(false)));
    let method = json!({ "type": "terminal", "id": "t", "name": "T", "args": ["login"] });
    agent.hears(&json!({ "id": 1, "result": { "protocolVersion": 1, "authMethods": [method] } }));
    agent.hears(&json!({ "id": 2, "error": { "code": -32000, "message": "Authentication required" } }));
    let Some(TurnOutcome::Failed(failure)) = agent.step.outcome.take() else { panic!("it did not fail") };
    assert_eq!(failure.kind, ErrorKind::Unauthenticated);
    let expected = "Authentication required; sign in with `/bin/my-agent acp login`, then run the turn again";
    assert_eq!(failure.message.as_deref(), Some(expected));
}

#[test]
fn notifications_of_any_shape_are_read_before_a_session_is_open() {
    for method in ["session/update", "elicitation/complete", "$/cancel_request"] {
        for params in [json!([]), json!(7), json!("x"), json!(null), json!({}), json!({ "update": [] })] {
            let mut agent = Exchange::at(ToolAccess::ReadOnly, None);
            agent.hears(&json!({ "method": method, "params": params }));
            assert!(agent.step.events.is_empty(), "{method} {params}: {:?}", agent.step.events);
            let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
            agent.hears(&json!({ "method": method, "params": params }));
            assert!(agent.step.events.is_empty(), "{method} {params}: {:?}", agent.step.events);
        }
        let mut agent = Exchange::prompted(ToolAccess::ReadOnly);
        agent.hears(&json!({ "method": method, "params": { "sessionId": "s", "update": [] } }));
        assert!(agent.step.outcome.is_none());
    }
}

#[test]
fn open_questions_and_shown_names_have_a_largest_number() {
    let mut agent = Exchange::with_person();
    for id in 0..17 {
        agent.elicits(&json!(id), &json!({}), &json!([]));
    }
    assert_eq!(agent.step.questions.len(), 16);
    let declined = &agent.written()[0];
    assert_eq!((&declined["id"], &declined["result"]["action"]), (&json!(16), &json!("decline")));

    let mut agent = Exchange::with_person();
    let unknown: serde_json::Map<_, _> = (0..12).map(|number| (format!("f{number}"), json!(7))).collect();
    agent.elicits(&json!(1), &unknown.into(), &json!([]));
    let shown = format!("{:?}", agent.step.events);
    assert!(shown.contains("f8, ") && !shown.contains("f11"), "{shown}");
}

#[test]
fn a_question_is_withdrawn_by_its_agent_or_by_the_end_of_the_turn() {
    let mut agent = Exchange::with_person();
    for id in [json!(7), json!("8")] {
        agent.elicits(&id, &json!({}), &json!([]));
    }
    let numbers: Vec<u64> = agent.step.questions.iter().map(|(number, _)| *number).collect();
    for id in [json!("7"), json!(7), json!(7)] {
        agent.hears(&json!({ "method": "$/cancel_request", "params": { "requestId": id } }));
    }
    let written = agent.written();
    assert_eq!(
        (written.len(), &written[0]["id"], &written[0]["error"]["code"]),
        (1, &json!(7), &json!(-32800))
    );
    assert_eq!(agent.step.withdrawn, numbers[..1]);
    agent.hears(&json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    let written = agent.written();
    assert_eq!((&written[0]["id"], &written[0]["result"]), (&json!("8"), &json!({ "action": "cancel" })));
    assert_eq!(agent.step.withdrawn, numbers);
    agent.translator.replied(numbers[1], QuestionReply::Cancelled, &mut agent.step);
    assert!(agent.written().is_empty(), "it was answered before");
}
