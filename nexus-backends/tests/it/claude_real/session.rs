//! What is kept, what is found again, and what is left behind.

use std::path::Path;

use nexus_core::{ConversationMode, ErrorKind, OnLost, ResumeHandle, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario};

use super::support::Stage;

async fn a_kept_conversation_goes_on_and_is_counted_once(program: &Path) {
    let stage = Stage::metered(program, [Reply::text("First."), Reply::text("Second.")]);
    let first = stage.run(TurnRequest::new("One.").with_conversation(ConversationMode::Keep)).await;
    let handle = first.result().resume.clone().expect("a handle");
    assert!(!serde_json::to_string(&handle).unwrap().contains("canary"));
    let kept = stage.files("nexus/sessions");
    assert!(kept.iter().any(|file| file.ends_with(".jsonl")), "{kept:?}");
    let second =
        stage.run(TurnRequest::new("Two.").with_conversation(ConversationMode::resume(handle))).await;
    assert_eq!(second.result().text, "Second.");
    let call = &stage.calls()[1].conversation;
    assert_eq!(call.assistant_texts(), ["First."]);
    assert_eq!(second.result().usage, first.result().usage, "each turn used the same");
    let cost = |ran: &super::support::Ran| ran.result().cost.expect("a cost").usd.0;
    assert!(
        (cost(&second) - cost(&first)).abs() < cost(&first) * 0.5,
        "{} and {}",
        cost(&first),
        cost(&second)
    );
}

async fn a_conversation_belongs_to_its_folder(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    std::fs::create_dir(stage.path("other")).unwrap();
    let keep =
        TurnRequest::new("One.").with_conversation(ConversationMode::Keep).in_directory(stage.path("work"));
    let handle = stage.run(keep).await.result().resume.clone().expect("a handle");
    let resume = |handle: &ResumeHandle, folder: &str| {
        let session = ConversationMode::resume(handle.clone());
        TurnRequest::new("Two.").with_conversation(session).in_directory(stage.path(folder))
    };
    stage.run(resume(&handle, "work")).await.result();
    assert_eq!(stage.run(resume(&handle, "other")).await.error().kind(), ErrorKind::InvalidRequest);
}

async fn a_lost_conversation_is_lost_or_begins_afresh(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    let kept = stage.run(TurnRequest::new("One.").with_conversation(ConversationMode::Keep)).await;
    let handle = kept.result().resume.clone().expect("a handle");
    let transcripts = stage.files("nexus/sessions");
    for file in transcripts.iter().filter(|file| file.ends_with(".jsonl")) {
        std::fs::remove_file(stage.path("nexus/sessions").join(file)).unwrap();
    }
    let resume = |on_lost| {
        TurnRequest::new("Two.")
            .with_conversation(ConversationMode::Resume { handle: handle.clone(), on_lost })
    };
    assert_eq!(stage.run(resume(OnLost::Fail)).await.error().kind(), ErrorKind::ConversationLost);
    let fresh = stage.run(resume(OnLost::Fresh)).await;
    assert_eq!(fresh.result().text, "Hello.");
    assert!(fresh.result().resume.is_some());
}

async fn a_turn_that_is_not_kept_leaves_nothing(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    stage.run(TurnRequest::new("One.")).await.result();
    for folder in ["home", "work", "nexus/tmp", "nexus/sessions"] {
        assert_eq!(stage.files(folder), Vec::<String>::new(), "{folder}");
    }
}

mod tests {
    crate::claude_real::support::with_each_program! {
        a_kept_conversation_goes_on_and_is_counted_once
        a_conversation_belongs_to_its_folder
        a_lost_conversation_is_lost_or_begins_afresh
        a_turn_that_is_not_kept_leaves_nothing
    }
}
