//! `nexus run --conversation`, `nexus conversation`.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Folder, PATIENCE, answers::checked, text, until, until_handled};

/// What the servers are asked with.
const CANARY: &str = "canary-0123456789-abcdefghijklmnop";

/// A folder with a configuration, a home of its own, and two simulated models.
struct Stage {
    folder: Folder,
    one: Sim,
    two: Sim,
}

impl Stage {
    fn new(first: Reply) -> Self {
        let server = |first: Reply, rest: &str| {
            let replies = std::iter::once(first).chain(vec![Reply::text(rest); 20]);
            Sim::start(Dialect::Responses, Scenario::new(replies).models(["simulated"])).unwrap()
        };
        let (one, two) = (server(first, "One again."), server(Reply::text("Two."), "Two again."));
        let config = format!(
            "groups: {{ first: [one], second: [two] }}\nbackends:\n  \
             one: {{ kind: responses, base_url: {:?}, vendor: one, credential: {{ env: KEY }} }}\n  \
             two: {{ kind: responses, base_url: {:?}, vendor: two, credential: {{ env: KEY }} }}\n\
             models: {{ simulated: {{ first: simulated, second: simulated }} }}\n\
             panels: {{ jury: [{{ group: first, model: simulated }}, {{ group: second, model: simulated }}] }}\n\
             types:\n  writer: {{ tier: execution, phase: write, group: first, model: simulated }}\n  \
             reader: {{ tier: execution, phase: read, group: second, model: simulated }}\n  \
             judges: {{ tier: advisory, phase: review, panel: jury }}\n",
            one.base_url(),
            two.base_url(),
        );
        Self { folder: Folder::with(&config), one, two }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(arguments);
        command.env("KEY", CANARY);
        command
    }

    fn nexus(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The lines of JSON that a command printed, which ended well.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.nexus(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        checked(arguments, text(&output.stdout))
    }
}

#[track_caller]
fn fails(output: &Output, code: i32, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_conversation_goes_on_over_two_backends_and_is_forked_shown_and_deleted() {
    let stage = Stage::new(Reply::text("One."));
    let first = stage.nexus(&["run", "writer", "first words", "--conversation", "talk"]);
    assert_eq!((first.status.code(), text(&first.stdout)), (Some(0), "One.\n"));
    // By itself, then by the other one.
    let lines = stage.json(&["run", "writer", "second words", "--conversation", "talk", "--json"]);
    assert_eq!(lines[lines.len() - 2]["conversation"]["how"]["continuity"], "resumed");
    let output = stage.nexus(&["run", "reader", "third words", "--conversation", "talk"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "Two.\n"));
    assert!(!text(&output.stderr).contains("sent to the model again"), "{}", text(&output.stderr));
    // The other one gets messages, not a text about them, because both are Nexus's own loop.
    let asked = stage.two.main_calls().last().unwrap().conversation.clone();
    assert_eq!(asked.user_texts(), ["first words", "second words", "third words"]);
    assert_eq!(asked.assistant_texts(), ["One.", "One again."]);

    let list = stage.json(&["conversation", "list", "--json"]);
    assert_eq!(
        (&list[0]["name"], &list[0]["messages"], &list[0]["resumes"]),
        (&"talk".into(), &6.into(), &"two".into())
    );
    let fork = stage.nexus(&["conversation", "fork", "talk", "other", "--at", "3"]);
    assert_eq!(text(&fork.stdout), "other · 3 messages · 2 turns\n");
    let shown = stage.nexus(&["conversation", "show", "other"]);
    assert_eq!(
        text(&shown.stdout),
        "other · 3 messages · 2 turns\n\n### 1 · user\n\nfirst words\n\n### 2 · assistant · one\n\nOne.\n\n### 3 · user\n\nsecond words\n"
    );
    let shown = stage.json(&["conversation", "show", "talk", "--json"]);
    assert_eq!(shown[0]["turns"].as_array().unwrap().len(), 3);
    let deleted = stage.json(&["conversation", "delete", "talk", "--json"]);
    // The fork reads the beginning of the same file, which loses the rest.
    assert_eq!((&deleted[0]["files"], &deleted[0]["errors"]), (&0.into(), &serde_json::json!([])));
    assert!(
        !holds(&stage.folder.nexus_home(), "third words") && holds(&stage.folder.nexus_home(), "first words")
    );
    assert_eq!(stage.json(&["conversation", "list", "--json"]).len(), 1);
    assert!(!holds(&stage.folder.nexus_home(), CANARY));
}

fn holds(folder: &Path, words: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, words),
            false => String::from_utf8_lossy(&fs::read(path).unwrap()).contains(words),
        }
    })
}

