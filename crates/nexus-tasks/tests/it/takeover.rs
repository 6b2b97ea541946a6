//! A turn that failed after it wrote is taken over by the next backend, on the tree as it was.
#![cfg(target_os = "linux")]

use std::{fs, sync::Arc};

use nexus_core::{
    BeforeRetry, Brief, Effects, ErrorKind, EventEnvelope, FileTools, ParticipantScope, Submission, Tool,
    ToolAccess, Toolbox, TurnHost, TurnRequest,
};
use nexus_tasks::{Claim, HandoffAction, HandoffDraft};
use nexus_testkit::scripted::Act;
use nexus_trees::{Git, Project, Tree, TreeOptions};
use nexus_work::{AgentRoute, Assignment, run_agent};
use serde_json::json;

use crate::support::{agent, router_over};

fn write(path: &str, text: &str) -> Act {
    Act::Call("write_file", json!({ "path": path, "content": text }))
}

#[tokio::test]
async fn the_next_backend_begins_on_the_tree_as_it_was_and_its_work_alone_is_in_the_diff() {
    let Ok(git) = Git::find() else {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        return println!("NOT TESTED: there is no git");
    };
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let (project, workspace, folder) = (root.join("project"), root.join("workspace"), root.join("now"));
    fs::create_dir_all(project.join("src")).unwrap();
    fs::create_dir(&workspace).unwrap();
    fs::write(project.join("src/sum.rs"), "old\n").unwrap();
    let tree =
        Tree::create(&git, &workspace, &Project::folder(&project).unwrap(), &TreeOptions::new()).unwrap();
    let base = tree.base().commit.clone();
    tree.check_out(&base, &folder).unwrap();

    let claims = vec![Claim { text: "It sums.".to_owned(), evidence: Vec::new() }];
    let handoff = HandoffDraft { claims, files: Vec::new(), action: HandoffAction::StepDone };
    let submit = Act::Call("submit_handoff", serde_json::to_value(&handoff).unwrap());
    // The first one writes where it may, and fails; the second one does the work.
    let broken = agent(
        "alpha",
        vec![vec![
            write("src/left-behind.rs", "x"),
            write("src/new.rs", "half\n"),
            Act::Fail(ErrorKind::Transport),
        ]],
    );
    let sound = agent("beta", vec![vec![write("src/new.rs", "whole\n"), submit]]);
    let router = router_over(&[&broken, &sound], "restore");

    let scope = Brief::new(&folder).reading(".").writing("src").tool("*".parse().unwrap());
    let scope = ParticipantScope::assemble(&scope, None, None).unwrap();
    let submission = Submission::<HandoffDraft>::new();
    let files = FileTools::new(scope.files());
    let tools = files.reading().into_iter().chain(files.writing()).fold(Toolbox::new(), Toolbox::with);
    let tools = tools.with(Tool::submit("submit_handoff", "Hands the work in.", &submission));
    let (restored, at, to) = (tree.clone(), base.clone(), folder.clone());
    let hook = BeforeRetry::new(move |attempt| {
        assert_eq!(attempt.effects, Effects::Wrote);
        let (tree, base, folder) = (restored.clone(), at.clone(), to.clone());
        async move { tokio::task::spawn_blocking(move || tree.restore(&base, folder, &[])).await.unwrap() }
    });
    let assignment = Assignment {
        route: AgentRoute::Kind("worker".into()),
        request: TurnRequest::new("Mend the sum.").with_tool_access(ToolAccess::ScopedOnly),
        participant: "executor".into(),
        scope,
        tools: Arc::new(tools),
        tool_calls: 60,
        refused_submissions: 5,
        host: TurnHost::new().with_before_retry(hook),
        record: None,
        answer: Box::new(move || submission.take()),
    };
    let mut unwatched = |_: EventEnvelope| {};
    let report = run_agent(&router, &assignment, &mut unwatched).await;

    assert_eq!(report.answer, Ok(handoff));
    assert_eq!(report.turns[0].backend.as_str(), "beta");
    let snapshot = tree.snapshot(&folder).unwrap();
    let changed: Vec<_> =
        tree.changes(&base, &snapshot).unwrap().into_iter().map(|change| change.path).collect();
    assert_eq!(changed, [std::path::Path::new("src/new.rs")]);
    assert_eq!(fs::read_to_string(folder.join("src/new.rs")).unwrap(), "whole\n");
}
