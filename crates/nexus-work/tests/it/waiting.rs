//! Waiting for a change: none is missed, many wait at once, and what is removed ends the wait.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use nexus_files::FileLock;
use nexus_testkit::child_test;
use nexus_work::{
    LockedWork, NewWorkspace, WorkWatch, WorkspaceErrorKind as Kind, WorkspaceStatus, lock_file,
};
use serde_json::json;

use crate::{indexed::AnyFault, support::Work};

type Workspace = nexus_work::Workspace<Work>;
type Workspaces = nexus_work::Workspaces<Work>;

/// The workspace that a started process changes, or waits for.
const FOLDER: &str = "NEXUS_TEST_WORKSPACE";
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);
const CHANGES: u64 = 300;
/// How many changes are made before all waiters are waited for.
const BURST: u64 = 15;
const WAITERS: usize = 40;
/// How often a waiter looks by itself, though nothing wakes it.
const LOOK: Duration = Duration::from_secs(5);

fn new_workspace() -> (tempfile::TempDir, Workspaces, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::below(folder.path());
    let workspace = workspaces.create(NewWorkspace::new(Work::Created).with_data(json!(0))).unwrap();
    (folder, workspaces, workspace)
}

/// Waits in a runtime of its own.
fn wait<T>(waiting: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(waiting)
}

fn count(workspace: &Workspace) {
    workspace.update(|status| status.data = json!(status.data.as_u64().unwrap() + 1)).unwrap();
}

/// Follows the changes until so many were made.
fn follow(workspace: &Workspace, mut status: WorkspaceStatus<Work>, changes: u64) -> WorkspaceStatus<Work> {
    while status.data.as_u64().unwrap() < changes {
        let next = wait(workspace.wait_for_change(&status, LONG)).unwrap().expect("a change was missed");
        assert!(next.generation() > status.generation(), "the truth went back");
        status = next;
    }
    status
}

#[test]
fn what_changed_before_is_not_waited_for() {
    let (_folder, _, workspace) = new_workspace();
    let before = workspace.status().unwrap();
    count(&workspace);
    let after = wait(workspace.wait_for_change(&before, LONG)).unwrap().unwrap();
    assert_eq!((after.generation(), &after.data), (2, &json!(1)));
    let found = wait(workspace.wait_until(LONG, |status| status.data == 1)).unwrap().unwrap();
    assert_eq!(found, after);
}

#[test]
fn a_wait_ends_with_its_time() {
    let (_folder, _, workspace) = new_workspace();
    let status = workspace.status().unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(350)] {
        let began = Instant::now();
        // An event is no change of the status.
        workspace.append("step", json!(1)).unwrap();
        assert_eq!(wait(workspace.wait_for_change(&status, timeout)).unwrap(), None);
        assert!(began.elapsed() >= timeout);
        let mut asked = 0;
        let never = wait(workspace.wait_until(timeout, |_| {
            asked += 1;
            false
        }));
        assert!(never.unwrap().is_none() && asked > 0);
    }
}

#[test]
fn every_change_wakes_every_waiter() {
    let (_folder, _, workspace) = new_workspace();
    let bursts = CHANGES / BURST;
    let all = Barrier::new(WAITERS + 1);
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let mut status = workspace.status().unwrap();
                for burst in 1..=bursts {
                    status = follow(&workspace, status, burst * BURST);
                    all.wait();
                }
            });
        }
        for _ in 0..bursts {
            for _ in 0..BURST {
                count(&workspace);
            }
            all.wait();
        }
    });
    // Waiters that nothing wakes see the end of each burst when they look by themselves.
    assert!(began.elapsed() < LOOK * u32::try_from(bursts).unwrap() * 3 / 5, "wakes are missed");
}

#[test]
fn what_another_process_writes_wakes() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let workspace = Workspace::open(folder).unwrap();
        for _ in 0..CHANGES {
            count(&workspace);
        }
        return;
    }
    let (_folder, _, workspace) = new_workspace();
    let before = workspace.status().unwrap();
    let writer = child_test::command(what_another_process_writes_wakes)
        .env(FOLDER, workspace.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    follow(&workspace, before, CHANGES);
    child_test::assert_passed("the writer", &writer.wait_with_output().unwrap());
}

