//! What a turn cannot read, and what it may not do unseen.

use std::path::Path;

use nexus_core::{Effects, ErrorKind, ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use super::support::{Ran, Stage};

async fn the_logins_are_closed_to_tools_that_read(program: &Path) {
    let mark = "canary-of-what-makes-new-tokens";
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage = Stage::metered(program, Reply::text("unused"));
        let login = stage.write("nexus/auth/grok-build.json", mark);
        let beside = stage.write("nexus/beside.txt", "this-can-be-read");
        // The folder of Nexus is below the working directory, where everything else may be read.
        let (folder, above) = (stage.path("nexus/auth"), stage.path("nexus"));
        let mut calls = vec![
            ToolCall::function("Read", json!({ "file_path": login })),
            ToolCall::function("Read", json!({ "file_path": above.join("tmp/../auth/grok-build.json") })),
            ToolCall::function("Read", json!({ "file_path": beside })),
        ];
        if access == ToolAccess::ReadOnly {
            for path in [&folder, &above] {
                let input = json!({ "pattern": "canary-o[f]", "path": path, "output_mode": "content" });
                calls.push(ToolCall::function("Grep", input));
            }
        }
        let count = calls.len();
        stage.sim.set_scenario([Reply::calls(calls), Reply::text("I looked.")]);
        let request = TurnRequest::new("Look.").with_tool_access(access).in_directory(stage.path(""));
        let ran = stage.run(request).await;
        assert_eq!(ran.result().text, "I looked.", "{access:?}");
        let calls = &ran.result().tool_calls;
        assert_eq!(calls.len(), count, "{access:?}");
        let seen = stage.calls().last().unwrap().conversation.tool_results().join("\n");
        assert!(!seen.contains(mark), "{access:?}: {seen}");
        assert!(seen.contains("this-can-be-read"), "{access:?}: {seen}");
    }
}

/// A turn at this level that writes a file, whose program's lines are rewritten.
async fn written(program: &Path, access: ToolAccess, rewriting: &str) -> Ran {
    let stage = Stage::metered(program, Reply::text("unused")).started_by(program, "", rewriting);
    let file = stage.path("work/written.txt");
    let call = ToolCall::function("Write", json!({ "file_path": file, "content": "once" }));
    stage.sim.set_scenario([Reply::call(call), Reply::text("Written.")]);
    let request = TurnRequest::new("Write.").with_tool_access(access).in_directory(stage.path("work"));
    let ran = stage.run(request).await;
    assert_eq!(file.exists(), access == ToolAccess::Unrestricted, "{rewriting}");
    ran
}

async fn a_call_in_words_that_nobody_knows_may_have_changed_anything(program: &Path) {
    for rewriting in [r#"s/"type":"tool_use"/"type":"tool_call"/g"#, r#"s/"tools":\[/"instruments":[/"#] {
        let ran = written(program, ToolAccess::Unrestricted, rewriting).await;
        assert_eq!(ran.result().effects, Effects::Unknown, "{rewriting}");
        assert!(ran.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))), "{rewriting}");
    }
    let ran = written(program, ToolAccess::Unrestricted, "s/a/a/").await;
    assert_eq!(ran.result().effects, Effects::Wrote);
}

async fn a_level_that_is_a_list_of_tools_needs_one(program: &Path) {
    for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
        let ran = written(program, access, r#"s/"tools":\[/"instruments":[/"#).await;
        assert_eq!(ran.error().kind(), ErrorKind::Unsupported, "{access:?}: {:?}", ran.error());
    }
}

mod on {
    crate::with_each_program! {
        the_logins_are_closed_to_tools_that_read
        a_call_in_words_that_nobody_knows_may_have_changed_anything
        a_level_that_is_a_list_of_tools_needs_one
    }
}
