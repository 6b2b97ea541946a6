//! The journal of a home: workspaces write it, whatever becomes of it; processes share it; readers wait on it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use nexus_files::{Journal, JournalEntry, JournalKind, JournalRead};
use nexus_testkit::{child_test, effort};
use nexus_work::{JournalWatch, NewWorkspace};
use serde_json::json;

use crate::support::Work;

type Workspaces = nexus_work::Workspaces<Work>;

/// The home that a started process writes to.
const HOME: &str = "NEXUS_TEST_JOURNAL_HOME";
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);
/// So small that a file holds some forty entries.
const SMALL: u64 = 4_000;

fn started_for() -> Option<PathBuf> {
    std::env::var_os(HOME).map(PathBuf::from)
}

fn start<T>(test: T, home: &Path) -> Child {
    child_test::command(test).env(HOME, home).stdout(Stdio::piped()).spawn().unwrap()
}

fn workspaces(home: &Path) -> Workspaces {
    Workspaces::below(home.join("tasks")).with_journal(Arc::new(Journal::in_home(home)))
}

/// Waits in a runtime of its own.
fn wait<T>(waiting: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(waiting)
}

fn entries(read: JournalRead) -> Vec<JournalEntry> {
    match read {
        JournalRead::Entries(entries) => entries,
        JournalRead::Rescan { last } => panic!("a scan up to {last}"),
    }
}

/// Entries of a watch until one says `last`. The watch has scanned.
fn followed(watch: &mut JournalWatch, last: &str) -> Vec<JournalEntry> {
    wait(async {
        let mut all = Vec::new();
        while all.last().is_none_or(|entry: &JournalEntry| entry.what != last) {
            all.extend(entries(watch.changed(LONG).await.unwrap().expect("an entry was missed")));
        }
        all
    })
}

fn scanned(journal: Journal) -> JournalWatch {
    let mut watch = JournalWatch::of(Arc::new(journal));
    let first = wait(watch.changed(LONG)).unwrap();
    assert!(matches!(first, Some(JournalRead::Rescan { .. })), "{first:?}");
    watch
}

/// Appends as often as a writer must that gives up after a second.
fn append(journal: &Journal, id: &str, what: &str) -> u64 {
    (0..100).find_map(|_| journal.append(JournalKind::Task, id, what).ok()).expect("the lock is never free")
}

#[test]
fn every_change_of_a_workspace_has_an_entry() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = workspaces(home.path());
    let parent = workspaces.create(NewWorkspace::new(Work::Created)).unwrap();
    let mut watch = scanned(Journal::in_home(home.path()));
    let child = workspaces.create(NewWorkspace::new(Work::Created).with_parent(parent.id().clone())).unwrap();
    child.update(|status| status.state = Work::Running).unwrap();
    child.update(|_| ()).unwrap();
    child.append("turn_ended", json!({})).unwrap();
    workspaces.remove(child.id()).unwrap();
    let (parent, child) = (parent.id().as_str(), child.id().as_str());
    let found = followed(&mut watch, "removed");
    let found: Vec<_> = found.iter().map(|entry| (entry.id.as_str(), entry.what.as_str())).collect();
    let expected = [
        (parent, "changed"),
        (child, "created"),
        (child, "changed"),
        (child, "turn_ended"),
        (child, "removed"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_workspace_is_changed_though_the_journal_cannot_be_written() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("journal.jsonl")).unwrap();
    let workspaces = workspaces(home.path());
    let work = workspaces.create(NewWorkspace::new(Work::Created)).unwrap();
    work.update(|status| status.state = Work::Running).unwrap();
    assert_eq!(work.append("step", json!(1)).unwrap().sequence, 1);
    assert_eq!(work.status().unwrap().state, Work::Running);
    workspaces.remove(work.id()).unwrap();
}

