//! What a turn cannot read, and what it may not do unseen.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use nexus_core::{
    Approval, ApprovalAction, ApprovalRequest, Approver, Effects, ErrorKind, ToolAccess, ToolCallStatus,
    TurnEvent, TurnHost, TurnRequest,
};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use serde_json::json;

use super::support::{MODEL, Ran, Stage};
use crate::support::sandbox::encloses_a_real_program;

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

/// What the level leaves open is asked; what it forbids is not, whatever the host would say.
async fn the_host_decides_on_what_the_level_leaves_open(program: &Path) {
    let refused = Approval::Refused { reason: Some("not on a Sunday".to_owned()) };
    for (answer, is_made) in [(Some(Approval::Granted), true), (Some(refused), false), (None, false)] {
        let stage = Stage::metered(program, Reply::text("unused"));
        let (inside, outside) = (stage.path("work/made.txt"), stage.path("outside.txt"));
        let command = "python3 -c \"open('made.txt', 'w').write('x')\"";
        let calls = [
            ToolCall::function("Bash", json!({ "command": command, "description": "Makes a file" })),
            ToolCall::function("Write", json!({ "file_path": outside, "content": "x" })),
        ];
        let replies = calls.into_iter().map(Reply::call).chain([Reply::text("Done.")]);
        stage.sim.set_scenario(Scenario::new(replies));
        let asked = Arc::new(Mutex::new(Vec::<ApprovalRequest>::new()));
        let host = match &answer {
            None => TurnHost::new(),
            Some(answer) => {
                let (kept, answer) = (Arc::clone(&asked), answer.clone());
                TurnHost::new().with_approver(Approver::new(move |request| {
                    kept.lock().unwrap().push(request);
                    std::future::ready(answer.clone())
                }))
            }
        };
        let session = host.clone();
        let request = TurnRequest::new("Go.")
            .with_tool_access(ToolAccess::WorkspaceWrite)
            .in_directory(stage.path("work"));
        let ran = stage.run_with(request, host).await;
        let result = ran.result();
        assert_eq!((inside.exists(), outside.exists()), (is_made, false), "{answer:?}: {result:#?}");
        let statuses: Vec<_> = result.tool_calls.iter().map(|call| call.status).collect();
        let first = if is_made { ToolCallStatus::Succeeded } else { ToolCallStatus::Denied };
        assert_eq!(statuses, [first, ToolCallStatus::Denied], "{answer:?}: {result:#?}");
        let asked = asked.lock().unwrap();
        let told = stage.calls()[1].conversation.tool_results().join("\n");
        match &answer {
            None => assert!(asked.is_empty()),
            Some(_) => {
                assert_eq!(asked.len(), 1, "{asked:#?}");
                assert_eq!(asked[0].action, ApprovalAction::Execute);
                assert_eq!(asked[0].title.as_deref(), Some(command));
                let decisions = session.session().decisions();
                assert_eq!((decisions.len(), decisions[0].approved), (1, is_made), "{decisions:#?}");
                assert_eq!(told.contains("not on a Sunday"), !is_made, "{told}");
            }
        }
    }
}

async fn the_sandbox_of_nexus_encloses_the_program(program: &Path) {
    encloses_a_real_program(Stage::metered(program, Reply::text("unused")), MODEL).await;
}

mod on {
    crate::claude_real::support::with_each_program! {
        the_logins_are_closed_to_tools_that_read
        a_call_in_words_that_nobody_knows_may_have_changed_anything
        a_level_that_is_a_list_of_tools_needs_one
        the_host_decides_on_what_the_level_leaves_open
        the_sandbox_of_nexus_encloses_the_program
    }
}
