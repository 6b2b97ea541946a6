//! The texts of the `nexus` command, word for word. A changed text is a changed snapshot, to be read before it is
//! taken: `INSTA_UPDATE=always cargo test -p nexus-turn-cli --test it texts`, then `git diff`.

use insta::assert_snapshot;

use crate::support::Folder;

const EXAMPLE: &str = include_str!("../../../../nexus.yaml.example");

/// What a command writes, both streams, and its exit code, in a folder with this configuration.
fn nexus(config: &str, arguments: &[&str]) -> String {
    let folder = Folder::with(config);
    // No program of a vendor's is found.
    let output = folder.command(arguments).env("PATH", folder.path()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap().replace(folder.path().to_str().unwrap(), "HOME");
    format!("exit code {}\n\n{text}", output.status.code().unwrap())
}

#[test]
fn help() {
    for command in [
        "",
        "run",
        "show",
        "forget",
        "conversation",
        "conversation list",
        "conversation show",
        "conversation fork",
        "conversation delete",
        "explain",
        "check",
        "status",
        "doctor",
        "login",
        "logout",
        "key",
        "key set",
        "key list",
        "key remove",
        "acp",
        "mcp",
        "mcp spawn",
        "mcp debate",
        "mcp project",
        "project",
        "project add",
        "project install",
        "project conformance",
        "hook",
        "debate",
        "debate new",
        "debate advance",
        "artifact",
        "artifact lint",
        "artifact gate",
        "worker",
        "fleet",
        "fleet status",
        "fleet setup",
        "fleet key",
        "completions",
        "manual",
    ] {
        let arguments: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let name = format!("help {command}").trim_end().replace(' ', "_");
        assert_snapshot!(name, nexus(EXAMPLE, &arguments));
    }
}

#[test]
fn explain_of_the_example() {
    assert_snapshot!(nexus(EXAMPLE, &["explain"]));
}

#[test]
fn check_of_the_example() {
    assert_snapshot!(nexus(EXAMPLE, &["check"]));
}

#[test]
fn check_of_a_configuration_with_faults() {
    let config = "\
groups: { anthropic: [claud-cli], empty: [] }
models: { strong: { anthropic: opus, openia: gpt } }
types:
  executor: { tier: execution, phase: implement, group: antropic, model: strong, efort: high }
  reviewer: { tier: 7, phase: review, group: anthropic }
";
    assert_snapshot!(nexus(config, &["check"]));
}

#[test]
fn what_is_no_command_and_no_work_kind() {
    assert_snapshot!("no_command", nexus(EXAMPLE, &["rum"]));
    assert_snapshot!("no_work_kind", nexus(EXAMPLE, &["run", "executer", "hello"]));
    assert_snapshot!("no_configuration", nexus("", &["--config", "absent.yaml", "explain"]));
}
