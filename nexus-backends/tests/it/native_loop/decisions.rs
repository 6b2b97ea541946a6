//! Every call that the model makes is decided on by the session of its turn.

use std::sync::{Arc, Mutex};

use nexus_core::{
    Decision, DecisionOutcome, Denial, Effects, ErrorKind, FinishReason, Limit, Limits, ParticipantScope,
    Session, Tool, ToolCallStatus, Toolbox, TurnHost, TurnRequest, scope::Brief,
};
use serde_json::{Value, json};

use super::{
    server::{Canned, call, message, reply},
    stage::{Ran, backend, request, run},
};

/// A session for which `look`, `save` and `submit` are in scope and `burn` is not, and what they were asked.
fn session(tool_calls: impl Into<Option<u32>>) -> (Arc<Session>, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let tool = |name: &'static str| {
        let asked = Arc::clone(&asked);
        let takes = json!({ "n": { "type": "integer" }, "to": { "type": "string" } });
        let schema = json!({ "type": "object", "properties": takes });
        Tool::with_schema(name, "Writes down that it was asked.", schema, move |arguments: Value| {
            asked.lock().unwrap().push(format!("{name} {arguments}"));
            async { "done" }
        })
    };
    let tools = Toolbox::new()
        .with(tool("look").read_only())
        .with(tool("save").with_effects(Effects::Wrote).writing("/to"))
        .with(tool("burn").with_effects(Effects::Wrote))
        .with(tool("submit").with_effects(Effects::None).terminal());
    assert!(tools.quarantined().is_empty());
    let scope = ["look", "save", "submit"]
        .iter()
        .fold(Brief::new(std::env::temp_dir()), |brief, name| brief.tool(name.parse().unwrap()));
    let scope = ParticipantScope::assemble(&scope, None, None).unwrap();
    (Session::mint_with_budget("clerk", scope, Arc::new(tools), tool_calls), asked)
}

async fn ask(session: &Arc<Session>, answers: Vec<Vec<u8>>, limits: Limits) -> (Ran, Vec<Value>) {
    let server = Canned::new(answers);
    let backend = backend("responses", &server.base_url(), json!({}));
    let host = TurnHost::new().with_session(Arc::clone(session));
    let ran = run(&*backend, request().with_limits(limits), host).await;
    (ran, server.asked().into_iter().map(|asked| asked.body).collect())
}

/// Tool, arguments, and a word for the verdict.
fn log(session: &Session) -> Vec<(String, Value, String)> {
    let word = |decision: &Decision| match &decision.outcome {
        DecisionOutcome::Allowed => "allowed".to_owned(),
        DecisionOutcome::Denied(denial) => json!(denial)["reason"].as_str().unwrap().to_owned(),
    };
    let decisions = session.decisions();
    decisions.iter().map(|one| (one.tool.clone(), one.arguments.clone(), word(one))).collect()
}

