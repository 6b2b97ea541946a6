//! An agent of the Agent Client Protocol that asks the person, and whose session is ended: a real process, whose lines are fixed.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use nexus_core::{
    Approval, Approver, BuildContext, EventEnvelope, QuestionReply, ToolAccess, TurnEvent, TurnHost,
    TurnRequest, TurnResult, turn::ContextUsage,
};
use serde_json::{Value, json};

/// An agent that asks for a number before it answers, and records every line that it gets.
const AGENT: &str = r#"#!/bin/sh
hear() { IFS= read -r line || exit 0; printf '%s\n' "$line" >> heard; }
say() { printf '%s\n' "$1"; }
hear
say '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{},"delete":{}}}}}'
hear
say '{"id":2,"result":{"sessionId":"s"}}'
hear
say '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":10,"size":200}}}'
say '{"id":"q","method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}}'
hear
say '{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}}}'
say '{"id":3,"result":{"stopReason":"end_turn"}}'
hear
say '{"id":4,"result":{}}'
hear
say '{"id":5,"result":{}}'
hear
"#;

/// Runs a turn of the agent, and returns its result, its events and the lines that the agent got.
async fn run(folder: &Path, approver: Option<Approver>) -> (TurnResult, Vec<TurnEvent>, Vec<Value>) {
    let program = folder.join("agent");
    fs::write(&program, AGENT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let work = folder.join("work");
    fs::create_dir_all(&work).unwrap();
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), folder.to_str().unwrap().to_owned()),
    ]);
    let context = BuildContext::in_home(folder.join("nexus")).with_environment(environment);
    let settings = json!({ "command": [program] });
    let kind = nexus_backends::registry().kind("acp").cloned().unwrap();
    let backend = kind.build("agent".into(), settings.as_object().unwrap(), &context).unwrap();
    let host = match approver {
        Some(approver) => TurnHost::new().with_approver(approver),
        None => TurnHost::new(),
    };
    let request = TurnRequest::new("Go.").with_tool_access(ToolAccess::Unrestricted).in_directory(&work);
    let mut events = Vec::new();
    let result =
        backend.run_turn(request, host, &mut |envelope: EventEnvelope| events.push(envelope.event)).await;
    let heard = fs::read_to_string(work.join("heard")).unwrap();
    let heard = heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (result.unwrap(), events, heard)
}

fn answering(values: Value) -> Approver {
    Approver::new(|_| async { Approval::Granted }).with_questions(move |question| {
        assert_eq!((question.message.as_str(), question.fields()[0].name.as_str()), ("Which?", "n"));
        let values = values.as_object().unwrap().clone();
        async move { QuestionReply::Answered { values } }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_of_the_host_reaches_the_agent_and_its_session_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (result, events, heard) = run(folder.path(), Some(answering(json!({ "n": 3 })))).await;
    assert_eq!((result.text.as_str(), result.usage.total_tokens()), ("Done.", None));
    assert!(events.contains(&ContextUsage::new(10, Some(200)).into()), "{events:?}");
    assert!(heard[0]["params"]["clientCapabilities"]["elicitation"]["form"].is_object());
    assert_eq!(
        (&heard[3]["id"], &heard[3]["result"]),
        (&json!("q"), &json!({ "action": "accept", "content": { "n": 3 } }))
    );
    // The home is the person's, so an unstored session must not stay in it.
    let last: Vec<_> = heard[4..].iter().map(|line| line["method"].as_str().unwrap()).collect();
    assert_eq!(last, ["session/close", "session/delete"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_answer_that_fits_the_agent_learns_a_refusal() {
    let cases = [
        (Some(answering(json!({ "n": 0 }))), true, r#"the answer does not fit: "n" must be at least 1"#),
        (
            Some(Approver::new(|_| async { Approval::Granted })),
            false,
            "the host answers no questions of an agent",
        ),
        (None, false, "the host answers no questions of an agent"),
    ];
    for (approver, is_offered, reason) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (_, events, heard) = run(folder.path(), approver).await;
        assert_eq!(heard[0]["params"]["clientCapabilities"]["elicitation"].is_object(), is_offered);
        assert_eq!(heard[3]["result"]["action"], "decline", "{reason}");
        let warned = format!("a question of the agent was declined: {reason}");
        let has_warned =
            events.iter().any(|event| matches!(event, TurnEvent::Warning(warning) if warning.text == warned));
        assert!(has_warned, "{events:?}");
    }
}
