//! The section `mcp_servers` in the turns of the command, and in the commands that list it.
#![cfg(target_os = "linux")]

use std::fs;

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use serde_json::{Value, json};

use crate::support::{Folder, text};

/// A server with one tool, `look`. A start and a call each leave a file in the folder that the server writes in.
const SERVER: &str = r#"echo > OUT/started
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}]}}';;
    *'"tools/call"'*) echo > OUT/called; echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"a green tree"}]}}';;
    esac
done"#;

/// A configuration with a model behind an API, and these further keys of the server `trees`.
fn configured(model: &Sim, keys: &str, more: &str) -> Folder {
    let folder = Folder::empty();
    let out = folder.path().join("project");
    fs::create_dir(&out).unwrap();
    let script = SERVER.replace("OUT", &out.display().to_string());
    let command = serde_json::to_string(&["sh", "-c", &script]).unwrap();
    let yaml = format!(
        "backends: {{ local: {{ kind: chat, base_url: {:?}, model: simulated, vendor: one }} }}\n\
         groups: {{ main: [local] }}\n\
         types: {{ executor: {{ group: main }} }}\n\
         mcp_servers:\n  trees:\n    command: {command}\n{keys}{more}",
        model.base_url()
    );
    fs::write(folder.path().join("nexus.yaml"), yaml).unwrap();
    folder
}

fn model() -> Sim {
    let call = Reply::call(ToolCall::function("trees_look", json!({})));
    let scenario = Scenario::new([call, Reply::text("Done.")]).models(["simulated"]);
    Sim::start(Dialect::Chat, scenario).unwrap()
}

const RUN: [&str; 6] = ["run", "Look.", "--cd", "project", "--access", "unrestricted"];

#[test]
fn a_turn_calls_a_tool_of_the_configuration_and_a_missing_server_is_its_first_event() {
    let model = model();
    let folder = configured(&model, "    approval: never\n", "  gone: { command: [./gone] }\n");
    let output = folder.nexus(&[&RUN[..], &["--json"]].concat());
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown} {}", text(&output.stderr));
    let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    assert!(first.to_string().contains("mcp_servers.gone: its tools are missing"), "{first}");
    assert!(folder.path().join("project/called").exists());
    let last = model.main_calls().last().unwrap().json.to_string();
    assert!(last.contains("a green tree"), "{last}");
}

#[test]
fn without_a_person_a_call_is_denied() {
    let model = model();
    let folder = configured(&model, "", "");
    let output = folder.nexus(&RUN);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(folder.path().join("project/started").exists());
    assert!(!folder.path().join("project/called").exists());
    let last = model.main_calls().last().unwrap().json.to_string();
    assert!(!last.contains("a green tree"), "{last}");
}

#[test]
fn a_turn_without_a_required_server_does_not_run() {
    let model = model();
    let folder = configured(&model, "", "  gone: { command: [./gone], required: true }\n");
    let output = folder.nexus(&RUN);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("mcp_servers.gone: ") && said.contains("`required: false`"), "{said}");
    assert!(model.main_calls().is_empty());
}

#[test]
fn a_server_that_hangs_at_its_start_is_left_at_the_first_interrupt() {
    let model = model();
    let folder = configured(&model, "", "  slow: { command: [sleep, '600'] }\n");
    let mut running = folder.command(&RUN).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let started = folder.path().join("project/started");
    crate::support::until("the other server runs", || started.exists());
    crate::support::until_handled(running.id(), rustix::process::Signal::INT);
    let process = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let began = std::time::Instant::now();
    let status = running.wait().unwrap();
    assert!(!status.success());
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(model.main_calls().is_empty());
}

#[test]
fn explain_lists_the_servers_without_starting_them_and_doctor_names_their_tools() {
    let model = model();
    let folder = configured(
        &model,
        "    approval: never\n",
        "  gone: { command: [./gone] }\n  web: { url: 'http://127.0.0.1:1/mcp?key=canary' }\n",
    );
    let shown = folder.nexus(&["explain"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains("server trees: sh, without approvals\n"), "{shown}");
    assert!(shown.contains("server web: http://127.0.0.1:1/mcp\n") && !shown.contains("canary"), "{shown}");
    assert!(!folder.path().join("project/started").exists());

    let doctor = folder.nexus(&["doctor"]);
    let shown = text(&doctor.stdout);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("note server web: http://127.0.0.1:1/mcp: nothing listens at"), "{shown}");
    assert!(words.contains("note server gone: ./gone: "), "{shown}");
    // The server of this test fails to write its files in the sandbox, and serves in spite of that.
    let has_sandbox = words.contains("server trees: sh: look; no call needs an approval");
    assert!(has_sandbox || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{shown}");
    assert!(!folder.path().join("project/started").exists());
}
