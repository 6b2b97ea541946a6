//! A program that is to end with its host does so by the kernel, whatever holds it, and whichever thread started it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nexus_process::containment::{Containment, ContainmentPolicy, available};
use nexus_process::spawn::Process;
use nexus_testkit::child_test;

use super::support::{contained_shell, pids};

/// Tells the host that is killed where to work.
const FOLDER: &str = "NEXUS_TEST_FOLDER";

/// One program for each kind of containment. The thread that asked for them ends.
fn start(folder: &Path) -> Vec<Process> {
    let folder = folder.to_owned();
    let spawn = move || {
        let one = |kind: Containment| {
            let place = folder.join(kind.to_string().replace(' ', "-"));
            let script = "echo up >\"$0.up\"; exec tail -f \"$0.up\"";
            let policy = ContainmentPolicy::Exactly(kind);
            contained_shell(script).argument(place).containment(policy).end_with_host().spawn().unwrap()
        };
        available().into_iter().map(one).collect()
    };
    std::thread::spawn(spawn).join().unwrap()
}

/// How many programs have the folder in their arguments.
fn alive(folder: &Path) -> usize {
    let folder = folder.as_os_str().as_encoded_bytes();
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"tail\0-f\0") && line.windows(folder.len()).any(|part| part == folder)
    };
    pids().filter(has).count()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_is_to_end_with_its_host_is_killed_with_it() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let _processes = start(Path::new(&folder));
        return std::thread::sleep(Duration::from_secs(120));
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let count = available().len();
    let mut host = child_test::command(what_is_to_end_with_its_host_is_killed_with_it)
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let up = || fs::read_dir(folder.path()).unwrap().count();
    wait_until("every program is up", || up() == count);
    wait_until("every program has begun to wait", || alive(folder.path()) == count);
    // Longer than the thread lived that asked for them.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(alive(folder.path()), count, "a program ended with the thread that asked for it");
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until("a program outlives its host", || alive(folder.path()) == 0);
}
