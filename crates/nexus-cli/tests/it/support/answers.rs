//! Lines that a command prints with `--json`, held against the schema that `nexus schema output` prints.

use std::{collections::BTreeSet, process::Command, sync::OnceLock};

use serde_json::Value;

use super::text;

/// Every command that has JSON output, by name.
pub(crate) fn commands() -> &'static BTreeSet<String> {
    static COMMANDS: OnceLock<BTreeSet<String>> = OnceLock::new();
    COMMANDS.get_or_init(|| schema(&[]).lines().map(str::to_owned).collect())
}

fn schema(command: &[&str]) -> String {
    let mut nexus = Command::new(env!("CARGO_BIN_EXE_nexus"));
    let output = nexus.args(["schema", "output"]).args(command).env_clear().output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The command that a command line names: the words of its name, in order, with options among them.
pub(crate) fn named(arguments: &[&str]) -> Option<&'static str> {
    let at = |command: &str| {
        let mut words = arguments.iter().enumerate().filter(|(_, word)| **word != "--json");
        let found = command.split(' ').map(|name| Some(words.find(|(_, word)| **word == name)?.0));
        found.collect::<Option<Vec<_>>>()
    };
    let found = commands().iter().filter_map(|command| Some((at(command)?, command)));
    found.min().map(|(_, command)| command.as_str())
}

/// Panics unless every line of a command's standard output is as its schema says; returns the lines.
#[track_caller]
pub(crate) fn checked(arguments: &[&str], stdout: &str) -> Vec<Value> {
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {line}"))
        })
        .collect();
    // A command line that names none is refused, also as JSON.
    let command = named(arguments).unwrap_or("check");
    let schema: Value = serde_json::from_str(&schema(&command.split(' ').collect::<Vec<_>>())).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in &lines {
        let faults: Vec<_> = validator.iter_errors(line).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{arguments:?}: {faults:#?}: {line:#}");
    }
    lines
}
