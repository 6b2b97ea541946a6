//! Prompts: what is asked, what is told while a turn runs, and how it ends.

use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ImageContent, PromptRequest, SessionUpdate, StopReason,
    ToolCallContent, ToolCallStatus as Shown, ToolKind,
};
use nexus_core::{
    Effects, ErrorKind, FinishReason, PromptBlock, ToolAccess, ToolContent,
    error::Limit,
    turn::{
        MessageEnded, MessageVoided, TextDelta, ThinkingDelta, ToolCallArguments, ToolCallFinished,
        ToolCallStarted, ToolCallStatus, ToolOrigin, VoidCause,
    },
};
use nexus_testkit::scripted::{Act, answer};
use serde_json::json;

use crate::kit::{Person, Stage, fake, waiting};

fn fails(kind: ErrorKind) -> Act {
    Act::FailSaying(kind, "in the vendor's words")
}

/// A call that writes a file.
pub(crate) fn writing(path: &std::path::Path, before: Vec<Act>) -> Vec<Act> {
    let mut acts = vec![
        Act::Tell(ToolCallStarted::new("c1".into(), "Write", ToolOrigin::Harness, Effects::Wrote).into()),
        Act::Tell(
            ToolCallArguments::new("c1".into(), json!({ "file_path": path, "content": "new\n" })).into(),
        ),
    ];
    acts.extend(before);
    let path = path.to_owned();
    acts.push(Act::beside(move || std::fs::write(&path, "new\n").unwrap()));
    let output = vec![ToolContent::text("written \u{1b}[2J")];
    acts.push(Act::Tell(ToolCallFinished::new("c1".into(), ToolCallStatus::Succeeded, output).into()));
    acts.extend(answer("Done."));
    acts
}

#[tokio::test]
async fn an_answer_is_streamed_with_its_thinking_and_who_ran_it() {
    let script = vec![
        Act::Tell(ThinkingDelta::new("m1".into(), "Hm.").into()),
        Act::Tell(TextDelta::new("m1".into(), "Half").into()),
        // Of this message a delta is missing.
        Act::Tell(MessageEnded::new("m1".into(), "Half and half\u{1b}[2J.").into()),
    ];
    let fake = fake("alpha", [script]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let response = editor.prompt(&session.session_id, "Say it.").await.unwrap();
            assert_eq!(response.stop_reason, StopReason::EndTurn);
            let meta = response.meta.unwrap();
            assert_eq!(meta["nexus"]["backend"], "alpha");
            assert_eq!(meta["nexus"]["conversation"]["continuity"], "first");
            assert_eq!(editor.said(), "Half and half[2J.");
            assert_eq!(
                editor.told(),
                "Hm.[nexus] the text of a finished message differs from its deltas; the finished text \
                 counts\n\n"
            );
            let ids: Vec<_> = editor
                .seen()
                .into_iter()
                .filter_map(|update| match update {
                    SessionUpdate::AgentMessageChunk(chunk) => chunk.message_id,
                    _ => None,
                })
                .collect();
            assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
        })
        .await;
    let request = fake.last();
    assert_eq!(request.working_directory, Some(stage.cwd()));
    assert_eq!(request.tool_access, ToolAccess::WorkspaceWrite);
    assert_eq!(request.prompt, [PromptBlock::text("Say it.")]);
}

#[tokio::test]
async fn a_call_is_shown_with_what_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("notes.txt");
    std::fs::write(&path, "old\n").unwrap();
    let fake = fake("alpha", [writing(&path, Vec::new())]);
    let mut stage = Stage::new(&[&fake]);
    stage.folder = folder;
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            editor.prompt(&session.session_id, "Write it.").await.unwrap();
            let seen = editor.seen();
            let call = seen.iter().find_map(|update| match update {
                SessionUpdate::ToolCall(call) => Some(call),
                _ => None,
            });
            let call = call.unwrap();
            assert_eq!(
                (call.kind, call.status, call.title.as_str()),
                (ToolKind::Edit, Shown::Pending, "Write")
            );
            let changes: Vec<_> = seen
                .iter()
                .filter_map(|update| match update {
                    SessionUpdate::ToolCallUpdate(change) if change.tool_call_id == call.tool_call_id => {
                        Some(change.fields.clone())
                    }
                    _ => None,
                })
                .collect();
            let [began, ended] = &changes[..] else { panic!("{changes:?}") };
            assert_eq!(began.status, Some(Shown::InProgress));
            assert_eq!(began.title, Some(format!("Write: {}", path.display())));
            assert_eq!(began.locations.as_ref().unwrap()[0].path, path);
            assert_eq!(began.raw_input.as_ref().unwrap()["content"], "new\n");
            assert_eq!(ended.status, Some(Shown::Completed));
            let content = ended.content.as_ref().unwrap();
            let [ToolCallContent::Diff(diff), ToolCallContent::Content(output)] = &content[..] else {
                panic!("{content:?}")
            };
            assert_eq!((diff.old_text.as_deref(), diff.new_text.as_str()), (Some("old\n"), "new\n"));
            assert_eq!(crate::kit::text(output.content.clone()).as_deref(), Some("written [2J"));
        })
        .await;
}

