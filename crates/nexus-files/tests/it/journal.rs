//! Entries are numbered without a gap, and a reader gets all of them or is sent to the state.

use std::{
    collections::BTreeSet,
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    thread,
};

use nexus_files::{FileLock, Journal, JournalEntry, JournalKind, JournalRead};

/// So small that a file holds some ten entries.
const SMALL: u64 = 1_000;

fn entries(journal: &Journal, after: u64) -> Vec<JournalEntry> {
    match journal.read_after(after).unwrap() {
        JournalRead::Entries(entries) => entries,
        JournalRead::Rescan { last } => panic!("after {after}, a scan up to {last}"),
    }
}

fn needs_scan(journal: &Journal, after: u64) -> bool {
    journal.read_after(after).unwrap() == JournalRead::Rescan { last: journal.last_seq().unwrap() }
}

fn whats(entries: &[JournalEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.what.as_str()).collect()
}

#[test]
fn a_reader_gets_what_was_appended_after_its_number() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    assert_eq!((journal.last_seq().unwrap(), entries(&journal, 0)), (0, Vec::new()));
    assert!(!journal.path().exists(), "reading creates nothing");
    let first = journal.append(JournalKind::Task, "a", "created").unwrap();
    assert_eq!(journal.append(JournalKind::Other("weather".to_owned()), "b", "rain").unwrap(), first + 1);
    assert_eq!(journal.append(JournalKind::Conversation, "c", "turn").unwrap(), first + 2);
    assert_eq!(journal.last_seq().unwrap(), first + 2);
    assert_eq!(whats(&entries(&journal, first)), ["rain", "turn"]);
    assert_eq!(entries(&journal, first)[0].kind, JournalKind::Other("weather".to_owned()));
    assert!(entries(&journal, first + 2).is_empty());
    for unknown in [0, first - 2, first + 3, u64::MAX] {
        assert!(needs_scan(&journal, unknown), "{unknown}");
    }
    let line = fs::read_to_string(journal.path()).unwrap().lines().next().unwrap().to_owned();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let names: BTreeSet<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["id", "kind", "seq", "time", "what"]);
    assert_eq!(fs::metadata(journal.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn numbers_go_on_over_rotations_and_what_is_gone_needs_a_scan() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path()).with_max_bytes(SMALL);
    let first = journal.append(JournalKind::Task, "t", "0").unwrap();
    let mut seen = first;
    for number in 1..100 {
        assert_eq!(journal.append(JournalKind::Task, "t", &number.to_string()).unwrap(), first + number);
        // A reader that follows reads over every rotation.
        assert_eq!(whats(&entries(&journal, seen)), [number.to_string()]);
        seen += 1;
    }
    let files: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| file.metadata().unwrap().len() < 2 * SMALL));
    assert!(needs_scan(&journal, first + 10));
    let known = (first..=seen).find(|after| !needs_scan(&journal, *after)).unwrap();
    assert!(known < seen - 5, "the older file is read as well");
    assert_eq!(entries(&journal, known).len() as u64, seen - known);
    // A process that was killed in the middle of a rotation leaves no newer file.
    fs::rename(journal.path(), home.path().join("journal.1.jsonl")).unwrap();
    assert_eq!(journal.last_seq().unwrap(), seen);
    assert!(entries(&journal, seen).is_empty());
    assert_eq!(journal.append(JournalKind::Task, "t", "next").unwrap(), seen + 1);
    assert_eq!(whats(&entries(&journal, seen)), ["next"]);
}

#[test]
fn a_removed_journal_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let last = journal.append(JournalKind::Debate, "d", "created").unwrap();
    fs::remove_file(journal.path()).unwrap();
    assert!(needs_scan(&journal, last));
    journal.append(JournalKind::Debate, "d", "removed").unwrap();
    assert!(needs_scan(&journal, last));
}

#[test]
fn a_writer_that_is_stopped_at_any_byte_loses_its_own_entry_at_most() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let first =
        (0..3).map(|number| journal.append(JournalKind::Task, "t", &number.to_string()).unwrap()).min();
    let (first, whole) = (first.unwrap(), fs::read(journal.path()).unwrap());
    let start = whole.iter().take(whole.len() - 1).rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in start..=whole.len() {
        fs::write(journal.path(), &whole[..cut]).unwrap();
        // A line without its end is an entry if all of it is there.
        let last = if cut < whole.len() - 1 { first + 1 } else { first + 2 };
        assert_eq!(journal.last_seq().unwrap(), last, "cut at {cut}");
        assert_eq!(entries(&journal, first).last().unwrap().seq, last);
        assert_eq!(journal.append(JournalKind::Task, "t", "next").unwrap(), last + 1);
        assert_eq!(whats(&entries(&journal, last)), ["next"]);
    }
}

