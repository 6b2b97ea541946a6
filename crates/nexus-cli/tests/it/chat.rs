//! `nexus chat`, and approvals and undo of `nexus run`: on a native backend, a fake CLI and a fake ACP agent, at a terminal and over
//! a pipe.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use nexus_testkit::sim::{Reply, Scenario, ToolCall};

use crate::support::{Folder, answers::checked, stage::Stage, terminal::Terminal, text, until};

/// A fake of Claude Code. It answers "Hello.", runs a command after a permission request, or waits for its end. Sources: recordings
/// in `nexus-backends/tests/transcripts/claude`.
const CLAUDE: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "2.1.329 (Claude Code)"; exit 0;; esac
session=11111111-2222-4333-8444-555555555555
mode=default; tools=; resumed=no
while [ $# -gt 0 ]; do
  case "$1" in
    --permission-mode=*) mode=${1#*=};;
    --tools=*) tools=${1#*=};;
    --resume=*) session=${1#*=}; resumed=yes;;
    --permission-mode) mode=$2; shift;;
    --tools) tools=$2; shift;;
    --resume) session=$2; resumed=yes; shift;;
  esac
  shift
done
say() { printf '%s\n' "$1"; }
list=$(printf '%s' "$tools" | sed 's/,/","/g; s/^/"/; s/$/"/'); [ -n "$tools" ] || list=
message() {
  n=$((n + 1))
  say "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_$n\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude\",\"content\":[$1],\"stop_reason\":null,\"usage\":{\"input_tokens\":5,\"output_tokens\":2}},\"parent_tool_use_id\":null,\"session_id\":\"$session\",\"uuid\":\"u$n\"}"
}
words() { message "{\"type\":\"text\",\"text\":\"$1\"}"; last=$1; }
n=0
while IFS= read -r line; do
  case "$line" in
  *'"subtype":"initialize"'*|*'"subtype":"mcp_set_servers"'*|*'"subtype":"mcp_status"'*|*'"subtype":"interrupt"'*)
    id=$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
    say "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"$id\",\"response\":{\"commands\":[],\"models\":[],\"mcpServers\":[]}}}"
    case "$line" in *'"interrupt"'*)
      say "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":1,\"session_id\":\"$session\",\"total_cost_usd\":0,\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}"
      exit 0;; esac
    continue;;
  *'"type":"user"'*) ;;
  *) continue;;
  esac
  say "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"$PWD\",\"session_id\":\"$session\",\"tools\":[$list],\"mcp_servers\":[],\"model\":\"claude\",\"permissionMode\":\"$mode\",\"slash_commands\":[],\"apiKeySource\":\"ANTHROPIC_API_KEY\",\"claude_code_version\":\"2.1.329\",\"output_style\":\"default\",\"agents\":[],\"skills\":[],\"plugins\":[]}"
  case "$line" in
  *"Say hello"*) words "Hello, resumed: $resumed.";;
  *"run it"*)
    words "Let me see."
    message '{"type":"tool_use","id":"call_1","name":"Bash","input":{"command":"echo made >> made.txt"}}'
    say '{"type":"control_request","request_id":"ask_1","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"call_1","input":{"command":"echo made >> made.txt"}}}'
    IFS= read -r answer
    case "$answer" in
    *'"behavior":"allow"'*)
      echo made >> made.txt
      said=done; error=false; end="Ran it.";;
    *) said=denied; error=true; end="Did not run it.";;
    esac
    say "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"tool_use_id\":\"call_1\",\"type\":\"tool_result\",\"content\":\"$said\",\"is_error\":$error}]},\"parent_tool_use_id\":null,\"session_id\":\"$session\"}"
    words "$end";;
  *"wait"*)
    words "Waiting."
    while IFS= read -r line; do
      case "$line" in *'"interrupt"'*)
        say "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"num_turns\":1,\"session_id\":\"$session\",\"total_cost_usd\":0,\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}"
        exit 0;; esac
    done
    exit 0;;
  *) words "What?";;
  esac
  say "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"result\":\"$last\",\"stop_reason\":\"end_turn\",\"session_id\":\"$session\",\"total_cost_usd\":0.25,\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}"
