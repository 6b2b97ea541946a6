//! A model behind an API as an agent: it changes a file, runs a check, and answers, on each wire.
#![cfg(target_os = "linux")]

use std::fs;

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use serde_json::json;

use crate::support::{Folder, text};

#[test]
fn a_model_behind_each_wire_changes_a_file_and_checks_it() {
    for (kind, dialect) in [
        ("responses", Dialect::Responses),
        ("chat", Dialect::Chat),
        ("messages", Dialect::Anthropic),
        ("gemini", Dialect::Gemini),
    ] {
        let check = json!({ "command": "grep -q 42 answer.txt && echo passes" });
        let script = [
            Reply::call(ToolCall::function("read_file", json!({ "path": "question.txt" }))),
            Reply::call(ToolCall::function("write_file", json!({ "path": "answer.txt", "content": "42\n" }))),
            Reply::call(ToolCall::function("run_command", check)),
            Reply::text("The check passes."),
        ];
        let model = Sim::start(dialect, Scenario::new(script).models(["simulated"])).unwrap();
        let folder = Folder::with(&format!(
            "backends: {{ local: {{ kind: {kind}, base_url: {:?}, model: simulated, vendor: one }} }}\n\
             groups: {{ main: [local] }}\n\
             types: {{ executor: {{ group: main }} }}\n",
            model.base_url()
        ));
        let project = folder.path().join("project");
        fs::create_dir(&project).unwrap();
        fs::write(project.join("question.txt"), "six times seven").unwrap();
        fs::write(project.join("AGENTS.md"), "Write the answer into answer.txt.").unwrap();
        let arguments = ["run", "Answer the question.", "--cd", "project", "--access", "workspace-write"];
        let output = folder.nexus(&arguments);
        assert_eq!(output.status.code(), Some(0), "{kind}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout).trim(), "The check passes.", "{kind}");
        assert_eq!(fs::read_to_string(project.join("answer.txt")).unwrap(), "42\n", "{kind}");
        let calls = model.main_calls();
        let last = calls.last().unwrap().json.to_string();
        assert!(last.contains("six times seven"), "{kind}: {last}");
        assert!(last.contains("Write the answer into answer.txt."), "{kind}: {last}");
        let has_sandbox = last.contains("exit code 0");
        assert!(has_sandbox || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{kind}: {last}");
    }
}
