//! The home knows what changed, and lists its conversations without reading those that did not.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use nexus_files::{Journal, JournalRead};

use super::kit::{name, store, turn};

#[test]
fn each_change_has_an_entry() {
    let (home, store) = store();
    let journal = Journal::in_home(home.path());
    fs::write(journal.path(), "{\"seq\":7,\"time\":\"2026-01-31T12:00:00.000Z\",\"kind\":\"home\"}\n")
        .unwrap();
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("one", "two"), None).unwrap();
    store.fork(&name("a"), &name("b"), Some(1)).unwrap();
    store.fork(&name("a"), &name("b"), None).unwrap_err();
    held.add(turn("three", "four"), None).unwrap();
    store.delete(&name("b")).unwrap();
    store.delete(&name("b")).unwrap_err();
    let JournalRead::Entries(entries) = journal.read_after(7).unwrap() else { panic!("a scan") };
    let entries: Vec<_> = entries.iter().map(|entry| (entry.id.as_str(), entry.what.as_str())).collect();
    assert_eq!(entries, [("a", "created"), ("b", "created"), ("a", "changed"), ("b", "removed")]);
}

#[test]
fn a_journal_that_cannot_be_written_stops_no_turn() {
    let (home, store) = store();
    fs::create_dir(home.path().join("journal.jsonl")).unwrap();
    fs::create_dir(home.path().join("index.json")).unwrap();
    store.hold(&name("a")).unwrap().add(turn("one", "two"), None).unwrap();
    assert_eq!(store.list().unwrap().conversations[0].messages, 2);
}

#[test]
fn a_list_reads_the_conversations_that_changed() {
    let (home, store) = store();
    let path_of = |name: &str| home.path().join("conversations/names").join(format!("{name}.json"));
    let logs = || fs::read_dir(home.path().join("conversations/logs")).unwrap();
    let age = |path: &Path| {
        let time = SystemTime::now() - Duration::from_secs(60);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    };
    for called in ["a", "b", "c"] {
        store.hold(&name(called)).unwrap().add(turn("one", "two"), None).unwrap();
        age(&path_of(called));
        logs().for_each(|log| age(&log.unwrap().path()));
    }
    // No program can set the time at which their properties changed last.
    std::thread::sleep(Duration::from_millis(200));
    let listed = store.list().unwrap().conversations;
    let whole = fs::read_to_string(home.path().join("index.json")).unwrap();
    // What the index says of conversations is what the list says, until they change.
    fs::write(home.path().join("index.json"), whole.replace("\"messages\":2", "\"messages\":20")).unwrap();
    let messages =
        || store.list().unwrap().conversations.iter().map(|found| found.messages).collect::<Vec<_>>();
    assert_eq!(messages(), [20, 20, 20]);
    store.hold(&name("b")).unwrap().add(turn("three", "four"), None).unwrap();
    assert_eq!(messages(), [20, 4, 20]);
    fs::write(path_of("c"), "damaged").unwrap();
    let damaged = store.list().unwrap();
    assert_eq!((damaged.conversations.len(), damaged.unreadable.len()), (2, 1));
    store.delete(&name("b")).unwrap();
    store.delete(&name("c")).unwrap();
    fs::write(home.path().join("index.json"), "").unwrap();
    assert_eq!(store.list().unwrap().conversations, listed[..1]);
}