done
"#;

/// A fake of `codex-acp`: an agent of the Agent Client Protocol, revision 1.
const AGENT: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "codex-acp 0.16.0"; exit 0;; esac
say() { printf '%s\n' "$1"; }
result() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":$1}}"; }
words() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
  *'"method":"initialize"'*)
    result '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}},"agentInfo":{"name":"codex-acp","version":"0.16.0"}}';;
  *'"method":"session/new"'*)
    folder=$(printf '%s' "$line" | sed 's/.*"cwd":"\([^"]*\)".*/\1/')
    result '{"sessionId":"s","modes":{"currentModeId":"auto","availableModes":[{"id":"read-only","name":"r"},{"id":"auto","name":"a"},{"id":"full-access","name":"f"}]}}';;
  *'"method":"session/load"'*|*'"method":"session/resume"'*)
    folder=$(printf '%s' "$line" | sed 's/.*"cwd":"\([^"]*\)".*/\1/')
    result '{"modes":{"currentModeId":"auto","availableModes":[{"id":"read-only","name":"r"},{"id":"auto","name":"a"},{"id":"full-access","name":"f"}]}}';;
  *'"method":"session/prompt"'*)
    prompt=$id
    case "$line" in
    *"Say hello"*) words "Hello.";;
    *"run it"*)
      words "Let me see. "
      call='"toolCallId":"c","title":"echo made >> made.txt","kind":"execute","rawInput":{"command":"echo made >> made.txt"}'
      update "{\"sessionUpdate\":\"tool_call\",$call,\"status\":\"pending\"}"
      say "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s\",\"toolCall\":{$call},\"options\":[{\"optionId\":\"go\",\"name\":\"Yes\",\"kind\":\"allow_once\"},{\"optionId\":\"stop\",\"name\":\"No\",\"kind\":\"reject_once\"}]}}"
      IFS= read -r answer
      case "$answer" in
      *'"optionId":"go"'*)
        echo made >> "$folder/made.txt"
        update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}'
        words "Ran it.";;
      *)
        update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed"}'
        words "Did not run it.";;
      esac;;
    *"wait"*)
      words "Waiting."
      while IFS= read -r line; do case "$line" in *'"session/cancel"'*) break;; esac; done
      id=$prompt; result '{"stopReason":"cancelled"}'; continue;;
    *) words "What?";;
    esac
    id=$prompt; result '{"stopReason":"end_turn"}';;
  *) [ -z "$id" ] || result '{}';;
  esac
done
"#;

/// A home with a configuration, and a git repository to chat in.
struct Desk {
    folder: Folder,
    project: PathBuf,
}

impl Desk {
    /// With a fake program `name`, which `backend` of the configuration runs.
    fn with(name: &str, script: &str, backend: &str) -> Self {
        let folder = Folder::empty();
        let program = folder.path().join(name);
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let backend = backend.replace("PROGRAM", program.to_str().unwrap());
        let config = format!(
            "groups: {{ main: [agent] }}\nbackends:\n  agent: {backend}\ntypes:\n  executor: {{ group: main }}\n  \
             other: {{ group: main }}\n"
        );
        fs::write(folder.path().join("nexus.yaml"), config).unwrap();
        Self::in_folder(folder)
    }

    fn in_folder(folder: Folder) -> Self {
        let project = folder.path().join("project");
        repository(&project);
        Self { folder, project }
    }

    fn claude() -> Self {
        Self::with(
            "claude",
            CLAUDE,
            "{ kind: claude-cli, executable: PROGRAM, credential: { env: KEY }, billing: metered }",
        )
    }

    fn agent() -> Self {
        Self::with(
            "codex-acp",
            AGENT,
            "{ kind: acp, agent: codex-acp, executable: PROGRAM, credential: { env: KEY }, billing: metered }",
        )
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(arguments);
        command
            .env("NEXUS_CONFIG", self.folder.path().join("nexus.yaml"))
            .env("KEY", "sk-0123456789abcdef0123");
        command.current_dir(&self.project);
        command
    }

