//! `nexus agent`: rows of one's own, and what the folder of a stranger cannot add.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Folder, text};

const REGISTRY: &str = r#"{
  "version": "1.0.0",
  "agents": [
    { "id": "one", "name": "One", "version": "2.0.0", "description": "d", "website": "https://one.test",
      "distribution": { "npx": { "package": "@scope/one@2.0.0", "args": ["--acp"], "env": { "ONE_QUIET": "1" } } } },
    { "id": "two", "name": "Two", "version": "1.0.0", "description": "d", "repository": "https://two.test",
      "distribution": { "uvx": { "package": "two-acp==1.0.0", "cmd": "two", "args": [] } } },
    { "id": "three", "name": "Three", "version": "1.0.0", "description": "d",
      "distribution": { "binary": { "plan9-mips": { "archive": "https://three.test/a.zip", "cmd": "./three" } } } }
  ]
}"#;

fn added(folder: &Folder, arguments: &[&str]) -> Value {
    let output = folder.nexus(&[&["agent", "add"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.nexus(arguments);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr).to_owned()
}

#[test]
fn a_command_becomes_a_row_once_and_is_listed_as_yours() {
    let folder = Folder::empty();
    let row = added(&folder, &["mine", "--command", "my-agent --acp 'a b'"]);
    assert_eq!(row["row"], json!({ "program": "my-agent", "arguments": ["--acp", "a b"] }));
    assert!(row["entry"].as_str().unwrap().contains("mine: { kind: acp, agent: mine }"));
    let list = folder.nexus(&["agent", "list"]);
    let line = text(&list.stdout).lines().find(|line| line.starts_with("mine ")).unwrap().to_owned();
    assert!(line.ends_with("yours"), "{line}");
    let again = ["agent", "add", "mine", "--command", "other"];
    assert!(refused(&folder, &again).contains("--force"));
    added(&folder, &["mine", "--command", "other", "--force"]);
    for (name, command) in [("../up", "x"), ("mine2", "./here"), ("mine2", "'"), ("mine2", " ")] {
        refused(&folder, &["agent", "add", name, "--command", command]);
    }
}

#[test]
fn an_entry_of_a_registry_becomes_a_row_and_nothing_is_installed() {
    let folder = Folder::empty();
    fs::write(folder.path().join("registry.json"), REGISTRY).unwrap();
    let one = added(&folder, &["one", "--registry", "registry.json"]);
    assert_eq!(one["row"]["program"], "one");
    assert_eq!(one["row"]["arguments"], json!(["--acp"]));
    assert_eq!(one["row"]["always"], json!({ "variables": { "ONE_QUIET": "1" } }));
    assert_eq!((&one["row"]["title"], &one["row"]["source"]), (&json!("One"), &json!("https://one.test")));
    assert!(one["install"].as_str().unwrap().contains("npm install --global @scope/one@2.0.0"), "{one}");
    let two = added(&folder, &["two", "--registry", "registry.json", "--program", "/opt/two"]);
    assert_eq!(two["row"]["program"], "/opt/two");
    assert!(two["install"].as_str().unwrap().contains("uv tool install two-acp==1.0.0"), "{two}");
    let registry = |name| refused(&folder, &["agent", "add", name, "--registry", "registry.json"]);
    assert!(registry("three").contains("plan9-mips"));
    assert!(registry("four").contains("one, two, three"));
    fs::write(folder.path().join("bad.json"), "{ \"agents\": 5 }").unwrap();
    assert!(refused(&folder, &["agent", "add", "one", "--registry", "bad.json"]).contains("bad.json"));
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_the_others_are_listed() {
    let folder = Folder::empty();
    added(&folder, &["good", "--command", "good"]);
    fs::write(folder.nexus_home().join("agents/bad.json"), r#"{ "program": "x", "hosts": 5 }"#).unwrap();
    let list = folder.nexus(&["agent", "list"]);
    assert!(list.status.success() && text(&list.stdout).contains("\ngood "), "{}", text(&list.stdout));
    let told = text(&list.stderr);
    assert!(told.contains("bad.json") && told.contains("\"bad\"") && told.contains("hosts"), "{told}");
    assert!(refused(&folder, &["agent", "show", "bad"]).contains("hosts"));
}

#[test]
fn the_folder_of_a_project_adds_no_agent() {
    let folder = Folder::empty();
    for place in [".nexus/agents", "agents"] {
        fs::create_dir_all(folder.path().join(place)).unwrap();
        fs::write(folder.path().join(place).join("evil.json"), r#"{ "program": "evil" }"#).unwrap();
    }
    assert!(!text(&folder.nexus(&["agent", "list"]).stdout).contains("evil"));
    assert!(refused(&folder, &["agent", "show", "evil"]).contains("unknown agent"));
}

#[cfg(feature = "judge")]
#[test]
fn an_agent_that_cannot_be_judged_is_refused_with_the_reason() {
    let folder = Folder::empty();
    assert!(refused(&folder, &["agent", "judge", "nobody"]).contains("unknown agent"));
    assert!(refused(&folder, &["agent", "judge", "opencode"]).contains("npm install --global opencode-ai"));
}