#[test]
fn lines_of_a_later_version_are_read_and_damage_needs_a_scan() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let time = "2026-01-31T12:00:00.000Z";
    let line = |seq: u64, more: &str| format!("{{\"seq\":{seq},\"time\":\"{time}\"{more}}}\n");
    let later = line(2, r#","kind":"weather","region":["north"]"#);
    let known = |seq| line(seq, r#","kind":"task","id":"t","what":"w""#);
    fs::write(journal.path(), format!("{}{later}{}", known(1), known(3))).unwrap();
    assert_eq!(entries(&journal, 1).len(), 2);
    assert_eq!(entries(&journal, 1)[0].kind, JournalKind::Other("weather".to_owned()));
    // Lines without a number that this version can read leave a gap.
    for damage in ["{}\n", "\0\0\0\n", "{\"seq\":18446744073709551615}\n", "{\"seq\":0}\n"] {
        fs::write(journal.path(), format!("{}{damage}{}", known(1), known(3))).unwrap();
        assert!(needs_scan(&journal, 1), "{damage:?}");
        assert_eq!(journal.append(JournalKind::Task, "t", "next").unwrap(), 4);
    }
}

#[test]
fn long_texts_are_cut_off() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let long = "\u{1}ü".repeat(100_000);
    let last = journal.append(JournalKind::from(long.as_str()), &long, &long).unwrap();
    journal.append(JournalKind::Task, "t", "w").unwrap();
    assert_eq!(whats(&entries(&journal, last)), ["w"]);
    assert!(fs::metadata(journal.path()).unwrap().len() < 16 << 10);
}

#[test]
fn eight_threads_number_without_a_gap_while_the_files_rotate() {
    let home = tempfile::tempdir().unwrap();
    let journal = || Journal::in_home(home.path()).with_max_bytes(SMALL);
    let first = journal().append(JournalKind::Task, "t", "first").unwrap();
    let write = |_| {
        let journal = journal();
        // A writer gives up after a second, which a busy machine may take.
        let append = || (0..100).find_map(|_| journal.append(JournalKind::Task, "t", "w").ok()).unwrap();
        (0..50).map(|_| append()).collect::<Vec<_>>()
    };
    let numbers: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let unique: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(unique, (first + 1..=first + 400).collect());
}

#[test]
fn a_journal_that_cannot_be_written_says_so_once() {
    type Prepare = fn(&Path);
    let prepare: [(&str, Prepare, ErrorKind); 3] = [
        ("a folder", |home| fs::create_dir(home.join("journal.jsonl")).unwrap(), ErrorKind::InvalidData),
        ("a link", |home| symlink("elsewhere", home.join("journal.jsonl")).unwrap(), ErrorKind::InvalidData),
        (
            "a folder as the older file",
            |home| {
                fs::write(home.join("journal.jsonl"), "x".repeat(2_000)).unwrap();
                fs::create_dir(home.join("journal.1.jsonl")).unwrap();
            },
            ErrorKind::IsADirectory,
        ),
    ];
    for (name, prepare, kind) in prepare {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        prepare(&home);
        let journal = Journal::in_home(&home).with_max_bytes(SMALL);
        let failure = journal.record(JournalKind::Task, "t", "w").unwrap();
        assert_eq!(failure.kind(), kind, "{name}");
        assert!(failure.to_string().contains("journal.jsonl"), "{failure}");
        assert!(journal.record(JournalKind::Task, "t", "w").is_none(), "{name}");
        assert_eq!(journal.append(JournalKind::Task, "t", "w").unwrap_err().kind(), kind, "{name}");
    }
}

#[test]
fn a_missing_home_gets_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(&folder.path().join("home"));
    assert_eq!(journal.append(JournalKind::Task, "t", "w").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(journal.record(JournalKind::Task, "t", "w").is_none());
    assert_eq!(journal.read_after(0).unwrap(), JournalRead::Entries(Vec::new()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_suspended_writer_is_not_waited_for_longer_than_a_second() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::in_home(home.path());
    let last = journal.append(JournalKind::Task, "t", "w").unwrap();
    let lock = FileLock::try_lock(journal.path()).unwrap().unwrap();
    assert_eq!(journal.append(JournalKind::Task, "t", "w").unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(journal.last_seq().unwrap(), last, "readers need no lock");
    drop(lock);
    assert_eq!(journal.append(JournalKind::Task, "t", "w").unwrap(), last + 1);
}
