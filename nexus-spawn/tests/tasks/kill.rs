//! A server that is killed at every write of its files, and the one after it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::Clock;
use nexus_spawn::{TaskCreateRequest, TaskListRequest, Tasks};
use nexus_workspace::tree::{CommitId, Git, Tree};
use serde_json::json;

use crate::kit::{agents, has_git, honest, make_project, options, orchestrate, router, run};

const ROOT: &str = "NEXUS_TEST_KILL_ROOT";
const AT: &str = "NEXUS_TEST_KILL_AT";

/// A clock that stands still, and kills the program when it is asked for the time the `at`-th time: status, log and commits are
/// all written with a time of it.
#[derive(Debug)]
struct Killing {
    asked: AtomicU32,
    at: u32,
}

impl Clock for Killing {
    fn now(&self) -> SystemTime {
        if self.asked.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
        }
        UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }
}

/// Walks the only task of a home to its end. Run as a program of its own, which may be killed.
#[tokio::test]
async fn walk_that_may_be_killed() {
    let Some(root) = env::var_os(ROOT) else { return };
    let root = Path::new(&root);
    let mut options = options(root);
    let at = env::var(AT).unwrap().parse().unwrap();
    options.clock = std::sync::Arc::new(Killing { asked: AtomicU32::new(0), at });
    let tasks = Tasks::new(router(&agents(honest), &json!({})), options);
    let listed = tasks.list(TaskListRequest::default()).await.unwrap().tasks;
    let id = match listed.first() {
        Some(row) => row.task_id.clone(),
        None => {
            let project = root.join("project");
            let request =
                TaskCreateRequest { goal: "Make three files.".to_owned(), project, ..Default::default() };
            tasks.create(request).await.unwrap().task_id
        }
    };
    if listed.first().is_some_and(|row| row.status == "complete") {
        // It was killed when all was done.
        return tasks.shutdown().await;
    }
    let mut status = orchestrate(&tasks, &id).await.status;
    while status == "active" {
        status = tasks.run_turn(run(&id)).await.unwrap().status;
    }
    assert_eq!(status, "complete");
    tasks.shutdown().await;
}

/// What a task came to, but for ids and times: the content of its commits, and the verdicts.
fn outcome(root: &Path) -> (Vec<String>, BTreeMap<String, String>) {
    let folder = fs::read_dir(root.join("home/tasks")).unwrap().next().unwrap().unwrap().path();
    let status: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("status.json")).unwrap()).unwrap();
    let tree = Tree::open(&Git::find().unwrap(), &folder).unwrap();
    let mut before = tree.base().commit.clone();
    let mut commits = Vec::new();
    for commit in status["data"]["commits"].as_array().unwrap() {
        let id: CommitId = commit["commit"].as_str().unwrap().parse().unwrap();
        commits.push(tree.patch(&before, &id).unwrap().text());
        before = id;
    }
    assert_eq!(tree.read_ref("head").unwrap(), Some(before));
    let mut verdicts = BTreeMap::new();
    for file in fs::read_dir(folder.join("steps")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            let name = format!("{} {}", record["entry"], record["attempt"]);
            verdicts.insert(name, record["verdict"].to_string());
        }
    }
    (commits, verdicts)
}

#[test]
fn whenever_it_is_killed_the_next_one_comes_to_the_same() {
    if !has_git() || env::var_os(ROOT).is_some() {
        return;
    }
    let walk = |root: &Path, at: u32| {
        let program = env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "kill::walk_that_may_be_killed", "--quiet"]);
        let output = command.env(ROOT, root).env(AT, at.to_string()).output().unwrap();
        output.status.success()
    };
    let twin = tempfile::tempdir().unwrap();
    let twin_root = twin.path().canonicalize().unwrap();
    make_project(&twin_root);
    assert!(walk(&twin_root, u32::MAX));
    let expected = outcome(&twin_root);
    assert_eq!(expected.0.len(), 3);
    let mut at = 1;
    let mut kills = 0;
    loop {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        make_project(&root);
        if walk(&root, at) {
            // It came to its end before.
            break;
        }
        kills += 1;
        assert!(walk(&root, u32::MAX), "after a kill at {at}");
        assert_eq!(outcome(&root), expected, "after a kill at {at}");
        at += if env::var_os("NEXUS_TEST_ALL_KILLS").is_some() { 1 } else { 3 };
    }
    assert!(kills > 10, "{kills}");
}
