//! Many writers of one workspace, threads and processes, and writers that are killed.
//!
//! A process that writes is this very test program again: a test that finds its variable in the environment plays the
//! part that the variable names, and is otherwise one of those that start such processes.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nexus_workspace::{NewWorkspace, WorkspaceStatus};
use serde_json::{Value, json};

mod work;

use work::Work;

type Workspace = nexus_workspace::Workspace<Work>;
type Workspaces = nexus_workspace::Workspaces<Work>;

/// The folder of the workspace that a started process writes to.
const FOLDER: &str = "NEXUS_TEST_WORKSPACE";
const WRITERS: u64 = 8;
const CHANGES: u64 = 40;
/// Of how many workspaces the writer is killed, and how often each.
const VICTIMS: u64 = 10;
const KILLS: u64 = 15;
/// So large that the one write takes a while.
const EVENT_BYTES: usize = 64 << 10;

fn folder_to_write_to() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// This test program again, which runs the one test of this name.
fn start(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn new_workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let new = NewWorkspace::new(Work::Created).with_data(json!({ "count": 0, "again": 0, "padding": "" }));
    let workspace = Workspaces::below(folder.path()).create(new).unwrap();
    (folder, workspace)
}

/// One more, at both ends of the data, with so much between them that no file of it is written by one call.
fn count_up(status: &mut WorkspaceStatus<Work>) {
    let next = status.data["count"].as_u64().unwrap() + 1;
    let padding = "0123456789".repeat(1_000 + usize::try_from(next % 7).unwrap() * 500);
    status.data = json!({ "again": next, "count": next, "padding": padding });
}

fn count_and_tell(workspace: &Workspace) {
    for _ in 0..CHANGES {
        workspace.update(count_up).unwrap();
        workspace.append("counted", json!({ "by": std::process::id() })).unwrap();
    }
}

/// Reads until told to stop. Returns how many different generations were seen.
fn read_along(workspace: &Workspace, is_over: &AtomicBool) -> u64 {
    let (mut generation, mut seen, mut events) = (0, 0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let status = workspace.status().unwrap();
        assert_eq!(status.data["count"], status.data["again"]);
        assert_eq!(status.data["count"], status.generation() - 1);
        assert!(status.generation() >= generation, "the truth went back");
        seen += u64::from(status.generation() > generation);
        generation = status.generation();
        let log = workspace.events().unwrap();
        assert!(log.torn.is_empty(), "nobody was stopped");
        assert!(log.events.len() >= events, "events went away");
        events = log.events.len();
    }
    seen
}

fn nothing_was_lost(workspace: &Workspace) {
    let status = workspace.status().unwrap();
    assert_eq!(status.data["count"], WRITERS * CHANGES);
    assert_eq!(status.generation(), WRITERS * CHANGES + 1);
    let log = workspace.events().unwrap();
    assert_eq!(log.events.len() as u64, WRITERS * CHANGES);
    assert!(log.torn.is_empty());
}

#[test]
fn eight_threads_lose_nothing() {
    let (_folder, workspace) = new_workspace();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_along(&workspace, &is_over))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| count_and_tell(&workspace))).collect();
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
        for reader in readers {
            assert!(reader.join().unwrap() > 10, "the reader saw hardly anything");
        }
    });
    nothing_was_lost(&workspace);
}

#[test]
fn eight_processes_lose_nothing() {
    if let Some(folder) = folder_to_write_to() {
        return count_and_tell(&Workspace::open(folder).unwrap());
    }
    let (_folder, workspace) = new_workspace();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_along(&workspace, &is_over));
        let writers: Vec<_> =
            (0..WRITERS).map(|_| start("eight_processes_lose_nothing", workspace.path())).collect();
        let outputs: Vec<_> = writers.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        for output in outputs {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        assert!(reader.join().unwrap() > 10, "the reader saw hardly anything");
    });
    nothing_was_lost(&workspace);
    let processes: std::collections::BTreeSet<_> =
        workspace.events().unwrap().events.iter().map(|event| event.data["by"].as_u64()).collect();
    assert_eq!(processes.len() as u64, WRITERS);
}