#[tokio::test]
async fn a_file_that_a_link_leads_to_is_not_shown() {
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("private"), "private\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("link");
    std::os::unix::fs::symlink(other.path().join("private"), &path).unwrap();
    let fake = fake("alpha", [writing(&path, Vec::new())]);
    let mut stage = Stage::new(&[&fake]);
    stage.folder = folder;
    let seen = stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            editor.prompt(&session.session_id, "Write it.").await.unwrap();
            serde_json::to_string(&editor.seen()).unwrap()
        })
        .await;
    assert!(!seen.contains("private") && !seen.contains("\"diff\""), "{seen}");
}

#[tokio::test]
async fn every_end_has_its_own_word() {
    let length = MessageEnded::new("m1".into(), "Half").with_finish(Some(FinishReason::Length));
    let cases: Vec<(Vec<Act>, Result<StopReason, i32>)> = vec![
        (vec![Act::Finish(FinishReason::Length)], Ok(StopReason::MaxTokens)),
        (vec![Act::Tell(length.into()), fails(ErrorKind::Incomplete)], Ok(StopReason::MaxTokens)),
        (vec![fails(ErrorKind::Incomplete)], Err(-32603)),
        (vec![fails(ErrorKind::Refused)], Ok(StopReason::Refusal)),
        (vec![fails(ErrorKind::LimitReached(Limit::ModelCalls))], Ok(StopReason::MaxTurnRequests)),
        (vec![fails(ErrorKind::LimitReached(Limit::Cost))], Err(-32603)),
        (vec![fails(ErrorKind::Unauthenticated)], Err(-32000)),
        (vec![fails(ErrorKind::RateLimited)], Err(-32603)),
        (vec![fails(ErrorKind::Crashed)], Err(-32603)),
    ];
    for (script, expected) in cases {
        let fake = fake("alpha", [script]);
        let stage = Stage::new(&[&fake]);
        let outcome = stage
            .drive(Person::Allows, async |editor| {
                let session = editor.begin(&stage).await;
                editor.prompt(&session.session_id, "Go.").await
            })
            .await;
        match (outcome, expected) {
            (Ok(response), Ok(reason)) => assert_eq!(response.stop_reason, reason),
            (Err(error), Err(code)) => {
                assert_eq!(i32::from(error.code), code, "{error:?}");
                assert!(error.message.contains("alpha") && error.message.contains("in the vendor's words"));
                assert_eq!(error.data.as_ref().unwrap()["backend"], "alpha");
                if code == -32000 {
                    assert!(error.message.contains("log in"), "{error:?}");
                    assert_eq!(error.data.unwrap()["kind"], "unauthenticated");
                }
            }
            (outcome, expected) => panic!("{outcome:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn what_was_said_before_a_failure_stays_and_open_calls_end() {
    let mut script = answer("As far as I came.");
    script.push(Act::Tell(
        ToolCallStarted::new("c1".into(), "Bash", ToolOrigin::Harness, Effects::Wrote).into(),
    ));
    script.push(Act::Fail(ErrorKind::Crashed));
    let fake = fake("alpha", [script]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            editor.prompt(&session.session_id, "Go.").await.unwrap_err();
            assert_eq!(editor.said(), "As far as I came.");
            let last = editor.seen().into_iter().rev().find_map(|update| match update {
                SessionUpdate::ToolCallUpdate(change) => change.fields.status,
                _ => None,
            });
            assert_eq!(last, Some(Shown::Failed));
        })
        .await;
}

#[tokio::test]
async fn a_panic_is_an_answer_and_the_session_goes_on() {
    let fake = fake("alpha", [vec![Act::Panic], answer("Here.")]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let error = editor.prompt(&session.session_id, "Go.").await.unwrap_err();
            assert_eq!(i32::from(error.code), -32603);
            editor.prompt(&session.session_id, "Again.").await.unwrap();
            assert_eq!(editor.said(), "Here.");
        })
        .await;
}

#[tokio::test]
async fn another_backend_is_told_beside_the_answer() {
    let (first, second) =
        (fake("alpha", [vec![Act::Fail(ErrorKind::Overloaded)]]), fake("beta", [answer("Here.")]));
    let stage = Stage::new(&[&first, &second]);
    stage.configure("groups: { both: [alpha, beta] }\ntypes: { writer: { group: both } }\n");
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let response = editor.prompt(&session.session_id, "Go.").await.unwrap();
            assert_eq!(response.meta.unwrap()["nexus"]["backend"], "beta");
            assert_eq!(editor.said(), "Here.");
            let told = editor.told();
            assert!(told.contains("alpha could not run") && told.contains("beta takes over"), "{told}");
        })
        .await;
}