    fn nexus(&self, arguments: &[&str]) -> (String, String, Option<i32>) {
        let output = self.command(arguments).output().unwrap();
        if arguments.contains(&"--json") {
            checked(arguments, text(&output.stdout));
        }
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned(), output.status.code())
    }

    /// Starts a command at a terminal with an editor.
    fn terminal(&self, arguments: &[&str]) -> Terminal {
        let mut command = self.command(arguments);
        command.env("TERM", "xterm-256color");
        Terminal::start(command, 100)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.project.join(name)).ok()
    }

    /// The programs of this test that still run.
    fn left(&self) -> Vec<String> {
        let home = format!("HOME={}", self.folder.path().display());
        let is_own = |path: &Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&home)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        entries
            .filter(|path| is_own(path))
            .map(|path| fs::read_to_string(path.join("comm")).unwrap_or_default())
            .collect()
    }
}

fn repository(project: &Path) {
    fs::create_dir(project).unwrap();
    fs::write(project.join("kept.txt"), "kept\n").unwrap();
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        git.current_dir(project).env("HOME", project).env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "Person").env(format!("GIT_{role}_EMAIL"), "p@localhost");
        }
        assert!(git.args(arguments).status().unwrap().success());
    }
}

/// Prompt of a chat, as its editor shows it.
const PROMPT: &str = "executor> ";
/// Beginning of the last line of a turn that succeeded.
const ENDED: &str = "= stop";

fn call(name: &str, arguments: serde_json::Value) -> Reply {
    Reply::call(ToolCall::Function { namespace: None, name: name.into(), arguments })
}

#[test]
fn a_native_backend_streams_is_steered_undone_and_resumed() {
    let looking = (0..60).map(|index| {
        call("list_files", serde_json::json!({ "path": if index % 2 == 0 { "." } else { "./" } }))
            .after(Duration::from_millis(50))
    });
    let scenario = Scenario::new([Reply::text("Here I am.")])
        .when_prompt("Hello again", [Reply::text("Still here.")])
        .when_prompt("Stop looking.", [Reply::text("I stop.")])
        .when_prompt("Look around.", looking.collect::<Vec<_>>())
        .when_prompt(
            "Write it.",
            [
                call("write_file", serde_json::json!({ "path": "new.txt", "content": "new\n" })),
                Reply::text("Written."),
            ],
        );
    let stage = Stage::playing(scenario);
    let config = fs::read_to_string(stage.path().join("nexus.yaml")).unwrap();
    fs::write(
        stage.path().join("nexus.yaml"),
        config.replace("kind: responses,", "kind: responses, repeated_calls: 0,"),
    )
    .unwrap();
    let Stage { folder, model } = stage;
    let desk = Desk::in_folder(folder);

    let mut chat = desk.terminal(&["chat", "--access", "workspace-write", "--conversation", "design"]);
    chat.until(PROMPT);
    chat.send("Hello there\r");
    chat.until("Here I am.");
    chat.until_times(ENDED, 1);
    chat.send("Look around.\r");
    chat.until("* list_files");
    chat.send("Stop looking.\r");
    chat.until("> Stop looking.");
    chat.until("I stop.");
    chat.until_times(ENDED, 2);
    chat.send("Write it.\r");
    chat.until("Written.");
    chat.until_times(ENDED, 3);
    assert_eq!(desk.read("new.txt").as_deref(), Some("new\n"));
    chat.send("/diff\r");
    chat.until("+new");
    chat.send("/undo\r");
    chat.until("is undone: 1 file restored");
    assert_eq!(desk.read("new.txt"), None);
    chat.send("/redo\r");
    chat.until("is done again");
    assert_eq!(desk.read("new.txt").as_deref(), Some("new\n"));
    chat.send("/cost\r");
    chat.until("~ 3 turns");
    chat.send("/quit\r");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");

    // The next chat continues it, and its model has read the words before.
    let mut chat = desk.terminal(&["chat"]);
    chat.until(PROMPT);
    chat.send("/resume\r");
    chat.until("1  design");
    chat.send("/resume design\r");
    chat.until("Written.");
    chat.send("Hello again\r");
    chat.until("Still here.");
    chat.until_times(ENDED, 1);
    // A key that arrives while the editor takes the terminal over may be lost.
    chat.until_after(ENDED, PROMPT);
    chat.send("\u{4}");
    assert_eq!(chat.end().0, Some(0));
    let last = String::from_utf8_lossy(&model.main_calls().last().unwrap().body).into_owned();
    assert!(last.contains("Hello there") && last.contains("Hello again"), "{last}");
    let history = fs::read_to_string(desk.folder.nexus_home().join("chat-history")).unwrap();
    assert!(history.starts_with("Hello there\n"), "{history}");
}

