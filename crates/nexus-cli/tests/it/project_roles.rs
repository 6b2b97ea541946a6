//! A task whose work is done by a role of the catalog, on a simulated model: what it is told, what it is given, which files it changed, and
//! which agent goes on.

use std::{fs, process::Command};

use nexus_testkit::sim::{Conversation, Dialect, Reply, Scenario, Sim};
use serde_json::Value;

use crate::{
    support::{Folder, text},
    task_model,
};

/// The model of the example, whose plan names an engineer.
fn reply(conversation: &Conversation) -> Option<Reply> {
    let reply = task_model::reply(conversation)?;
    let text = serde_json::to_string(&reply).ok()?;
    serde_json::from_str(&text.replace("\"executor\"", "\"engineer\"")).ok()
}

fn json(folder: &Folder, arguments: &[&str]) -> Value {
    let output = folder.nexus(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_task_is_done_by_an_engineer_who_goes_on_with_the_same_files() {
    if Command::new("git").arg("--version").output().is_err() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        println!("NOT TESTED: there is no git");
        return;
    }
    let model = Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(reply).start().unwrap();
    let config = format!(
        "groups: {{ north: [north-model], south: [south-model] }}\n\
         backends:\n  north-model: {{ kind: responses, vendor: north, base_url: {url:?}, model: simulated }}\n  \
         south-model: {{ kind: responses, vendor: south, base_url: {url:?}, model: simulated }}\n\
         types:\n  orchestrator: {{ tier: operations, phase: orchestrate, group: north }}\n  \
         executor: {{ tier: execution, phase: implement, group: south }}\n  \
         reviewer: {{ tier: operations, phase: review, panel: review }}\n\
         panels: {{ review: [{{ group: north }}, {{ group: south }}] }}\n\
         tasks: {{ defaults: {{ sandbox: {{ kind: none }} }} }}\n",
        url = model.base_url(),
    );
    let folder = Folder::empty();
    fs::create_dir(folder.nexus_home()).unwrap();
    fs::write(folder.nexus_home().join("nexus.yaml"), &config).unwrap();
    let project = folder.path().canonicalize().unwrap().join("sums");
    fs::create_dir(&project).unwrap();
    task_model::begin(&project).unwrap();
    let project = project.to_str().unwrap();

    let registered = folder.nexus(&["project", "roles", "--register", "--json"]);
    assert_eq!(text(&registered.stdout).lines().count(), 8, "{registered:?}");

    // In the project's files it is a task of an engineer, about one file.
    json(&folder, &["project", "--project", project, "init"]);
    let add =
        ["project", "--project", project, "add", "keep the sign", "--owner", "engineer", "--file", "sum.sh"];
    json(&folder, &add);
    let began = json(&folder, &["project", "--project", project, "begin", "1"]);
    assert!(began.get("resume_agent").is_none(), "{began}");

    // It is done by the engineer of a task of agents.
    let goal = "`sh sum.sh -1 -2` is to print -3";
    let output = folder.nexus(&["task", "new", goal, "--project", project, "--test", "sh test.sh"]);
    let id = text(&output.stdout).trim().to_owned();
    let walked = folder.nexus(&["task", "run", &id]);
    assert!(walked.status.success(), "{}{}", text(&walked.stdout), text(&walked.stderr));
    let told = model.main_calls();
    let works = |body: &str| body.contains("You write and change code in this project");
    let engineer: Vec<_> =
        told.iter().map(|call| String::from_utf8_lossy(&call.body)).filter(|body| works(body)).collect();
    assert!(!engineer.is_empty(), "nobody was told what an engineer is told");

    // Its commit says which files it changed.
    assert!(folder.nexus(&["task", "land", &id]).status.success());
    let log =
        Command::new("git").args(["-C", project, "diff", "--name-only", "HEAD~1", "HEAD"]).output().unwrap();
    assert_eq!(text(&log.stdout).trim(), "sum.sh");
    let done =
        json(&folder, &["project", "--project", project, "done", "1", "--file", "sum.sh", "--agent", &id]);
    assert_eq!(done["open"], 0);

    // The next task about the same file goes on with it; one about another begins anew.
    for (title, file) in [("say so", "sum.sh"), ("a test for it", "test.sh")] {
        json(
            &folder,
            &["project", "--project", project, "add", title, "--owner", "engineer", "--file", file],
        );
    }
    let second = json(&folder, &["project", "--project", project, "begin", "2"]);
    assert_eq!(second["resume_agent"], id.as_str());
    let third = json(&folder, &["project", "--project", project, "begin", "3"]);
    assert!(third.get("resume_agent").is_none(), "{third}");
}