#[tokio::test]
async fn a_message_that_is_taken_back_is_told() {
    // While it is written, and when it had ended.
    let ends = [None, Some(Act::Tell(MessageEnded::new("m0".into(), "Wrong").into()))];
    for end in ends {
        let mut script = vec![Act::Tell(TextDelta::new("m0".into(), "Wrong").into())];
        script.extend(end);
        script.push(Act::Tell(MessageVoided::new("m0".into(), VoidCause::Retry).into()));
        script.extend(answer("Right."));
        let fake = fake("alpha", [script]);
        let stage = Stage::new(&[&fake]);
        stage
            .drive(Person::Allows, async |editor| {
                let session = editor.begin(&stage).await;
                editor.prompt(&session.session_id, "Go.").await.unwrap();
                assert!(editor.told().contains("ignore the message above"), "{}", editor.told());
            })
            .await;
    }
}

#[tokio::test]
async fn pictures_and_resources_reach_the_model() {
    let fake = fake("alpha", [answer("Seen.")]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            let link = json!({ "type": "resource_link", "name": "a.rs", "uri": "file:///a.rs" });
            let blocks = vec![
                ContentBlock::from("See "),
                serde_json::from_value(link).unwrap(),
                ContentBlock::Image(ImageContent::new("iVBORw0KGgo=", "image/png")),
            ];
            let request = PromptRequest::new(session.clone(), blocks);
            editor.ask(request).await.unwrap();
            let bad = vec![ContentBlock::Image(ImageContent::new("%", "image/png"))];
            let error = editor.ask(PromptRequest::new(session, bad)).await;
            assert_eq!(i32::from(error.unwrap_err().code), -32602);
        })
        .await;
    let prompt = fake.last().prompt;
    assert_eq!(prompt[0], PromptBlock::text("See [a.rs](file:///a.rs)"));
    assert!(matches!(&prompt[1], PromptBlock::Image { media_type, .. } if media_type == "image/png"));
}

#[tokio::test]
async fn a_cancelled_prompt_says_so_and_the_next_one_runs() {
    let waiting = waiting("One moment.");
    let fake = fake("alpha", [waiting, answer("Here.")]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            let cancel = async {
                editor.until("it runs", |editor| editor.said().contains("moment")).await;
                editor.connection.send_notification(CancelNotification::new(session.clone())).unwrap();
            };
            let (response, ()) = futures::future::join(editor.prompt(&session, "Go."), cancel).await;
            assert_eq!(response.unwrap().stop_reason, StopReason::Cancelled);
            let response = editor.prompt(&session, "Again.").await.unwrap();
            assert_eq!(response.stop_reason, StopReason::EndTurn);
        })
        .await;
}

#[tokio::test]
async fn a_second_prompt_is_refused_and_the_first_is_unharmed_while_another_session_runs() {
    let waiting = vec![Act::Tell(TextDelta::new("m1".into(), "One").into()), Act::Hang];
    let fake = fake("alpha", [waiting, answer("Two.")]);
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let first = editor.begin(&stage).await.session_id;
            let second = editor.new_session(&stage).await.session_id;
            let meanwhile = async {
                editor.until("it runs", |editor| editor.said().contains("One")).await;
                let error = editor.prompt(&first, "And now?").await.unwrap_err();
                assert_eq!((i32::from(error.code), &error.data.unwrap()["kind"]), (-32600, &json!("busy")));
                let response = editor.prompt(&second, "You.").await.unwrap();
                assert_eq!(response.stop_reason, StopReason::EndTurn);
                editor.connection.send_notification(CancelNotification::new(first.clone())).unwrap();
            };
            let (response, ()) = futures::future::join(editor.prompt(&first, "Go."), meanwhile).await;
            assert_eq!(response.unwrap().stop_reason, StopReason::Cancelled);
        })
        .await;
    assert_eq!(fake.turns(), 2);
}
