//! The configuration: modes, access levels, a file that changes or cannot be read, and what explains it.

use agent_client_protocol::v1::schema::{
    SessionConfigKind, SessionUpdate, SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason,
};
use nexus_core::ToolAccess;
use nexus_editor::AcpOptions;

use crate::kit::{Person, Stage, fake, without_tools};
use nexus_testkit::scripted::{ScriptedBackend, answer};

fn two() -> (std::sync::Arc<ScriptedBackend>, std::sync::Arc<ScriptedBackend>, Stage) {
    let (alpha, beta) = (fake("alpha", [answer("A.")]), fake("beta", [answer("B.")]));
    let stage = Stage::new(&[&alpha, &beta]);
    (alpha, beta, stage)
}

#[tokio::test]
async fn what_the_agent_says_of_itself() {
    let (_, _, stage) = two();
    stage
        .drive(Person::Allows, async |editor| {
            let said = editor.initialize().await;
            assert_eq!(said.protocol_version, agent_client_protocol::schema::ProtocolVersion::V1);
            let capabilities = &said.agent_capabilities;
            assert!(capabilities.load_session && capabilities.prompt_capabilities.image);
            assert!(!capabilities.mcp_capabilities.http && !capabilities.mcp_capabilities.sse);
            assert!(capabilities.session_capabilities.list.is_some());
            assert_eq!(said.agent_info.unwrap().name, "nexus");
            assert!(said.auth_methods.is_empty());
        })
        .await;
}

#[tokio::test]
async fn a_mode_is_a_type_and_a_panel_is_none() {
    let (alpha, beta, mut stage) = two();
    stage.configure(
        "groups: { alpha: [alpha], beta: [beta] }\n\
         types: { judges: { panel: all }, first: { tier: t, phase: p, group: alpha }, second: { group: beta } }\n\
         panels: { all: [{ group: alpha }, { group: beta }] }\n",
    );
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let modes = session.modes.unwrap();
            assert_eq!(&*modes.current_mode_id.0, "first");
            let ids: Vec<_> = modes.available_modes.iter().map(|mode| mode.id.0.to_string()).collect();
            assert_eq!(ids, ["first", "second"]);
            assert_eq!(modes.available_modes[0].description.as_deref(), Some("t/p · alpha"));
            editor.prompt(&session.session_id, "Go.").await.unwrap();
            let set = |mode: &'static str| SetSessionModeRequest::new(session.session_id.clone(), mode);
            for wrong in ["judges", "third"] {
                let error = editor.ask(set(wrong)).await.unwrap_err();
                assert_eq!(i32::from(error.code), -32602);
                assert!(error.message.contains("first, second"), "{error:?}");
            }
            editor.ask(set("second")).await.unwrap();
            editor.prompt(&session.session_id, "Go.").await.unwrap();
            let seen = editor.seen();
            assert!(seen.iter().any(|update| matches!(update, SessionUpdate::CurrentModeUpdate(mode) if &*mode.current_mode_id.0 == "second")));
        })
        .await;
    assert_eq!((alpha.turns(), beta.turns()), (1, 1));
    stage.options = AcpOptions::default().with_kind(Some("second".into()));
    stage
        .drive(Person::Allows, async |editor| {
            assert_eq!(&*editor.begin(&stage).await.modes.unwrap().current_mode_id.0, "second");
        })
        .await;
}

#[tokio::test]
async fn access_goes_up_to_what_the_command_line_says() {
    let (alpha, _, mut stage) = two();
    stage.options = AcpOptions::default().with_access(ToolAccess::WorkspaceWrite);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let options = session.config_options.unwrap();
            let access = options.iter().find(|option| &*option.id.0 == "access").unwrap();
            let SessionConfigKind::Select(select) = &access.kind else { panic!("{access:?}") };
            assert_eq!(&*select.current_value.0, "workspace-write");
            let set = |value: &'static str| {
                SetSessionConfigOptionRequest::new(session.session_id.clone(), "access", value)
            };
            let error = editor.ask(set("unrestricted")).await.unwrap_err();
            assert_eq!(i32::from(error.code), -32602);
            let response = editor.ask(set("read-only")).await.unwrap();
            let said = serde_json::to_string(&response).unwrap();
            assert!(said.contains("\"currentValue\":\"read-only\""), "{said}");
            editor.prompt(&session.session_id, "Go.").await.unwrap();
        })
        .await;
    assert_eq!(alpha.last().tool_access, ToolAccess::ReadOnly);
}

