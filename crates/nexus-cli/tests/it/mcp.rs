//! `nexus mcp spawn`, as a client's program starts it.

#[allow(dead_code, reason = "what is registered, word for word")]
#[path = "../../src/mcp/registration.rs"]
mod registration;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Folder, PATIENCE, text};

/// One that names no backend.
const EMPTY: &str = "groups: {}\n";

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nexus starts");
        Self { input: child.stdin.take(), output: child.stdout.take().map(BufReader::new), child }
    }

    fn of(folder: &Folder, arguments: &[&str]) -> Self {
        // A server decides by its arguments and the home.
        Self::start(folder.command(arguments).env_remove("NEXUS_CONFIG").stdout(Stdio::piped()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().expect("it is open").read_line(&mut line).expect("it is text");
        line
    }

    fn send(&mut self, message: &Value) {
        self.input
            .as_mut()
            .expect("it is open")
            .write_all(format!("{message}\n").as_bytes())
            .expect("it reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("a message, not {line:?}"))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// The exit code and what was complained of, once it has ended by itself.
    fn end(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("nexus does not end");
            }
            thread::sleep(Duration::from_millis(10));
        };
        let mut complaints = String::new();
        self.child.stderr.take().expect("it is a pipe").read_to_string(&mut complaints).expect("it is text");
        (status.code(), complaints)
    }
}

/// A folder whose home has this configuration.
fn configured(config: &str) -> Folder {
    let folder = Folder::empty();
    fs::create_dir_all(folder.nexus_home()).unwrap();
    fs::write(folder.nexus_home().join("nexus.yaml"), config).unwrap();
    folder
}

fn told(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn the_tools_are_listed_at_once_where_nothing_is_configured() {
    let folder = Folder::empty();
    let mut server = Server::of(&folder, &["mcp", "spawn"]);
    let answer = server.ask("initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert!(answer["result"]["instructions"].as_str().unwrap().contains("task_create"));
    let listed = server.ask("tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 15);
    assert!(!folder.nexus_home().exists(), "nothing is made before it is needed");

    let refused = server.call("task_list", &json!({}));
    assert_eq!(refused["isError"], true);
    assert!(told(&refused).contains("does not exist") && told(&refused).contains("nexus check --example"));
    drop(server.input.take());
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_configuration_of_the_folder_that_it_is_started_in_counts_for_nothing() {
    let folder = Folder::with(EMPTY);
    let mut server = Server::of(&folder, &["mcp", "spawn"]);
    assert!(told(&server.call("tier_list", &json!({}))).contains("does not exist"));
    let mut server = Server::of(&folder, &["mcp", "spawn", "--config", "nexus.yaml"]);
    assert_eq!(server.call("tier_list", &json!({})).get("isError").unwrap_or(&json!(false)), false);
}

#[test]
fn the_home_can_be_named_and_a_faulty_configuration_is_told_of() {
    let folder = Folder::empty();
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::write(folder.path().join("other/nexus.yaml"), "groups: 7\n").unwrap();
    let mut server = Server::of(&folder, &["mcp", "spawn", "--home", "other"]);
    let refused = server.call("task_list", &json!({}));
    assert!(told(&refused).contains("cannot be used") && told(&refused).contains("groups"), "{refused}");
    // Mended, the next call has it.
    fs::write(folder.path().join("other/nexus.yaml"), EMPTY).unwrap();
    let listed = server.call("task_list", &json!({}));
    assert_eq!(listed["structuredContent"]["tasks"], json!([]), "{listed}");
}

#[test]
fn each_signal_and_the_end_of_the_input_end_it_as_a_success() {
    for signal in [Some(Signal::INT), Some(Signal::TERM), Some(Signal::HUP), None] {
        let folder = configured(EMPTY);
        let mut server = Server::of(&folder, &["mcp", "spawn"]);
        server.call("tier_list", &json!({}));
        match signal {
            Some(signal) => server.signal(signal),
            None => drop(server.input.take()),
        }
        let input = server.input.take();
        let (code, complaints) = server.end();
        assert_eq!((code, complaints.as_str()), (Some(0), ""), "{signal:?}");
        drop(input);
    }
}

#[test]
fn an_output_that_cannot_be_written_ends_it_with_a_code() {
    let folder = configured(EMPTY);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut server = Server::start(folder.command(&["mcp", "spawn"]).stdout(full));
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    let input = server.input.take();
    let (code, complaints) = server.end();
    assert_eq!(code, Some(1));
    assert!(complaints.contains("standard output cannot be written"), "{complaints}");
    drop(input);

    let mut server = Server::of(&folder, &["mcp", "spawn"]);
    server.ask("ping", &Value::Null);
    drop(server.output.take());
    server.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }));
    let input = server.input.take();
    assert_eq!(server.end(), (Some(141), String::new()));
    drop(input);
}

#[test]
fn over_http_a_home_has_one_server_which_others_attach_to() {
    let folder = configured(EMPTY);
    let mut server = Server::of(&folder, &["mcp", "spawn", "--http", "0"]);
    let line = server.line();
    let (url, token) = line.trim().split_once(" (the token is in ").expect("both are said");
    let token = fs::read_to_string(token.trim_end_matches(')')).unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();

    let post = |token: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(post(token.trim()).contains("task_run_turn"));
    let refused = post("guess");
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("task_run_turn"), "{refused}");

    let mut attached = Server::of(&folder, &["mcp", "spawn", "--attach"]);
    assert_eq!(attached.call("task_list", &json!({}))["structuredContent"]["tasks"], json!([]));
    drop(attached.input.take());
    assert_eq!(attached.end().0, Some(0));

    let second = folder.nexus(&["mcp", "spawn", "--http", "0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("already runs") && text(&second.stderr).contains(address));

    server.signal(Signal::TERM);
    assert_eq!(server.end(), (Some(0), String::new()));
    assert!(!folder.nexus_home().join("mcp/spawn.json").exists());
    let late = folder.nexus(&["mcp", "spawn", "--attach"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(text(&late.stderr).contains("no HTTP server of this home is running"), "{}", text(&late.stderr));
}

#[test]
fn what_is_registered_is_a_command_that_serves() {
    let added = registration::lines().filter(|line| line.contains(" mcp add "));
    for line in added.filter(|line| line.contains(" -- ")) {
        let (add, served) = line.split_once(" -- ").expect("the server's own command line");
        assert!(add.contains(registration::SERVER_NAME), "{add}");
        let words: Vec<_> = served.split(' ').collect();
        assert_eq!(words[0], "nexus");
        let folder = Folder::empty();
        let mut server = Server::of(&folder, &words[1..]);
        assert_eq!(server.ask("ping", &Value::Null)["result"], json!({}));
    }
}
