//! A server that is killed at every write of its files, and the one after it.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::Clock;
use nexus_tasks::{TaskCreateRequest, TaskListRequest, Tasks};
use nexus_testkit::{child_test, effort};
use nexus_trees::{CommitId, Git, Tree};
use serde_json::json;

use super::kit::{agents, has_git, honest, make_project, options, orchestrate, router, run};

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
    let clock = Arc::new(Killing { asked: AtomicU32::new(0), at });
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
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
    println!("\nasked {}", clock.asked.load(Ordering::SeqCst));
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
    if !has_git() {
        return;
    }
    // What a walk that is not killed prints.
    let walk = |root: &Path, at: u32| {
        let mut command = child_test::command(walk_that_may_be_killed);
        let output = command.env(ROOT, root).env(AT, at.to_string()).output().unwrap();
        if output.status.signal().is_some() {
            return None;
        }
        child_test::assert_passed("the walk", &output);
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let twin = tempfile::tempdir().unwrap();
    let twin_root = twin.path().canonicalize().unwrap();
    make_project(&twin_root);
    let printed = walk(&twin_root, u32::MAX).unwrap();
    let asked: u32 = printed.lines().find_map(|line| line.strip_prefix("asked ")?.parse().ok()).unwrap();
    let expected = outcome(&twin_root);
    assert_eq!(expected.0.len(), 3);
    // Says whether the walk was killed, and did not come to its end before.
    let is_killed = |at: u32| {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        make_project(&root);
        if walk(&root, at).is_some() {
            return false;
        }
        assert!(walk(&root, u32::MAX).is_some(), "after a kill at {at}");
        assert_eq!(outcome(&root), expected, "after a kill at {at}");
        true
    };
    if effort::is_deep() {
        let kills = (1..).take_while(|at| is_killed(*at)).count();
        assert!(kills > 30, "{kills}");
    } else {
        let rounds = u32::try_from(effort::rounds()).unwrap();
        for round in 0..rounds {
            assert!(is_killed(1 + round * asked / rounds), "round {round} of {asked} writes");
        }
    }
}
