//! A task whose work is done by a role of the catalog, on a simulated model: what it is told, what it is given, which files it changed, and
//! which agent goes on.

use std::process::Command;

use nexus_testkit::sim::{Conversation, Reply};

use crate::{
    support::{text, two_vendors::task_stage},
    task_model,
};

/// The model of the example, whose plan names an engineer.
fn reply(conversation: &Conversation) -> Option<Reply> {
    let reply = task_model::reply(conversation)?;
    let text = serde_json::to_string(&reply).ok()?;
    serde_json::from_str(&text.replace("\"executor\"", "\"engineer\"")).ok()
}

#[test]
fn a_task_is_done_by_an_engineer_who_goes_on_with_the_same_files() {
    let Some((stage, project)) = task_stage(reply) else { return };
    let project = project.to_str().unwrap();

    let registered = stage.nexus(&["project", "roles", "--register", "--json"]);
    assert_eq!(text(&registered.stdout).lines().count(), 8, "{registered:?}");

    // In the project's files it is a task of an engineer, about one file.
    stage.json(&["project", "--project", project, "init"]);
    let add =
        ["project", "--project", project, "add", "keep the sign", "--owner", "engineer", "--file", "sum.sh"];
    stage.json(&add);
    let began = stage.json(&["project", "--project", project, "begin", "1"]);
    assert!(began.get("resume_agent").is_none(), "{began}");

    // It is done by the engineer of a task of agents.
    let id = stage.new_task(project);
    let walked = stage.nexus(&["task", "run", &id]);
    assert!(walked.status.success(), "{}{}", text(&walked.stdout), text(&walked.stderr));
    let told = stage.model.main_calls();
    let works = |body: &str| body.contains("Write and change code in this project");
    let engineer: Vec<_> =
        told.iter().map(|call| String::from_utf8_lossy(&call.body)).filter(|body| works(body)).collect();
    assert!(!engineer.is_empty(), "nobody was told what an engineer is told");

    // Its commit says which files it changed.
    assert!(stage.nexus(&["task", "land", &id]).status.success());
    let log =
        Command::new("git").args(["-C", project, "diff", "--name-only", "HEAD~1", "HEAD"]).output().unwrap();
    assert_eq!(text(&log.stdout).trim(), "sum.sh");
    let done =
        stage.json(&["project", "--project", project, "done", "1", "--file", "sum.sh", "--agent", &id]);
    assert_eq!(done["open"], 0);

    // The next task about the same file goes on with it; one about another begins anew.
    for (title, file) in [("say so", "sum.sh"), ("a test for it", "test.sh")] {
        stage.json(&["project", "--project", project, "add", title, "--owner", "engineer", "--file", file]);
    }
    let second = stage.json(&["project", "--project", project, "begin", "2"]);
    assert_eq!(second["resume_agent"], id.as_str());
    let third = stage.json(&["project", "--project", project, "begin", "3"]);
    assert!(third.get("resume_agent").is_none(), "{third}");
}
