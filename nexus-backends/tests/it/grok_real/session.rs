//! Conversations that go on.

use nexus_core::{ConversationMode, OutputSchema, ToolAccess, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use serde_json::json;

use super::support::Stage;

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_conversation_goes_on_in_another_directory() {
    let stage = Stage::new(Reply::text("I shall."));
    let first = TurnRequest::new("Remember heron.")
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(stage.path("work"))
        .with_conversation(ConversationMode::Keep);
    let handle = stage.run_as_asked(first).await.result().resume.clone().unwrap();

    let elsewhere = stage.path("another place, with blanks and ü");
    std::fs::create_dir(&elsewhere).unwrap();
    stage.sim.set_scenario(Scenario::tool_then_text(ToolCall::shell("pwd"), "Heron."));
    let second = TurnRequest::new("What was it?")
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(&elsewhere)
        .with_conversation(ConversationMode::resume(handle));
    let ran = stage.run_as_asked(second).await;
    assert_eq!(ran.result().text, "Heron.");
    assert!(ran.tool_text().contains("another place, with blanks and ü"), "{}", ran.tool_text());
    let messages: Vec<_> = ran.result().messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(messages, ["", "Heron."], "the first turn's words are not this one's");
    assert!(stage.calls()[1].json.to_string().contains("Remember heron."));
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn only_a_conversation_that_is_kept_is_left_on_disk() {
    let stage = Stage::new(Reply::text("Hello."));
    stage.run_as_asked(TurnRequest::new("Hello.")).await.result();
    let left = stage.files("nexus");
    assert!(left.is_empty(), "{left:?}");

    stage.run_as_asked(TurnRequest::new("Hello.").with_conversation(ConversationMode::Keep)).await.result();
    let left = stage.files("nexus");
    assert!(!left.is_empty());
    assert!(left.iter().all(|path| path.starts_with("sessions/grok/")), "{left:?}");
    assert!(stage.files("home").is_empty() && stage.files("work").is_empty());
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_repair_goes_on_in_the_same_conversation_with_its_system_text() {
    let stage = Stage::new([Reply::text("not JSON"), Reply::text("{\"moons\": 146}")]);
    let schema =
        json!({ "type": "object", "required": ["moons"], "properties": { "moons": { "type": "integer" } } });
    let request = TurnRequest::new("How many moons?")
        .with_system("Speak as SATURN-KEEPER.")
        .with_output(OutputSchema::new(schema).unwrap());
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().output, Some(json!({ "moons": 146 })));
    assert_eq!(ran.result().provenance.attempts, 2);
    let calls = stage.calls();
    assert_eq!(calls.len(), 2);
    for call in &calls {
        assert!(call.json.to_string().contains("SATURN-KEEPER"), "{}", call.number);
    }
    assert!(calls[1].json.to_string().contains("not JSON"), "what was said stands before the question");
    assert_eq!(ran.result().usage.input_tokens, Some(200), "both calls are counted");
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_conversation_goes_on_under_the_system_text_of_each_turn() {
    let stage = Stage::new(Reply::text("I shall."));
    let first = TurnRequest::new("Remember heron.")
        .with_system("FIRST-TEXT")
        .with_conversation(ConversationMode::Keep);
    let mut handle = stage.run_as_asked(first).await.result().resume.clone().unwrap();
    for system in [Some("SECOND-TEXT"), None] {
        let mut next = TurnRequest::new("Go on.").with_conversation(ConversationMode::resume(handle));
        next.system = system.map(str::to_owned);
        handle = stage.run_as_asked(next).await.result().resume.clone().unwrap();
        let sent = stage.calls().last().unwrap().json.to_string();
        assert!(!sent.contains("FIRST-TEXT") && sent.contains("Remember heron."), "{sent}");
        assert_eq!(sent.contains("SECOND-TEXT"), system.is_some(), "{sent}");
    }
}
