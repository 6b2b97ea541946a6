//! What a turn can touch, and what can touch a turn.

use nexus_core::{ErrorKind, ToolAccess, ToolCallStatus, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use serde_json::json;

use super::support::Stage;
use crate::support::sandbox::encloses_a_real_program;

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_workspace_is_all_that_can_be_written() {
    let stage = Stage::new(Reply::text("unused"));
    let extra = stage.path("extra");
    std::fs::create_dir(&extra).unwrap();
    let outside = tempfile::Builder::new().prefix("nexus-outside-").tempdir_in("/var/tmp").unwrap();
    let sibling = stage.path("sibling");
    std::fs::create_dir(&sibling).unwrap();
    let places = [
        stage.path("work"),
        extra.clone(),
        outside.path().to_owned(),
        sibling.clone(),
        stage.path("home"),
        stage.path("nexus"),
        "/tmp".into(),
    ];
    let write = |place: &std::path::PathBuf| format!("echo x > '{}/written'; ", place.display());
    let command: String = places.iter().map(write).collect();
    let file = sibling.join("by-the-file-tool").to_str().unwrap().to_owned();
    stage.sim.set_scenario(Scenario::new([
        Reply::calls([ToolCall::shell(format!("{command} true")), ToolCall::write_file(file, "x")]),
        Reply::text("I wrote."),
    ]));
    let request = TurnRequest::new("Write.")
        .with_tool_access(ToolAccess::WorkspaceWrite)
        .in_directory(stage.path("work"))
        .with_extra_root(&extra);
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().text, "I wrote.");
    let written: Vec<bool> = places.iter().map(|place| place.join("written").exists()).collect();
    assert_eq!(written, [true, true, false, false, false, false, false], "{places:?}: {}", ran.tool_text());
    assert_eq!(std::fs::read_dir(&sibling).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_tool_that_was_taken_away_is_not_there() {
    let stage =
        Stage::new(Scenario::tool_then_text(ToolCall::shell("echo no > ran.txt"), "It is not there."));
    for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
        let request = TurnRequest::new("Run.").with_tool_access(access).in_directory(stage.path("work"));
        stage
            .sim
            .set_scenario(Scenario::tool_then_text(ToolCall::shell("echo no > ran.txt"), "It is not there."));
        let ran = stage.run_as_asked(request).await;
        assert_eq!(ran.result().text, "It is not there.", "{access:?}");
        let statuses: Vec<_> = ran.result().tool_calls.iter().map(|call| call.status).collect();
        assert_eq!(statuses, [ToolCallStatus::Failed], "{access:?}");
        assert!(ran.result().effects.allow_another_try(), "{access:?}: {:?}", ran.result().effects);
    }
    assert!(!stage.path("work/ran.txt").exists());
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn what_others_left_in_the_users_home_does_not_leak_in() {
    let stage = Stage::new(Reply::text("Hello."));
    let touch = |name: &str| format!("touch '{}'", stage.path(name).display());
    let hook = touch("hook-ran");
    stage.write(
        "home/.claude/settings.json",
        &format!(
            r#"{{"hooks":{{"UserPromptSubmit":[{{"hooks":[{{"type":"command","command":"{hook}"}}]}}]}}}}"#
        ),
    );
    let server =
        format!(r#"{{"mcpServers":{{"left":{{"command":"sh","args":["-c","{}"]}}}}}}"#, touch("server-ran"));
    stage.write("home/.claude.json", &server);
    stage.write("home/.cursor/mcp.json", &server);
    stage.write("home/.grok/AGENTS.md", "LEFT-IN-HOME");
    stage.write("home/.claude/CLAUDE.md", "LEFT-IN-HOME");
    stage.write("work/.mcp.json", &server);
    stage.write("work/.envrc", &touch("envrc-ran"));
    stage.write(
        "work/.grok/config.toml",
        &format!("[mcp_servers.left]\ncommand = \"sh\"\nargs = [\"-c\", \"{}\"]\n", touch("server-ran")),
    );
    let request = TurnRequest::new("Hello.")
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(stage.path("work"));
    assert_eq!(stage.run_as_asked(request).await.result().text, "Hello.");
    for trace in ["hook-ran", "server-ran", "envrc-ran"] {
        assert!(!stage.path(trace).exists(), "{trace}");
    }
    assert!(!stage.calls()[0].json.to_string().contains("LEFT-IN-HOME"));
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_variable_of_the_vendors_cannot_be_passed_in() {
    let stage = Stage::new(Reply::text("Hello."));
    let request = TurnRequest::new("Hello.").with_variable("XAI_API_KEY");
    let error = stage.run_as_asked(request).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(stage.calls().is_empty());
}

/// Whether a process that carries `mark` in its arguments is alive; the tests' own threads do not.
fn is_alive(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    arguments.into_iter().any(|arguments| String::from_utf8_lossy(&arguments).contains(mark))
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn nothing_inside_the_sandbox_outlives_a_cancelled_turn() {
    let mark = format!("31{}", std::process::id());
    let stubborn = format!("(trap '' TERM INT HUP; setsid sleep {mark}) & touch begun; wait");
    let stage = Stage::new(Scenario::tool_then_text(ToolCall::shell(stubborn), "unused"));
    let backend = stage.backend();
    let request = TurnRequest::new("Wait.")
        .with_tool_access(ToolAccess::WorkspaceWrite)
        .in_directory(stage.path("work"));
    let cancel = nexus_core::CancelToken::new();
    let host = nexus_core::TurnHost::new().with_cancel(cancel.clone());
    let begun = stage.path("work/begun");
    let waiting = async {
        for _ in 0..500 {
            if begun.exists() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let runs = is_alive(&mark);
        cancel.cancel();
        runs
    };
    let mut sink = |_: nexus_core::EventEnvelope| {};
    let (outcome, runs) = tokio::join!(backend.run_turn(request, host, &mut sink), waiting);
    let error = outcome.unwrap_err();
    assert!(runs, "the tool runs: {error:?}");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!is_alive(&mark), "{:?}", error.process());
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_logins_are_closed_to_tools_that_read_and_inside_the_sandbox_to_all() {
    let mark = "canary-of-what-makes-new-tokens";
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage = Stage::new(Reply::text("unused"));
        let login = stage.write("nexus/auth/grok-build.json", mark).to_str().unwrap().to_owned();
        let folder = stage.path("nexus/auth").to_str().unwrap().to_owned();
        let above = stage.path("nexus").to_str().unwrap().to_owned();
        // A file beside it shows that the tools work there.
        let beside = stage.write("nexus/beside.txt", "this-can-be-read").to_str().unwrap().to_owned();
        let mut calls = vec![
            ToolCall::function("read_file", json!({ "target_file": login })),
            ToolCall::function(
                "read_file",
                json!({ "target_file": format!("{above}/tmp/../auth/grok-build.json") }),
            ),
            ToolCall::function("grep", json!({ "pattern": "canary-o[f]", "path": folder })),
            ToolCall::function("grep", json!({ "pattern": "canary-o[f]|this-can", "path": above })),
            ToolCall::function("read_file", json!({ "target_file": beside })),
        ];
        if access == ToolAccess::WorkspaceWrite {
            // The name of the folder in a command would be denied before it runs.
            calls.push(ToolCall::shell(format!("cd '{above}' && ls -A a*h && cat a*h/*; echo looked")));
        }
        let count = calls.len();
        stage.sim.set_scenario([Reply::calls(calls), Reply::text("I looked.")]);
        let request = TurnRequest::new("Look.").with_tool_access(access).in_directory(stage.path("work"));
        let ran = stage.run_as_asked(request).await;
        assert_eq!(ran.result().text, "I looked.", "{access:?}");
        assert_eq!(ran.result().tool_calls.len(), count, "{access:?}");
        // The events tell of some tools how much they found, and the model what.
        let told = stage.calls().last().unwrap().conversation.tool_results().join("\n");
        let seen = format!("{}{told}", ran.tool_text());
        assert!(!seen.contains(mark), "{access:?}: {seen}");
        if access != ToolAccess::WorkspaceWrite {
            assert!(seen.contains("this-can-be-read"), "{access:?}: {seen}");
        } else {
            assert!(seen.contains("looked"), "{access:?}: {seen}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_sandbox_of_nexus_encloses_the_program() {
    encloses_a_real_program(Stage::new(Reply::text("unused")), "grok-4.6").await;
}
