//! Sessions: begun, kept, listed, loaded, resumed, closed and deleted, in one process and several.

use std::{fs, path::PathBuf};

use agent_client_protocol::v1::schema::{
    CloseSessionRequest, ContentBlock, DeleteSessionRequest, ImageContent, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, PromptRequest, ResumeSessionRequest, SessionId, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionModeRequest, ToolCallStatus as Shown,
};
use nexus_conversations::{ConversationName, Conversations};

use crate::{
    kit::{Person, Stage, fake, waiting},
    prompts::writing,
};
use nexus_testkit::scripted::answer;

fn talker() -> Stage {
    let (alpha, beta) = (fake("alpha", [answer("Here.")]), fake("beta", [answer("There.")]));
    Stage::new(&[&alpha, &beta])
}

#[tokio::test]
async fn a_session_without_a_prompt_leaves_nothing() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            let set = SetSessionModeRequest::new(session.clone(), "beta");
            editor.ask(set).await.unwrap();
            editor.prompt(&session, "/explain").await.unwrap();
            let list = editor.ask(ListSessionsRequest::new()).await.unwrap();
            assert!(list.sessions.is_empty());
        })
        .await;
    assert_eq!(stage.kept(), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_folder_is_absolute_and_there() {
    let stage = talker();
    fs::write(stage.cwd().join("file"), "").unwrap();
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            for wrong in [PathBuf::from("here"), stage.cwd().join("no"), stage.cwd().join("file")] {
                let request = NewSessionRequest::new(wrong.clone());
                let error = editor.ask(request).await.unwrap_err();
                assert_eq!(i32::from(error.code), -32602, "{wrong:?}");
                assert!(error.message.contains("cwd"), "{error:?}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_session_is_listed_and_loaded_in_another_process_as_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("notes.txt");
    let alpha = fake("alpha", [writing(&path, Vec::new()), answer("Again.")]);
    let beta = fake("beta", [answer("There.")]);
    let mut stage = Stage::new(&[&alpha, &beta]);
    stage.folder = folder;
    let id = stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            let picture = ContentBlock::Image(ImageContent::new("iVBORw0KGgo=", "image/png"));
            let blocks = vec![ContentBlock::from("Write\u{1b} it.\nPlease."), picture];
            let request = PromptRequest::new(session.clone(), blocks);
            editor.ask(request).await.unwrap();
            let set = SetSessionModeRequest::new(session.clone(), "beta");
            editor.ask(set).await.unwrap();
            session
        })
        .await;
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            let list = editor.ask(ListSessionsRequest::new()).await.unwrap();
            let [info] = &list.sessions[..] else { panic!("{list:?}") };
            assert_eq!((&info.session_id, &info.cwd), (&id, &stage.cwd()));
            assert_eq!(info.title.as_deref(), Some("Write\\u{1b} it.…"));
            assert!(info.updated_at.as_ref().unwrap().ends_with('Z'));
            for (cwd, count) in [(stage.cwd(), 1), (stage.cwd().join("other"), 0)] {
                let request = ListSessionsRequest::new().cwd(cwd);
                let list = editor.ask(request).await.unwrap();
                assert_eq!(list.sessions.len(), count);
            }

            let request = LoadSessionRequest::new(id.clone(), stage.cwd());
            let loaded = editor.ask(request).await.unwrap();
            assert_eq!(&*loaded.modes.unwrap().current_mode_id.0, "beta");
            let seen = editor.seen();
            let shown: Vec<String> = seen
                .iter()
                .map(|update| match update {
                    SessionUpdate::UserMessageChunk(chunk) => match &chunk.content {
                        ContentBlock::Text(text) => format!("user {}", text.text.replace('\n', "/")),
                        _ => "user picture".into(),
                    },
                    SessionUpdate::ToolCall(call) => {
                        assert_eq!(call.status, Shown::Completed);
                        format!("call {}", call.title.split(':').next().unwrap())
                    }
                    SessionUpdate::AgentMessageChunk(_) => "agent".into(),
                    SessionUpdate::AvailableCommandsUpdate(_) => "commands".into(),
                    other => format!("{other:?}"),
                })
                .collect();
            let expected = ["user Write it./Please.", "user picture", "call Write", "agent"];
            assert_eq!(shown[..4], expected);
            assert_eq!(editor.said(), "Done.");

            let response = editor.prompt(&id, "And now?").await.unwrap();
            let meta = response.meta.unwrap();
            assert_eq!(meta["nexus"]["backend"], "beta");
            assert_eq!(meta["nexus"]["conversation"]["continuity"], "reseeded");
        })
        .await;
}

