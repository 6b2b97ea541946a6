//! A host that is killed, and a disk that is full.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use nexus_core::CancelToken;
use nexus_tasks::{CheckError, Checks, ProbeSides, ProbeStore, TaskErrorKind};
use nexus_testkit::{child_test, effort};
use nexus_trees::{Git, Tree};

use super::kit::{Kit, alive_with, has_all, has_git, probe, scratch_folders, settings, unsandboxed, until};

/// Set in a test that was started again: the folder of the task.
const TASK: &str = "NEXUS_TEST_TASK";

fn is_full(error: &CheckError) -> bool {
    matches!(error, CheckError::File(error) if error.kind == TaskErrorKind::NoSpace)
}

/// Starts one test again as another host.
fn start<T>(test: T, task: &Path) -> Child {
    let mut command = child_test::command(test);
    command.env(TASK, task).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Checks of the task in a folder, as another host has them.
fn checks_in(task: &Path, settings: &nexus_tasks::TaskSettings) -> (Checks, ProbeSides) {
    let tree = Tree::open(&Git::find().unwrap(), task).unwrap();
    let base = tree.base().commit.clone();
    let sides = ProbeSides { task_base: base.clone(), step_base: base.clone(), now: base };
    let store = ProbeStore::new(task.join("probes"));
    (Checks::new(tree, task.join("checks"), task.join("project"), settings, store), sides)
}

#[tokio::test]
async fn hosts_killed_while_they_store_leave_whole_records_and_no_number_twice() {
    if let Some(task) = env::var_os(TASK) {
        let (checks, sides) = checks_in(Path::new(&task), &unsandboxed(&[]));
        loop {
            checks.run_probe(probe(&[], &["/bin/echo", "x"]), &sides, &CancelToken::new()).await.unwrap();
        }
    }
    if !has_git() {
        return;
    }
    let kit = Kit::new(&[]);
    let (task, store) = (kit.folder.path().join("task"), kit.store());
    let test = hosts_killed_while_they_store_leave_whole_records_and_no_number_twice;
    let mut last = Vec::new();
    for round in 0..effort::rounds() {
        let mut hosts: Vec<_> = (0..2).map(|_| start(test, &task)).collect();
        let wanted = last.len() + 3 + round % 3;
        until("probes are stored", || store.numbers().unwrap().len() >= wanted).await;
        tokio::time::sleep(Duration::from_micros(700 * round as u64)).await;
        for host in &mut hosts {
            host.kill().unwrap();
            host.wait().unwrap();
        }
        let numbers = store.numbers().unwrap();
        assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
        assert!(numbers.len() >= wanted);
        for number in &numbers[last.len()..] {
            assert_eq!(store.read(*number).unwrap().number, *number);
        }
        last = numbers;
    }
    let (checks, sides) = checks_in(&task, &unsandboxed(&[]));
    let record = checks.run_probe(probe(&[], &["true"]), &sides, &CancelToken::new()).await.unwrap();
    assert_eq!(record.number as usize, last.len() + 1);
    let left = fs::read_dir(task.join("probes"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_str().unwrap().ends_with(".new"));
    assert_eq!(left.count(), 0);
    // Its room is one that a killed host held, and is as if none had.
    until("copies are gone", || scratch_folders(&kit) == 0).await;
}

#[tokio::test]
async fn a_killed_host_leaves_no_program_behind() {
    let word = |task: &Path| {
        format!("54321.{}", task.parent().unwrap().file_name().unwrap().to_str().unwrap().replace('.', ""))
    };
    if let Some(task) = env::var_os(TASK) {
        let task = PathBuf::from(task);
        let home = task.parent().unwrap().join("home");
        let (checks, sides) = checks_in(&task, &settings(&["sh", "-c", "sleep 1000 & wait", &word(&task)]));
        let run = checks.with_run_registry(home).run_tests(&sides.now, &CancelToken::new()).await;
        panic!("it ended: {run:?}");
    }
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[]);
    let task = kit.folder.path().join("task");
    let mut host = start(a_killed_host_leaves_no_program_behind, &task);
    until("the tests run", || alive_with(&word(&task)) >= 2).await;
    let home = kit.folder.path().join("home");
    assert_eq!(fs::read_dir(home.join("runs")).unwrap().count(), 1);
    host.kill().unwrap();
    host.wait().unwrap();
    nexus_process::run_registry::sweep(&home).unwrap();
    until("nothing runs", || alive_with(&word(&task)) == 0).await;
    assert_eq!(fs::read_dir(home.join("runs")).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_told_and_nothing_half_made_is_left() {
    if let Some(disk) = env::var_os(TASK) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(fill(Path::new(&disk)));
        return;
    }
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    // The disk is there for the started process alone, and gone with it.
    let script = "mount -t tmpfs -o size=4m small \"$1\" || exit 77; shift; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", script, "sh", disk]);
    let test = a_full_disk_is_told_and_nothing_half_made_is_left;
    match child_test::through(launcher, test).env(TASK, disk).output() {
        Ok(output) if matches!(output.status.code(), Some(0 | 101)) => {
            child_test::assert_passed("the host on a small disk", &output);
        }
        unable => eprintln!("NOT TESTED: no small disk can be mounted ({unable:?})"),
    }
}

