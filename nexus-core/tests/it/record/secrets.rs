//! What belongs in no file is in none.

use nexus_core::{
    ConversationMode, ErrorKind, RecordFile, ResumeHandle, ToolCallStatus, ToolContent, TurnError, TurnHost,
    TurnRequest,
    turn::{Fallback, MessageEnded, ToolCallArguments, ToolCallFinished, Unrecognized, Warning},
};
use serde_json::json;

use super::stage::{Stage, answered, envelopes};

const CANARY: &str = "canary-0123456789-abcdefghijklmnop";

#[test]
fn a_secret_that_the_session_knows_is_in_no_line() {
    let stage = Stage::new();
    let host = TurnHost::new();
    // What a backend of a stranger's says, which took nothing out.
    let file = RecordFile::open(stage.path()).unwrap();
    let mut recording = file.begin("leaky", &TurnRequest::new("Hello."), &host).unwrap();
    // It is lent after the turn began.
    host.session().redactor().learn(CANARY);
    let skipped = nexus_core::Skipped::new("beta".into(), CANARY);
    let long = format!("{}{CANARY}", "x".repeat(nexus_core::record::MAX_TEXT_BYTES - 10));
    for envelope in envelopes([
        Warning::new(CANARY).into(),
        Warning::new(long).into(),
        ToolCallArguments::new(CANARY.into(), json!({ CANARY: [CANARY] })).into(),
        ToolCallFinished::new("c".into(), ToolCallStatus::Failed, vec![ToolContent::json(json!(CANARY))])
            .into(),
        MessageEnded::new("m".into(), format!("a{CANARY}b")).into(),
        Fallback::new(skipped, CANARY.into()).into(),
        Unrecognized::new(Some(CANARY.into()), json!({ "authorization": format!("Bearer {CANARY}") })).into(),
    ]) {
        recording.event(&envelope);
    }
    let mut result = answered(CANARY);
    result.resume = Some(ResumeHandle::new("alpha".into(), json!({ "items": CANARY })));
    recording.end(&Ok(result)).unwrap();
    let recording = file.begin("failed", &TurnRequest::new("Hello."), &host).unwrap();
    let error = TurnError::new(ErrorKind::Transport, "alpha".into())
        .with_message(CANARY)
        .with_process(nexus_core::ProcessReport::new(None, CANARY))
        .with_source(std::io::Error::other(CANARY));
    recording.end(&Err(error)).unwrap();
    let text = stage.text();
    // Neither the whole nor the piece that a cut leaves.
    assert!(!text.contains("canary-0"), "{}", text.len());
    assert!(text.contains("[redacted]"));
    let log = stage.read();
    assert_eq!((log.turns.len(), log.unread.len()), (2, 0));
}

#[test]
fn of_the_environment_and_of_an_earlier_conversation_nothing_but_names_is_written() {
    let stage = Stage::new();
    let handle = ResumeHandle::new("alpha".into(), json!({ "items": CANARY }));
    let request = TurnRequest::new("Go on.")
        .with_variable("PATH")
        .with_variable(format!("TOKEN={CANARY}"))
        .with_conversation(ConversationMode::resume(handle));
    RecordFile::open(stage.path()).unwrap().begin("next", &request, &TurnHost::new()).unwrap();
    assert!(!stage.text().contains(CANARY));
    let asked = stage.read().turns.remove(0).request;
    assert_eq!(asked.environment, ["PATH", "TOKEN"]);
    assert!(asked.keeps_conversation);
    assert_eq!(asked.resumes.unwrap().as_str(), "alpha");
}
