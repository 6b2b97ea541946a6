//! What reaches the model, byte for byte.

use std::path::Path;

use nexus_core::{Effort, PromptBlock, ToolAccess, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario, long_text};

use super::support::Stage;

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn a_scoped_turn_has_our_words_and_no_tool(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    let request = TurnRequest::new("Say hello.").with_system("You are a canary.").with_effort(Effort::Low);
    stage.run(request).await.result();
    let calls = stage.calls();
    let call = &calls[0].conversation;
    assert_eq!(call.tools.len(), 0, "{:?}", call.tool_names());
    assert!(call.system.contains("You are a canary."), "{}", call.system);
    assert!(!call.system.contains("software engineering"), "{}", call.system);
    assert_eq!(calls[0].json["output_config"]["effort"], "low");
    assert_eq!(calls[0].json["model"], super::support::MODEL);
}

async fn a_working_turn_keeps_the_vendors_words(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    let request = TurnRequest::new("Say hello.")
        .with_system("You are a canary.")
        .with_tool_access(ToolAccess::WorkspaceWrite)
        .in_directory(stage.path("work"));
    stage.run(request).await.result();
    let call = &stage.calls()[0].conversation;
    assert!(call.system.len() > 5000 && call.system.contains("You are a canary."), "{}", call.system.len());
    assert!(call.tool("Bash").is_some() && call.tool("Edit").is_some());
}

async fn what_the_user_has_set_up_stays_out(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("Hello."));
    let hook = r#"{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch HOOKED"}]}]},"env":{"POISON":"poison-canary"}}"#;
    let server = r#"{"mcpServers":{"poison":{"command":"sh","args":["-c","touch SERVED; cat"]}}}"#;
    for (path, text) in [
        ("home/.claude/settings.json", hook),
        ("home/.claude/CLAUDE.md", "poison-canary"),
        ("home/.claude/agents/poison.md", "---\nname: poison-canary\ndescription: poison-canary\n---\nx"),
        ("home/.claude.json", server),
        ("work/.claude/settings.json", hook),
        ("work/CLAUDE.md", "poison-canary"),
        ("work/.mcp.json", server),
    ] {
        stage.write(path, text);
    }
    let request = TurnRequest::new("Say hello.")
        .with_tool_access(ToolAccess::WorkspaceWrite)
        .in_directory(stage.path("work"));
    stage.run(request).await.result();
    let body = String::from_utf8(stage.calls()[0].body.to_vec()).unwrap();
    assert!(body.contains("Say hello."));
    assert!(!body.contains("poison"), "the user's own set-up reached the model");
    assert!(!stage.path("work/HOOKED").exists() && !stage.path("work/SERVED").exists());
}

async fn a_prompt_is_a_text_whatever_it_looks_like(program: &Path) {
    let long = long_text(1 << 20);
    for prompt in ["/help me", "-p", "--version", "@/etc/hostname", "update", "!ls", "# note", long.as_str()]
    {
        let stage = Stage::metered(program, Scenario::text("Hello."));
        stage.run(TurnRequest::new(prompt)).await.result();
        let calls = stage.calls();
        let texts = calls[0].conversation.user_texts();
        let guarded = format!("\n{prompt}");
        let is_there = texts.iter().any(|text| text == prompt || *text == guarded);
        assert!(is_there, "{:.40?} became {:.200?}", prompt, texts);
        let body = String::from_utf8_lossy(&calls[0].body).into_owned();
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        assert!(
            host.trim().is_empty()
                || prompt != "@/etc/hostname"
                || !body.contains(&format!("1\\t{}", host.trim()))
        );
    }
}

async fn a_picture_arrives(program: &Path) {
    let stage = Stage::metered(program, Scenario::text("A pixel."));
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: PIXEL.into() };
    stage.run(TurnRequest::new("What is it?").with_block(picture)).await.result();
    assert_eq!(stage.calls()[0].conversation.images(), 1);
}

async fn an_effort_that_the_model_does_not_take_is_said(program: &Path) {
    let stage = Stage::metered(program, Reply::text("Hello."));
    let request = TurnRequest::new("Hello.").with_model("haiku").with_effort(Effort::Max);
    let ran = stage.run(request).await;
    ran.result();
    // What the menu of a version does not offer is not sent, and said.
    let is_taken = stage.calls()[0].json["output_config"]["effort"] == "max";
    let is_said = ran.warnings().iter().any(|text| text.contains("effort max"));
    assert_eq!(is_said, !is_taken, "{:?}", ran.warnings());
}

mod tests {
    crate::claude_real::support::with_each_program! {
        a_scoped_turn_has_our_words_and_no_tool
        a_working_turn_keeps_the_vendors_words
        what_the_user_has_set_up_stays_out
        a_prompt_is_a_text_whatever_it_looks_like
        a_picture_arrives
        an_effort_that_the_model_does_not_take_is_said
    }
}
