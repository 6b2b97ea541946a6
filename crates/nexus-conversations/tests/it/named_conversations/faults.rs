//! Files that are not what was written there.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use nexus_conversations::{ConversationErrorKind as Kind, Conversations};
use nexus_core::ResumeHandle;
use nexus_testkit::child_test;
use proptest::prelude::*;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

use super::kit::{name, store, turn};

fn log(home: &Path) -> PathBuf {
    let mut entries = fs::read_dir(home.join("conversations/logs")).unwrap();
    entries.next().unwrap().unwrap().path()
}

fn of_two_turns(store: &Conversations) {
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("one", "two"), None).unwrap();
    held.add(turn("three", "four"), None).unwrap();
}

#[test]
fn each_change_of_a_log_is_noticed_and_nothing_is_swept() {
    let (home, store) = store();
    of_two_turns(&store);
    let path = log(home.path());
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        let error = store.load(&name("a")).unwrap_err();
        assert_eq!(error.kind, Kind::Damaged, "{at}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    // A damaged last turn is noticed before another one is paid for, and is not cut off.
    let mut changed = whole.clone();
    changed[whole.len() - 20] ^= 1;
    fs::write(&path, &changed).unwrap();
    assert_eq!(store.hold(&name("a")).unwrap_err().kind, Kind::Damaged);
    let list = store.list().unwrap();
    assert_eq!((list.conversations.len(), list.unreadable.len()), (0, 1));
    assert_eq!(fs::read(&path).unwrap(), changed);
    let unusable = || {
        assert_eq!(store.load(&name("a")).unwrap_err().kind, Kind::Damaged);
        let error = store.sweep().unwrap_err();
        assert_eq!(error.kind, Kind::Damaged);
        assert!(error.to_string().contains("the conversation a: "), "{error}");
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
    };
    fs::write(&path, &whole[..20]).unwrap();
    unusable();
    assert_eq!(store.load(&name("a")).unwrap_err().kind, Kind::Damaged);
    symlink("/dev/zero", &path).unwrap();
    unusable();
    fs::create_dir(&path).unwrap();
    unusable();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    unusable();
    fs::write(&path, whole).unwrap();
    assert_eq!(store.load(&name("a")).unwrap().messages().count(), 4);
}

/// A writer that is killed has written a part of a turn, of any length.
#[test]
fn a_torn_turn_is_not_there_and_the_next_one_takes_its_place() {
    let (home, store) = store();
    of_two_turns(&store);
    let path = log(home.path());
    let two = fs::read(&path).unwrap();
    store.hold(&name("a")).unwrap().add(turn("five", "six"), None).unwrap();
    let three = fs::read(&path).unwrap();
    for length in two.len()..three.len() {
        fs::write(&path, &three[..length]).unwrap();
        let mut held = store.hold(&name("a")).unwrap();
        assert_eq!((held.messages(), held.load().unwrap().turns.len()), (4, 2), "{length}");
        assert_eq!(store.summary(&name("a")).unwrap().messages, 4);
        if length % 16 == 0 {
            held.add(turn("seven", "eight"), None).unwrap();
            let said = format!("{:?}", store.load(&name("a")).unwrap());
            assert!(said.contains("seven") && !said.contains("five"), "{said}");
            assert!(fs::read(&path).unwrap().starts_with(&two));
        }
    }
    // Blocks that a power failure left without content.
    fs::write(&path, [two.as_slice(), &[0; 10]].concat()).unwrap();
    assert_eq!(store.load(&name("a")).unwrap().turns.len(), 2);
}

#[test]
fn a_damaged_name_is_told_beside_the_others_and_can_be_deleted() {
    let (home, store) = store();
    of_two_turns(&store);
    store.fork(&name("a"), &name("b"), None).unwrap();
    let path = home.path().join("conversations/names/b.json");
    for wrong in ["", "{", "[]", "{\"version\":1}", "{\"version\":2}", "{\"version\":1,\"name\":\"../x\"}"] {
        fs::write(&path, wrong).unwrap();
        let error = store.load(&name("b")).unwrap_err();
        assert_eq!(error.kind, Kind::Damaged, "{wrong}");
        assert!(error.to_string().contains("b.json"), "{error}");
        assert_eq!(store.hold(&name("b")).unwrap_err().kind, Kind::Damaged);
        assert_eq!(store.sweep().unwrap_err().kind, Kind::Damaged);
        let list = store.list().unwrap();
        assert_eq!((list.conversations.len(), list.unreadable.len()), (1, 1));
    }
    // What stands there is not told at any length.
    fs::write(&path, format!("{{\"version\":\"{}\"}}", "x".repeat(9000))).unwrap();
    assert!(store.load(&name("b")).unwrap_err().to_string().len() < 1000);
    // What is called as no conversation can be holds nothing up.
    let stray = path.with_file_name("\u{c4}.json");
    fs::write(&path, fs::read(path.with_file_name("a.json")).unwrap()).unwrap();
    fs::rename(&path, &stray).unwrap();
    assert!(store.list().unwrap().unreadable.is_empty());
    store.sweep().unwrap();
    fs::write(&path, "{\"version\":3,\"other\":[]}").unwrap();
    assert_eq!(store.load(&name("b")).unwrap_err().kind, Kind::NewerVersion);
    // That of another name, copied.
    fs::copy(home.path().join("conversations/names/a.json"), &path).unwrap();
    assert_eq!(store.load(&name("b")).unwrap_err().kind, Kind::Damaged);
    fs::remove_file(&path).unwrap();
    symlink("a.json", &path).unwrap();
    assert_eq!(store.load(&name("b")).unwrap_err().kind, Kind::Damaged);
    store.delete(&name("b")).unwrap();
    assert_eq!(store.load(&name("a")).unwrap().messages().count(), 4);
}

#[test]
fn one_of_a_later_version_is_not_deleted() {
    let (home, store) = store();
    of_two_turns(&store);
    let path = home.path().join("conversations/names/a.json");
    fs::write(&path, "{\"version\":3}").unwrap();
    assert_eq!(store.delete(&name("a")).unwrap_err().kind, Kind::NewerVersion);
    assert!(path.exists());
}

#[test]
fn names_that_differ_in_case_only_are_one() {
    let (_home, store) = store();
    of_two_turns(&store);
    for error in [
        store.load(&name("A")).unwrap_err(),
        store.hold(&name("A")).unwrap_err(),
        store.delete(&name("A")).unwrap_err(),
    ] {
        assert_eq!(error.kind, Kind::NameTaken);
        assert!(error.to_string().contains("only in case"), "{error}");
    }
    assert!(store.load(&name("a")).is_ok());
}

#[test]
fn what_a_later_version_adds_is_kept_where_files_are_rewritten() {
    let (home, store) = store();
    of_two_turns(&store);
    let path = home.path().join("conversations/names/a.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["colour"] = json!({ "of": [1.5, "blue"] });
    fs::write(&path, file.to_string()).unwrap();
    store.hold(&name("a")).unwrap().add(turn("five", "six"), None).unwrap();
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(file["colour"], json!({ "of": [1.5, "blue"] }));
}

#[test]
fn a_handle_that_could_not_be_read_back_is_as_a_lost_one() {
    let (_home, store) = store();
    let mut deep = json!(0);
    for _ in 0..500 {
        deep = json!([deep]);
    }
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("one", "two"), Some(ResumeHandle::new("alpha".into(), deep))).unwrap();
    drop(held);
    assert_eq!(store.summary(&name("a")).unwrap().resumes, None);
    assert_eq!(store.load(&name("a")).unwrap().messages().count(), 2);
}

/// A process that may write no further bytes gets an error after a part of them, as on a full disk, and no signal.
#[test]
fn a_turn_on_a_full_disk_leaves_the_conversation_as_it_was() {
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    if !child_test::runs_alone_through(ignoring, a_turn_on_a_full_disk_leaves_the_conversation_as_it_was) {
        return;
    }
    let (home, store) = store();
    of_two_turns(&store);
    let path = log(home.path());
    let whole = fs::read(&path).unwrap();
    let allow = |bytes| {
        setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: None }).unwrap();
    };
    let mut held = store.hold(&name("a")).unwrap();
    for more in [0, 1, 33, 34, 100, 300] {
        allow(whole.len() as u64 + more);
        let error = held.add(turn("five", "six"), None).unwrap_err();
        assert_eq!(error.kind, Kind::NoSpace, "{error}");
        let error = store.hold(&name("b")).unwrap().add(turn(&"x".repeat(2_000), ""), None).unwrap_err();
        assert_eq!(error.kind, Kind::NoSpace, "{error}");
        allow(1 << 30);
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(held.load().unwrap().messages().count(), 4);
    }
    held.add(turn("five", "six"), None).unwrap();
    assert_eq!(store.load(&name("a")).unwrap().messages().count(), 6);
    assert_eq!(store.list().unwrap().conversations.len(), 1);
}

