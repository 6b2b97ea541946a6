//! Conversations that go on, and what a turn leaves behind.

use nexus_core::{ConversationMode, Effort, ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario};

use super::support::Stage;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_resumed_turn_counts_its_own_tokens_alone() {
    let stage = Stage::new(Scenario::new([Reply::text("One."), Reply::text("Two."), Reply::text("Three.")]));
    let first = stage
        .run(TurnRequest::new("First.").with_conversation(ConversationMode::Keep))
        .await
        .outcome
        .unwrap();
    let mut handle = first.resume.clone().unwrap();
    for text in ["Two.", "Three."] {
        let request = TurnRequest::new("Go on.").with_conversation(ConversationMode::resume(handle));
        let next = stage.run(request).await.outcome.unwrap();
        assert_eq!((next.text.as_str(), next.usage), (text, first.usage));
        handle = next.resume.unwrap();
    }
    let last = stage.calls().pop().unwrap();
    assert_eq!(last.conversation.assistant_texts(), ["One.", "Two."]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_model_that_takes_less_effort_gets_what_it_takes() {
    let stage = Stage::new(Scenario::text("Thought."));
    let request = TurnRequest::new("Think.").with_model("gpt-5.5").with_effort(Effort::Max);
    let ran = stage.run(request).await;
    let applied = ran.outcome.unwrap().provenance.effort.unwrap();
    assert_eq!((applied.requested, applied.applied), (Effort::Max, Effort::XHigh));
    let call = stage.calls().pop().unwrap();
    assert_eq!(call.conversation.effort.as_deref(), Some("xhigh"));
    let warns =
        |event: &TurnEvent| matches!(event, TurnEvent::Warning(warning) if warning.text.contains("max"));
    assert!(ran.events.iter().any(warns), "{:?}", ran.events);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn nothing_is_left_but_what_was_to_be_kept() {
    let stage = Stage::new(Scenario::text("Done."));
    let request = TurnRequest::new("Hello.").with_tool_access(ToolAccess::WorkspaceWrite);
    stage.run(request.clone()).await.result();
    assert_eq!(stage.files("nexus"), Vec::<String>::new());
    stage.run(request.with_conversation(ConversationMode::Keep)).await.result();
    let kept = stage.files("nexus");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].starts_with("sessions/codex/"), "{kept:?}");
    for folder in ["home", "work"] {
        assert!(stage.path(folder).is_dir(), "{folder}");
        assert_eq!(stage.files(folder), Vec::<String>::new(), "{folder}");
    }
}
