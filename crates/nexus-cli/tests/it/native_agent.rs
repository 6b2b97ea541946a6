//! A model behind an API as an agent: it changes a file, runs a check, and answers, on each wire.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use nexus_testkit::sim::{Dialect, Item, Reply, Scenario, Sim, ToolCall};
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

#[test]
fn a_named_conversation_goes_on_behind_another_wire_as_items() {
    let call = ToolCall::function("read_file", json!({ "path": "question.txt" }));
    let scenario = Scenario::new([Reply::call(call), Reply::text("It asks for six times seven.")])
        .then(Reply::text("42."));
    let models: Vec<_> = [Dialect::Responses, Dialect::Chat, Dialect::Anthropic, Dialect::Gemini]
        .map(|dialect| Sim::start(dialect, scenario.clone()).unwrap())
        .into();
    let backend = |kind: &str, model: &Sim| {
        format!(
            "  {kind}: {{ kind: {kind}, base_url: {:?}, model: simulated, vendor: {kind} }}\n",
            model.base_url()
        )
    };
    let kinds = ["responses", "chat", "messages", "gemini"];
    let mut yaml = "backends:\n".to_owned();
    yaml.extend(kinds.iter().zip(&models).map(|(kind, model)| backend(kind, model)));
    yaml.push_str("groups:\n");
    yaml.extend(kinds.map(|kind| format!("  {kind}: [{kind}]\n")));
    yaml.push_str("types:\n");
    yaml.extend(kinds.map(|kind| format!("  ask-{kind}: {{ group: {kind} }}\n")));
    let folder = Folder::with(&yaml);
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("question.txt"), "six times seven").unwrap();
    for (kind, prompt) in
        kinds.iter().zip(["What does it ask?", "And the answer?", "Are you sure?", "Really?"])
    {
        let work = format!("ask-{kind}");
        let arguments =
            ["run", &work, prompt, "--cd", "project", "--access", "read-only", "--conversation", "sum"];
        let output = folder.nexus(&arguments);
        assert_eq!(output.status.code(), Some(0), "{kind}: {}", text(&output.stderr));
    }
    for (model, prompts) in models.iter().zip([1, 2, 3, 4]) {
        let calls = model.main_calls();
        let conversation = &calls.last().unwrap().conversation;
        assert_eq!(conversation.user_texts().len(), prompts, "{:?}", conversation.items);
        let has_call = |item: &Item| matches!(item, Item::ToolCall { name, .. } if name == "read_file");
        assert!(conversation.items.iter().any(has_call), "{:?}", conversation.items);
        assert!(conversation.tool_results()[0].contains("six times seven"));
    }
}

#[test]
fn a_command_reaches_the_hosts_of_the_entry_and_a_refused_one_is_reported_with_the_setting() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"served\n");
        }
    });
    let allowed = format!("exec 3<>/dev/tcp/localhost/{port}; echo x >&3; cat <&3");
    let refused = "[ $HTTPS_PROXY = http://127.0.8.1:3128 ] && exec 3<>/dev/tcp/127.0.8.1/3128; printf 'CONNECT pypi.org:443 HTTP/1.1\r\n\r\n' >&3; cat <&3";
    let script = [
        Reply::call(ToolCall::function("run_command", json!({ "command": allowed }))),
        Reply::call(ToolCall::function("run_command", json!({ "command": refused }))),
        Reply::text("Done."),
    ];
    let model = Sim::start(Dialect::Chat, Scenario::new(script).models(["simulated"])).unwrap();
    let folder = Folder::with(&format!(
        "backends: {{ local: {{ kind: chat, base_url: {:?}, model: simulated, vendor: one, command_hosts: [\"localhost:{port}\"] }} }}\n\
         groups: {{ main: [local] }}\n\
         types: {{ executor: {{ group: main }} }}\n",
        model.base_url()
    ));
    fs::create_dir(folder.path().join("project")).unwrap();
    let arguments = ["run", "Look.", "--cd", "project", "--access", "workspace-write"];
    let output = folder.nexus(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let last = model.main_calls().last().unwrap().json.to_string();
    if !last.contains("exit code") {
        assert!(std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{last}");
        return;
    }
    assert!(last.contains("served"), "{last}");
    assert!(last.contains("403 Forbidden") && last.contains("the network refused: pypi.org:443"), "{last}");
    let said = text(&output.stderr);
    let setting = "add pypi.org to `command_hosts`";
    assert_eq!(said.matches(setting).count(), 1, "{said}");
}

#[test]
fn the_opener_of_networks_is_not_a_command_for_persons() {
    let output = Folder::with("").nexus(&["open-sandbox-network"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("it is started by Nexus alone"), "{}", text(&output.stderr));
}