#[tokio::test]
async fn every_call_is_decided_on_in_the_order_in_which_the_model_made_it() {
    let (session, asked) = session(None);
    let answers = vec![
        reply(&[
            call("1", "look", "{\"n\":1}"),
            call("2", "nonsense", "{}"),
            call("3", "look", "{\"n\": "),
            call("4", "look", "{\"n\":\"one\"}"),
            call("5", "burn", "{}"),
            call("6", "save", "{\"to\":\"/etc/passwd\"}"),
            call("7", "look", ""),
            call("8", "look", "[1]"),
        ]),
        reply(&[call("9", "look", "{}"), call("10", "submit", "{\"n\":3}")]),
        reply(&[message("Done.")]),
    ];
    let (ran, bodies) = ask(&session, answers, Limits::new().with_tool_calls(8)).await;
    assert_eq!(ran.result().finish, FinishReason::Submitted);
    let wanted = [
        ("look", json!({ "n": 1 }), "allowed"),
        ("nonsense", json!({}), "unknown_tool"),
        ("look", json!("{\"n\": "), "not_an_object"),
        ("look", json!({ "n": "one" }), "unfit"),
        ("burn", json!({}), "unknown_tool"),
        ("save", json!({ "to": "/etc/passwd" }), "path"),
        ("look", json!({}), "allowed"),
        ("look", json!([1]), "not_an_object"),
        ("look", json!({}), "over_budget"),
        ("submit", json!({ "n": 3 }), "allowed"),
    ];
    assert_eq!(
        log(&session),
        wanted.map(|(tool, arguments, word)| (tool.to_owned(), arguments, word.to_owned()))
    );
    assert_eq!(*asked.lock().unwrap(), ["look {\"n\":1}", "look {}", "submit {\"n\":3}"]);

    // The tool calls of the result say the same.
    let denied = |index: usize| ran.result().tool_calls[index].status == ToolCallStatus::Denied;
    let verdicts =
        session.decisions().into_iter().map(|decision| decision.outcome != DecisionOutcome::Allowed);
    assert_eq!((0..10).map(denied).collect::<Vec<_>>(), verdicts.collect::<Vec<_>>());
    // And the model was told each time.
    let told: Vec<&str> =
        bodies[1]["input"].as_array().unwrap().iter().filter_map(|item| item["output"].as_str()).collect();
    for (index, words) in [
        (1, "there is no tool named \"nonsense\"; there are: look, save, submit"),
        (2, "the arguments of \"look\" are not JSON: EOF while parsing a value at line 1 column 6"),
        (3, "the arguments do not fit the tool \"look\": at /n: "),
        (4, "there is no tool named \"burn\"; there are: look, save, submit"),
        (5, "\"save\" was not called: \"/etc/passwd\" cannot be written: "),
        (7, "the arguments of \"look\" are not a JSON object"),
    ] {
        assert!(told[index].starts_with(&format!("Error: {words}")), "{}", told[index]);
    }
}

