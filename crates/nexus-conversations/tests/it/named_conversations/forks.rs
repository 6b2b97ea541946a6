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
    // A name each, of a few hundred bytes.
    assert_eq!(added.len(), 100);
    assert!(added.iter().all(|bytes| *bytes < 400), "{added:?}");
    assert!(before.iter().all(|(path, bytes)| forked.get(path) == Some(bytes)));
    // Each goes on by itself: one more file of a turn, as large as what is new.
    for number in 0..100 {
        store
            .hold(&name(&format!("fork-{number}")))
            .unwrap()
            .add(turn(&format!("and {number}?"), "Yes."), None)
            .unwrap();
    }
    let grown = files(&home.path().join("conversations"));
    assert_eq!(grown.len(), forked.len() + 100);
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
    // Its first three turns are the fork's too.
    let swept = store.sweep().unwrap();
    assert_eq!(swept.files, 2);
    assert!(swept.bytes > 2_000);
    assert_eq!(store.load(&name("fork")).unwrap().messages().count(), 7);
    store.delete(&name("fork")).unwrap();
    assert_eq!(store.sweep().unwrap().files, 4);
    // Nothing of a name stays, its lock neither.
    let left = files(&home.path().join("conversations"));
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(fs::read_dir(home.path().join("conversations/locks")).unwrap().count(), 0);
    assert_eq!(store.delete(&name("fork")).unwrap_err().kind, ConversationErrorKind::Unknown);
}
