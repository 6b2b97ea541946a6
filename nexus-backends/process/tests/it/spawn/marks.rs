//! A program is marked before its first instruction, so that what it starts, scrubs and orphans at once is found as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nexus_process::containment::{Containment, ContainmentPolicy, available};
use nexus_process::executable::Executable;
use nexus_process::spawn::Invocation;
use nexus_testkit::{child_test, effort};

use super::support::pids;

const FOLDER: &str = "NEXUS_TEST_FOLDER";

fn alive(folder: &Path) -> Vec<u32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(folder.len()).any(|part| part == folder)
    };
    pids().filter(has).collect()
}

#[tokio::test]
async fn what_is_started_at_once_is_found() {
    if !Path::new("/usr/bin/prlimit").exists() || !Path::new("/usr/bin/taskset").exists() {
        return;
    }
    let folder = match std::env::var_os(FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let folder = tempfile::tempdir().unwrap();
            let source = folder.path().join("hostile.c");
            fs::write(&source, include_str!("../../fixtures/hostile.c")).unwrap();
            let program = folder.path().join("hostile");
            let built = Command::new("cc").arg("-O1").arg("-o").args([&program, &source]).status();
            assert!(built.expect("a C compiler").success());
            // On one processor the program runs before its host does again.
            let mut launcher = Command::new("taskset");
            launcher.args(["--cpu-list", "0"]).env(FOLDER, folder.path());
            child_test::runs_alone_through(launcher, what_is_started_at_once_is_found);
            return;
        }
    };
    let rounds = effort::rounds();
    for kind in available().into_iter().filter(|kind| *kind <= Containment::Subreaper) {
        let place = folder.join(kind.to_string());
        fs::create_dir(&place).unwrap();
        for _ in 0..rounds {
            let program = Executable::at(folder.join("hostile")).unwrap();
            let process = Invocation::new(program, "/")
                .argument("escape")
                .argument(&place)
                .containment(ContainmentPolicy::Exactly(kind))
                .end_with_host()
                .spawn()
                .unwrap();
            process.wait().await;
        }
        // What escapes at once is there by now; what was found may take a while to be gone.
        std::thread::sleep(Duration::from_millis(200));
        let until = Instant::now() + Duration::from_secs(60);
        let mut left = alive(&place);
        while !left.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            left = alive(&place);
        }
        for pid in &left {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        assert_eq!(left.len(), 0, "{kind}: of {rounds}");
    }
}