#[tokio::test]
async fn a_backend_without_tools_answers_with_less_access_and_the_person_is_told() {
    let fake = without_tools("alpha");
    let stage = Stage::new(&[&fake]);
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await;
            let response = editor.prompt(&session.session_id, "Go.").await.unwrap();
            assert_eq!(response.stop_reason, StopReason::EndTurn);
            editor.prompt(&session.session_id, "Again.").await.unwrap();
            assert_eq!(editor.told().matches("this turn has scoped-only").count(), 1, "{}", editor.told());
        })
        .await;
    assert_eq!(fake.last().tool_access, ToolAccess::ScopedOnly);
}

#[tokio::test]
async fn one_line_of_the_file_changes_who_answers_and_a_broken_one_is_told() {
    let (alpha, beta, stage) = two();
    stage.configure("groups: { alpha: [alpha] }\ntypes: { writer: { group: alpha } }\n");
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            editor.prompt(&session, "Go.").await.unwrap();
            stage.configure("groups: { alpha: [alpha] }\ntypes: { writer: { groop: alpha } }\n");
            let error = editor.prompt(&session, "Go.").await.unwrap_err();
            assert!(error.message.contains("groop") && error.message.contains("nexus.yaml:2"), "{error:?}");
            assert_eq!(error.data.unwrap()["kind"], "configuration");
            stage.configure("groups: { alpha: [beta] }\ntypes: { writer: { group: alpha } }\n");
            let response = editor.prompt(&session, "Go.").await.unwrap();
            assert_eq!(response.meta.unwrap()["nexus"]["conversation"]["continuity"], "reseeded");
            assert!(editor.told().contains("sent to the model again"), "{}", editor.told());
            stage.configure("groups: { alpha: [beta] }\ntypes: { reader: { group: alpha } }\n");
            let error = editor.prompt(&session, "Go.").await.unwrap_err();
            assert!(error.message.contains("writer") && error.message.contains("reader"), "{error:?}");
        })
        .await;
    assert_eq!((alpha.turns(), beta.turns()), (1, 1));
}

#[tokio::test]
async fn explain_says_who_would_run_and_runs_nobody() {
    let (alpha, _, stage) = two();
    stage
        .drive(Person::Allows, async |editor| {
            let session = editor.begin(&stage).await.session_id;
            editor.until("the command is told", |editor| {
                let mut seen = editor.seen().into_iter();
                seen.any(|update| matches!(update, SessionUpdate::AvailableCommandsUpdate(told) if told.available_commands[0].name == "explain"))
            })
            .await;
            let response = editor.prompt(&session, "/explain").await.unwrap();
            assert_eq!(response.stop_reason, StopReason::EndTurn);
            let said = editor.said();
            assert!(said.starts_with("```text\nalpha → alpha\n") && said.contains("tried first"), "{said}");
            let error = editor.prompt(&session, "/explain nobody").await.unwrap_err();
            assert!(error.message.contains("nobody"), "{error:?}");
        })
        .await;
    assert!(alpha.turns() == 0);
    assert_eq!(stage.kept(), [] as [std::path::PathBuf; 0]);
}

#[tokio::test]
async fn a_missing_configuration_is_told_and_can_be_made_meanwhile() {
    let (_, _, stage) = two();
    std::fs::remove_file(stage.home.path().join("nexus.yaml")).unwrap();
    stage
        .drive(Person::Allows, async |editor| {
            editor.initialize().await;
            let request = agent_client_protocol::v1::schema::NewSessionRequest::new(stage.cwd());
            let error = editor.ask(request).await.unwrap_err();
            assert!(error.message.contains("nexus.yaml"), "{error:?}");
            stage.configure("groups: { alpha: [alpha] }\ntypes: { writer: { group: alpha } }\n");
            let session = editor.new_session(&stage).await.session_id;
            editor.prompt(&session, "Go.").await.unwrap();
        })
        .await;
}
