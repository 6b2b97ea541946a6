//! Conversations in version 1 of the files, as an earlier version wrote them; see `tests/recorded/README.md`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nexus_conversations::{ConversationErrorKind as Kind, ConversationMessage, Conversations};
use nexus_core::{PromptBlock, ResumeHandle};
use serde_json::{Value, json};

use super::kit::{name, turn};

/// A copy of the recorded home.
fn recorded() -> (tempfile::TempDir, Conversations) {
    let home = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/home-b270e599");
    for (path, content) in files(&recorded) {
        let copy = home.path().join(path.strip_prefix(&recorded).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, content).unwrap();
    }
    let store = Conversations::in_home(home.path());
    (home, store)
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

fn texts(store: &Conversations, called: &str) -> Vec<String> {
    let conversation = store.load(&name(called)).unwrap();
    let text = |message: &ConversationMessage| match message {
        ConversationMessage::User { content } => match &content[0] {
            PromptBlock::Text { text } => text.clone(),
            other => format!("{other:?}"),
        },
        ConversationMessage::Assistant { text, .. } => text.clone(),
        other => format!("{other:?}"),
    };
    conversation.messages().map(text).collect()
}

#[test]
fn version_1_is_read_and_left_as_it_is() {
    let (home, store) = recorded();
    let before = files(home.path());
    let list = store.list().unwrap();
    let listed: Vec<_> =
        list.conversations.iter().map(|one| (one.name.as_str(), one.turns, one.messages)).collect();
    assert_eq!(listed, [("Branch", 3, 5), ("talk", 2, 4), ("twig", 1, 1)]);
    assert_eq!(store.summary(&name("talk")).unwrap().resumes, Some("alpha".into()));
    assert_eq!(texts(&store, "talk"), ["first words", "One.", "second words", "Two."]);
    assert_eq!(texts(&store, "Branch"), ["first words", "One.", "second words", "other words", "Three."]);
    assert_eq!(texts(&store, "twig"), ["first words"]);
    let held = store.hold(&name("talk")).unwrap();
    let items = held.resume().unwrap().state()["items"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Vec<Value>>(&items).unwrap().len(), 4);
    drop(held);
    assert_eq!(store.sweep().unwrap().files, 0);
    let now = files(home.path());
    assert!(before.iter().all(|(path, content)| now.get(path) == Some(content)));
}

#[test]
fn version_1_is_converted_at_the_next_turn() {
    let (home, store) = recorded();
    let path = home.path().join("conversations/names/talk.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["colour"] = json!({ "of": [1.5, "blue"] });
    fs::write(&path, file.to_string()).unwrap();
    // Both the converted conversation and forks that are not converted yet have their turns.
    store.fork(&name("talk"), &name("fork"), Some(3)).unwrap();
    let handle = ResumeHandle::new("alpha".into(), json!({ "of": "version 2" }));
    store.hold(&name("talk")).unwrap().add(turn("third words", "Four."), Some(handle.clone())).unwrap();
    let all = ["first words", "One.", "second words", "Two.", "third words", "Four."];
    assert_eq!(texts(&store, "talk"), all);
    assert_eq!(store.load(&name("talk")).unwrap().turns[0].backend, Some("alpha".into()));
    assert_eq!(store.hold(&name("talk")).unwrap().resume(), Some(&handle));
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&file["version"], &file["colour"]), (&json!(2), &json!({ "of": [1.5, "blue"] })));
    store.hold(&name("fork")).unwrap().add(turn("in the fork", "Five."), None).unwrap();
    store.delete(&name("Branch")).unwrap();
    store.delete(&name("twig")).unwrap();
    assert_eq!(store.sweep().unwrap().files, 3, "the turns of version 1 have no reader any more");
    assert_eq!(texts(&store, "talk"), all);
    assert_eq!(texts(&store, "fork"), ["first words", "One.", "second words", "in the fork", "Five."]);
}

#[test]
fn damage_of_version_1_is_noticed() {
    let (home, store) = recorded();
    let path = home.path().join("conversations/names/talk.json");
    let whole: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (field, wrong) in [("messages", json!(5)), ("turns", json!(u64::MAX)), ("place", json!(null))] {
        let mut file = whole.clone();
        file[field] = wrong;
        fs::write(&path, file.to_string()).unwrap();
        assert_eq!(store.hold(&name("talk")).unwrap_err().kind, Kind::Damaged, "{field}");
        assert_eq!(store.load(&name("talk")).unwrap_err().kind, Kind::Damaged, "{field}");
    }
    fs::write(&path, whole.to_string()).unwrap();
    let node = whole["place"]["node"].as_str().unwrap();
    let node = home.path().join(format!("conversations/nodes/{node}.json"));
    let whole = fs::read(&node).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&node, changed).unwrap();
        assert_eq!(store.load(&name("talk")).unwrap_err().kind, Kind::Damaged);
    }
    // Nothing is swept, and nothing is converted halfway.
    fs::write(&node, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(store.sweep().unwrap_err().kind, Kind::Damaged);
    assert_eq!(store.hold(&name("talk")).unwrap_err().kind, Kind::Damaged);
    fs::write(&node, whole).unwrap();
    assert_eq!(texts(&store, "talk").len(), 4);
}

/// The next turn converts all turns. If one of them cannot be read, a model would be paid for a turn that is not stored.
#[test]
fn a_damaged_early_turn_of_version_1_is_noticed_before_the_next_turn_runs() {
    let (home, store) = recorded();
    let file = |path: &str| home.path().join("conversations").join(path);
    let json = |path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let talk = json(file("names/talk.json"));
    let last = json(file(&format!("nodes/{}.json", talk["place"]["node"].as_str().unwrap())));
    let first = file(&format!("nodes/{}.json", last["parent"]["node"].as_str().unwrap()));
    let whole = fs::read(&first).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(&first, changed).unwrap();
    let error = store.hold(&name("talk")).unwrap_err();
    assert_eq!(error.kind, Kind::Damaged);
    let told = error.to_string();
    assert!(told.contains("the conversation talk: ") && told.contains(first.to_str().unwrap()), "{told}");
    // No turn can be added, so a turn without the earlier messages is no way out.
    assert!(told.ends_with("delete it") && !told.contains("fresh"), "{told}");
    assert_eq!(store.delete(&name("talk")).unwrap().unwrap().backend().as_str(), "alpha");
    fs::write(&first, whole).unwrap();
    assert_eq!(texts(&store, "Branch").len(), 5);
}
