//! The `nexus` command as a person uses it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const ROUTES: &str = "\
groups: { anthropic: [claude-cli] }
models: { strong: { anthropic: opus } }
types: { executor: { tier: execution, phase: implement, group: anthropic, model: strong } }
";

/// A folder to run in, with a home of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn with(config: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path().join("nexus.yaml"), config).unwrap();
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn nexus(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nexus"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path())
            .env("NEXUS_HOME", self.path().join("nexus-home"))
            .output()
            .unwrap()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn check_names_what_is_there() {
    let output = Place::with(ROUTES).nexus(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("work-kinds  executor"), "{}", stdout(&output));
    assert!(stdout(&output).contains("claude-cli"), "{}", stdout(&output));
}

#[test]
fn check_with_probe_says_what_is_missing_and_how_to_mend_it() {
    let output = Place::with(ROUTES).nexus(&["check", "--probe"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("not installed"), "{}", stdout(&output));
}

#[test]
fn a_typo_is_told_with_its_place_and_the_word_that_was_meant() {
    let place = Place::with(&ROUTES.replace("group: anthropic", "group: antropic"));
    let output = place.nexus(&["check"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(told.contains("nexus.yaml:3:"), "{told}");
    assert!(told.contains("did you mean \"anthropic\""), "{told}");
}

#[test]
fn no_configuration_is_told_with_the_way_out() {
    let place = Place(tempfile::tempdir().unwrap());
    let output = place.nexus(&["explain"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nexus check --example > nexus.yaml"), "{}", stderr(&output));
}

#[test]
fn the_example_that_the_hint_names_is_a_configuration() {
    let place = Place(tempfile::tempdir().unwrap());
    let output = place.nexus(&["check", "--example"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::write(place.path().join("nexus.yaml"), &output.stdout).unwrap();
    let output = place.nexus(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("executor"), "{}", stdout(&output));
}

#[test]
fn a_build_without_logins_has_a_status_too() {
    let output = Place::with(ROUTES).nexus(&["status"]);
    assert_eq!(output.status.code(), Some(1), "nothing could run: {}", stderr(&output));
    let told = stdout(&output);
    assert!(told.contains("claude-cli  not installed"), "{told}");
    assert!(told.contains("executor: nothing could run it"), "{told}");
}

#[test]
fn explain_starts_nothing_and_speaks_json() {
    let place = Place::with(ROUTES);
    let output = place.nexus(&["explain", "executor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let explanations: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(explanations.as_array().map(Vec::len), Some(1));
    assert!(!place.path().join("nexus-home").exists(), "explaining wrote something");
}

#[test]
fn an_unknown_kind_is_told_with_the_one_that_was_meant() {
    let output = Place::with(ROUTES).nexus(&["run", "executer", "hello"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean \"executor\""), "{}", stderr(&output));
}

#[test]
fn a_turn_without_its_program_fails_before_anything_is_spent() {
    let output = Place::with(ROUTES).nexus(&["run", "executor", "hello"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not installed"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn help_is_there_for_every_command() {
    let place = Place::with(ROUTES);
    let mut commands = vec!["run", "explain", "check", "status"];
    if cfg!(feature = "login") {
        commands.extend(["login", "logout"]);
    }
    if cfg!(feature = "keyring") {
        commands.push("key");
    }
    let all = stdout(&place.nexus(&["--help"]));
    for command in commands {
        assert!(all.contains(&format!("\n  {command} ")), "{command} is not in {all}");
        let output = place.nexus(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("Usage:"), "{command}");
    }
}
