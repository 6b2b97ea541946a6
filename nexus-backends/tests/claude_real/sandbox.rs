//! What a turn cannot read.

use std::path::Path;

use nexus_core::{ToolAccess, TurnRequest};
use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use super::support::Stage;

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

mod on {
    crate::with_each_program! {
        the_logins_are_closed_to_tools_that_read
    }
}