#[test]
fn each_way_to_go_on_is_kept() {
    let stage = Stage::new(Reply::text("One."));
    stage.json(&["run", "writer", "first", "--conversation", "talk", "--json"]);
    // No backend has the state of a fork.
    for name in ["a", "b", "c"] {
        stage.nexus(&["conversation", "fork", "talk", name, "--at", "1"]);
    }
    let refused = stage.nexus(&["run", "reader", "second", "--conversation", "a", "--on-lost", "fail"]);
    fails(&refused, 1, "the conversation a cannot be resumed");
    assert!(stage.two.main_calls().is_empty());
    let lines =
        stage.json(&["run", "reader", "second", "--conversation", "b", "--on-lost", "fresh", "--json"]);
    assert_eq!(lines[lines.len() - 2]["conversation"]["how"]["continuity"], "fresh");
    assert_eq!(stage.two.main_calls().last().unwrap().conversation.user_texts(), ["second"]);
    let output = stage.nexus(&["run", "reader", "second", "--conversation", "c"]);
    let said = text(&output.stderr);
    assert!(said.contains("c is sent to the model again, with 1 message"), "{said}");
    let asked = stage.two.main_calls().last().unwrap().conversation.user_texts().join("\n");
    assert!(asked.contains("> first\n") && asked.ends_with("second"), "{asked}");
}

#[test]
fn a_wrong_key_of_another_backend_loses_no_conversation() {
    let stage = Stage::new(Reply::text("One."));
    stage.json(&["run", "writer", "first", "--conversation", "talk", "--json"]);
    stage.two.set_scenario(Reply::status(401));
    for on_lost in ["fresh", "reseed", "fail"] {
        let refused =
            stage.nexus(&["run", "reader", "second", "--conversation", "talk", "--on-lost", on_lost]);
        fails(&refused, 1, "check `credential` of this backend in nexus.yaml");
        assert!(!text(&refused.stderr).contains("cannot be resumed"), "{}", text(&refused.stderr));
    }
    for call in stage.two.main_calls() {
        assert_eq!(
            call.conversation.user_texts(),
            ["first", "second"],
            "nothing is sent without the messages"
        );
    }
    stage.two.set_scenario(Reply::text("Two."));
    stage.json(&["run", "reader", "third", "--conversation", "talk", "--json"]);
    let asked = stage.two.main_calls().last().unwrap().conversation.clone();
    assert_eq!(asked.user_texts().first().map(String::as_str), Some("first"));
}

