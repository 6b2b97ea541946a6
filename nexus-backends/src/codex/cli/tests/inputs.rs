//! What is said to the agent while its turn runs.

use super::*;

fn call(kind: &str, server: &mut AppServer) -> Step {
    let item = json!({ "type": "commandExecution", "id": "c1", "command": "ls", "status": "completed" });
    line(server, kind, &json!({ "threadId": THREAD, "item": item }))
}

fn user_message(server: &mut AppServer, kind: &str, name: &Value) -> Step {
    let item = json!({ "type": "userMessage", "id": "u1", "clientId": name, "content": [] });
    line(server, kind, &json!({ "threadId": THREAD, "item": item }))
}

#[test]
fn what_is_said_in_a_call_is_delivered_when_it_becomes_an_item() {
    let mut server = running();
    assert!(!server.takes_input());
    call("item/started", &mut server);
    assert!(server.takes_input());
    let mut step = Step::default();
    server.input(7, "a", &mut step);
    let asked = written(&step).remove(0);
    assert_eq!(
        (&asked["method"], &asked["params"]["expectedTurnId"]),
        (&json!("turn/steer"), &json!("turn-1"))
    );
    // That it is taken in is not yet that the model has it.
    let mut step = Step::default();
    server.line(
        json!({ "id": asked["id"], "result": { "turnId": "turn-1" } }).to_string().as_bytes(),
        &mut step,
    );
    assert!(step.delivered.is_empty() && step.events.is_empty());
    call("item/completed", &mut server);
    assert!(!server.takes_input());
    let name = &asked["params"]["clientUserMessageId"];
    assert_eq!(user_message(&mut server, "item/started", name).delivered, [7]);
    assert!(user_message(&mut server, "item/completed", name).delivered.is_empty());
    // The prompt is one, too.
    assert!(user_message(&mut server, "item/started", &Value::Null).delivered.is_empty());
}

#[test]
fn what_is_refused_goes_back() {
    let mut server = running();
    call("item/started", &mut server);
    let mut step = Step::default();
    server.input(7, "a", &mut step);
    let id = &written(&step)[0]["id"];
    let refused = json!({ "id": id, "error": { "code": -32600, "message": "no active turn to steer" } });
    let mut step = Step::default();
    server.line(refused.to_string().as_bytes(), &mut step);
    assert_eq!(step.returned, [7]);
    assert!(step.outcome.is_none(), "{:?}", step.outcome);
}

/// The call ended as the message was on its way. Observed with codex 0.169.0.
#[test]
fn an_answer_that_is_interrupted_by_it_is_taken_back() {
    let mut server = running();
    call("item/started", &mut server);
    let mut step = Step::default();
    server.input(7, "a", &mut step);
    let name = written(&step)[0]["params"]["clientUserMessageId"].clone();
    call("item/completed", &mut server);
    let delta = json!({ "threadId": THREAD, "itemId": "m2", "delta": "fin" });
    line(&mut server, "item/agentMessage/delta", &delta);
    let step = user_message(&mut server, "item/started", &name);
    assert_eq!(step.delivered, [7]);
    assert!(matches!(step.events.as_slice(), [TurnEvent::MessageVoided(_)]), "{:?}", step.events);
}