#[test]
fn a_fake_cli_is_approved_refused_cancelled_and_resumed() {
    let desk = Desk::claude();
    let mut chat = desk.terminal(&["chat", "--access", "workspace-write"]);
    chat.until(PROMPT);
    chat.send("Say hello.\r");
    chat.until("Hello, resumed: no.");
    chat.until_times(ENDED, 1);
    chat.send("Please run it.\r");
    chat.until("the agent wants to run a command: Bash");
    chat.until("    echo made >> made.txt");
    chat.send("maybe\r");
    chat.until("answer y, n or a");
    chat.send("n: use make\r");
    chat.until("Did not run it.");
    assert_eq!(desk.read("made.txt"), None);
    chat.until_times(ENDED, 2);
    chat.send("Please run it.\r");
    chat.until_times("always for exactly this command in this folder, until the chat ends", 2);
    chat.send("a\r");
    chat.until("Ran it.");
    chat.until_times(ENDED, 3);
    chat.send("Please run it.\r");
    chat.until("+ allowed: you chose \"always\" for it");
    chat.until_times("Ran it.", 2);
    chat.until_times(ENDED, 4);
    assert_eq!(desk.read("made.txt").as_deref(), Some("made\nmade\n"));
    chat.send("/undo\r");
    chat.until("is undone: 1 file restored");
    assert_eq!(desk.read("made.txt").as_deref(), Some("made\n"));
    chat.send("Go on, and wait.\r");
    chat.until("Waiting.");
    chat.interrupt();
    chat.until("stopping the turn");
    chat.until("x agent was cancelled");
    chat.send("/cost\r");
    chat.until_after("~ 5 turns", PROMPT);
    chat.send("\u{4}");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");
    until("nothing is left", || desk.left().is_empty());

    let name = shown.split("conversation ").nth(1).unwrap().split(' ').next().unwrap();
    let mut chat = desk.terminal(&["chat", "--conversation", name]);
    chat.until(PROMPT);
    chat.send("Say hello.\r");
    chat.until("is sent to the model again");
    chat.until("Hello, resumed: no.");
    chat.until_times(ENDED, 1);
    chat.send("Say hello.\r");
    chat.until("Hello, resumed: yes.");
    chat.send("/quit\r");
    assert_eq!(chat.end().0, Some(0));
}

#[test]
fn an_acp_agent_is_approved_refused_cancelled_and_gets_late_words_as_the_next_prompt() {
    let desk = Desk::agent();
    let mut chat = desk.terminal(&["chat", "--access", "workspace-write"]);
    chat.until(PROMPT);
    chat.send("Please run it.\r");
    chat.until("the agent wants to run a command");
    chat.send("no\r");
    chat.until("Did not run it.");
    chat.until_times(ENDED, 1);
    chat.send("Please run it.\r");
    chat.until_times("the agent wants to run a command", 2);
    chat.send("y\r");
    chat.until("Ran it.");
    chat.until_times(ENDED, 2);
    assert_eq!(desk.read("made.txt").as_deref(), Some("made\n"));
    chat.send("Now wait.\r");
    chat.until("Waiting.");
    chat.send("Say hello then.\r");
    chat.until("this backend takes no words during a turn");
    chat.interrupt();
    chat.until("x agent was cancelled");
    // The person stopped, so the line waits in the editor for Enter.
    chat.until("mSay hello then.");
    chat.send("\r");
    chat.until("Hello.");
    chat.send("/undo\r");
    chat.until("restored");
    assert_eq!(desk.read("made.txt"), None);
    chat.send("/quit\r");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");
    until("nothing is left", || desk.left().is_empty());
}

