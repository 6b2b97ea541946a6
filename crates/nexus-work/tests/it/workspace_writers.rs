//! Many writers of one workspace, threads and processes, and writers that are killed.
//!
//! A test that finds its variable in the environment was started again, and is one of the writers.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::{child_test, effort};
use nexus_work::{NewWorkspace, WorkspaceError, WorkspaceErrorKind, WorkspaceStatus};
use serde_json::{Value, json};

use crate::support::Work;

type Workspace = nexus_work::Workspace<Work>;
type Workspaces = nexus_work::Workspaces<Work>;

/// The folder of the workspace that a started process writes to.
const FOLDER: &str = "NEXUS_TEST_WORKSPACE";
const WRITERS: u64 = 8;
const CHANGES: u64 = 40;
/// How often the writer of one workspace is killed.
const KILLS: usize = 15;
/// How late a writer is killed at most after it was seen to write, in microseconds.
const LATEST: u64 = 9_000;
/// So large that the one write takes a while.
const EVENT_BYTES: usize = 64 << 10;

fn folder_to_write_to() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Starts one test again as a writer.
fn start<T>(test: T, folder: &Path) -> Child {
    child_test::command(test).env(FOLDER, folder).stdout(Stdio::piped()).spawn().unwrap()
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

/// Says that a reader saw the workspace change.
fn seen_by_reader(workspace: &Workspace) -> PathBuf {
    workspace.path().with_extension("seen")
}

/// Writes, again while the lock is busy: a writer gives up after 30 seconds, and on a busy machine seven others can have the
/// lock for as long. A write that gave up changed nothing, which the final count shows.
fn write<T>(write: impl Fn() -> Result<T, WorkspaceError>) -> T {
    let began = Instant::now();
    loop {
        match write() {
            Err(error)
                if error.kind() == WorkspaceErrorKind::InUse
                    && began.elapsed() < Duration::from_secs(600) => {}
            written => return written.unwrap(),
        }
    }
}

/// Counts up. Half way it waits until a reader has seen two generations.
fn count_and_tell(workspace: &Workspace) {
    for change in 0..CHANGES {
        let began = Instant::now();
        while change == CHANGES / 2 && !seen_by_reader(workspace).exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "no reader sees a change");
            thread::sleep(Duration::from_millis(1));
        }
        write(|| workspace.update(count_up));
        write(|| workspace.append("counted", json!({ "by": std::process::id() })));
    }
}

/// Reads until told to stop.
fn read_along(workspace: &Workspace, is_over: &AtomicBool) {
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
        if seen == 2 {
            fs::write(seen_by_reader(workspace), "").unwrap();
        }
    }
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
        for _ in 0..2 {
            scope.spawn(|| read_along(&workspace, &is_over));
        }
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| count_and_tell(&workspace))).collect();
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a writer failed");
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
        scope.spawn(|| read_along(&workspace, &is_over));
        let writers: Vec<_> =
            (0..WRITERS).map(|_| start(eight_processes_lose_nothing, workspace.path())).collect();
        let outputs: Vec<_> = writers.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        for output in outputs {
            child_test::assert_passed("a writer", &output);
        }
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
    let (is_over, all_read) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|scope| {
        let read = || {
            let read = || {
                let log = workspace.events().unwrap();
                assert_eq!(log.torn.len(), 0, "nobody was stopped");
                log.events.len()
            };
            assert_eq!(read(), 1);
            all_read.wait();
            while !is_over.load(Ordering::Relaxed) {
                read();
            }
            assert_eq!(read(), 49);
        };
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        all_read.wait();
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
            reader.join().unwrap();
        }
    });
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

/// A number for each round, which the seed changes.
fn moment(round: usize) -> u64 {
    (round as u64 + 1).wrapping_add(effort::seed() << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
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
    let (mut torn, mut unfinished) = (0, 0);
    let (mut folder, mut workspace) = new_workspace();
    for round in 0..effort::rounds() {
        if round % KILLS == 0 {
            (folder, workspace) = new_workspace();
        }
        let mut writer = start(a_killed_writer_leaves_a_whole_workspace, workspace.path());
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        // At its first status, or at its first event, or soon after.
        let first = ["count ", "event "][round % 2];
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.starts_with(first)) {
            lines.push(output.next().expect("it writes until it is killed"));
        }
        thread::sleep(Duration::from_micros(moment(round) % LATEST));
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
        assert!(first == "count " || said > 0);

        // The lock of the dead is free, and the next writer goes on where they were.
        let reopened = Workspace::open(workspace.path()).unwrap();
        assert!(!has_unfinished(&workspace));
        assert_eq!(reopened.append("found", json!({ "round": round })).unwrap().sequence, events + 1);
        reopened.update(count_up).unwrap();
    }
    drop(folder);
    let kills = effort::rounds();
    println!("{kills} kills: {unfinished} left an unfinished status, {torn} a torn event");
}
