//! Sessions, their forks, and what is found in them.

use std::{fs, time::Instant};

use nexus_broker::{BrokerErrorKind, MemoryIndex, SessionKey, Sessions};
use nexus_conversations::{ConversationTurn, Conversations};
use serde_json::json;

struct Stage {
    folder: tempfile::TempDir,
    conversations: Conversations,
    memory: MemoryIndex,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let conversations = Conversations::in_home(folder.path());
        let memory = MemoryIndex::open(folder.path().join("memory.db")).unwrap();
        Self { folder, conversations, memory }
    }

    fn sessions(&self) -> Sessions {
        Sessions::new(self.conversations.clone())
    }

    /// Adds a turn of two messages, and takes it in.
    fn say(&self, session: &str, asked: &str, said: &str) {
        let key: SessionKey = session.parse().unwrap();
        let mut held = self.conversations.hold(&key.conversation()).unwrap();
        held.add(turn(asked, said), None).unwrap();
        self.memory.capture(&key, &held.load().unwrap()).unwrap();
    }

    fn found(&self, text: &str, agents: &[&str]) -> Vec<(String, u64)> {
        let hits = self.memory.query(text, 50, |agent| agents.contains(&agent)).unwrap();
        hits.into_iter().map(|hit| (hit.session, hit.message)).collect()
    }
}

fn turn(asked: &str, said: &str) -> ConversationTurn {
    serde_json::from_value(json!({
        "ended_at_ms": 1_790_000_000_000_u64, "backend": null, "model": null,
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": asked }] },
            { "role": "assistant", "text": said, "complete": true },
        ],
    }))
    .unwrap()
}

fn key(text: &str) -> SessionKey {
    text.parse().unwrap()
}

#[test]
fn what_was_said_is_found_where_the_scope_allows_it() {
    let stage = Stage::new();
    stage.say("agent:poet:main", "A poem on herons, please.", "Herons wade.");
    stage.say("agent:poet:other", "And on geese?", "Geese honk. Café.");
    stage.say("agent:clerk:main", "Count the herons.", "There are 12 herons.");
    let poet = |message| ("agent:poet:main".to_owned(), message);
    let mut found = stage.found("herons", &["poet"]);
    found.sort();
    assert_eq!(found, [poet(1), poet(2)]);
    assert_eq!(stage.found("herons", &["nobody"]), []);
    assert_eq!(stage.found("herons", &["poet", "clerk"]).len(), 4);
    assert_eq!(stage.found("CAFE honk", &["poet"]), [("agent:poet:other".to_owned(), 2)]);
    // Where nothing has all of the words, some are enough.
    assert_eq!(stage.found("geese unicorn", &["poet"]).len(), 2);
    // Nothing of a question is an operator.
    for text in [
        "herons\" OR \"geese",
        "session:poet",
        "NEAR(herons geese)",
        "her*",
        "-herons",
        "a'b; DROP TABLE message",
    ] {
        let _ = stage.found(text, &["poet"]);
    }
    assert_eq!(stage.found("herons", &["clerk"]).len(), 2);
    let error = stage.memory.query(" .,! ", 5, |_| true).unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid);
}

#[test]
fn the_index_is_made_anew_from_the_conversations() {
    let stage = Stage::new();
    stage.say("agent:poet:main", "A poem on herons, please.", "Herons wade.");
    let again = MemoryIndex::open(stage.folder.path().join("second.db")).unwrap();
    again.capture_all(&stage.conversations).unwrap();
    again.capture_all(&stage.conversations).unwrap();
    assert_eq!(again.query("wade", 5, |_| true).unwrap().len(), 1);
    stage.conversations.delete(&key("agent:poet:main").conversation()).unwrap();
    again.capture_all(&stage.conversations).unwrap();
    assert_eq!(again.query("wade", 5, |_| true).unwrap(), []);
}

#[test]
fn what_forks_share_is_found_once_however_the_index_was_made() {
    let stage = Stage::new();
    stage.say("agent:poet:main", "A poem on herons, please.", "Herons wade.");
    stage.say("agent:poet:main", "And on geese?", "Geese honk.");
    let sessions = stage.sessions();
    // Within the second turn, and by another agent.
    sessions.fork(&key("agent:poet:main"), &key("agent:poet:aside"), Some(3)).unwrap();
    sessions.fork(&key("agent:poet:main"), &key("agent:clerk:copy"), None).unwrap();
    sessions.fork(&key("agent:poet:aside"), &key("agent:poet:again"), None).unwrap();
    stage.say("agent:poet:aside", "No, on ducks.", "Ducks quack.");
    stage.say("agent:clerk:copy", "And on swans?", "Swans hiss.");
    let check = |memory: &MemoryIndex| {
        let found = |text: &str, agent: &str| {
            let hits = memory.query(text, 50, |found| agent == "*" || found == agent).unwrap();
            hits.into_iter().map(|hit| (hit.session, hit.message)).collect::<Vec<_>>()
        };
        let main = |message| ("agent:poet:main".to_owned(), message);
        assert_eq!(found("wade", "*"), [main(2)]);
        assert_eq!(found("geese", "poet"), [main(4), main(3)]);
        assert_eq!(found("quack", "*"), [("agent:poet:aside".to_owned(), 5)]);
        // Who may not read the session that it comes from finds it in its own.
        assert_eq!(found("wade", "clerk"), [("agent:clerk:copy".to_owned(), 2)]);
    };
    check(&stage.memory);
    let anew = MemoryIndex::open(stage.folder.path().join("anew.db")).unwrap();
    anew.capture_all(&stage.conversations).unwrap();
    check(&anew);
    stage.memory.capture_all(&stage.conversations).unwrap();
    check(&stage.memory);
    // What the others have stays when one of them goes.
    stage.conversations.delete(&key("agent:poet:main").conversation()).unwrap();
    stage.memory.capture_all(&stage.conversations).unwrap();
    assert_eq!(stage.found("wade", &["poet"]).len(), 1);
    assert_eq!(stage.found("honk", &["poet"]), []);
    assert_eq!(stage.found("honk", &["clerk"]), [("agent:clerk:copy".to_owned(), 4)]);
}