#[test]
fn an_event_that_is_being_written_is_not_taken_for_a_torn_one() {
    let (_folder, workspace) = new_workspace();
    workspace.append("first", Value::Null).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                let log = workspace.events().unwrap();
                assert_eq!(log.torn.len(), 0, "nobody was stopped");
                seen = log.events.len();
            }
            seen
        };
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        let lock = File::options().write(true).open(workspace.path().join(".lock")).unwrap();
        let mut log = File::options().append(true).open(workspace.path().join("events.jsonl")).unwrap();
        for sequence in 2..50 {
            // So long that the rest arrives while the reader still looks at the beginning.
            let data = "0123456789".repeat(10_000);
            let event =
                json!({ "data": data, "kind": "slow", "sequence": sequence, "time": "2026-01-31T12:00:00Z" });
            let line = format!("{event}\n");
            let (one, other) = line.split_at(line.len() - 100);
            lock.lock().unwrap();
            log.write_all(one.as_bytes()).unwrap();
            thread::yield_now();
            log.write_all(other.as_bytes()).unwrap();
            lock.unlock().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 1, "the reader saw nothing of it");
        }
    });
    assert_eq!(workspace.events().unwrap().events.len(), 49);
}

/// Writes until it is killed, and says what it believes to be on the disk.
fn write_until_killed(folder: PathBuf) -> ! {
    let workspace = Workspace::open(folder).unwrap();
    loop {
        workspace.update(count_up).unwrap();
        let count = workspace.status().unwrap().data["count"].clone();
        println!("count {count}");
        let sequence = workspace.append("counted", Value::from("x".repeat(EVENT_BYTES))).unwrap().sequence;
        println!("event {sequence}");
    }
}

/// Whether a status was begun, and is not in place.
fn has_unfinished(workspace: &Workspace) -> bool {
    let names = fs::read_dir(workspace.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with(".new"))
}

/// What a killed process said last of `what`.
fn last_said(lines: &[String], what: &str) -> u64 {
    let mut numbers = lines.iter().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok());
    numbers.next_back().unwrap_or_default()
}

#[test]
fn a_killed_writer_leaves_a_whole_workspace() {
    if let Some(folder) = folder_to_write_to() {
        write_until_killed(folder);
    }
    let (mut torn, mut unfinished, mut busy) = (0, 0, 0);
    let (mut folder, mut workspace) = new_workspace();
    for round in 0..VICTIMS * KILLS {
        if round % KILLS == 0 {
            (folder, workspace) = new_workspace();
        }
        let mut writer = start("a_killed_writer_leaves_a_whole_workspace", workspace.path());
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut lines: Vec<String> = output.by_ref().take_while(|line| !line.starts_with("count ")).collect();
        thread::sleep(Duration::from_micros(round.wrapping_mul(2_654_435_761) % 9_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.extend(output);

        unfinished += u64::from(has_unfinished(&workspace));
        let status = workspace.status().unwrap();
        assert_eq!(status.data["count"], status.data["again"]);
        let count = status.data["count"].as_u64().unwrap();
        assert_eq!(count, status.generation() - 1);
        let said = last_said(&lines, "count ");
        assert!(count >= said, "what was on the disk is gone: {count} after {said}");
        let log = workspace.events().unwrap();
        torn += u64::from(log.torn_tail().is_some());
        let (events, said) = (log.events.len() as u64, last_said(&lines, "event "));
        assert!(events >= said, "what was on the disk is gone: {events} after {said}");
        busy += u64::from(said > 0);

        // The lock of the dead is free, and the next writer goes on where they were.
        let reopened = Workspace::open(workspace.path()).unwrap();
        assert!(!has_unfinished(&workspace));
        assert_eq!(reopened.append("found", json!({ "round": round })).unwrap().sequence, events + 1);
        reopened.update(count_up).unwrap();
    }
    drop(folder);
    let kills = VICTIMS * KILLS;
    println!(
        "{kills} kills: {unfinished} left an unfinished status, {torn} a torn event; {busy} were well under way"
    );
    assert!(busy > kills / 4, "only {busy} of {kills} were killed well under way");
}
