//! `nexus acp` as an editor starts it: lines over pipes, against a simulated model.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim, ToolCall};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    PATIENCE,
    stage::{CLOSED_PIPE, Stage, full},
    text, until,
};

fn command(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = stage.command(&[&["acp"], arguments].concat());
    command
        .env("NEXUS_CONFIG", stage.path().join("nexus.yaml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// An editor that has started the agent.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Editor {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, next_id: 0 }
    }

    fn of(stage: &Stage) -> Self {
        let mut editor = Self::start(command(stage, &[]));
        editor.call("initialize", &json!({ "protocolVersion": 1 }));
        editor
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request, and gives its id.
    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line).unwrap();
        (bytes > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
    }

    /// The answer of this id, and what was told before it.
    fn answer(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut told = Vec::new();
        loop {
            let message = self.next().expect("the agent ended");
            if message["id"] == id && message.get("method").is_none() {
                return (message, told);
            }
            told.push(message);
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer(id).0
    }

    fn new_session(&mut self, stage: &Stage) -> String {
        let answer = self.call("session/new", &json!({ "cwd": stage.path(), "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Closes the input, and waits for the end: the exit code, and what was written to standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        while self.next().is_some() {}
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    }
}

fn prompt(session: &str, words: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": words }] })
}

fn said(told: &[Value]) -> String {
    let chunks = told.iter().map(|message| &message["params"]["update"]);
    let answers = chunks.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    answers.filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
fn a_prompt_is_answered_and_the_session_is_there_in_the_next_process() {
    let stage = Stage::new(Reply::text("Here."));
    let mut editor = Editor::of(&stage);
    let session = editor.new_session(&stage);
    let id = editor.request("session/prompt", &prompt(&session, "Are you there?"));
    let (answer, told) = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(answer["result"]["_meta"]["nexus"]["backend"], "local");
    assert_eq!(said(&told), "Here.");
    // A model behind an endpoint has Nexus's tools, at the level of the session.
    assert!(!told.iter().any(|message| message.to_string().contains("scoped-only")), "{told:?}");
    let offered = stage.model.main_calls().pop().unwrap().json.to_string();
    assert!(offered.contains("write_file"), "{offered}");
    assert_eq!(editor.end().0, Some(0));

    let listed = stage.command(&["conversation", "show", &session]).output().unwrap();
    assert!(text(&listed.stdout).contains("Are you there?"), "{}", text(&listed.stderr));
    let mut editor = Editor::of(&stage);
    let list = editor.call("session/list", &json!({}));
    assert_eq!(list["result"]["sessions"][0]["sessionId"], session.as_str(), "{list}");
    let id = editor
        .request("session/load", &json!({ "sessionId": session, "cwd": stage.path(), "mcpServers": [] }));
    let (answer, told) = editor.answer(id);
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(said(&told), "Here.");
    assert_eq!(editor.end().0, Some(0));
}

#[test]
fn the_first_type_that_is_no_panel_answers_or_the_one_of_the_command_line() {
    let stage = Stage::new(Reply::text("Here."));
    for (arguments, expected) in [(&[][..], "talker"), (&["--type", "executor"], "executor")] {
        let mut editor = Editor::start(command(&stage, arguments));
        editor.call("initialize", &json!({ "protocolVersion": 1 }));
        let answer = editor.call("session/new", &json!({ "cwd": stage.path(), "mcpServers": [] }));
        assert_eq!(answer["result"]["modes"]["currentModeId"], expected, "{answer}");
        editor.end();
    }
    let mut editor = Editor::start(command(&stage, &["--type", "judges"]));
    editor.call("initialize", &json!({ "protocolVersion": 1 }));
    let answer = editor.call("session/new", &json!({ "cwd": stage.path(), "mcpServers": [] }));
    assert!(answer["error"]["message"].as_str().unwrap().contains("panel"), "{answer}");
    editor.end();
}

#[test]
fn a_configuration_of_the_folder_is_not_used() {
    let stage = Stage::new(Reply::text("Here."));
    let mut command = command(&stage, &[]);
    command.env_remove("NEXUS_CONFIG");
    let mut editor = Editor::start(command);
    editor.call("initialize", &json!({ "protocolVersion": 1 }));
    let answer = editor.call("session/new", &json!({ "cwd": stage.path(), "mcpServers": [] }));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("nexus-home/nexus.yaml") && message.contains("--config"), "{answer}");
    editor.end();
}

#[test]
fn the_end_of_the_input_ends_a_turn_that_runs() {
    let stage = Stage::new(Reply::text("Half of an ans").stalled());
    let mut editor = Editor::of(&stage);
    let session = editor.new_session(&stage);
    editor.request("session/prompt", &prompt(&session, "Are you there?"));
    while !editor.next().unwrap().to_string().contains("Half") {}
    let began = Instant::now();
    assert_eq!(editor.end(), (Some(0), String::new()));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn signals_end_it_and_a_kill_of_the_editor_too() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let stage = Stage::new(Reply::text("Half of an ans").stalled());
        let mut editor = Editor::of(&stage);
        let session = editor.new_session(&stage);
        editor.request("session/prompt", &prompt(&session, "Are you there?"));
        while !editor.next().unwrap().to_string().contains("Half") {}
        kill_process(Pid::from_child(&editor.child), signal).unwrap();
        while editor.next().is_some() {}
        assert_eq!(editor.child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}

#[test]
fn output_that_takes_nothing_is_a_failure_and_a_reader_that_is_gone_is_none() {
    let stage = Stage::new(Reply::text("Here."));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for (stdout, code, words) in [
        (Stdio::from(full()), 1, "standard output cannot be written"),
        (Stdio::from(writer), CLOSED_PIPE, ""),
    ] {
        let mut child = command(&stage, &[]).stdout(stdout).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let hello =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
        writeln!(input, "{hello}").unwrap();
        // The input stays open: it ends by itself.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let complaint = text(&output.stderr);
        assert!(complaint.contains(words) && words.is_empty() == complaint.is_empty(), "{complaint}");
        drop(input);
    }
}

#[test]
fn of_two_processes_on_one_session_one_prompt_runs() {
    let stage = Stage::new(Reply::text("Here."));
    let mut first = Editor::of(&stage);
    let session = first.new_session(&stage);
    let answer = first.call("session/prompt", &prompt(&session, "Are you there?"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let stage = stage.answering(Reply::text("Half of an ans").stalled());
    first.request("session/prompt", &prompt(&session, "And now?"));
    while !first.next().unwrap().to_string().contains("Half") {}

    let mut second = Editor::of(&stage);
    let load = json!({ "sessionId": session, "cwd": stage.path(), "mcpServers": [] });
    assert!(second.call("session/load", &load)["result"].is_object());
    let answer = second.call("session/prompt", &prompt(&session, "And I?"));
    assert_eq!(answer["error"]["data"]["kind"], "in_use", "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("in use"), "{answer}");

    // One that is killed lets go.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let _stage = stage.answering(Reply::text("Here."));
    let answer = second.call("session/prompt", &prompt(&session, "And I?"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    second.end();
}

/// A stage whose model calls a tool of the caller's once.
fn calling(tool: &str) -> (Stage, Sim) {
    let stage = Stage::new(Reply::text("unused"));
    let scenario = Scenario::tool_then_text(ToolCall::function(tool, json!({})), "Looked.");
    let model = Sim::start(Dialect::Responses, scenario.models(["simulated"])).unwrap();
    let config = fs::read_to_string(stage.path().join("nexus.yaml")).unwrap();
    let config = config.replace(&stage.model.base_url(), &model.base_url());
    fs::write(stage.path().join("nexus.yaml"), config).unwrap();
    (stage, model)
}

#[test]
fn a_server_of_the_editor_brings_tools_that_the_person_allows_and_ends_with_the_session() {
    for (option, words) in [("allow", "\"tasks\""), ("reject", "the person said no")] {
        let (stage, model) = calling("spawned_task_list");
        let mut editor = Editor::of(&stage);
        let server = json!({
            "name": "spawned",
            "command": env!("CARGO_BIN_EXE_nexus"),
            "args": ["mcp", "spawn"],
            "env": [{ "name": "NEXUS_CONFIG", "value": stage.path().join("nexus.yaml") }],
        });
        let answer = editor.call("session/new", &json!({ "cwd": stage.path(), "mcpServers": [server] }));
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        let id = editor.request("session/prompt", &prompt(&session, "What is there?"));
        let mut asked = 0;
        let answer = loop {
            let message = editor.next().unwrap();
            if message["method"] == "session/request_permission" {
                asked += 1;
                assert_eq!(message["params"]["toolCall"]["title"], "spawned_task_list", "{message}");
                assert!(children(&editor) > 0);
                let outcome = json!({ "outcome": "selected", "optionId": option });
                editor.send(
                    &json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } }),
                );
            } else if message["id"] == id {
                break message;
            }
        };
        assert_eq!((asked, &answer["result"]["stopReason"]), (1, &json!("end_turn")), "{answer}");
        let told = model.main_calls()[1].conversation.tool_results().join("\n");
        assert!(told.contains(words), "{option}: {told}");
        // It stays for the next prompt.
        assert!(children(&editor) > 0);
        editor.call("session/close", &json!({ "sessionId": session }));
        until("the server ends", || children(&editor) == 0);
        assert_eq!(editor.end(), (Some(0), String::new()));
    }
}

/// How many processes the agent has below it.
fn children(editor: &Editor) -> usize {
    let pid = editor.child.id();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(|task| of_task(task).split_whitespace().count()).sum()
}

#[test]
fn a_failed_turn_is_an_error_that_says_what_to_do() {
    let stage = Stage::new(Reply::status(401));
    let mut editor = Editor::of(&stage);
    let session = editor.new_session(&stage);
    let answer = editor.call("session/prompt", &prompt(&session, "Are you there?"));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("nexus status"), "{answer}");
    assert_eq!(editor.end().0, Some(0));
    let kept = fs::read_dir(stage.folder.nexus_home().join("acp")).map_or(0, Iterator::count);
    assert_eq!(kept, 0);
}