#[test]
fn a_turn_on_the_command_line_asks_at_its_terminal_and_is_undone_by_a_command() {
    let desk = Desk::claude();
    let run = ["run", "Please run it.", "--cd", ".", "--access", "workspace-write"];
    let mut turn = desk.terminal(&run);
    turn.until("always for exactly this command in this folder, until this turn ends");
    turn.send("y\r");
    let (code, shown) = turn.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(desk.read("made.txt").as_deref(), Some("made\n"));
    // Without a terminal there is nobody to ask.
    let (_, shown, code) = desk.nexus(&run);
    assert_eq!((code, desk.read("made.txt").as_deref()), (Some(0), Some("made\n")), "{shown}");

    let (listed, ..) = desk.nexus(&["undo", "--list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains(" · executor\n"), "{listed}");
    let (patch, ..) = desk.nexus(&["diff", "1"]);
    assert!(patch.contains("+made"), "{patch}");
    let (patch, said, _) = desk.nexus(&["diff"]);
    assert!(
        patch.is_empty() && said.contains("no file differs from its state before turn 2"),
        "{patch}{said}"
    );
    for arguments in [&["diff", "1", "--json"][..], &["undo", "--list", "--json"]] {
        let (_, said, code) = desk.nexus(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
    fs::write(desk.project.join("made.txt"), "mine\n").unwrap();
    let (_, said, code) = desk.nexus(&["undo"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("\"made.txt\"") && said.contains("--force"), "{said}");
    let (said, _, code) = desk.nexus(&["undo", "--force"]);
    assert_eq!((code, desk.read("made.txt")), (Some(0), None), "{said}");
    let (_, said, code) = desk.nexus(&["undo", "--redo", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(desk.read("made.txt").as_deref(), Some("mine\n"));
    let (_, said, code) = desk.nexus(&["undo", "--cd", "/"]);
    assert!(code == Some(1) && said.contains("not in the checkout of a git repository"), "{said}");
}

#[test]
fn a_terminal_obeys_nothing_in_an_answer_and_a_pipe_gets_its_bytes() {
    let stage = Stage::new(Reply::text("one\u{1b}]0;owned\u{7}\ntwo"));
    let run = ["run", "talker", "hello", "--quiet"];
    let (code, shown) = Terminal::start(stage.command(&run), 100).end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("one]0;owned\r\ntwo") && !shown.contains("\u{1b}]0"), "{shown:?}");
    assert_eq!(text(&stage.command(&run).output().unwrap().stdout), "one\u{1b}]0;owned\u{7}\ntwo\n");
}

#[test]
fn lines_of_a_pipe_are_prompts_and_a_failure_is_an_exit_code() {
    let stage =
        Stage::playing(Scenario::new([Reply::text("Here.")]).when_prompt("fail", [Reply::status(403)]));
    let piped = |input: &[u8], arguments: &[&str]| {
        let mut command = stage.command(&[&["chat"], arguments].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that ends early reads no more.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned(), output.status.code())
    };
    let (answers, notes, code) = piped(b"one\n\n/type talker\r\ntwo\nlast", &["--conversation", "piped"]);
    assert_eq!((answers.as_str(), code), ("Here.\nHere.\nHere.\n", Some(0)), "{notes}");
    let shown = stage.nexus(&["conversation", "show", "piped"]);
    assert!(text(&shown.stdout).contains("### 5 · user\n\nlast"), "{}", text(&shown.stdout));
    let (_, notes, code) = piped(b"one\n\xff\xfe\nthree\n", &[]);
    assert!(code == Some(2) && notes.contains("line 2 is not UTF-8"), "{code:?} {notes}");
    let (answers, notes, code) = piped(b"please fail\none\n/nothing\n", &[]);
    assert_eq!((answers.as_str(), code), ("Here.\n", Some(1)), "{notes}");
    let (_, notes, code) = piped(b"", &["judges"]);
    assert!(code == Some(2) && notes.contains("a chat can have: talker"), "{notes}");
    let refused = stage.nexus(&["chat", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!stage.folder.nexus_home().join("chat-history").exists(), "a pipe has no history");
}

#[test]
fn nexus_alone_is_a_chat_at_a_terminal_and_help_without_one() {
    let desk = Desk::claude();
    let mut chat = desk.terminal(&[]);
    chat.until(PROMPT);
    chat.send("/he\t\r");
    chat.until("/resume [NAME|NUMBER]");
    chat.send("/bogus\r");
    chat.until("no command \"/bogus\"");
    chat.send("/type other\r");
    chat.until("other> ");
    chat.send("/model opus\r");
    chat.until("~ model: opus");
    chat.send("\u{3}");
    chat.until("press Ctrl-C again, or Ctrl-D, to leave");
    chat.send("\u{3}");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");
    let (_, help, code) = desk.nexus(&[]);
    assert!(code == Some(2) && help.contains("Usage: nexus"), "{help}");
}

#[test]
fn a_terminal_without_escape_codes_has_a_chat_without_them() {
    let desk = Desk::claude();
    let mut command = desk.command(&["chat", "--access", "workspace-write"]);
    command.env("TERM", "dumb");
    let mut chat = Terminal::start(command, 40);
    chat.until(PROMPT);
    chat.send("Say helloo\u{7f}.\r");
    chat.until("Hello, resumed: no.");
    chat.until_times(ENDED, 1);
    chat.send("Please run it.\r");
    chat.until("the agent wants to run a command");
    chat.send("yes\r");
    chat.until("Ran it.");
    chat.until_times(ENDED, 2);
    chat.until_after(ENDED, PROMPT);
    chat.send("\u{4}");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_conversation_that_another_command_removed_is_not_continued_without_its_turns() {
    let stage = Stage::new(Reply::text("Heard."));
    let mut command = stage.command(&["chat"]);
    command.env("TERM", "dumb");
    let mut chat = Terminal::start(command, 60);
    chat.until(PROMPT);
    chat.send("Remember this.\r");
    chat.until_times(ENDED, 1);
    chat.until_after(ENDED, PROMPT);
    let cleaned = stage.nexus(&["clean", "conversation", "--keep", "0", "--yes"]);
    assert!(cleaned.status.success() && text(&cleaned.stdout).contains("removed"), "{cleaned:?}");
    chat.send("What was it?\r");
    chat.until("was removed by another command");
    chat.until_after("was removed by another command", PROMPT);
    chat.send("/new\r");
    chat.until("~ conversation chat-");
    chat.until_after("~ conversation chat-", PROMPT);
    chat.send("Begin again.\r");
    chat.until_times("Heard.", 2);
    chat.until_times(ENDED, 2);
    chat.until_after(ENDED, PROMPT);
    chat.send("\u{4}");
    chat.end();
    assert_eq!(stage.model.requests().len(), 2, "nothing was sent without the earlier turns");
}

#[test]
fn words_that_are_typed_while_the_answer_streams_stay_whole() {
    let stage = Stage::new(Reply::text("streamed ".repeat(60)).paced(9, Duration::from_millis(20)));
    let mut command = stage.command(&["chat"]);
    command.env("TERM", "xterm-256color");
    let mut chat = Terminal::start(command, 100);
    chat.until(PROMPT);
    chat.send("Tell me.\r");
    chat.until("streamed streamed");
    for character in "my own words".chars() {
        chat.send(&character.to_string());
        std::thread::sleep(Duration::from_millis(15));
    }
    chat.until("my own words");
    chat.send("\r");
    chat.until("becomes the next prompt");
    chat.until_times(ENDED, 2);
    chat.until_after(ENDED, PROMPT);
    chat.send("\u{4}");
    let (code, shown) = chat.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("\u{bb} my own words\r\n"), "{shown:?}");
}

#[test]
fn the_end_of_a_chat_s_terminal_or_a_signal_leaves_nothing() {
    for prompt in ["", "Now wait.\r"] {
        let desk = Desk::claude();
        let mut chat = desk.terminal(&["chat"]);
        chat.until(PROMPT);
        chat.send(prompt);
        if !prompt.is_empty() {
            chat.until("Waiting.");
        }
        assert_eq!(chat.close(), Some(129), "{prompt:?}");
        until("nothing is left", || desk.left().is_empty());
    }
}
