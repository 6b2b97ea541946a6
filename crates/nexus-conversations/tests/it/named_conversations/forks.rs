//! Forks: pointers, and never copies.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::Path};

use nexus_conversations::{ConversationErrorKind, ConversationMessage, Conversations};

use super::kit::{name, store, turn};

/// Every file below the folder that is not empty, and its size.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            let found_file = entry.metadata().unwrap();
            assert_eq!(found_file.mode() & 0o777, 0o600, "{:?}", entry.path());
            if found_file.len() > 0 {
                found.insert(entry.path().display().to_string(), found_file.len());
            }
        }
    }
    found
}

/// A conversation of `messages` messages.
fn long(store: &Conversations, called: &str, messages: usize) {
    let mut held = store.hold(&name(called)).unwrap();
    for number in 0..messages / 2 {
        held.add(
            turn(&format!("question {number}"), &format!("answer {number} {}", "x".repeat(1_000))),
            None,
        )
        .unwrap();
    }
}

#[test]
fn a_thousand_messages_forked_a_hundred_times_cost_the_deltas_only() {
    let (home, store) = store();
    long(&store, "trunk", 1_000);
    let before = files(&home.path().join("conversations"));
    assert!(before.values().sum::<u64>() > 500_000);
    for number in 0..100_u64 {
        let at = (number % 3 != 0).then_some(number * 7 + 1);
        store.fork(&name("trunk"), &name(&format!("fork-{number}")), at).unwrap();
    }
    let forked = files(&home.path().join("conversations"));
    let added: Vec<u64> =
        forked.iter().filter(|(path, _)| !before.contains_key(*path)).map(|(_, bytes)| *bytes).collect();
    // A name and the header of a log each, of a few hundred bytes.
    assert_eq!(added.len(), 200);
    assert!(added.iter().all(|bytes| *bytes < 500), "{added:?}");
    assert!(before.iter().all(|(path, bytes)| forked.get(path) == Some(bytes)));
    // Each goes on by itself, and its log grows by what is new.
    for number in 0..100 {
        store
            .hold(&name(&format!("fork-{number}")))
            .unwrap()
            .add(turn(&format!("and {number}?"), "Yes."), None)
            .unwrap();
    }
    let grown = files(&home.path().join("conversations"));
    assert_eq!(grown.len(), forked.len());
    assert!(grown.values().sum::<u64>() - forked.values().sum::<u64>() < 100 * 1_000);
    let fork = store.load(&name("fork-1")).unwrap();
    let said: Vec<String> = fork.messages().map(|message| format!("{message:?}")).collect();
    assert_eq!((said.len(), fork.turns.len()), (10, 5));
    assert!(said[7].contains("answer 3") && said[8].contains("and 1?"), "{said:?}");
    assert_eq!(store.load(&name("trunk")).unwrap().messages().count(), 1_000);
}

#[test]
fn a_fork_within_a_turn_has_the_messages_up_to_there() {
    let (_home, store) = store();
    long(&store, "trunk", 6);
    let fork = store.fork(&name("trunk"), &name("half"), Some(3)).unwrap();
    assert_eq!((fork.turns, fork.messages), (2, 3));
    store.hold(&name("half")).unwrap().add(turn("other", "way"), None).unwrap();
    // A fork of a fork, before and after the place where it was forked.
    for (at, expected) in [(1, 1), (3, 3), (4, 4), (5, 5)] {
        let called = name(&format!("again-{at}"));
        store.fork(&name("half"), &called, Some(at)).unwrap();
        let messages: Vec<_> = store.load(&called).unwrap().messages().cloned().collect();
        assert_eq!(messages.len(), expected);
    }
    let last = store.load(&name("again-4")).unwrap().messages().last().cloned().unwrap();
    assert!(
        matches!(last, ConversationMessage::User { content } if format!("{content:?}").contains("other"))
    );
    for at in [0, 6] {
        let error = store.fork(&name("half"), &name("none"), Some(at)).unwrap_err();
        assert_eq!(error.kind, ConversationErrorKind::NoSuchMessage);
        assert!(error.to_string().contains("it has 5"), "{error}");
    }
    assert_eq!(
        store.fork(&name("nobody"), &name("x"), None).unwrap_err().kind,
        ConversationErrorKind::Unknown
    );
    for taken in ["trunk", "TRUNK", "half"] {
        let error = store.fork(&name("half"), &name(taken), None).unwrap_err();
        assert_eq!(error.kind, ConversationErrorKind::NameTaken, "{error}");
    }
}