#[tokio::test]
async fn a_resumed_session_goes_on_without_a_replay() {
    let stage = talker();
    let id = stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            editor.prompt(&session, "Go.").await.unwrap();
            session
        })
        .await;
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            let request = ResumeSessionRequest::new(id.clone(), stage.cwd());
            editor.ask(request).await.unwrap();
            assert_eq!(editor.said(), "");
            let response = editor.prompt(&id, "Go on.").await.unwrap();
            assert_eq!(response.meta.unwrap()["nexus"]["conversation"]["continuity"], "resumed");
        })
        .await;
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            for id in ["acp-0", "../../etc", ""].map(SessionId::new) {
                let load = LoadSessionRequest::new(id.clone(), stage.cwd());
                let load = editor.ask(load).await.unwrap_err();
                let resume = ResumeSessionRequest::new(id.clone(), stage.cwd());
                let resume = editor.ask(resume).await.unwrap_err();
                let prompt = editor.prompt(&id, "Go.").await.unwrap_err();
                let close = CloseSessionRequest::new(id.clone());
                let close = editor.ask(close).await.unwrap_err();
                let delete = DeleteSessionRequest::new(id.clone());
                // The protocol has it so.
                editor.ask(delete).await.unwrap();
                for error in [load, resume, prompt, close] {
                    assert_eq!(i32::from(error.code), -32002, "{id:?}: {error:?}");
                }
            }
        })
        .await;
    assert_eq!(stage.kept(), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn many_sessions_come_in_pages_the_last_changed_first() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            let mut made = Vec::new();
            for _ in 0..52 {
                let session = editor.new_session(&stage).await.session_id;
                editor.prompt(&session, "Go.").await.unwrap();
                made.push(session);
            }
            made.reverse();
            let list = async |cursor: Option<String>| {
                let request = ListSessionsRequest::new().cursor(cursor);
                editor.ask(request).await.unwrap()
            };
            let first = list(None).await;
            assert_eq!(first.sessions.len(), 50);
            let second = list(first.next_cursor.clone()).await;
            assert_eq!((second.sessions.len(), second.next_cursor), (2, None));
            let found: Vec<_> =
                [first.sessions, second.sessions].concat().into_iter().map(|info| info.session_id).collect();
            assert_eq!(found, made);
            assert!(list(Some("no cursor".into())).await.sessions.is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_session_that_another_process_has_is_told_and_stays() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            editor.prompt(&session, "Go.").await.unwrap();
            let name: ConversationName = session.0.parse().unwrap();
            let store = Conversations::in_home(stage.home.path());
            let held = store.hold(&name).unwrap();
            let error = editor.prompt(&session, "Go.").await.unwrap_err();
            assert!(error.message.contains("in use"), "{error:?}");
            assert_eq!(error.data.unwrap()["kind"], "in_use");
            drop(held);
            editor.prompt(&session, "Go.").await.unwrap();
            assert_eq!(store.load(&name).unwrap().turns.len(), 2);
            // It is held while a prompt runs, and no longer.
            drop(store.hold(&name).unwrap());
        })
        .await;
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_one_that_was_deleted_elsewhere_too() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let first = editor.begin(&stage).await.session_id;
            let second = editor.new_session(&stage).await.session_id;
            for session in [&first, &second] {
                editor.prompt(session, "Go.").await.unwrap();
            }
            editor.ask(DeleteSessionRequest::new(first.clone())).await.unwrap();
            assert_eq!(i32::from(editor.prompt(&first, "Go.").await.unwrap_err().code), -32002);
            Conversations::in_home(stage.home.path()).delete(&second.0.parse().unwrap()).unwrap();
            Conversations::in_home(stage.home.path()).sweep().unwrap();
            let list = editor.ask(ListSessionsRequest::new()).await.unwrap();
            assert!(list.sessions.is_empty());
        })
        .await;
    // The journal has names and no words.
    assert_eq!(stage.kept(), [stage.home.path().join("journal.jsonl")]);
}

#[tokio::test]
async fn a_conversation_that_is_no_session_can_be_loaded_and_is_not_deleted() {
    let stage = talker();
    let store = Conversations::in_home(stage.home.path());
    let name: ConversationName = "moons".parse().unwrap();
    let turn = nexus_conversations::ConversationTurn::of(
        &nexus_core::TurnRequest::new("Name them."),
        &Err(nexus_core::TurnError::new(nexus_core::ErrorKind::Crashed, "alpha".into()).with_partial({
            let mut recorder = nexus_core::Recorder::new();
            recorder.observe(&nexus_core::turn::MessageEnded::new("m".into(), "Titan.").into());
            recorder.into_partial()
        })),
        &nexus_conversations::TurnOrder::default(),
        &nexus_core::redact::Redactor::default(),
    );
    store.hold(&name).unwrap().add(turn.unwrap(), None).unwrap();
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            let list = editor.ask(ListSessionsRequest::new()).await.unwrap();
            assert!(list.sessions.is_empty());
            editor.ask(DeleteSessionRequest::new("moons")).await.unwrap();
            let load = LoadSessionRequest::new("moons", stage.cwd());
            editor.ask(load).await.unwrap();
            assert_eq!(editor.said(), "Titan.");
        })
        .await;
}