#[test]
fn eight_processes_number_without_a_gap_while_a_reader_waits_and_the_files_rotate() {
    const ENTRIES: usize = 30;
    if let Some(home) = started_for() {
        let journal = Journal::in_home(&home).with_max_bytes(SMALL);
        for number in 0..ENTRIES {
            append(&journal, &std::process::id().to_string(), &number.to_string());
        }
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let journal = || Journal::in_home(home.path()).with_max_bytes(SMALL);
    let first = append(&journal(), "", "first");
    let mut watch = scanned(journal());
    let test = eight_processes_number_without_a_gap_while_a_reader_waits_and_the_files_rotate;
    let found = thread::scope(|scope| {
        // A reader that is slower than two rotations is sent to the state.
        let reader = scope.spawn(|| {
            wait(async {
                let mut all: Vec<JournalEntry> = Vec::new();
                while all.last().is_none_or(|entry| entry.what != "last") {
                    match watch.changed(LONG).await.unwrap().expect("an entry was missed") {
                        JournalRead::Entries(entries) => all.extend(entries),
                        JournalRead::Rescan { .. } => {}
                    }
                }
                all
            })
        });
        let writers: Vec<_> = (0..8).map(|_| start(test, home.path())).collect();
        for writer in writers {
            child_test::assert_passed("a writer", &writer.wait_with_output().unwrap());
        }
        assert_eq!(append(&journal(), "", "last"), first + 8 * ENTRIES as u64 + 1);
        reader.join().unwrap()
    });
    let numbers: Vec<u64> = found.iter().map(|entry| entry.seq).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
    let writers: BTreeSet<_> = found.iter().map(|entry| entry.id.as_str()).collect();
    assert!(writers.len() > 1);
}

#[test]
fn a_killed_writer_leaves_a_journal_that_the_next_one_continues() {
    if let Some(home) = started_for() {
        let journal = Journal::in_home(&home).with_max_bytes(SMALL);
        loop {
            println!("seq {}", append(&journal, &"x".repeat(500), "written"));
        }
    }
    let home = tempfile::tempdir().unwrap();
    let journal = || Journal::in_home(home.path()).with_max_bytes(SMALL);
    for round in 0..effort::rounds() as u64 {
        let mut watch = scanned(journal());
        let test = a_killed_writer_leaves_a_journal_that_the_next_one_continues;
        let mut writer = start(test, home.path());
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = |line: &str| line.strip_prefix("seq ").and_then(|seq| seq.parse::<u64>().ok());
        let mut last = output.find_map(|line| said(&line)).expect("it writes until it is killed");
        // Another number for each round, which the seed changes.
        let moment = (round + 1).wrapping_add(effort::seed() << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        thread::sleep(Duration::from_micros(moment % 3_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        last = output.filter_map(|line| said(&line)).last().unwrap_or(last);
        let found = journal().last_seq().unwrap();
        assert!(found == last || found == last + 1, "{last} was appended, and {found} is the last");
        assert_eq!(append(&journal(), "next", "next"), found + 1);
        // A reader over many rotations is sent to the state, and gets what follows.
        let read = wait(watch.changed(LONG)).unwrap().unwrap();
        match read {
            JournalRead::Entries(entries) => assert_eq!(entries.last().unwrap().seq, found + 1),
            JournalRead::Rescan { last } => assert_eq!(last, found + 1),
        }
    }
}

#[test]
fn a_wait_ends_with_its_time_and_a_scan_is_due_again() {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::in_home(home.path()));
    let mut watch = JournalWatch::of(Arc::clone(&journal)).with_scans_every(LONG);
    assert_eq!(wait(watch.changed(LONG)).unwrap(), Some(JournalRead::Rescan { last: 0 }));
    assert_eq!(wait(watch.changed(Duration::from_millis(20))).unwrap(), None);
    // The first entry of a home creates the file.
    let seq = append(&journal, "a", "created");
    assert_eq!(wait(watch.changed(LONG)).unwrap(), Some(JournalRead::Rescan { last: seq }));
    append(&journal, "a", "changed");
    assert_eq!(entries(wait(watch.changed(LONG)).unwrap().unwrap())[0].what, "changed");
    let mut watch = watch.with_scans_every(Duration::ZERO);
    assert_eq!(wait(watch.changed(LONG)).unwrap(), Some(JournalRead::Rescan { last: seq + 1 }));
}

#[test]
fn an_entry_wakes_a_reader_of_a_home_that_is_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    append(&Journal::in_home(&real), "a", "first");
    let mut watch = scanned(Journal::in_home(&link));
    let writer = thread::spawn(move || {
        for what in ["second", "last"] {
            append(&Journal::in_home(&real), "a", what);
        }
    });
    assert_eq!(followed(&mut watch, "last").len(), 2);
    writer.join().unwrap();
}

#[test]
fn a_full_disk_loses_entries_and_no_state() {
    if let Some(home) = started_for() {
        return fill_the_disk(&home);
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    // The disk is there for the started process alone, and gone with it.
    let script = "mount -t tmpfs -o size=256k small \"$1\" || exit 77; shift; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", script, "sh", disk]);
    match child_test::through(launcher, a_full_disk_loses_entries_and_no_state).env(HOME, disk).output() {
        Ok(output) if matches!(output.status.code(), Some(0 | 101)) => {
            child_test::assert_passed("the writer on a small disk", &output);
        }
        unable => eprintln!("skipped: no small disk can be mounted ({unable:?})"),
    }
}

fn fill_the_disk(home: &Path) {
    let work = workspaces(home).create(NewWorkspace::new(Work::Created)).unwrap();
    let journal = Journal::in_home(home);
    let filler = home.join("filler");
    let fill = |pages: usize| fs::write(&filler, vec![0; pages * 4_096]);
    let room = (1..=64).rev().find(|pages| fill(*pages).is_ok()).unwrap();
    // A longer text needs a new page of the disk soon.
    let failure = loop {
        if let Err(error) = journal.append(JournalKind::Task, &"x".repeat(1_000), "w") {
            break error;
        }
    };
    assert_eq!(failure.kind(), std::io::ErrorKind::StorageFull);
    let last = journal.last_seq().unwrap();
    assert!(fs::read(journal.path()).unwrap().ends_with(b"}\n"), "no part of an entry stays");
    fill(room / 2).unwrap();
    work.update(|status| status.data = json!("after")).unwrap();
    assert_eq!(entries(journal.read_after(last).unwrap())[0].what, "changed");
}

#[test]
fn a_read_only_home_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let seq = append(&journal, "a", "created");
    fs::set_permissions(journal.path(), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(journal.last_seq().unwrap(), seq);
    let mut watch = scanned(Journal::in_home(home.path()));
    assert_eq!(wait(watch.changed(Duration::from_millis(20))).unwrap(), None);
    // Root writes everywhere.
    if let Some(failure) = journal.record(JournalKind::Task, "a", "changed") {
        assert_eq!(failure.kind(), std::io::ErrorKind::PermissionDenied);
        assert_eq!(journal.last_seq().unwrap(), seq);
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
}
