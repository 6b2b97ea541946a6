//! Handles with the items of a conversation, which a log stores once each.

use std::{fs, path::Path, sync::Arc, time::Instant};

use nexus_conversations::{ConversationErrorKind as Kind, Conversations};
use nexus_core::{
    ResumeHandle,
    item::{Author, Item, ItemList, ItemPart},
};
use serde_json::json;

use super::kit::{name, store, turn};

fn said(text: &str) -> Arc<Item> {
    Arc::new(Item::message(Author::User, vec![ItemPart::text(text)]))
}

fn handle(items: &[Arc<Item>]) -> ResumeHandle {
    ResumeHandle::new("alpha".into(), json!({ "version": 3 })).with_items(items.to_vec().into())
}

fn log_bytes(home: &Path) -> u64 {
    let logs = fs::read_dir(home.join("conversations/logs")).unwrap();
    logs.map(|log| log.unwrap().metadata().unwrap().len()).sum()
}

/// Adds a turn whose handle has these items, and returns what a new reader finds.
fn added(store: &Conversations, items: &[Arc<Item>]) -> ItemList {
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("one", "two"), Some(handle(items))).unwrap();
    drop(held);
    store.hold(&name("a")).unwrap().resume().unwrap().items().clone()
}

#[test]
fn items_are_appended_and_those_that_a_compaction_replaced_are_replaced() {
    let (_home, store) = store();
    let mut items = vec![said("a"), said("b"), said("c")];
    assert_eq!(added(&store, &items).items(), items);
    items.push(said("d"));
    assert_eq!(added(&store, &items).items(), items);
    items.splice(1..3, [Arc::new(Item::Compacted { dropped: 2, summary: None })]);
    assert_eq!(added(&store, &items).items(), items);
    items.extend([said("e"), said("f")]);
    assert_eq!(added(&store, &items).items(), items);
    assert_eq!(added(&store, &items[..2]).items(), &items[..2]);
    // A turn without a handle, and a new vendor's conversation after it.
    store.hold(&name("a")).unwrap().add(turn("one", "two"), None).unwrap();
    assert_eq!(store.hold(&name("a")).unwrap().resume(), None);
    assert_eq!(added(&store, &[said("new")]).items(), [said("new")]);
    assert_eq!(store.load(&name("a")).unwrap().turns.len(), 7);
}

#[test]
fn a_turn_writes_what_is_new_at_any_length() {
    let (home, store) = store();
    let mut held = store.hold(&name("a")).unwrap();
    let (mut items, mut before, mut largest) = (Vec::new(), 0, 0);
    let began = Instant::now();
    for number in 0..5_000 {
        items.extend([said(&format!("question {number}")), said(&format!("answer {number}"))]);
        held.add(turn("question", "answer"), Some(handle(&items))).unwrap();
        if number % 100 == 0 {
            let bytes = log_bytes(home.path());
            if number > 0 {
                largest = largest.max(bytes - before);
            }
            before = bytes;
        }
    }
    // 100 turns of two short messages and two short items each, at the beginning as at the end.
    assert!(largest < 100 * 1_200, "{largest}");
    // Generous: the disk is flushed 5,000 times. With the whole conversation written at each turn it takes minutes.
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
    drop(held);
    let held = store.hold(&name("a")).unwrap();
    assert_eq!((held.messages(), held.resume().unwrap().items().items().len()), (10_000, 10_000));
    assert_eq!(*held.resume().unwrap(), handle(&items));
}

#[test]
fn a_list_of_items_that_is_damaged_is_told() {
    let (home, store) = store();
    added(&store, &[said("a")]);
    added(&store, &[said("a"), said("b")]);
    let log = fs::read_dir(home.path().join("conversations/logs")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_to_string(&log).unwrap();
    fs::write(
        &log,
        whole.replacen("{\"type\":\"text\",\"text\":\"a\"}", "{\"type\":\"text\",\"text\":\"z\"}", 1),
    )
    .unwrap();
    let error = store.hold(&name("a")).unwrap_err();
    assert_eq!(error.kind, Kind::Damaged);
    assert!(error.to_string().contains("checksum"), "{error}");
}
