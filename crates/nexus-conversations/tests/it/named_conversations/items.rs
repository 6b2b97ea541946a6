//! Handles with the items of a conversation, which a log stores once each.

use std::{fs, path::Path, sync::Arc, time::Instant};

use nexus_conversations::{
    Continuity, ConversationError, ConversationErrorKind as Kind, ConversationOptions, ConversationOutcome,
    Conversations, DEFAULT_SEED_BYTES, WhenLost,
};
use nexus_core::{
    ErrorKind, ResumeHandle, TurnHost, TurnRequest,
    item::{Author, Item, ItemList, ItemPart},
};
use nexus_testkit::scripted::{ScriptedBackend, answer};
use serde_json::json;

use super::kit::{Seen, fake, last_texts, name, router, store, turn};

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

/// Replaces a text of the only log by one of the same length.
fn change(home: &Path, text: &str, other: &str) {
    let log = fs::read_dir(home.join("conversations/logs")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_to_string(&log).unwrap();
    assert!(whole.contains(text), "{whole}");
    fs::write(&log, whole.replacen(text, other, 1)).unwrap();
}

async fn run(store: &Conversations, alpha: &Arc<ScriptedBackend>, when_lost: WhenLost) -> RunOfTurn {
    let mut seen = Seen::default();
    let mut held = store.hold(&name("a")).unwrap();
    let options = ConversationOptions::new().when_lost(when_lost);
    let request = TurnRequest::new("again");
    let router = router(&[alpha]);
    let outcome = held.run_turn(&router, "alpha", request, TurnHost::new(), options, &mut seen.sink()).await;
    (seen.warnings, outcome)
}

type RunOfTurn = (Vec<String>, Result<ConversationOutcome, ConversationError>);

#[tokio::test]
async fn a_turn_without_damaged_items_is_shown_the_messages_or_none() {
    let (whole, changed) = ("{\"type\":\"text\",\"text\":\"a\"}", "{\"type\":\"text\",\"text\":\"z\"}");
    let (home, store) = store();
    added(&store, &[said("a")]);
    added(&store, &[said("a"), said("b")]);
    change(home.path(), whole, changed);
    let alpha = fake("alpha", [answer("Fresh."), answer("Resumed.")]);
    let held = store.hold(&name("a")).unwrap();
    assert_eq!((held.messages(), held.resume()), (4, None));
    drop(held);
    let (_, lost) = run(&store, &alpha, WhenLost::Fail).await;
    let lost = lost.unwrap().outcome.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ConversationLost);
    assert!(lost.to_string().contains("checksum") && lost.to_string().contains("`fresh`"), "{lost}");
    // The messages are damaged, too. The error names the way out, and no model ran.
    let (_, unread) = run(&store, &alpha, WhenLost::Reseed).await;
    let unread = unread.unwrap_err();
    assert_eq!((unread.kind, alpha.turns()), (Kind::Damaged, 0));
    assert!(unread.to_string().contains("(`fresh`)"), "{unread}");
    let (warnings, fresh) = run(&store, &alpha, WhenLost::Fresh).await;
    let fresh = fresh.unwrap();
    assert_eq!((fresh.stored, alpha.turns()), (Ok(true), 1));
    assert!(warnings[0].contains("checksum"), "{warnings:?}");
    let (_, resumed) = run(&store, &alpha, WhenLost::Fail).await;
    assert_eq!(resumed.unwrap().continuity, Continuity::Resumed);
    assert_eq!(store.summary(&name("a")).unwrap().turns, 4);
}

#[tokio::test]
async fn readable_messages_replace_damaged_items() {
    let (home, store) = store();
    added(&store, &[said("a")]);
    let long = "x".repeat(DEFAULT_SEED_BYTES);
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("newer words", &long), Some(handle(&[said("a"), said("b")]))).unwrap();
    drop(held);
    // The newest turn alone fills the record of the messages, so the damaged one is not read.
    change(home.path(), "{\"type\":\"text\",\"text\":\"a\"}", "{\"type\":\"text\",\"text\":\"z\"}");
    let alpha = fake("alpha", [answer("Seeded.")]);
    let (_, seeded) = run(&store, &alpha, WhenLost::Reseed).await;
    let seeded = seeded.unwrap();
    let Continuity::Reseeded { reason, .. } = &seeded.continuity else { panic!("{:?}", seeded.continuity) };
    assert!(reason.contains("checksum") && seeded.stored == Ok(true), "{reason}");
    assert!(last_texts(&alpha)[0].contains("xxxx"));
}