#[test]
fn a_final_state_ends_the_wait() {
    let (_folder, _, workspace) = new_workspace();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(workspace.wait_until(LONG, |status| status.is_final())));
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(30));
            count(&workspace);
        }
        workspace.update(|status| status.state = Work::Failed("at last".to_owned())).unwrap();
        let status = waiter.join().unwrap().unwrap().unwrap();
        assert_eq!((&status.state, &status.data), (&Work::Failed("at last".to_owned()), &json!(3)));
    });
}

/// What the waiter is told when something is done to the workspace that it waits for.
fn end_of_wait(does: impl Fn(&Workspaces, &Workspace)) -> Kind {
    const TIMES: u32 = 10;
    let once = || {
        let (_folder, workspaces, workspace) = new_workspace();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(workspace.wait_until(LONG, |_| false)));
            // It waits by then. If it does not, it finds out before it waits.
            thread::sleep(Duration::from_millis(50));
            does(&workspaces, &workspace);
            waiter.join().unwrap().unwrap_err().kind()
        })
    };
    let began = Instant::now();
    let kinds: Vec<Kind> = (0..TIMES).map(|_| once()).collect();
    // A waiter that nothing wakes finds out when it looks by itself.
    assert!(began.elapsed() < LOOK * TIMES * 3 / 5, "{:?} after {:?}", kinds[0], began.elapsed());
    assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{kinds:?}");
    kinds[0]
}

#[test]
fn what_is_removed_ends_the_wait() {
    let remove = |workspace: &Workspace| fs::remove_dir_all(workspace.path()).unwrap();
    assert_eq!(end_of_wait(|_, workspace| remove(workspace)), Kind::NotFound);
    let status = |workspace: &Workspace| workspace.path().join("status.json");
    assert_eq!(end_of_wait(|_, workspace| fs::remove_file(status(workspace)).unwrap()), Kind::NotFound);
    let moved = end_of_wait(|workspaces, workspace| {
        fs::rename(workspace.path(), workspaces.path().join("elsewhere")).unwrap();
    });
    assert_eq!(moved, Kind::NotFound);
    let again = end_of_wait(|workspaces, workspace| {
        let aside = workspaces.path().join(".aside");
        fs::rename(workspace.path(), &aside).unwrap();
        workspaces.create(NewWorkspace::new(Work::Created).with_id(workspace.id().clone())).unwrap();
    });
    assert_eq!(again, Kind::NotFound, "another one of its name is another one");
    let (_folder, _, workspace) = new_workspace();
    let seen = workspace.status().unwrap();
    remove(&workspace);
    assert_eq!(wait(workspace.wait_for_change(&seen, LONG)).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn what_is_spoilt_ends_the_wait() {
    let kind = end_of_wait(|workspaces, workspace| {
        let spoilt = workspaces.path().join("spoilt");
        fs::write(&spoilt, "{").unwrap();
        fs::rename(spoilt, workspace.path().join("status.json")).unwrap();
    });
    assert!(matches!(kind, Kind::Malformed { .. }), "{kind:?}");
}

#[test]
fn a_lock_that_is_released_wakes_those_who_wait_for_it() {
    const TIMES: u32 = 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".step");
    let lock = || FileLock::try_lock(&path).unwrap().unwrap();
    let began = Instant::now();
    for _ in 0..TIMES {
        let owner = lock();
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| wait(lock_file(&path, Some(LONG))).unwrap().map(drop)))
                .collect();
            thread::sleep(Duration::from_millis(20));
            drop(owner);
            for waiter in waiters {
                // One after the other: each releases it at once.
                waiter.join().unwrap().expect("it is free");
            }
        });
    }
    assert!(began.elapsed() < LOOK * TIMES * 3 / 5, "wakes are missed");
    let _owner = lock();
    assert!(wait(lock_file(&path, Some(Duration::from_millis(50)))).unwrap().is_none());
}

/// Work as a service has it.
#[derive(Clone)]
struct OwnedWork(Workspace);

impl LockedWork for OwnedWork {
    type State = Work;
    type ErrorKind = AnyFault;
    const LOCK: &'static str = ".step";

    fn workspace(&self) -> &Workspace {
        &self.0
    }
}

