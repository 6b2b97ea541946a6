//! What the model is offered, and what its commands see.

use nexus_core::{Effects, ToolAccess, ToolCallStatus, TurnRequest};
use nexus_testkit::sim::{Scenario, ToolCall};

use super::support::{Stage, TOKEN};
use crate::support::sandbox::encloses_a_real_program;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_turn_without_tools_has_none_with_any_model() {
    let models = [Some("gpt-5.5"), Some("gpt-6.1-sol"), Some("gpt-5.5-of-tomorrow"), Some("mystery-1"), None];
    for model in models {
        // The model tries one all the same.
        let stage = Stage::new(Scenario::tool_then_text(ToolCall::shell("touch escaped"), "Only text."));
        let request = TurnRequest::new("Hello.").with_system("Be brief.");
        let request = match model {
            Some(model) => request.with_model(model),
            None => request,
        };
        let result = stage.run(request).await.outcome.unwrap();
        assert_eq!(result.text, "Only text.", "{model:?}");
        assert_eq!(result.effects, Effects::None, "{model:?}");
        assert!(!stage.path("work/escaped").exists());
        let calls = stage.calls();
        assert_eq!(calls.len(), 2);
        for call in calls {
            assert_eq!(call.conversation.tool_names(), Vec::<String>::new(), "{model:?}");
            assert_eq!(call.conversation.system.trim(), "Be brief.", "{model:?}");
            let is_lite = call.header("x-openai-internal-codex-responses-lite").is_some();
            assert_eq!(is_lite, matches!(model, Some("gpt-6.1-sol") | None), "{model:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn commands_see_what_was_asked_for_and_no_token() {
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage = Stage::new(Scenario::tool_then_text(ToolCall::shell("env"), "Listed."));
        let request = TurnRequest::new("List the environment.")
            .with_model("gpt-5.5")
            .with_tool_access(access)
            .with_variable("PASSED_ON");
        let result = stage.run(request).await.outcome.unwrap();
        assert_eq!(result.text, "Listed.");
        let calls = stage.calls();
        let listed = calls.last().unwrap().conversation.tool_results().join("\n");
        let home = format!("HOME={}", stage.path("home").display());
        for line in ["PASSED_ON=as-asked", "NEXUS_RUN=", home.as_str()] {
            assert!(listed.contains(line), "{access:?}: {line} is not in {listed}");
        }
        for canary in [TOKEN, "canary-stray-key", "CODEX_HOME="] {
            assert!(!listed.contains(canary), "{access:?}: {canary} is in {listed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_users_own_skills_and_settings_stay_out() {
    let stage = Stage::new(Scenario::text("Hello."));
    let skill = "---\nname: leak\ndescription: LEAK-CANARY\n---\nLEAK-CANARY\n";
    stage.write("home/.agents/skills/leak/SKILL.md", skill);
    stage.write("home/.codex/skills/leak/SKILL.md", skill);
    stage.write("home/.codex/AGENTS.md", "LEAK-CANARY");
    stage.write("home/.codex/config.toml", "model = \"LEAK-CANARY\"\n");
    for access in ToolAccess::ALL {
        let request = TurnRequest::new("$leak and $skill-creator, please.").with_tool_access(access);
        stage.run(request).await.result();
    }
    let calls = stage.calls();
    assert_eq!(calls.len(), 4);
    for call in calls {
        let body = String::from_utf8_lossy(&call.body);
        assert!(body.contains("$leak and $skill-creator, please."), "the prompt arrives to the letter");
        assert!(!body.contains("LEAK-CANARY"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn what_the_sandbox_ends_at_once_is_in_the_tool_calls() {
    let stage = Stage::new(Scenario::tool_then_text(ToolCall::shell("touch denied"), "It was denied."));
    let request = TurnRequest::new("Write.").with_model("gpt-5.5").with_tool_access(ToolAccess::ReadOnly);
    let result = stage.run(request).await.outcome.unwrap();
    let calls: Vec<_> = result.tool_calls.iter().map(|call| (call.name.as_str(), call.status)).collect();
    assert_eq!(calls, [("exec_command", ToolCallStatus::Failed)]);
    assert_eq!(result.effects, Effects::Read);
    assert!(!stage.path("work/denied").exists());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn no_tool_inside_a_sandbox_reads_a_login_that_lies_in_a_file() {
    const CANARY: &str = "canary-of-a-login";
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        for model in ["gpt-5.5", "gpt-6.1-sol"] {
            let stage = Stage::new(Scenario::text(""));
            let login = stage.write("nexus/auth/openai-codex.json", CANARY);
            std::os::unix::fs::symlink(stage.path("nexus"), stage.path("link")).unwrap();
            std::fs::create_dir(stage.path("data")).unwrap();
            let link = stage.path("link/auth/openai-codex.json");
            let command = format!(
                "cat {} {}; touch here; touch {}/there; touch {}/no",
                login.display(),
                link.display(),
                stage.path("data").display(),
                stage.path("home").display(),
            );
            let stage = stage.playing(Scenario::tool_then_text(ToolCall::shell(command), "Tried."));
            let request = TurnRequest::new("Try.").with_model(model).with_tool_access(access);
            let ran = stage.run(request.with_extra_root(stage.path("data"))).await;
            assert_eq!(ran.result().text, "Tried.", "{access:?} {model}");
            let calls = stage.calls();
            let told = calls.last().unwrap().conversation.tool_results().join("\n");
            // Where there is no sandbox the same command reads it: so it would be seen.
            let is_sandboxed = access != ToolAccess::Unrestricted;
            assert_eq!(told.contains(CANARY), !is_sandboxed, "{access:?} {model}: {told}");
            assert_eq!(told.contains("Permission denied"), is_sandboxed, "{access:?} {model}: {told}");
            // The rest of the sandbox is as it is without a login to hide.
            let writes = access != ToolAccess::ReadOnly;
            let there = ["work/here", "data/there", "home/no"].map(|path| stage.path(path).exists());
            assert_eq!(there, [writes, writes, !is_sandboxed], "{access:?} {model}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_sandbox_of_nexus_encloses_the_program() {
    for model in ["gpt-5.5", "gpt-6.1-sol"] {
        encloses_a_real_program(Stage::new(Scenario::text("")), model).await;
    }
}