#[test]
fn a_lock_that_is_none_is_told_and_one_that_is_left_goes_with_a_sweep() {
    let (home, store) = store();
    of_two_turns(&store);
    let locks = home.path().join("conversations/locks");
    fs::write(locks.join("left.lock"), "").unwrap();
    symlink("/dev/null", locks.join("b.lock")).unwrap();
    let error = store.hold(&name("b")).unwrap_err();
    assert!(error.to_string().contains("b.lock") && error.to_string().ends_with("remove it"), "{error}");
    fs::remove_file(locks.join("b.lock")).unwrap();
    // A fork that comes to nothing leaves no lock.
    let store_lock = home.path().join("conversations/store.lock");
    fs::remove_file(&store_lock).unwrap();
    symlink("/dev/null", &store_lock).unwrap();
    assert_eq!(store.fork(&name("a"), &name("b"), None).unwrap_err().kind, Kind::Damaged);
    fs::remove_file(&store_lock).unwrap();
    assert!(!locks.join("b.lock").exists());
    store.sweep().unwrap();
    let left: Vec<_> = fs::read_dir(&locks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a.lock"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stored_is_what_is_read(words in proptest::collection::vec("(?s).{0,40}", 2..8)) {
        let (_home, store) = store();
        let turns: Vec<_> = words.windows(2).map(|pair| turn(&pair[0], &pair[1])).collect();
        let mut held = store.hold(&name("a")).unwrap();
        for turn in &turns {
            held.add(turn.clone(), None).unwrap();
        }
        prop_assert_eq!(store.load(&name("a")).unwrap().turns, turns);
    }

    #[test]
    fn no_bytes_in_the_place_of_a_name_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (home, store) = store();
        of_two_turns(&store);
        fs::write(home.path().join("conversations/names/a.json"), bytes).unwrap();
        prop_assert_eq!(store.load(&name("a")).unwrap_err().kind, Kind::Damaged);
    }
}
