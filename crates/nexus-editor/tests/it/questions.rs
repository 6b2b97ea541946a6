//! Questions of an agent, and how full its context is: what an editor gets, and what its answers come to.

use agent_client_protocol::v1::schema::{
    CompleteElicitationNotification, CreateElicitationRequest, ElicitationMode, ElicitationPropertySchema,
    ElicitationScope, SessionUpdate, UsageUpdate,
};
use nexus_core::{
    AgentQuestion, FieldChoice, FieldInput, QuestionField, QuestionSubject,
    turn::{ContextUsage, QuestionCompleted},
};
use nexus_testkit::scripted::{Act, answer};
use serde_json::{Value, json};

use crate::kit::{Person, Raw, Stage, fake, prompt};

fn form() -> AgentQuestion {
    let choices = vec![FieldChoice::new("a", "Al\u{1b}pha"), FieldChoice::new("b", "Beta")];
    let fields = vec![
        QuestionField::new("zone", FieldInput::Choice { choices }).required(true),
        QuestionField::new("age", FieldInput::Integer { min: Some(1), max: None }),
    ];
    AgentQuestion::new("Which?", QuestionSubject::Form { fields })
}

fn page() -> AgentQuestion {
    let subject = QuestionSubject::Page { id: "e".into(), url: "https://example.com/a".into() };
    AgentQuestion::new("Sign in.", subject)
}

/// An editor with these capabilities, whose backend puts a question and says the reply.
async fn asked(question: AgentQuestion, elicitation: Value) -> (Raw, Stage, String) {
    let completed = Act::Tell(QuestionCompleted::new("e").into());
    let stage = Stage::new(&[&fake("alpha", [vec![Act::Question(question), completed]])]);
    let mut editor = Raw::start(stage.agent());
    let capabilities = json!({ "elicitation": elicitation });
    editor.call(1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities })).await;
    let opened = editor.call(2, "session/new", json!({ "cwd": stage.cwd(), "mcpServers": [] })).await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    editor.request(json!(3), "session/prompt", prompt(&session, "Go.")).await;
    (editor, stage, session)
}

/// The next message of a method, and the text of the answer before it.
async fn until(editor: &mut Raw, method: &str) -> (Value, String) {
    let mut said = String::new();
    loop {
        let message = editor.next().await;
        if message["method"] == method {
            return (message, said);
        }
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            said.push_str(update["content"]["text"].as_str().unwrap());
        }
        assert_ne!(message["id"], 3, "the prompt ended: {message}");
    }
}

/// The text of the answer up to the end of the prompt.
async fn said(editor: &mut Raw) -> String {
    let mut said = String::new();
    loop {
        let message = editor.next().await;
        if message["id"] == 3 {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            return said;
        }
        assert_ne!(message["method"], "elicitation/create", "{message}");
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            said.push_str(update["content"]["text"].as_str().unwrap());
        }
    }
}

async fn reply(editor: &mut Raw, question: &Value, result: Value) {
    let line = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
    editor.send(line.to_string().as_bytes()).await;
}

