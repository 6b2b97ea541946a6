//! `nexus broker`: agents on a simulated model, from a shell.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
};

use nexus_broker::trigger::WebhookKey;
use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Folder, PATIENCE, text, two_vendors::TwoVendors, until};

const AGENTS: &str = "\
types: { talker: { group: north } }
broker:
  agents:
    clerk: { type: talker, instructions: You are a clerk. }
    manager: { type: talker, may_write_to: [clerk], max_workers: 2 }
";

/// A home with a manager, a clerk and a simulated model.
struct Stage(TwoVendors);

impl Deref for Stage {
    type Target = TwoVendors;

    fn deref(&self) -> &TwoVendors {
        &self.0
    }
}

impl Stage {
    fn new(reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self(TwoVendors::new(AGENTS, reply))
    }

    /// A broker that runs, once it says so.
    fn run(&self) -> Running {
        let mut command: Command = self.folder.command(&["broker", "run"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.starts_with("2 agents; messages are in "), "{first}");
        Running { child, lines }
    }
}

struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it politely: what it printed since.
    fn drain(mut self) -> String {
        self.signal(Signal::TERM);
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the model is asked last.
fn asked(conversation: &Conversation) -> String {
    conversation.last_user_text().unwrap_or_default().to_owned()
}

#[test]
fn a_person_writes_to_an_agent_and_has_the_answer() {
    let stage = Stage::new(|conversation| {
        Some(Reply::text(format!("Heard: {}", asked(conversation).lines().last().unwrap_or_default())))
    });
    let sent: Value =
        serde_json::from_str(&stage.said(&["broker", "send", "clerk", "Before anybody runs.", "--json"]))
            .unwrap();
    assert_eq!(sent["reach"], "it is handled next");
    let running = stage.run();
    let answer = stage.said(&["broker", "send", "clerk", "Hello.", "--wait", "60"]);
    assert!(answer.contains("[message from clerk]") && answer.contains("Heard: Hello."), "{answer}");
    let status = stage.said(&["broker", "status"]);
    assert!(status.contains("clerk    started   0 waiting"), "{status}");
    let printed = running.drain();
    assert!(printed.contains("[caller:me] -> [clerk] [message]: Hello."), "{printed}");
    let home = stage.folder.nexus_home().join("broker");
    assert!(
        fs::read_to_string(home.join("AGENT_COMMUNICATIONS.log")).unwrap().contains("Before anybody runs.")
    );
    assert!(fs::read_to_string(home.join("ACTIVE_AGENTS.md")).unwrap().contains("| clerk | talker |"));
    assert_eq!(fs::metadata(home.join("messages.db")).unwrap().permissions().mode() & 0o077, 0);
    let log = stage.said(&["broker", "log", "--json"]);
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["source_agent_id"], &first["payload"]["content"]),
        (&json!("caller:me"), &json!("Before anybody runs."))
    );
    assert!(stage.said(&["session", "list"]).starts_with("agent:clerk:main  "));
    assert!(stage.said(&["session", "show", "agent:clerk:main"]).contains("Heard: Hello."));
    stage.said(&["session", "fork", "agent:clerk:main", "agent:clerk:aside", "--at", "2"]);
    let exported = stage.said(&["session", "export", "agent:clerk:aside"]);
    assert_eq!(exported.lines().count(), 2);
    let found = stage.said(&["session", "search", "hello"]);
    assert!(found.contains("agent:clerk:main") && !found.contains("aside"), "{found}");
    let unknown = stage.nexus(&["session", "show", "agent:clerk:none"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown.stderr));
}

