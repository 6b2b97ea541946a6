//! A process that is killed at every write of its files, and the one after it.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::Clock;
use nexus_debates::{DebateCancelRequest, DebateListRequest};
use nexus_testkit::{child_test, effort};
use serde_json::Value;

use super::kit::{advance, agents, debates_with, honest, question, walk};

const ROOT: &str = "NEXUS_TEST_KILL_ROOT";
const AT: &str = "NEXUS_TEST_KILL_AT";

/// A clock that stands still, and kills the program when it is asked for the time the `at`-th time: status and log are all written with a
/// time of it.
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

/// Walks the only whole debate of a home to its end. Run as a program of its own, which may be killed.
#[tokio::test]
async fn walk_that_may_be_killed() {
    let Some(root) = env::var_os(ROOT) else { return };
    let at = env::var(AT).unwrap().parse().unwrap();
    let clock = Arc::new(Killing { asked: AtomicU32::new(0), at });
    let debates = debates_with(Path::new(&root), &agents(honest), |mut options| {
        options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
        options
    });
    let mut found = None;
    for row in debates.list(DebateListRequest::default()).await.unwrap().debates {
        let debate = debates.store().open(&row.debate_id).unwrap();
        match debate.snapshot().unwrap().data.sources {
            Some(_) => found = Some((row.debate_id, row.status)),
            // Its creation was cut off: it says so, and is ended.
            None => {
                if row.status != "cancelled" {
                    let error = advance(&debates, &row.debate_id).await.unwrap_err();
                    assert!(error.advice.contains("debate_cancel"), "{error}");
                    debates.cancel(DebateCancelRequest { debate_id: row.debate_id }).await.unwrap();
                }
            }
        }
    }
    let (id, is_done) = match found {
        Some((id, status)) => (id, status == "done"),
        None => (debates.create(question()).await.unwrap().debate_id, false),
    };
    if !is_done {
        walk(&debates, &id).await;
    }
    debates.shutdown().await;
    println!("\nasked {}", clock.asked.load(Ordering::SeqCst));
}

/// What a debate came to, but for ids and times: the records of its stages.
fn outcome(root: &Path) -> BTreeMap<String, Value> {
    for folder in fs::read_dir(root.join("home/tasks")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(bytes) = fs::read(folder.join("status.json")) else { continue };
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        if status["state"]["name"] != "done" {
            continue;
        }
        let settled = status["data"]["settled"].as_array().unwrap();
        let read = |stage: &Value| {
            let name = stage.as_str().unwrap().to_owned();
            let bytes = fs::read(folder.join("stages").join(format!("{name}.json"))).unwrap();
            (name, serde_json::from_slice(&bytes).unwrap())
        };
        return settled.iter().map(read).collect();
    }
    panic!("no debate is done");
}

/// Which stages of the debates that are there count, and by which files: a stage that is run again writes another.
fn settled(root: &Path) -> BTreeMap<PathBuf, u64> {
    let mut settled = BTreeMap::new();
    for folder in fs::read_dir(root.join("home/tasks")).into_iter().flatten() {
        let folder = folder.unwrap().path();
        let Ok(bytes) = fs::read(folder.join("status.json")) else { continue };
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        for stage in status["data"]["settled"].as_array().unwrap() {
            let record = folder.join("stages").join(format!("{}.json", stage.as_str().unwrap()));
            let inode = fs::metadata(&record).unwrap().ino();
            settled.insert(record, inode);
        }
    }
    settled
}

#[test]
fn whenever_it_is_killed_the_next_one_comes_to_the_same() {
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
    let printed = walk(twin.path(), u32::MAX).unwrap();
    let asked: u32 = printed.lines().find_map(|line| line.strip_prefix("asked ")?.parse().ok()).unwrap();
    let expected = outcome(twin.path());
    assert_eq!(expected.len(), 10, "{:?}", expected.keys());
    // Says whether the walk was killed, and did not come to its end before.
    let is_killed = |at: u32| {
        let place = tempfile::tempdir().unwrap();
        if walk(place.path(), at).is_some() {
            return false;
        }
        let before = settled(place.path());
        assert!(walk(place.path(), u32::MAX).is_some(), "after a kill at {at}");
        let after = settled(place.path());
        for (record, inode) in before {
            assert_eq!(after.get(&record), Some(&inode), "{record:?} was run again after a kill at {at}");
        }
        assert_eq!(outcome(place.path()), expected, "after a kill at {at}");
        true
    };
    // Each of the ten stages writes its beginning, its turns and its end.
    assert!(asked > 30, "{asked}");
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
