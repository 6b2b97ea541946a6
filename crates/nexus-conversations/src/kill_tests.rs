//! A process that is killed while it adds turns, at each of its steps, and the one after it.

use std::{env, fs, os::unix::process::ExitStatusExt as _, path::Path};

use nexus_core::{PromptBlock, ResumeHandle};
use nexus_testkit::child_test;
use serde_json::json;

use crate::{
    conversation::{ConversationMessage, ConversationTurn},
    conversation_error::ConversationErrorKind,
    not_carried::NotCarried,
    step,
    store::Conversations,
};

const ROOT: &str = "NEXUS_TEST_CONVERSATION_ROOT";
/// How many turns the process adds, and how many points it passes with each.
const TURNS: u64 = 2;
const STEPS: u64 = 3;

fn turn(text: &str) -> ConversationTurn {
    ConversationTurn {
        ended_at_ms: 1,
        backend: None,
        model: None,
        failure: None,
        begins_afresh: false,
        messages: vec![
            ConversationMessage::User { content: vec![PromptBlock::text(text)] },
            ConversationMessage::Assistant { text: text.to_owned(), complete: true },
        ],
        not_stored: NotCarried::default(),
    }
}

/// Run as a program of its own, which may be killed.
#[test]
fn turns_that_may_be_killed() {
    let Some(root) = env::var_os(ROOT) else { return };
    let mut held = Conversations::in_home(root).hold(&"a".parse().unwrap()).unwrap();
    for number in held.messages() / 2..TURNS {
        let handle = ResumeHandle::new("alpha".into(), json!(number));
        held.add(turn(&number.to_string()), Some(handle)).unwrap();
    }
}

/// Says whether the process came to its end.
fn run(root: &Path, at: Option<u64>) -> bool {
    let mut command = child_test::command(turns_that_may_be_killed);
    command.env(ROOT, root);
    if let Some(at) = at {
        command.env(step::AT, at.to_string());
    }
    let output = command.output().unwrap();
    let is_killed = output.status.signal().is_some();
    if !is_killed {
        child_test::assert_passed("the process", &output);
    }
    !is_killed
}

#[test]
fn whenever_a_process_is_killed_what_was_there_is_whole_and_the_next_one_goes_on() {
    let name = "a".parse().unwrap();
    for at in 1..=TURNS * STEPS {
        let home = tempfile::tempdir().unwrap();
        assert!(!run(home.path(), Some(at)), "step {at} was not reached");
        let store = Conversations::in_home(home.path());
        // A first turn counts from its third step on, when the name has its log, and others once their record is appended.
        let whole = at / STEPS + u64::from(at == STEPS + 2);
        match store.load(&name) {
            Ok(conversation) => {
                assert_eq!(
                    conversation.turns,
                    (0..whole).map(|n| turn(&n.to_string())).collect::<Vec<_>>(),
                    "step {at}"
                );
            }
            Err(error) => {
                assert_eq!((error.kind, whole), (ConversationErrorKind::Unknown, 0), "step {at}: {error}");
            }
        }
        // What it left unfinished goes, and nothing else; the conversation is not locked.
        let folder = home.path().join("conversations");
        let unfinished = ["logs/.a.jsonl.1.new", "names/.a.json.1.new"].map(|path| folder.join(path));
        for path in &unfinished {
            fs::write(path, "{").unwrap();
        }
        store.sweep().unwrap();
        assert!(unfinished.iter().all(|path| !path.exists()), "step {at}");
        let logs = fs::read_dir(folder.join("logs")).unwrap().count() as u64;
        assert_eq!(logs, whole.min(1), "step {at}");
        assert!(run(home.path(), None), "step {at}");
        assert_eq!(store.load(&name).unwrap().turns, [turn("0"), turn("1")], "step {at}");
    }
    let home = tempfile::tempdir().unwrap();
    assert!(run(home.path(), Some(TURNS * STEPS + 1)), "there are more steps than are tried");
}