#[test]
fn of_shells_that_wait_at_once_each_has_its_own_answer() {
    let stage = Stage::new(|conversation| {
        Some(Reply::text(format!("Heard: {}", asked(conversation).lines().last().unwrap_or_default())))
    });
    // They wait before anybody answers.
    let waiting: Vec<_> = (0..4)
        .map(|number| {
            let text = format!("Number {number}.");
            let mut command: Command =
                stage.folder.command(&["broker", "send", "clerk", &text, "--wait", "120"]);
            (text, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        })
        .collect();
    let mut killed: Command = stage.folder.command(&["broker", "send", "clerk", "Killed.", "--wait", "120"]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("they are sent", || stage.said(&["broker", "status"]).contains("5 waiting"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let running = stage.run();
    for (text_sent, child) in waiting {
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{text_sent}: {}", text(&output.stderr));
        assert!(
            said.contains(&format!("Heard: {text_sent}")) && said.matches("Heard:").count() == 1,
            "{said}"
        );
    }
    let mut inbox = String::new();
    until("something is left in the inbox", || {
        inbox = stage.said(&["broker", "inbox"]);
        !inbox.is_empty()
    });
    assert!(inbox.contains("Heard: Killed.") && inbox.matches("Heard:").count() == 1, "{inbox}");
    assert_eq!(stage.said(&["broker", "inbox"]), "");
    running.drain();
}

#[test]
fn a_damaged_index_keeps_up_no_message() {
    let stage = Stage::new(|_| Some(Reply::text("Yes.")));
    stage.said(&["broker", "send", "clerk", "Hello."]);
    let index = stage.folder.nexus_home().join("broker/memory.db");
    fs::write(&index, "no index\n".repeat(1_000)).unwrap();
    stage.said(&["broker", "send", "clerk", "Are you there?"]);
    stage.said(&["broker", "status"]);
    for command in [&["broker", "run"][..], &["session", "search", "hello"]] {
        let output = stage.nexus(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(text(&output.stderr).contains("remove the file"), "{command:?}: {}", text(&output.stderr));
    }
    fs::remove_file(&index).unwrap();
    stage.run().drain();
}

#[test]
fn an_envelope_is_what_a_person_says() {
    let stage = Stage::new(|_| Some(Reply::text("Yes.")));
    let send = |more: &[&str]| {
        let arguments = [&["broker", "send", "clerk", "Look.", "--json"], more].concat();
        serde_json::from_str::<Value>(&stage.said(&arguments)).unwrap()
    };
    send(&["--id", "question-1"]);
    let first = send(&["--expires", "10m", "--id", "look-1", "--reply-to", "question-1"]);
    assert_eq!((&first["message_id"], &first["is_new"]), (&json!("look-1"), &json!(true)));
    assert_eq!(send(&["--id", "look-1"])["is_new"], false);
    send(&["--task", "t1", "--inputs", r#"{"page": "index"}"#]);
    let log = stage.said(&["broker", "log", "--json"]);
    let sent: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sent.len(), 3, "{log}");
    assert!(sent[1]["expires_at"].is_string() && sent[2]["expires_at"].is_null(), "{log}");
    assert_eq!(sent[1]["payload"]["in_reply_to"], "question-1");
    assert_eq!(sent[2]["payload"]["inputs"], json!({ "page": "index" }));
    for (arguments, says) in [
        (["--reply-to", "nothere"], "there is no message nothere"),
        (["--expires", "99999999d"], "at most 365 days"),
    ] {
        let output = stage.nexus(&[&["broker", "send", "clerk", "Look."], &arguments[..]].concat());
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    for (arguments, says) in [
        (&["--expires", "soon"][..], "30s, 10m or 2h"),
        (&["--expires", "0s"], "30s, 10m or 2h"),
        (&["--inputs", "{}"], "--task"),
        (&["--task", "t", "--inputs", "[]"], "not a JSON object"),
        (&["--task", "t", "--reply-to", "x"], "cannot be used with"),
        (&["--id", ""], "id"),
    ] {
        let output = stage.nexus(&[&["broker", "send", "clerk", "Look."], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn views_are_never_written_over_a_persons_file() {
    let stage = Stage::new(|_| Some(Reply::text("Yes.")));
    let tasks = stage.folder.path().join("TASKS.md");
    fs::write(&tasks, "- buy milk\n").unwrap();
    let output = stage.nexus(&["broker", "run", "--views", "."]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("TASKS.md was not written by a broker"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_to_string(&tasks).unwrap(), "- buy milk\n");
    // Two brokers of one home, and each message once.
    let (first, second) = (stage.run(), stage.run());
    assert!(stage.said(&["broker", "send", "clerk", "Once.", "--wait", "60"]).contains("Yes."));
    first.drain();
    second.drain();
    let log = fs::read_to_string(stage.folder.nexus_home().join("broker/AGENT_COMMUNICATIONS.log")).unwrap();
    assert_eq!(log.matches("[message]: Once.").count(), 1, "{log}");
}

#[test]
fn a_hub_that_says_much_is_heard_to_its_end() {
    let folder = Folder::empty();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let git = programs.join("git");
    let script = "#!/bin/sh\ni=0\nwhile [ $i -lt 20000 ]; do echo 'remote: https://me:hunter2@example.org/hub' >&2; i=$((i+1)); done\n\
         echo 'fatal: no such hub' >&2\nexit 128\n";
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command: Command = folder.command(&["skills", "list", "--hub", "git+https://example.org/hub"]);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = command.env("PATH", path).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fatal: no such hub") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_manager_asks_a_clerk_and_waits_for_the_answer_in_the_same_turn() {
    let stage = Stage::new(|conversation| {
        let prompt = asked(conversation);
        if prompt.contains("[query from manager") {
            return Some(Reply::text("There are 12."));
        }
        let results = conversation.tool_results();
        Some(match results.len() {
            0 => {
                let question = json!({ "to": "clerk", "content": "How many?", "expects_answer": true });
                Reply::call(ToolCall::function("send_message_to_agent", question))
            }
            1 => Reply::call(ToolCall::function("wait_for_message", json!({ "seconds": 60 }))),
            _ => Reply::text(format!("The clerk says: {}", results[1])),
        })
    });
    let running = stage.run();
    let task = ["broker", "send", "manager", "Count.", "--task", "t1", "--wait", "90", "--json"];
    let result: Value = serde_json::from_str(stage.said(&task).lines().last().unwrap()).unwrap();
    assert_eq!(result["type"], "result");
    assert!(result["payload"]["summary"].as_str().unwrap().contains("There are 12."), "{result}");
    assert!(running.drain().contains("[clerk] -> [manager] [message]: (in reply to "));
}

#[test]
fn what_cannot_be_done_is_said_with_the_way_out() {
    let stage = Stage::new(|_| Some(Reply::text("Yes.")));
    for (arguments, code, says) in [
        (&["broker", "send", "nobody", "x"][..], 1, "write to one of clerk, manager"),
        (&["broker", "send", "No Body", "x"], 2, "small letters"),
        (&["broker", "send", "clerk", " "], 2, "the message is empty"),
        (&["broker", "send", "clerk", "x", "--priority", "very"], 2, "low, normal, high or urgent"),
        (&["broker", "send", "clerk", "x", "--wait", "1"], 1, "no answer arrived within 1 s"),
        (&["broker", "clean", "clerk"], 1, "clerk is not a worker"),
        (&["broker", "land", "nobody"], 1, "there is no agent"),
    ] {
        let output = stage.nexus(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    let config = stage.folder.nexus_home().join("nexus.yaml");
    let written = fs::read_to_string(&config).unwrap();
    fs::write(&config, written.replace("max_workers: 2", "max_workers: 2, access: read-only")).unwrap();
    let output = stage.nexus(&["broker", "status"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the agent has no folder"), "{}", text(&output.stderr));
}

#[test]
fn a_second_signal_ends_the_turns_and_their_senders_are_told() {
    let stage = Stage::new(|_| Some(Reply::text("Half an ans").stalled()));
    let mut running = stage.run();
    stage.said(&["broker", "send", "clerk", "Go."]);
    until("it begins", || stage.said(&["broker", "status"]).contains("working"));
    running.signal(Signal::INT);
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("no further message is taken"), "{line}");
    running.signal(Signal::INT);
    let status = running.child.wait().unwrap();
    assert!(!status.success(), "{status}");
    let inbox = stage.said(&["broker", "inbox"]);
    assert!(inbox.contains("turn_failed"), "{inbox}");
    assert_eq!(stage.said(&["broker", "inbox"]), "");
}

#[test]
fn triggers_are_made_fired_switched_and_deleted() {
    let stage = Stage::new(|conversation| {
        Some(Reply::text(format!("Did: {}", asked(conversation).lines().nth(2).unwrap_or_default())))
    });
    let unknown = stage.nexus(&["trigger", "event", "nobody", "deployed", "Look."]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there are clerk, manager"), "{}", text(&unknown.stderr));
    stage.said(&["trigger", "event", "clerk", "deployed", "Look at it.", "--id", "look"]);
    stage.said(&["trigger", "cron", "clerk", "30 9 * * 1-5", "Good morning.", "--zone", "Europe/Berlin"]);
    for (arguments, says) in [
        (&["trigger", "cron", "clerk", "61 * * * *", "x"][..], "61"),
        (&["trigger", "cron", "clerk", "* * 31 2 *", "x"], ""),
        (&["trigger", "cron", "clerk", "* * * * *", "x", "--zone", "Mars/Base"], "Mars/Base"),
        (&["trigger", "at", "clerk", "2001-01-01T00:00:00Z", "x"], "in the future"),
        (&["trigger", "at", "clerk", "tomorrow", "x"], "2026-01-31T12:00:00Z"),
        (&["trigger", "event", "clerk", "deployed", "x", "--id", "look"], "already"),
        (&["trigger", "completion", "clerk", "x"], "--of-agent or --of-task"),
        (&["trigger", "delete", "none"], "none"),
    ] {
        let output = stage.nexus(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    let list = stage.said(&["trigger", "list"]);
    assert!(list.contains("look  event deployed -> clerk: Look at it."), "{list}");
    assert!(list.contains("cron 30 9 * * 1-5 (Europe/Berlin) -> clerk, next "), "{list}");
    let running = stage.run();
    assert!(
        stage
            .said(&["trigger", "fire", "deployed", "--id", "one", "--data", "{\"v\": 3}"])
            .starts_with("1 trigger")
    );
    stage.said(&["trigger", "fire", "deployed", "--id", "one"]);
    stage.said(&["trigger", "disable", "look"]);
    assert!(stage.said(&["trigger", "fire", "deployed"]).starts_with("0 trigger"));
    until("the clerk does it", || stage.said(&["session", "search", "Look"]).contains("agent:clerk:main"));
    let printed = running.drain();
    assert_eq!(printed.matches("[clerk] -> [clerk] [trigger]").count(), 1, "{printed}");
    stage.said(&["trigger", "delete", "look"]);
    assert!(!stage.said(&["trigger", "list"]).contains("look"));
    let webhook = stage.said(&["trigger", "webhook", "clerk", "Look at the push.", "--id", "push"]);
    let secret = webhook.lines().find_map(|line| line.strip_prefix("secret: ")).unwrap();
    assert!(secret.starts_with("whsec_"));
    let kept = stage.folder.nexus_home().join("broker/webhooks");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o077, 0);
    assert!(!stage.said(&["trigger", "list", "--json"]).contains(secret));
}

#[test]
fn an_answer_is_sent_to_a_caller_that_is_called_back() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let stage = Stage::new(|_| Some(Reply::text("It is done.")));
    // Both answers are there before the first is delivered.
    stage.said(&["broker", "send", "clerk", "Do it.", "--as", "ci"]);
    stage.said(&["broker", "send", "clerk", "Again.", "--as", "ci", "--id", "grün 1"]);
    let running = stage.run();
    until("both are answered", || {
        let log = stage.said(&["broker", "log", "--json"]);
        log.lines().filter(|line| line.contains(r#""target_agent_id":"caller:ci""#)).count() == 2
    });
    running.drain();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = stage.folder.nexus_home().join("nexus.yaml");
    let config = format!(
        "{}  callers:\n    ci: {{ url: \"http://{}/hook\", secret_environment: CI_SECRET }}\n",
        fs::read_to_string(&path).unwrap(),
        listener.local_addr().unwrap()
    );
    fs::write(&path, config).unwrap();
    let without = stage.nexus(&["broker", "run"]);
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).contains("CI_SECRET, which is not set"), "{}", text(&without.stderr));
    let waiting = stage.nexus(&["broker", "send", "clerk", "Do it.", "--as", "ci", "--wait", "1"]);
    assert_eq!(waiting.status.code(), Some(2), "{}", text(&waiting.stderr));
    let mut command = stage.folder.command(&["broker", "run"]);
    // What goes to this machine goes through no proxy.
    command.env("http_proxy", "http://127.0.0.1:1");
    command.env("CI_SECRET", SECRET).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let key = WebhookKey::read(SECRET).unwrap();
    // The first delivery fails, and is made again before any other. Then the message itself is refused: the other one, whose id is
    // more than ASCII, goes on.
    for (status, is_ascii) in [
        ("503 Service Unavailable", true),
        ("422 Unprocessable Content", true),
        ("204 No Content", false),
        ("204 No Content", true),
    ] {
        let (mut connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let mut headers = std::collections::BTreeMap::new();
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("POST /hook "), "{line}");
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let timestamp = headers["webhook-timestamp"].parse().unwrap();
        assert_eq!(key.sign(&headers["webhook-id"], timestamp, &body), headers["webhook-signature"]);
        let envelope: Value = serde_json::from_slice(&body).unwrap();
        match is_ascii {
            true => assert_eq!(envelope["message_id"], headers["webhook-id"]),
            false => assert!(headers["webhook-id"].starts_with("sha256@"), "{headers:?}"),
        }
        assert_eq!(envelope["payload"]["content"], "It is done.");
        connection
            .write_all(
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes(),
            )
            .unwrap();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert!(child.wait().unwrap().success(), "{complaints}");
    assert!(!complaints.contains("MfKQ"), "{complaints}");
    assert_eq!(stage.said(&["broker", "inbox", "--as", "ci"]), "");
}

#[test]
fn skills_are_installed_from_a_folder() {
    let folder = Folder::empty();
    let hub = folder.path().join("hub");
    fs::create_dir_all(hub.join("links")).unwrap();
    fs::write(hub.join("links/SKILL.md"), "# Links\n").unwrap();
    let index = |hash: &str| {
        let skill = json!({ "description": "Links.", "kind": "guides", "version": "1", "files": { "SKILL.md": hash } });
        json!({ "skills": { "links": skill }, "packs": { "writing": ["links"] } }).to_string()
    };
    fs::write(hub.join("hub.json"), index(&"0".repeat(64))).unwrap();
    let install = ["skills", "install", "writing", "--hub", "hub"];
    let refused = folder.nexus(&install);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("SHA-256"), "{}", text(&refused.stderr));
    // printf '# Links\n' | sha256sum
    fs::write(hub.join("hub.json"), index("SHA")).unwrap();
    let unread = folder.nexus(&install);
    assert!(text(&unread.stderr).contains("not the SHA-256"), "{}", text(&unread.stderr));
    for hub in
        ["ftp://example.org/hub", "https://me:secret@example.org/hub", "http://localhost.example.org/hub"]
    {
        let refused = folder.nexus(&["skills", "list", "--hub", hub]);
        assert_eq!(refused.status.code(), Some(2), "{hub}: {}", text(&refused.stderr));
        assert!(!text(&refused.stderr).contains("secret"));
    }
}