#[test]
fn another_conversation_of_the_name_takes_the_place_of_the_first() {
    let stage = Stage::new();
    stage.say("agent:poet:main", "A poem on herons, please.", "Herons wade.");
    stage.memory.capture_all(&stage.conversations).unwrap();
    stage.conversations.delete(&key("agent:poet:main").conversation()).unwrap();
    let mut held = stage.conversations.hold(&key("agent:poet:main").conversation()).unwrap();
    held.add(turn("A poem on ducks, please.", "Ducks quack."), None).unwrap();
    drop(held);
    stage.memory.capture_all(&stage.conversations).unwrap();
    assert_eq!(stage.found("wade", &["poet"]), []);
    assert_eq!(stage.found("quack", &["poet"]), [("agent:poet:main".to_owned(), 2)]);
}

#[test]
fn one_session_that_cannot_be_read_hides_no_other() {
    let stage = Stage::new();
    for context in ["a", "b", "c"] {
        let key = key(&format!("agent:poet:{context}"));
        let mut held = stage.conversations.hold(&key.conversation()).unwrap();
        held.add(turn(&format!("Herons {context}?"), "Yes."), None).unwrap();
    }
    let logs = fs::read_dir(stage.folder.path().join("conversations/logs")).unwrap();
    let damaged = logs
        .flatten()
        .map(|entry| entry.path())
        .find(|path| fs::read_to_string(path).unwrap().contains("Herons a?"));
    fs::write(damaged.unwrap(), "{}").unwrap();
    let error = stage.memory.capture_all(&stage.conversations).unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert_eq!(stage.found("herons", &["poet"]).len(), 2);
}

#[test]
fn a_hundred_forks_cost_what_they_add() {
    let stage = Stage::new();
    let parent = key("agent:poet:main");
    let mut held = stage.conversations.hold(&parent.conversation()).unwrap();
    for number in 0..500 {
        held.add(turn(&format!("Question {number} {}", "x".repeat(500)), &format!("Answer {number}")), None)
            .unwrap();
    }
    stage.memory.capture(&parent, &held.load().unwrap()).unwrap();
    drop(held);
    // Without the index, whose log is as long as SQLite likes.
    let stored = stage.folder.path().join("conversations");
    let before = size(&stored);
    let sessions = stage.sessions();
    let began = Instant::now();
    for number in 0..100 {
        let fork = key(&format!("agent:poet:fork-{number}"));
        let made = sessions.fork(&parent, &fork, Some(1_000)).unwrap();
        assert_eq!(made.messages, 1_000);
        stage.say(&format!("agent:poet:fork-{number}"), "On it goes.", &format!("Heron {number}."));
    }
    assert!(began.elapsed().as_secs() < 300);
    let grown = size(&stored) - before;
    assert!(grown < before, "{grown} bytes for 100 forks of {before} bytes");
    // Parent and child read the same up to the fork.
    let load = |key: &SessionKey| stage.conversations.load(&key.conversation()).unwrap();
    let (whole, fork) = (load(&parent), load(&key("agent:poet:fork-7")));
    assert_eq!(whole.turns[..], fork.turns[..500]);
    assert_eq!(fork.turns.len(), 501);
    // What both have is found once, what the fork has in the fork.
    assert_eq!(stage.found("question 17", &["poet"]).len(), 1);
    assert_eq!(stage.found("heron 7", &["poet"]), [("agent:poet:fork-7".to_owned(), 1_002)]);
    // The parent goes; its forks have all that they had.
    stage.conversations.delete(&parent.conversation()).unwrap();
    stage.conversations.sweep().unwrap();
    assert_eq!(load(&key("agent:poet:fork-7")).turns, fork.turns);
    let again = sessions.fork(&key("agent:poet:fork-7"), &key("agent:poet:fork-8"), None).unwrap_err();
    assert_eq!(again.kind, BrokerErrorKind::Conflict);
    let beyond = sessions.fork(&key("agent:poet:fork-7"), &key("agent:poet:new"), Some(5_000)).unwrap_err();
    assert_eq!(beyond.kind, BrokerErrorKind::Invalid);
    assert_eq!(sessions.list().unwrap().sessions.len(), 100);
}

fn size(folder: &std::path::Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}

#[test]
fn an_index_that_is_damaged_is_said_to_be_and_can_be_removed() {
    let stage = Stage::new();
    let path = stage.folder.path().join("other.db");
    fs::write(&path, "no index at all, but longer than a page of one would begin\n".repeat(100)).unwrap();
    let error = MemoryIndex::open(&path).unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert!(error.to_string().contains("remove the file"), "{error}");
}