/// Everything of checks on a disk of 4 MiB; the tree lies elsewhere.
async fn fill(disk: &Path) {
    let large = "x".repeat(600 << 10);
    let kit = Kit::new(&[("large", &large)]);
    let base = kit.base();
    let sides = ProbeSides { task_base: base.clone(), step_base: base.clone(), now: base.clone() };
    let store = ProbeStore::new(disk.join("probes"));
    let copies = disk.join("checks");
    let checks =
        Checks::new(kit.tree.clone(), copies.clone(), kit.project(), &unsandboxed(&["true"]), store.clone());
    let cancel = CancelToken::new();
    assert!(checks.run_tests(&base, &cancel).await.unwrap().run.is_green());
    // Room for the record and none for a copy.
    let filler = disk.join("filler");
    let fill_up = |leave: u64| {
        let mut bytes = 4_u64 << 20;
        while bytes > 0 {
            let free = || {
                let _ = fs::remove_file(&filler);
                fs::write(&filler, vec![0; usize::try_from(bytes).unwrap()])
            };
            match free() {
                Ok(()) => break,
                Err(_) => bytes -= 4096,
            }
        }
        fs::File::options().write(true).open(&filler).unwrap().set_len(bytes.saturating_sub(leave)).unwrap();
    };
    fill_up(200 << 10);
    let error = checks.run_probe(probe(&[], &["true"]), &sides, &cancel).await.unwrap_err();
    assert!(is_full(&error), "{error:?}");
    assert!(error.to_string().contains("free disk space"), "{error}");
    until("the half copy is gone", || fs::read_dir(copies.join("0/scratch")).unwrap().count() == 0).await;
    // A tree that cannot be checked out.
    let other = kit.change(&[("large", Some(&"y".repeat(700 << 10)))]);
    let error = checks.run_tests(&other, &cancel).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error:?}");
    // No room for the record.
    let elsewhere = |store: &ProbeStore| {
        Checks::new(kit.tree.clone(), kit.copies(), kit.project(), &unsandboxed(&[]), store.clone())
    };
    let checks = elsewhere(&store);
    assert_eq!(checks.run_probe(probe(&[], &["true"]), &sides, &cancel).await.unwrap().number, 1);
    fill_up(8 << 10);
    let long = || probe(&[], &["sh", "-c", "yes | head -c 60000"]);
    let error = checks.run_probe(long(), &sides, &cancel).await.unwrap_err();
    assert!(is_full(&error), "{error:?}");
    assert_eq!(store.numbers().unwrap(), [1]);
    let names = fs::read_dir(disk.join("probes")).unwrap().flatten();
    assert_eq!(names.filter(|entry| entry.file_name() != ".lock").count(), 1);
    fs::remove_file(&filler).unwrap();
    assert_eq!(checks.run_probe(long(), &sides, &cancel).await.unwrap().number, 2);
}