#[tokio::test]
async fn a_session_with_a_prompt_is_neither_opened_again_nor_deleted_and_closing_it_ends_the_prompt() {
    let waiting = waiting("One moment.");
    let alpha = fake("alpha", [waiting]);
    let stage = Stage::new(&[&alpha]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            let close = async {
                editor.until("it runs", |editor| editor.said().contains("moment")).await;
                let load = LoadSessionRequest::new(session.clone(), stage.cwd());
                let error = editor.ask(load).await.unwrap_err();
                assert_eq!(error.data.unwrap()["kind"], "busy");
                let delete = DeleteSessionRequest::new(session.clone());
                let error = editor.ask(delete).await.unwrap_err();
                assert_eq!(error.data.unwrap()["kind"], "busy");
                let request = CloseSessionRequest::new(session.clone());
                editor.ask(request).await.unwrap();
            };
            let (response, ()) = futures::future::join(editor.prompt(&session, "Go."), close).await;
            assert_eq!(
                response.unwrap().stop_reason,
                agent_client_protocol::v1::schema::StopReason::Cancelled
            );
            assert_eq!(i32::from(editor.prompt(&session, "Go.").await.unwrap_err().code), -32002);
        })
        .await;
}

#[tokio::test]
async fn a_damaged_conversation_is_an_error_and_others_are_listed() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let first = editor.begin(&stage).await.session_id;
            let second = editor.new_session(&stage).await.session_id;
            for session in [&first, &second] {
                editor.prompt(session, "Go.").await.unwrap();
            }
            let path = stage.home.path().join(format!("conversations/names/{}.json", first.0));
            fs::write(path, "{").unwrap();
            fs::write(stage.home.path().join(format!("acp/{}.json", second.0)), "{").unwrap();
            let load = LoadSessionRequest::new(first, stage.cwd());
            let error = editor.ask(load).await.unwrap_err();
            assert_eq!(error.data.unwrap()["kind"], "damaged");
            let load = LoadSessionRequest::new(second, stage.cwd());
            editor.ask(load).await.unwrap();
            editor.ask(ListSessionsRequest::new()).await.unwrap();
        })
        .await;
}

#[tokio::test]
async fn an_open_session_that_is_opened_again_is_as_it_was_set() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let id = editor.begin(&stage).await.session_id;
            let set = SetSessionConfigOptionRequest::new(id.clone(), "access", "read-only");
            editor.ask(set).await.unwrap();
            let set = SetSessionModeRequest::new(id.clone(), "beta");
            editor.ask(set).await.unwrap();
            // Nothing of it is stored yet.
            let resume = ResumeSessionRequest::new(id.clone(), stage.cwd());
            let resumed = editor.ask(resume).await.unwrap();
            let said = serde_json::to_string(&resumed).unwrap();
            assert!(said.contains(r#""currentValue":"read-only""#), "{said}");
            assert!(said.contains(r#""currentModeId":"beta""#), "{said}");
        })
        .await;
}

#[tokio::test]
async fn a_session_whose_record_cannot_be_read_may_do_the_least() {
    let stage = talker();
    stage
        .drive(Person::Allows, async |editor| {
            let id = editor.begin(&stage).await.session_id;
            editor.prompt(&id, "Go.").await.unwrap();
            editor.ask(CloseSessionRequest::new(id.clone())).await.unwrap();
            let record =
                stage.kept().into_iter().find(|path| path.parent().unwrap().ends_with("acp")).unwrap();
            fs::write(record, "{").unwrap();
            let resume = ResumeSessionRequest::new(id, stage.cwd());
            let resumed = editor.ask(resume).await.unwrap();
            let said = serde_json::to_string(&resumed).unwrap();
            assert!(said.contains(r#""currentValue":"scoped-only""#), "{said}");
        })
        .await;
}

#[tokio::test]
async fn a_record_that_went_is_written_with_the_next_prompt() {
    let stage = Stage::new(&[&fake("alpha", [answer("One."), answer("Two.")])]);
    stage
        .drive(Person::Allows, async |editor| {
            let id = editor.begin(&stage).await.session_id;
            editor.prompt(&id, "Go.").await.unwrap();
            let is_record = |path: &PathBuf| path.parent().unwrap().ends_with("acp");
            let record = stage.kept().into_iter().find(is_record).unwrap();
            fs::remove_file(&record).unwrap();
            editor.prompt(&id, "On.").await.unwrap();
            assert!(stage.kept().contains(&record));
            let list = editor.ask(ListSessionsRequest::new()).await.unwrap();
            assert_eq!(list.sessions.len(), 1);
        })
        .await;
}
