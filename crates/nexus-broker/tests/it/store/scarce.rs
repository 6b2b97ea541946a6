//! A disk without space, and one that cannot be written.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use nexus_broker::{BrokerErrorKind, BrokerStore, QueueLimits, SqliteStore};
use nexus_testkit::child_test;

use super::kit::{Hands, drain, kind, message, take};

/// Names the folder with the mount, in the process that has it.
const FOLDER: &str = "NEXUS_TEST_BROKER_SCARCE";

/// The words that run a command where it may mount: as root, or as root of a user namespace. `None` if this system allows neither.
fn in_mount_namespace() -> Option<Vec<&'static str>> {
    let ways: [&[&str]; 2] = [
        &["unshare", "--mount", "--propagation", "private", "--"],
        &["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "--"],
    ];
    let works = |way: &&&[&str]| {
        let trial =
            Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
        trial.is_ok_and(|output| output.status.success())
    };
    let way = ways.iter().find(works);
    if way.is_none() {
        println!("NOT TESTED: this system allows no mounts");
    }
    way.map(|way| way.to_vec())
}

/// Returns the folder, in the process that has a mount there. Otherwise starts `test` in such a process, after `setup` of a
/// shell with the folder as `$1`, and returns `None`.
fn mounted<T>(test: T, setup: &str) -> Option<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let way = in_mount_namespace()?;
    let folder = tempfile::tempdir().unwrap();
    let script = format!("set -e; {setup}; shift; exec \"$@\"");
    let mut launcher = Command::new(way[0]);
    launcher.args(&way[1..]).args(["sh", "-c", &script, "sh"]).arg(folder.path()).env(FOLDER, folder.path());
    child_test::runs_alone_through(launcher, test);
    None
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn open(path: &Path) -> Result<SqliteStore, nexus_broker::BrokerError> {
    SqliteStore::open(path, QueueLimits::default(), Hands::new()).await
}

#[test]
fn a_full_disk_is_told_of_and_loses_nothing() {
    let setup = "mount -t tmpfs -o size=3m tmpfs \"$1\"";
    let Some(folder) = mounted(a_full_disk_is_told_of_and_loses_nothing, setup) else { return };
    let (path, filler) = (folder.join("messages.sqlite"), folder.join("filler"));
    runtime().block_on(async {
        let clock = Hands::new();
        let store = open(&path).await.unwrap();
        fs::write(&filler, vec![1; 1 << 20]).unwrap();
        let mut stored = Vec::new();
        let error = loop {
            let mut message = message(&format!("m{}", stored.len()), &*clock);
            message.other.insert("fill".to_owned(), "x".repeat(2_000).into());
            match store.put("q", &message).await {
                Ok(_) => stored.push(format!("m{}", stored.len())),
                Err(error) => break error,
            }
            assert!(stored.len() < 5_000, "the disk is never full");
        };
        assert_eq!(error.kind, BrokerErrorKind::NoSpace, "{error}");
        assert!(error.message.contains("messages.sqlite") && error.advice.contains("disk space"), "{error}");
        assert!(stored.len() > 10);
        // The last bytes are gone, too.
        let mut last = fs::File::options().append(true).open(&filler).unwrap();
        while std::io::Write::write(&mut last, &[1; 64]).is_ok_and(|written| written > 0) {}
        for _ in 0..3 {
            assert_eq!(kind(store.put("r", &message("more", &*clock)).await), BrokerErrorKind::NoSpace);
        }
        // Who opens it now is told, or can read.
        match open(&path).await {
            Err(error) => assert_eq!(error.kind, BrokerErrorKind::NoSpace, "{error}"),
            Ok(second) => assert!(second.log(0, 1).await.unwrap().len() == 1),
        }
        let made = open(&folder.join("another.sqlite")).await;
        assert_eq!(kind(made), BrokerErrorKind::NoSpace);
        drop(last);
        fs::remove_file(&filler).unwrap();
        store.put("q", &message("after", &*clock)).await.unwrap();
        stored.push("after".to_owned());
        drop(store);
        let store = open(&path).await.unwrap();
        assert_eq!(drain(&store, "q").await, stored);
        open(&folder.join("another.sqlite")).await.unwrap();
    });
}

#[test]
fn a_disk_that_cannot_be_written_is_named() {
    let setup = "mount -t tmpfs tmpfs \"$1\"; mkdir \"$1/empty\"";
    let Some(folder) = mounted(a_disk_that_cannot_be_written_is_named, setup) else { return };
    let path = folder.join("messages.sqlite");
    runtime().block_on(async {
        let clock = Hands::new();
        let store = open(&path).await.unwrap();
        store.put("q", &message("m", &*clock)).await.unwrap();
        drop(store);
        let remount = |how: &str| {
            let remounted = Command::new("mount").args(["-o", how]).arg(&folder).status().unwrap();
            assert!(remounted.success());
        };
        remount("remount,bind,ro");
        for path in [&path, &folder.join("empty/new/messages.sqlite")] {
            let error = open(path).await.unwrap_err();
            assert_eq!(error.kind, BrokerErrorKind::Failed, "{error}");
            assert!(
                error.message.contains(&path.display().to_string()) && !error.advice.is_empty(),
                "{error}"
            );
        }
        remount("remount,bind,rw");
        let store = Arc::new(open(&path).await.unwrap());
        assert_eq!(take(&*store, "q").await.unwrap().deliveries, 1);
    });
}
