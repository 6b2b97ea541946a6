//! The `nexus` command as a person uses it.

use std::{fs, process::Output};

use crate::support::Folder;

const ROUTES: &str = "\
groups: { anthropic: [claude-cli] }
models: { strong: { anthropic: opus } }
types: { executor: { tier: execution, phase: implement, group: anthropic, model: strong } }
";

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_names_what_is_there() {
    let output = Folder::with(ROUTES).nexus(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("work-kinds  executor"), "{}", stdout(&output));
    assert!(stdout(&output).contains("claude-cli"), "{}", stdout(&output));
}

#[test]
fn check_with_probe_says_what_is_missing_and_how_to_mend_it() {
    let output = Folder::with(ROUTES).nexus(&["check", "--probe"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("not installed"), "{}", stdout(&output));
}

#[test]
fn no_configuration_is_told_with_the_way_out() {
    let folder = Folder::empty();
    let output = folder.nexus(&["explain"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nexus check --example > "), "{}", stderr(&output));
}

#[test]
fn the_example_that_the_hint_names_is_a_configuration() {
    let folder = Folder::empty();
    let output = folder.nexus(&["check", "--example"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::write(folder.path().join("nexus.yaml"), &output.stdout).unwrap();
    let output = folder.nexus(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("executor"), "{}", stdout(&output));
}

#[test]
fn a_build_without_logins_has_a_status_too() {
    let output = Folder::with(ROUTES).nexus(&["status"]);
    assert_eq!(output.status.code(), Some(1), "nothing could run: {}", stderr(&output));
    let told = stdout(&output);
    assert!(told.contains("claude-cli  not installed"), "{told}");
    assert!(told.contains("executor: no backend could run it"), "{told}");
}

#[test]
fn explain_starts_nothing_and_speaks_json() {
    let folder = Folder::with(ROUTES);
    let output = folder.nexus(&["explain", "executor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let explanation: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(explanation["kind"], "executor");
    assert!(!folder.path().join("nexus-home").exists(), "explaining wrote something");
}

#[test]
fn explain_names_the_instructions_of_the_project_that_a_backend_reads() {
    let folder = Folder::empty();
    let configuration = "\
        backends:\n  a: { kind: chat, base_url: 'http://127.0.0.1:9' }\n\
        \x20 b: { kind: chat, base_url: 'http://127.0.0.1:9', project_text: false }\n\
        groups: { g: [a, b] }\n\
        types: { executor: { group: g } }\n";
    fs::create_dir(folder.nexus_home()).unwrap();
    fs::write(folder.nexus_home().join("nexus.yaml"), configuration).unwrap();
    fs::create_dir_all(folder.path().join("repo/.git")).unwrap();
    fs::create_dir_all(folder.path().join("repo/part")).unwrap();
    fs::write(folder.path().join("repo/AGENTS.md"), "outer").unwrap();
    fs::write(folder.path().join("repo/part/AGENTS.md"), "inner").unwrap();
    let explain = |below: &str, arguments: &[&str]| {
        let mut command = folder.command(&["explain", "executor"]);
        let output = command.args(arguments).current_dir(folder.path().join(below)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let root = folder.path().canonicalize().unwrap();
    let [outer, inner] = ["repo/AGENTS.md", "repo/part/AGENTS.md"].map(|file| root.join(file));
    let said = explain("repo/part", &[]);
    let line = format!("instructions of the project: a reads {}, {}\n", outer.display(), inner.display());
    assert!(said.contains(&line) && !said.contains("b reads"), "{said}");
    let said: serde_json::Value = serde_json::from_str(&explain("repo/part", &["--json"])).unwrap();
    assert_eq!(
        said["project_instructions"],
        serde_json::json!([{ "backend": "a", "files": [outer, inner] }])
    );
    assert!(!explain("", &[]).contains("instructions of the project"));
}

#[test]
fn a_turn_without_its_program_fails_before_anything_is_spent() {
    let output = Folder::with(ROUTES).nexus(&["run", "executor", "hello"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not installed"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn help_is_there_for_every_command() {
    let folder = Folder::with(ROUTES);
    let mut commands = vec!["run", "explain", "check", "status"];
    if cfg!(feature = "login") {
        commands.extend(["login", "logout"]);
    }
    if cfg!(feature = "keyring") {
        commands.push("key");
    }
    let all = stdout(&folder.nexus(&["--help"]));
    for command in commands {
        assert!(all.contains(&format!("\n  {command} ")), "{command} is not in {all}");
        let output = folder.nexus(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("Usage:"), "{command}");
    }
}