#[test]
fn each_change_of_a_piece_of_work_wakes_its_watch() {
    const TIMES: u32 = 4;
    let (_folder, _, workspace) = new_workspace();
    let in_folder = |name: &str| workspace.path().join(name);
    fs::write(in_folder("turns.jsonl"), "").unwrap();
    let append = |name: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(in_folder(name)).unwrap();
        std::io::Write::write_all(&mut file, b"{}\n").unwrap();
    };
    let changes: [(&str, &mut dyn FnMut()); 4] = [
        ("a status", &mut || count(&workspace)),
        ("an event", &mut || drop(workspace.append("step", json!(1)).unwrap())),
        ("a turn", &mut || append("turns.jsonl")),
        ("a released lock", &mut || drop(FileLock::try_lock(&in_folder(".step")).unwrap().unwrap())),
    ];
    for (name, change) in changes {
        let began = Instant::now();
        wait(async {
            let mut watch = WorkWatch::of(&OwnedWork(workspace.clone()));
            for _ in 0..TIMES {
                change();
                watch.changed().await;
            }
        });
        assert!(began.elapsed() < LOOK * TIMES * 3 / 5, "{name} does not wake");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::inotify;

    use super::*;

    /// Whether this process has a watch of the system's on a folder.
    fn is_watched(folder: &Path) -> bool {
        let inode = format!(" ino:{:x} ", fs::metadata(folder).unwrap().ino());
        let descriptors = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let mut infos = descriptors.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        infos.any(|info| info.lines().any(|line| line.starts_with("inotify ") && line.contains(&inode)))
    }

    #[test]
    fn a_waiter_has_a_watch_and_gives_it_back() {
        let (_folder, _, workspace) = new_workspace();
        if inotify::init(inotify::CreateFlags::CLOEXEC).is_err() {
            eprintln!("skipped: this user has no inotify instances left");
            return;
        }
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(workspace.wait_until(LONG, |status| status.is_final())));
            let began = Instant::now();
            while !is_watched(workspace.path()) {
                assert!(began.elapsed() < LONG && !waiter.is_finished(), "it polls");
                thread::sleep(Duration::from_millis(1));
            }
            workspace.update(|status| status.state = Work::Failed("at last".to_owned())).unwrap();
            assert!(waiter.join().unwrap().unwrap().is_some());
        });
        assert!(!is_watched(workspace.path()));
    }

    #[test]
    fn without_a_watch_of_the_systems_a_change_is_seen_all_the_same() {
        if let Some(folder) = std::env::var_os(FOLDER) {
            inotify::init(inotify::CreateFlags::CLOEXEC).expect_err("there are watches");
            let workspace = Workspace::open(folder).unwrap();
            let before = workspace.status().unwrap();
            fs::write(workspace.path().join("begun"), "").unwrap();
            follow(&workspace, before, CHANGES);
            fs::write(workspace.path().join("seen"), "").unwrap();
            let error = wait(workspace.wait_until(LONG, |_| false)).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
            return;
        }
        let (_folder, _, workspace) = new_workspace();
        // In a user namespace of its own the started process alone has no instances to have.
        let script = "echo 0 > /proc/sys/user/max_inotify_instances || exit 77; exec \"$@\"";
        let mut launcher = Command::new("unshare");
        launcher.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
        let child =
            child_test::through(launcher, without_a_watch_of_the_systems_a_change_is_seen_all_the_same)
                .env(FOLDER, workspace.path())
                .stdout(Stdio::piped())
                .spawn();
        let Ok(mut child) = child else { return eprintln!("skipped: there is no `unshare`") };
        let began = Instant::now();
        while !workspace.path().join("seen").exists() {
            let is_begun = workspace.path().join("begun").exists();
            if is_begun && workspace.status().unwrap().data.as_u64().unwrap() < CHANGES {
                count(&workspace);
            }
            thread::sleep(Duration::from_millis(2));
            match child.try_wait().unwrap() {
                Some(status) if status.code() == Some(101) => panic!("the waiter failed"),
                Some(status) => return eprintln!("skipped: no user namespace can be had ({status})"),
                None => assert!(began.elapsed() < LONG),
            }
        }
        fs::remove_dir_all(workspace.path()).unwrap();
        child_test::assert_passed("the waiter", &child.wait_with_output().unwrap());
    }
}