#[test]
fn a_sweep_removes_what_no_name_reaches_and_nothing_else() {
    let (home, store) = store();
    assert_eq!(store.sweep().unwrap().files, 0);
    assert!(!home.path().join("conversations").exists());
    long(&store, "trunk", 10);
    store.fork(&name("trunk"), &name("fork"), Some(5)).unwrap();
    store.hold(&name("fork")).unwrap().add(turn("more", "words"), None).unwrap();
    store.delete(&name("trunk")).unwrap();
    assert_eq!(store.load(&name("fork")).unwrap().messages().count(), 7);
    // The fork reads the log of the deleted conversation, also if a new one has its name.
    assert_eq!(store.sweep().unwrap().files, 0);
    store.hold(&name("trunk")).unwrap().add(turn("a new", "one"), None).unwrap();
    assert_eq!(store.list().unwrap().conversations.len(), 2);
    assert_eq!(store.load(&name("trunk")).unwrap().messages().count(), 2);
    assert_eq!(store.load(&name("fork")).unwrap().messages().count(), 7);
    store.delete(&name("fork")).unwrap();
    let swept = store.sweep().unwrap();
    assert_eq!(swept.files, 2);
    assert!(swept.bytes > 2_000);
    store.delete(&name("trunk")).unwrap();
    assert_eq!(store.sweep().unwrap().files, 1);
    // Nothing of a name stays, its lock neither.
    let left = files(&home.path().join("conversations"));
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(fs::read_dir(home.path().join("conversations/locks")).unwrap().count(), 0);
    assert_eq!(store.delete(&name("fork")).unwrap_err().kind, ConversationErrorKind::Unknown);
}

#[test]
fn a_fork_of_a_fork_outlives_both_sources() {
    let (_home, store) = store();
    long(&store, "trunk", 6);
    store.fork(&name("trunk"), &name("one"), Some(3)).unwrap();
    store.hold(&name("one")).unwrap().add(turn("in one", "yes"), None).unwrap();
    store.fork(&name("one"), &name("two"), Some(4)).unwrap();
    // A fork without a turn of its own, forked again.
    store.fork(&name("two"), &name("three"), None).unwrap();
    let before = store.load(&name("three")).unwrap();
    assert_eq!((before.turns.len(), before.messages().count()), (3, 4));
    for called in ["trunk", "one", "two"] {
        store.delete(&name(called)).unwrap();
        store.sweep().unwrap();
        assert_eq!(store.load(&name("three")).unwrap(), before);
    }
    store.hold(&name("three")).unwrap().add(turn("in three", "yes"), None).unwrap();
    assert_eq!(store.load(&name("three")).unwrap().messages().count(), 6);
    store.delete(&name("three")).unwrap();
    assert_eq!(store.sweep().unwrap().files, 4);
}

#[test]
fn a_fork_whose_source_was_cut_off_is_told() {
    let (home, store) = store();
    long(&store, "trunk", 6);
    store.fork(&name("trunk"), &name("fork"), None).unwrap();
    let logs = fs::read_dir(home.path().join("conversations/logs")).unwrap();
    let mut logs = logs.map(|entry| entry.unwrap().path());
    let trunk = logs.find(|path| path.to_string_lossy().contains("/trunk.")).unwrap();
    let whole = fs::read(&trunk).unwrap();
    fs::write(&trunk, &whole[..whole.len() - 10]).unwrap();
    assert_eq!(store.load(&name("trunk")).unwrap().turns.len(), 2);
    let error = store.load(&name("fork")).unwrap_err();
    assert_eq!(error.kind, ConversationErrorKind::Damaged);
    assert!(error.to_string().contains("trunk."), "{error}");
}
