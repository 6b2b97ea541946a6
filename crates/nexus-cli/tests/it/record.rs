//! `nexus run --keep`, `nexus show`: turns written down, gone on from, and read.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use nexus_testkit::sim::{Dialect, Fault, Reply, Scenario, Sim, StatusFault};
use serde_json::Value;

use crate::support::{Folder, text};

/// What the servers are asked with.
const CANARY: &str = "canary-0123456789-abcdefghijklmnop";

/// A folder with a configuration, a home of its own, and a simulated model that answers and one that fails.
struct Stage {
    folder: Folder,
    model: Sim,
    _broken: Sim,
}

impl Stage {
    fn new(answer: &str) -> Self {
        let scenario = |reply: Reply| Scenario::new(vec![reply; 8]).models(["simulated"]);
        let model = Sim::start(Dialect::Responses, scenario(Reply::text(answer))).unwrap();
        let words = Some(format!("Incorrect key provided: {CANARY}."));
        let refusal = Fault::Status(StatusFault { message: words, ..StatusFault::new(401) });
        let broken = Sim::start(Dialect::Responses, scenario(Reply::fault(refusal))).unwrap();
        let config = format!(
            "groups: {{ main: [local], other: [second], bad: [broken] }}\n\
             backends:\n  local: {{ kind: responses, base_url: {url:?}, vendor: one, credential: {{ env: KEY }} }}\n  \
             second: {{ kind: responses, base_url: {url:?}, vendor: two, credential: {{ env: KEY }} }}\n  \
             broken: {{ kind: responses, base_url: {broken:?}, vendor: three, credential: {{ env: KEY }} }}\n\
             models: {{ simulated: {{ main: simulated, other: simulated, bad: simulated }} }}\n\
             panels: {{ jury: [{{ group: main, model: simulated, lens: edges }}, {{ group: bad, model: simulated }}, {{ group: other, model: simulated }}] }}\n\
             lenses: {{ edges: Look at the edges. }}\n\
             types:\n  talker: {{ tier: execution, phase: talk, group: main, model: simulated }}\n  \
             failing: {{ tier: execution, phase: fail, group: bad, model: simulated }}\n  \
             judges: {{ tier: advisory, phase: review, panel: jury }}\n",
            url = model.base_url(),
            broken = broken.base_url(),
        );
        Self { folder: Folder::with(&config), model, _broken: broken }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn nexus(&self, arguments: &[&str]) -> Output {
        self.folder.command(arguments).env("KEY", CANARY).output().unwrap()
    }

    fn record(&self) -> String {
        fs::read_to_string(self.path().join("turns.jsonl")).unwrap()
    }

    /// What `nexus show` prints.
    fn shown(&self, arguments: &[&str]) -> String {
        let output = self.nexus(&[&["show", "turns.jsonl"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }
}

#[test]
fn the_record_of_a_turn_is_readable_by_its_owner_alone() {
    let stage = Stage::new("Here.");
    let path = stage.path().join("turns.jsonl");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let output = stage.nexus(&["run", "talker", "hello", "--keep", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&path).unwrap();
    stage.nexus(&["run", "talker", "hello", "--keep", "turns.jsonl"]);
    assert!(fs::read_to_string(&path).unwrap().starts_with(&first), "a record is appended to");
    let output = stage.nexus(&["run", "talker", "again", "--resume", "turns.jsonl", "--quiet"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "Here.\n"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_conversation_from_a_pipe_needs_a_file_for_what_comes_next() {
    let stage = Stage::new("Here.");
    stage.nexus(&["run", "talker", "hello", "--keep", "turns.jsonl"]);
    let record = fs::read(stage.path().join("turns.jsonl")).unwrap();
    let pipe = stage.path().join("pipe");
    let resumed = |more: &[&str]| {
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (to, record) = (pipe.clone(), record.clone());
        let writer = std::thread::spawn(move || fs::write(to, record));
        let output = stage.nexus(&[&["run", "talker", "again", "--resume", "pipe"], more].concat());
        writer.join().unwrap().unwrap();
        fs::remove_file(&pipe).unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (code, said) = resumed(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("pipe: ") && said.contains("`--keep` beside `--resume`"), "{said}");
    assert_eq!(stage.model.requests().len(), 1, "a turn was spent");
    let (code, said) = resumed(&["--keep", "next.jsonl"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(stage.path().join("next.jsonl").exists());
}

#[test]
fn a_record_that_could_not_be_written_is_told_before_anything_is_spent() {
    let stage = Stage::new("Here.");
    for place in ["absent/turns.jsonl", "."] {
        let output = stage.nexus(&["run", "talker", "hello", "--keep", place]);
        assert_eq!(output.status.code(), Some(2), "{place}");
        assert!(text(&output.stderr).contains(place), "{}", text(&output.stderr));
    }
    assert!(stage.model.requests().is_empty(), "a turn was spent");
}

#[test]
fn a_file_that_holds_something_else_is_not_appended_to() {
    let stage = Stage::new("Here.");
    let configuration = fs::read_to_string(stage.path().join("nexus.yaml")).unwrap();
    fs::write(stage.path().join("data.json"), r#"{"backend":"main","state":1,"mine":2}"#).unwrap();
    for place in ["nexus.yaml", "data.json", "/dev/null"] {
        let output = stage.nexus(&["run", "talker", "hello", "--keep", place]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{place}: {said}");
        assert!(said.contains(place) && said.contains("name another file"), "{said}");
    }
    assert_eq!(fs::read_to_string(stage.path().join("nexus.yaml")).unwrap(), configuration);
    let output = stage.nexus(&["run", "talker", "hello", "--resume", "nexus.yaml"]);
    assert!(text(&output.stderr).contains("not a record of turns"), "{}", text(&output.stderr));
    assert!(stage.model.requests().is_empty(), "a turn was spent");
}

#[test]
fn a_conversation_goes_on_from_its_record_and_is_appended_to_it() {
    let stage = Stage::new("Here.");
    let run = |prompt: &str, way: &str| {
        let output = stage.nexus(&["run", "talker", prompt, way, "turns.jsonl", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    };
    run("Remember heron.", "--keep");
    run("What did I say?", "--resume");
    run("And before?", "--resume");
    let last = stage.model.main_calls().pop().unwrap();
    for words in ["Remember heron.", "What did I say?", "And before?"] {
        assert!(last.json.to_string().contains(words), "{words}");
    }
    let said: Value = serde_json::from_str(&stage.shown(&["--json"])).unwrap();
    let turns = said["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[1]["request"]["resumes"], "local");
    assert_eq!(turns[2]["outcome"]["result"]["provenance"]["backend"], "local");
}

#[test]
fn no_record_holds_the_credential_that_a_server_repeats() {
    let stage = Stage::new(&format!("Your key is {CANARY}, is it not?"));
    for kind in ["talker", "failing", "judges"] {
        stage.nexus(&["run", kind, "Which key do I have?", "--keep", "turns.jsonl"]);
    }
    let record = stage.record();
    assert!(!record.contains("canary-0123456789"), "{record}");
    assert!(record.contains("[redacted]"), "the server did repeat it");
    let shown = stage.shown(&[]);
    assert!(shown.contains("failed: unauthenticated"), "{shown}");
}

#[test]
fn every_seat_of_a_panel_is_recorded() {
    let stage = Stage::new("Fine.");
    let output = stage.nexus(&["run", "judges", "Is it good?", "--keep", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said: Value = serde_json::from_str(&stage.shown(&["--json"])).unwrap();
    let turns = said["turns"].as_array().unwrap();
    let names: Vec<_> = turns.iter().map(|turn| turn["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["judges, seat 0: main (edges)", "judges, seat 1: bad", "judges, seat 2: other"]);
    assert_eq!(turns[0]["outcome"]["result"]["text"], "Fine.");
    assert_eq!(turns[1]["outcome"]["error"]["kind"], "unauthenticated");
    assert_eq!(turns[2]["outcome"]["result"]["provenance"]["backend"], "second");
    let output = stage.nexus(&["run", "judges", "And now?", "--resume", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is a panel"), "{}", text(&output.stderr));
    let output = stage.nexus(&["run", "talker", "And now?", "--resume", "turns.jsonl"]);
    assert!(text(&output.stderr).contains("it contains no conversation"), "{}", text(&output.stderr));
}

#[test]
fn what_a_record_says_is_shown() {
    let stage = Stage::new("It is a heron.\nI am sure.");
    stage.nexus(&["run", "talker", "Which bird?", "--system", "Be brief.", "--keep", "turns.jsonl"]);
    stage.nexus(&["run", "failing", "And now?", "--keep", "turns.jsonl"]);
    // A writer that was killed in the middle.
    let whole = stage.record();
    let begins = whole.lines().next().unwrap().replace("\"turn\":\"", "\"turn\":\"0");
    fs::write(stage.path().join("turns.jsonl"), format!("{whole}{begins}\n{{\"turn\":\"x")).unwrap();
    let output = stage.nexus(&["show", "turns.jsonl"]);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    // What differs from run to run.
    let (mut shown, mut id) = (String::new(), 0);
    for line in said.lines() {
        let words = match line.split_once(' ').map_or(line, |(word, _)| word) {
            "turn" => {
                id += 1;
                format!("turn      ID-{id}")
            }
            "began" => match line.contains(", ") {
                true => "began     TIME, SECONDS".to_owned(),
                false => "began     TIME".to_owned(),
            },
            _ => line.to_owned(),
        };
        shown.push_str(&words);
        shown.push('\n');
    }
    insta::assert_snapshot!("shown_record", shown);
}

#[test]
fn a_conversation_of_a_record_is_forgotten() {
    let stage = Stage::new("Here.");
    for (prompt, way) in [("Remember heron.", "--keep"), ("What did I say?", "--resume")] {
        let output = stage.nexus(&["run", "talker", prompt, way, "turns.jsonl", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let output = stage.nexus(&["forget", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line = "talker · local: only in this file; delete the file to forget it\n";
    assert_eq!(text(&output.stdout), line.repeat(2));
    let output = stage.nexus(&["run", "talker", "And now?", "--resume", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("its conversation was forgotten"), "{}", text(&output.stderr));
    assert!(stage.shown(&[]).contains("no, because its conversation was forgotten"));
    let output = stage.nexus(&["forget", "turns.jsonl"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("it contains no conversation to forget"),
        "{}",
        text(&output.stderr)
    );

    // One whose backend the configuration does not have any more.
    stage.nexus(&["run", "talker", "Hello.", "--keep", "turns.jsonl"]);
    let path = stage.path().join("nexus.yaml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, config.replace("local", "nearby")).unwrap();
    let output = stage.nexus(&["forget", "turns.jsonl", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert!(said["reason"].as_str().unwrap().contains("the configuration does not contain it"), "{said}");
    fs::write(&path, config).unwrap();
    assert_eq!(stage.nexus(&["forget", "turns.jsonl"]).status.code(), Some(0));
    let output = stage.nexus(&["forget", "absent.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!stage.path().join("absent.jsonl").exists());
}