#[test]
fn what_cannot_be_is_told_with_its_exit_code() {
    let stage = Stage::new(Reply::text("One."));
    stage.json(&["run", "writer", "first", "--conversation", "talk", "--json"]);
    for (arguments, words) in [
        (["conversation", "show", "nobody"].as_slice(), "the conversation nobody does not exist"),
        (&["conversation", "show", "../talk"], "is not a name of a conversation"),
        (&["conversation", "fork", "talk", "TALK"], "only in case"),
        (&["conversation", "fork", "talk", "new", "--at", "9"], "it has 2, counted from 1"),
        (&["conversation", "delete", "nobody"], "the conversation nobody does not exist"),
        (&["run", "judges", "x", "--conversation", "talk"], "leave `--conversation` out"),
        (&["run", "writer", "x", "--on-lost", "fail"], "--conversation"),
        (&["run", "writer", "x", "--conversation", "talk", "--resume", "turns"], "cannot be used with"),
        (&["run", "writer", "x", "--conversation", "talk", "--keep", "turns"], "cannot be used with"),
    ] {
        fails(&stage.nexus(arguments), 2, words);
    }
    fs::write(stage.folder.nexus_home().join("conversations/names/talk.json"), "{").unwrap();
    for arguments in [
        ["conversation", "show", "talk"].as_slice(),
        &["conversation", "list"],
        &["run", "writer", "x", "--conversation", "talk"],
    ] {
        fails(&stage.nexus(arguments), 1, r#"talk.json" cannot be used:"#);
    }
    assert_eq!(stage.nexus(&["conversation", "delete", "talk"]).status.code(), Some(0));
}

#[test]
fn a_second_process_is_told_or_waits_and_a_killed_turn_leaves_what_was() {
    let stage = Stage::new(Reply::text("Half of an ans").stalled());
    stage.one.set_scenario(Scenario::new(vec![Reply::text("One."); 4]).models(["simulated"]));
    stage.json(&["run", "writer", "first", "--conversation", "talk", "--json"]);
    stage.one.set_scenario(
        Scenario::new([Reply::text("Half of an ans").stalled(), Reply::text("After.")]).models(["simulated"]),
    );
    let calls = stage.one.main_calls().len();
    let mut child = stage.command(&["run", "writer", "second", "--conversation", "talk"]).spawn().unwrap();
    until("the turn begins", || stage.one.main_calls().len() > calls);
    fails(
        &stage.nexus(&["run", "writer", "x", "--conversation", "talk"]),
        1,
        "the conversation talk is in use",
    );
    fails(
        &stage.nexus(&["run", "writer", "x", "--conversation", "talk", "--wait", "0.1"]),
        1,
        "the conversation talk is in use",
    );
    fails(&stage.nexus(&["conversation", "delete", "talk"]), 1, "the conversation talk is in use");
    let waiting =
        stage.command(&["run", "writer", "third", "--conversation", "talk", "--wait", "60", "--json"]);
    let waiting = thread::spawn(move || { waiting }.output().unwrap());
    thread::sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    let output = waiting.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = stage.json(&["conversation", "show", "talk", "--json"]);
    let shown = shown[0]["turns"].to_string();
    assert!(shown.contains("first") && shown.contains("third") && !shown.contains("second"), "{shown}");
}

#[test]
fn a_wait_ends_with_ctrl_c() {
    let stage = Stage::new(Reply::text("Half of an ans").stalled());
    let mut child = stage.command(&["run", "writer", "first", "--conversation", "talk"]).spawn().unwrap();
    until("the turn begins", || !stage.one.main_calls().is_empty());
    let waiting = stage
        .command(&["run", "writer", "second", "--conversation", "talk", "--wait", "600"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_handled(waiting.id(), Signal::INT);
    kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
    // It would wait for ten minutes.
    let began = Instant::now();
    let output = waiting.wait_with_output().unwrap();
    assert!(began.elapsed() < PATIENCE, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn nothing_is_deleted_while_the_backends_own_copy_cannot_be() {
    let stage = Stage::new(Reply::text("One."));
    stage.json(&["run", "writer", "first", "--conversation", "talk", "--json"]);
    let good = fs::read(stage.folder.path().join("nexus.yaml")).unwrap();
    fs::write(stage.folder.path().join("nexus.yaml"), "groups: 1\n").unwrap();
    assert_ne!(stage.nexus(&["conversation", "delete", "talk"]).status.code(), Some(0));
    fs::write(stage.folder.path().join("nexus.yaml"), good).unwrap();
    assert_eq!(stage.json(&["conversation", "list", "--json"])[0]["resumes"], "one");
    stage.json(&["conversation", "delete", "talk", "--json"]);
}

#[test]
fn what_others_wrote_is_no_command_to_a_terminal() {
    let stage = Stage::new(Reply::text("One."));
    let path = stage.folder.nexus_home().join("conversations/names/talk.json");
    let file = serde_json::json!({
        "version": 1, "name": "talk", "updated_at_ms": 0, "turns": 1, "messages": 2, "place": null,
        "resume": { "backend": "on\u{1b}[2Je\nother \u{202e}", "state": {} },
    });
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, file.to_string()).unwrap();
    let list = stage.nexus(&["conversation", "list"]);
    assert_eq!(text(&list.stdout), "talk · 2 messages · 1 turn · on[2Jeother \n", "{}", text(&list.stderr));
}