#[tokio::test]
async fn a_form_reaches_the_editor_and_its_values_the_agent() {
    let (mut editor, _stage, session) = asked(form(), json!({ "form": {} })).await;
    let (message, _) = until(&mut editor, "elicitation/create").await;
    let request: CreateElicitationRequest = serde_json::from_value(message["params"].clone()).unwrap();
    assert_eq!(request.message, "Which?");
    let ElicitationScope::Session(scope) = request.scope() else { panic!("{request:?}") };
    assert_eq!(&*scope.session_id.0, session);
    let ElicitationMode::Form(form) = &request.mode else { panic!("{request:?}") };
    assert_eq!(form.requested_schema.required, Some(vec!["zone".to_owned()]));
    let properties = &form.requested_schema.properties;
    let ElicitationPropertySchema::String(zone) = &properties["zone"] else { panic!("{properties:?}") };
    assert_eq!(zone.one_of.as_ref().unwrap()[0].title, "Alpha", "a control character is removed");
    assert!(matches!(&properties["age"], ElicitationPropertySchema::Integer(age) if age.minimum == Some(1)));
    reply(&mut editor, &message, json!({ "action": "accept", "content": { "zone": "a", "age": 3 } })).await;
    let said = said(&mut editor).await;
    assert!(
        said.contains(r#""zone": String("a"), "age": Number(3)"#)
            || said.contains(r#""age": Number(3), "zone": String("a")"#),
        "{said}"
    );
}

#[tokio::test]
async fn whatever_is_no_answer_that_fits_is_declined_or_cancelled() {
    for (result, expected) in [
        (json!({ "action": "decline" }), "the person declined"),
        (json!({ "action": "cancel" }), "Cancelled"),
        (json!({ "action": "_later" }), "the editor answered in an unknown way"),
        (json!({ "action": "accept" }), r#"\"zone\" needs a value"#),
        (json!({ "action": "accept", "content": { "zone": "c" } }), "must be one of the choices"),
        (json!({ "action": "accept", "content": { "zone": "a", "age": 0 } }), "must be at least 1"),
        (json!({ "action": "accept", "content": { "zone": { "x": 1 } } }), "the editor could not ask"),
        (json!(7), "the editor could not ask"),
    ] {
        let (mut editor, _stage, _) = asked(form(), json!({ "form": {} })).await;
        let (message, _) = until(&mut editor, "elicitation/create").await;
        reply(&mut editor, &message, result.clone()).await;
        let said = said(&mut editor).await;
        assert!(said.contains(expected), "{result}: {said}");
    }
}

#[tokio::test]
async fn an_editor_gets_only_the_questions_that_it_shows() {
    for (question, elicitation, expected) in [
        (form(), json!(null), "the host answers no questions"),
        (form(), json!({}), "the host answers no questions"),
        (form(), json!({ "url": {} }), "the editor shows no forms"),
        (page(), json!({ "form": {} }), "the editor opens no pages"),
    ] {
        let (mut editor, _stage, _) = asked(question, elicitation.clone()).await;
        let said = said(&mut editor).await;
        assert!(said.contains(expected), "{elicitation}: {said}");
    }
}

#[tokio::test]
async fn a_page_and_its_completion_have_the_same_id() {
    let (mut editor, _stage, _) = asked(page(), json!({ "url": {} })).await;
    let (message, _) = until(&mut editor, "elicitation/create").await;
    let request: CreateElicitationRequest = serde_json::from_value(message["params"].clone()).unwrap();
    let ElicitationMode::Url(page) = &request.mode else { panic!("{request:?}") };
    assert_eq!(page.url, "https://example.com/a");
    reply(&mut editor, &message, json!({ "action": "accept" })).await;
    let (message, _) = until(&mut editor, "elicitation/complete").await;
    let completed: CompleteElicitationNotification =
        serde_json::from_value(message["params"].clone()).unwrap();
    assert_eq!(completed.elicitation_id, page.elicitation_id);
    said(&mut editor).await;
}

#[tokio::test]
async fn a_cancelled_prompt_withdraws_its_question() {
    let (mut editor, _stage, session) = asked(form(), json!({ "form": {} })).await;
    let (message, _) = until(&mut editor, "elicitation/create").await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    editor.send(cancel.to_string().as_bytes()).await;
    let (withdrawn, _) = until(&mut editor, "$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], message["id"]);
    assert_eq!(editor.answer(json!(3)).await["result"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn how_full_the_context_is_reaches_the_editor_if_its_size_is_known() {
    let mut script: Vec<Act> = [ContextUsage::new(5, None), ContextUsage::new(7, Some(100))]
        .map(|usage| Act::Tell(usage.into()))
        .into();
    script.extend(answer("Done."));
    let stage = Stage::new(&[&fake("alpha", [script])]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            editor.prompt(&session.session_id, "Go.").await.unwrap();
            let seen = editor.seen();
            let updates = seen.into_iter().filter_map(|update| match update {
                SessionUpdate::UsageUpdate(update) => Some(update),
                _ => None,
            });
            assert_eq!(updates.collect::<Vec<_>>(), [UsageUpdate::new(7, 100)]);
        })
        .await;
}
