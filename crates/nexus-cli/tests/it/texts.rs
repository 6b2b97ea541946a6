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

/// Wrong inputs of a new user. Each answer names the place, the reason and a way out: read the snapshot for that.
const WRONG_INPUTS: &[&[&str]] = &[
    &["run"],
    &["run", "executor", ""],
    &["run", "executor", "hi", "--cd", "absent"],
    &["run", "executor", "hi", "--deadline", "0"],
    &["run", "executor", "hi", "--deadline", "-3"],
    &["run", "executor", "hi", "--schema", "nexus.yaml"],
    &["run", "executor", "hi", "--schema", "absent.json"],
    &["run", "executor", "hi", "--effort", "hugest"],
    &["run", "executor", "hi", "--image", "nexus.yaml"],
    &["run", "executor", "hi", "--resume", "absent.jsonl"],
    &["run", "executor", "hi", "--conversation", "../x"],
    &["run", "executor", "hi", "--access", "everything"],
    &["explain", "foo"],
    &["show", "absent.jsonl"],
    &["show", "nexus.yaml"],
    &["forget", "absent.jsonl"],
    &["conversation", "show", "nope"],
    &["conversation", "fork", "nope", "other"],
    &["task", "status", "nope"],
    &["task", "status", "last"],
    &["task", "reopen", "last", "note", "--from", "0"],
    &["task", "list", "--status", "done"],
    &["task", "new", "goal", "--project", "absent"],
    &["task", "run", "last"],
    &["debate", "show", "last"],
    &["debate", "list", "--status", "open"],
    &["project", "begin", "7"],
    &["project", "roles", "nope"],
    &["project", "schema", "nope.json"],
    &["artifact", "lint", "absent"],
    &["artifact", "status", "M1"],
    &["artifact", "mark", "M001-S001-T0001", "finished"],
    &["artifact", "new", "slice", "M009", "Form"],
    &["skills", "info", "nope"],
    &["skills", "install", "writing", "--hub", "absent"],
    &["skills", "install", "writing"],
    &["session", "show", "clerk"],
    &["testbed", "report", "absent"],
    &["testbed", "list", "--trap", "nope"],
    &["hold", "release", "nope"],
    &["completions", "tcsh"],
    &["schema", "output", "nope"],
    &["login", "nope"],
    &["--verbose"],
    &["fleet", "status"],
    &["trigger", "at", "clerk", "tomorrow", "x"],
    &["mcp", "spawn", "--http", "70000"],
    &["broker", "send", "nobody", "hi"],
];

#[test]
fn wrong_inputs() {
    let shown = WRONG_INPUTS.iter().map(|arguments| {
        let quoted = arguments.iter().map(|word| if word.is_empty() { "''" } else { word });
        let told = nexus(EXAMPLE, arguments);
        assert!(!told.starts_with("exit code 0"), "{arguments:?}: {told}");
        format!("$ nexus {}\n{}\n", quoted.collect::<Vec<_>>().join(" "), told.trim_end())
    });
    assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}
