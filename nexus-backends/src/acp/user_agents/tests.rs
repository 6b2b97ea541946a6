//! Agents of the home: what they add and replace, and what their faults leave alone.

use std::fs;

use nexus_core::{BackendKind, BuildContext};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::acp::{Acp, JudgedCase, agents};

fn home(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(FOLDER)).unwrap();
    for (name, text) in files {
        fs::write(home.path().join(FOLDER).join(name), text).unwrap();
    }
    home
}

fn built(home: &Path, agent: &str) -> Result<(), SettingsError> {
    let kind = Acp::of([]);
    let settings = Map::from_iter([("agent".to_owned(), json!(agent))]);
    kind.build("mine".into(), &settings, &BuildContext::in_home(home)).map(drop)
}

#[test]
fn a_file_adds_an_agent_and_another_replaces_one_of_nexus() {
    let home = home(&[
        ("mine.json", r#"{ "program": "mine", "arguments": ["--acp"], "vendor": "me" }"#),
        ("opencode.json", r#"{ "program": "/opt/opencode", "arguments": ["acp"], "title": "Mine" }"#),
    ]);
    let context = BuildContext::in_home(home.path());
    let list = agents(&context);
    assert!(list.faults.is_empty(), "{:?}", list.faults);
    let named = |name: &str| list.agents.iter().find(|agent| agent.name == name).unwrap();
    assert_eq!((named("mine").is_yours, named("mine").command.join(" ")), (true, "mine --acp".to_owned()));
    assert_eq!((named("opencode").is_yours, named("opencode").title.as_str()), (true, "Mine"));
    assert!(!named("goose").is_yours);
    built(home.path(), "mine").unwrap();
    let settings = Map::from_iter([("agent".to_owned(), json!("mine"))]);
    assert_eq!(Acp::of([]).vendor(&settings, &context).as_str(), "me");
}

#[test]
fn a_fault_names_file_agent_and_key_and_the_other_agents_work() {
    for (text, key) in [
        ("[", ""),
        ("[]", ""),
        (r#"{ "program": 5 }"#, "program"),
        (r#"{ "program": "./run" }"#, "program"),
        (r#"{ "arguments": ["acp"] }"#, "program"),
        (r#"{ "program": "x", "hosts": ["https://a.test/"] }"#, "hosts"),
        (r#"{ "program": "x", "login_folders": ["../x"] }"#, "login_folders"),
        (r#"{ "program": "x", "with_key": { "arguments": ["--key={key}"] } }"#, "with_key.arguments"),
        (
            r#"{ "program": "x", "resumes": true, "with_key": { "files": { "a.json": { "k": "{key}" } } } }"#,
            "with_key.files.a.json",
        ),
        (r#"{ "program": "x", "wire": "chat" }"#, "wire"),
        (r#"{ "program": "x", "with_server": {}, "wire": "smoke" }"#, "wire"),
        (r#"{ "program": "x", "with_key": { "variables": { "A B": "" } } }"#, "with_key.variables.A B"),
        (r#"{ "program": "x", "always": { "files": { "/etc/x": "" } } }"#, "always.files./etc/x"),
        (r#"{ "judged": { "date": "2027-01-31", "cases": {}, "levels": {} } }"#, "program"),
    ] {
        let home = home(&[("bad.json", text), ("good.json", r#"{ "program": "good" }"#)]);
        let list = agents(&BuildContext::in_home(home.path()));
        let [fault] = list.faults.as_slice() else { panic!("{text}: {:?}", list.faults) };
        assert_eq!((fault.agent.as_str(), fault.key.as_str()), ("bad", key), "{text}: {fault}");
        assert!(fault.to_string().contains("bad.json"), "{fault}");
        assert!(list.agents.iter().any(|agent| agent.name == "good" && agent.is_yours), "{text}");
        built(home.path(), "good").unwrap();
        let error = built(home.path(), "bad").unwrap_err();
        assert_eq!(error.path, ["agent"]);
        assert_eq!(built(home.path(), "opencode"), Ok(()));
    }
}

#[test]
fn a_name_never_leads_out_of_the_folder() {
    let home = home(&[]);
    fs::write(home.path().join("outside.json"), r#"{ "program": "x" }"#).unwrap();
    for name in ["../outside", "", ".hidden", "a/b"] {
        assert_eq!(built(home.path(), name).unwrap_err().path, ["agent"], "{name}");
        let row = Map::from_iter([("program".to_owned(), json!("x"))]);
        assert!(AgentFiles::in_home(home.path()).write_row(name, &row, true).is_err(), "{name}");
    }
    // A link leads elsewhere, for example into a project.
    std::os::unix::fs::symlink(home.path().join("outside.json"), home.path().join("agents/link.json"))
        .unwrap();
    assert!(built(home.path(), "link").unwrap_err().reason.contains("regular"));
}

#[test]
fn a_row_is_written_once_and_a_judgement_stays_beside_it() {
    let home = home(&[]);
    let files = AgentFiles::in_home(home.path());
    let row = |program: &str| Map::from_iter([("program".to_owned(), json!(program))]);
    let judgement = AgentJudgement {
        date: "2027-01-31".to_owned(),
        cases: [("a_short_answer_arrives".to_owned(), JudgedCase::Passed)].into(),
        ..AgentJudgement::default()
    };
    files.record("opencode", &judgement).unwrap();
    let list = agents(&BuildContext::in_home(home.path()));
    let opencode = list.agents.iter().find(|agent| agent.name == "opencode").unwrap();
    assert!(!opencode.is_yours && opencode.judged.as_ref() == Some(&judgement));
    // A judgement alone is no row.
    assert_eq!(files.write_row("opencode", &row("one"), false), Ok(true));
    files.record("opencode", &judgement).unwrap();
    assert_eq!(files.write_row("opencode", &row("two"), false), Ok(false));
    let read = files.read("opencode").unwrap().unwrap();
    assert_eq!((read.row.unwrap().program.as_str(), read.judged), ("one", Some(judgement.clone())));
    assert_eq!(files.write_row("opencode", &row("two"), true), Ok(true));
    assert_eq!(files.read("opencode").unwrap().unwrap().judged, None);
    assert_eq!(files.write_row("x", &row(""), false).unwrap_err().key, "program");
    // A judgement that cannot be read is a fault of the list alone, and a new one replaces it.
    let broken = json!({ "program": "two", "judged": { "date": 5 } });
    std::fs::write(files.path("opencode"), broken.to_string()).unwrap();
    assert_eq!(files.read_row("opencode").unwrap().unwrap().program, "two");
    assert_eq!(agents(&BuildContext::in_home(home.path())).faults[0].key, "judged.date");
    files.record("opencode", &judgement).unwrap();
    assert!(files.read("opencode").unwrap().unwrap().judged.is_some());
}

#[test]
fn a_row_that_could_not_be_read_again_is_not_written() {
    let home = tempfile::tempdir().unwrap();
    let files = AgentFiles::in_home(home.path());
    let row = json!({ "program": "mine", "arguments": ["x".repeat(300 << 10)] });
    let error = files.write_row("mine", row.as_object().unwrap(), false).unwrap_err();
    assert!(error.reason.contains("at most 262144 bytes"), "{error}");
    assert!(!files.path("mine").exists());
}