#[tokio::test]
async fn a_tool_outside_of_the_scope_is_neither_offered_nor_asked() {
    let (session, asked) = session(None);
    let answers = vec![reply(&[call("1", "burn", "{}")]), reply(&[message("Done.")])];
    let (ran, bodies) = ask(&session, answers, Limits::new()).await;
    assert_eq!(ran.result().text, "Done.");
    let offered: Vec<&str> =
        bodies[0]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(offered, ["look", "save", "submit"]);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_was_not_let_through_has_changed_nothing() {
    for arguments in ["{\"n\":\"one\"}", "{\"to\":\"/etc/passwd\"}", "{", "[]"] {
        let (session, asked) = session(None);
        let answers = vec![reply(&[call("1", "save", arguments)]), reply(&[message("Done.")])];
        let (ran, _) = ask(&session, answers, Limits::new()).await;
        assert_eq!(
            (ran.result().effects, ran.result().tool_calls[0].effects),
            (Effects::None, Effects::None)
        );
        assert!(asked.lock().unwrap().is_empty(), "{arguments}");
    }
    let (session, _) = session(None);
    let answers = vec![reply(&[call("1", "save", "{}")]), reply(&[message("Done.")])];
    assert_eq!(ask(&session, answers, Limits::new()).await.0.result().effects, Effects::Wrote);
}

#[tokio::test]
async fn the_budget_of_a_session_holds_over_its_turns() {
    let (session, asked) = session(3);
    let two = || vec![reply(&[call("1", "look", "{}"), call("2", "look", "{}")]), reply(&[message("Done.")])];
    let unlimited = Limits::new();
    let (first, _) = ask(&session, two(), unlimited.clone()).await;
    assert_eq!((first.result().text.as_str(), session.calls_made()), ("Done.", 2));
    let (second, _) = ask(&session, two(), unlimited.clone()).await;
    assert_eq!((second.result().text.as_str(), session.calls_made()), ("Done.", 3));
    assert_eq!(second.result().tool_calls[1].status, ToolCallStatus::Denied);
    // The third turn does not know of it until it is told.
    let on_and_on = vec![reply(&[call("1", "look", "{}")]), reply(&[call("2", "look", "{}")])];
    let (third, _) = ask(&session, on_and_on, unlimited).await;
    assert_eq!(third.error().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(asked.lock().unwrap().len(), 3);
    assert_eq!(session.over_budget_calls(), 3);
}

#[tokio::test]
async fn a_turn_that_is_over_leaves_the_session_open_and_its_own_closed() {
    let (session, asked) = session(None);
    let answers = || vec![reply(&[call("1", "look", "{\"n\":1}")]), reply(&[message("Done.")])];
    let (ran, bodies) = ask(&session, answers(), Limits::new()).await;
    assert_eq!(ran.result().text, "Done.");
    assert!(!session.is_closed());
    let all = format!("{bodies:?} {:?} {:?}", ran.events, ran.outcome);
    assert!(!all.contains(session.token().expose()));

    // Nothing that a turn does to a closed session gets through.
    session.close();
    let (ran, _) = ask(&session, answers(), Limits::new()).await;
    assert_eq!(ran.result().tool_calls[0].status, ToolCallStatus::Denied);
    assert_eq!(session.decisions().last().unwrap().outcome, DecisionOutcome::Denied(Denial::Closed));
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn two_turns_of_one_session_at_once_never_exceed_its_budget() {
    let (session, asked) = session(5);
    let many: Vec<Value> = (0..4).map(|n| call(&n.to_string(), "look", "{}")).collect();
    let turns = (0..4).map(|_| ask(&session, vec![reply(&many), reply(&[message("Done.")])], Limits::new()));
    let ran = futures::future::join_all(turns).await;
    assert!(ran.iter().all(|(ran, _)| ran.result().text == "Done."));
    assert_eq!((asked.lock().unwrap().len(), session.calls_made(), session.over_budget_calls()), (5, 5, 11));
    let succeeded = ran.iter().flat_map(|(ran, _)| &ran.result().tool_calls);
    assert_eq!(succeeded.filter(|call| call.status == ToolCallStatus::Succeeded).count(), 5);
}

#[tokio::test]
async fn a_custom_call_passes_the_same_session() {
    let custom = |id: &str, name: &str, input: &str| json!({ "type": "custom_tool_call", "id": format!("ct_{id}"), "call_id": id, "name": name, "input": input });
    let (session, asked) = session(None);
    let answers = vec![
        reply(&[
            custom("1", "apply_patch", "*** Begin"),
            custom("2", "look", "42"),
            custom("3", "look", "{\"n\":1}"),
        ]),
        reply(&[message("Done.")]),
    ];
    let (ran, _) = ask(&session, answers, Limits::new()).await;
    assert_eq!(ran.result().text, "Done.");
    let wanted = [
        ("apply_patch", json!("*** Begin"), "unknown_tool"),
        ("look", json!("42"), "not_an_object"),
        ("look", json!({ "n": 1 }), "allowed"),
    ];
    assert_eq!(
        log(&session),
        wanted.map(|(tool, arguments, word)| (tool.to_owned(), arguments, word.to_owned()))
    );
    assert_eq!(*asked.lock().unwrap(), ["look {\"n\":1}"]);
}

#[tokio::test]
async fn a_host_without_a_session_of_its_own_has_one_all_the_same() {
    let server = Canned::new([reply(&[call("1", "echo", "{\"a\":1}")]), reply(&[message("Done.")])]);
    let backend = backend("responses", &server.base_url(), json!({}));
    let host = super::stage::host();
    let ran = run(&*backend, TurnRequest::new("Hello.").with_model("m"), host.clone()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(log(host.session()), [("echo".to_owned(), json!({ "a": 1 }), "allowed".to_owned())]);
}
