//! Serving as a process: over its standard streams, over HTTP, and attached to one that serves over HTTP.
//!
//! The program starts itself as the server, so it has no harness that would write to its standard output.

mod real_clients;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "the other test program uses all of it")]
mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::{Failed, Trial};
use nexus_mcp::{
    HttpServer, HttpSettings, HttpToken, ServerFile, ServerFileError, StdioEnd, StdioSettings, attach,
    serve_stdio,
};
use nexus_testkit::conformance::run_trials;
use rmcp::{ServiceExt as _, model::CallToolRequestParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::Workshop;
use tokio::signal::unix::{SignalKind, signal};

/// What the program serves, if it is the server.
const MODE: &str = "NEXUS_TEST_MCP_SERVES";
/// The home of the server.
const HOME: &str = "NEXUS_TEST_MCP_HOME";
/// How the server exits whose output cannot be written.
const EXIT_OUTPUT: u8 = 3;
/// Longest wait for what a server does, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Ok(mode) = std::env::var(MODE) {
        let home = PathBuf::from(std::env::var_os(HOME).expect("the home is given"));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let end = runtime.block_on(serve(&mode, &home));
        runtime.shutdown_background();
        return match end {
            Ok(StdioEnd::OutputFailed(_)) => ExitCode::from(EXIT_OUTPUT),
            Ok(_) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    type Test = fn() -> Result<(), Failed>;
    let tests: [(&str, Test); 10] = [
        ("nothing_but_messages_reaches_the_client", nothing_but_messages_reaches_the_client),
        ("the_clients_streams_are_no_childs", the_clients_streams_are_no_childs),
        ("a_full_disk_behind_the_output_ends_the_server", a_full_disk_behind_the_output_ends_the_server),
        ("an_output_that_was_closed_ends_the_server", an_output_that_was_closed_ends_the_server),
        ("each_signal_stops_the_service_first", each_signal_stops_the_service_first),
        ("a_client_that_dies_in_mid_step_ends_the_server", a_client_that_dies_in_mid_step_ends_the_server),
        ("the_client_of_the_rust_sdk_lists_and_calls", the_client_of_the_rust_sdk_lists_and_calls),
        ("a_home_has_one_http_server_and_says_which", a_home_has_one_http_server_and_says_which),
        ("attached_a_client_has_what_the_server_has", attached_a_client_has_what_the_server_has),
        ("attaching_needs_a_server_that_runs", attaching_needs_a_server_that_runs),
    ];
    // They need what `real/servers/install` installs, and are ignored unless asked for.
    let real: [(&str, Test); 3] = [
        (
            "the_server_is_right_by_the_protocols_own_suite",
            real_clients::the_server_is_right_by_the_protocols_own_suite,
        ),
        (
            "the_client_of_the_python_sdk_lists_and_calls",
            real_clients::the_client_of_the_python_sdk_lists_and_calls,
        ),
        (
            "the_client_of_the_typescript_sdk_lists_and_calls",
            real_clients::the_client_of_the_typescript_sdk_lists_and_calls,
        ),
    ];
    let real = real.into_iter().map(|(name, test)| Trial::test(name, test).with_ignored_flag(true));
    run_trials(tests.into_iter().map(|(name, test)| Trial::test(name, test)).chain(real).collect())
}

/// The server.
async fn serve(mode: &str, home: &Path) -> Result<StdioEnd, Box<dyn std::error::Error>> {
    let workshop = Workshop { note: Some(home.join("note")), ..Workshop::default() };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let ended = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    match mode {
        "stdio" => Ok(serve_stdio(Arc::new(workshop), StdioSettings::default(), ended).await?),
        "attach" => Ok(attach(home, "workshop", ended).await?),
        _ => {
            let file = ServerFile::claim(home, "workshop")?;
            let token = HttpToken::load_or_create(&ServerFile::token_path(home, "workshop"))?;
            let settings = HttpSettings::new("127.0.0.1:0".parse()?, token);
            let server = HttpServer::bind(Arc::new(workshop), settings).await?;
            file.announce(server.address())?;
            println!("{}", server.url());
            server.serve(ended).await;
            Ok(StdioEnd::Asked)
        }
    }
}

fn command(mode: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env(MODE, mode).env(HOME, home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A server that runs, and its streams.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the server starts");
        Self { input: child.stdin.take(), output: child.stdout.take().map(BufReader::new), child }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(format!("{message}\n").as_bytes()).expect("the server reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().expect("it is open").read_line(&mut line).expect("it is text");
        line
    }

    fn next(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("a message, not {line:?}"))
    }

    fn ask(&mut self, id: i32, method: &str, params: impl Into<Value>) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params.into() }));
        self.next()
    }

    /// The exit code, once it has ended by itself.
    fn exit_code(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            if began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("the server does not end");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }
}

fn note_of(home: &Path) -> Option<String> {
    fs::read_to_string(home.join("note")).ok()
}

fn call(tool: &str, arguments: impl Into<Value>) -> Value {
    json!({ "name": tool, "arguments": arguments.into() })
}

fn nothing_but_messages_reaches_the_client() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(command("stdio", home.path()).stderr(Stdio::piped()));
    let answer = server.ask(1, "tools/call", call("print", json!({})));
    assert_eq!(answer["result"]["structuredContent"], json!({ "printed": true }));
    assert_eq!(server.ask(2, "ping", Value::Null)["id"], 2);
    drop(server.input.take());
    let mut rest = String::new();
    server.output.as_mut().unwrap().read_to_string(&mut rest)?;
    assert_eq!(rest, "");
    let mut errors = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut errors)?;
    assert!(errors.contains("this must not reach the client"), "{errors}");
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
    Ok(())
}

fn the_clients_streams_are_no_childs() -> Result<(), Failed> {
    if !Path::new("/proc/self/fd").exists() {
        println!("NOT TESTED: there is no /proc");
        return Ok(());
    }
    let home = tempfile::tempdir()?;
    let mut server = Server::start(&mut command("stdio", home.path()));
    server.ask(1, "ping", Value::Null);
    let of = |fd: &str| fs::read_link(format!("/proc/{}/fd/{fd}", server.child.id())).unwrap();
    assert_eq!(of("0"), Path::new("/dev/null"));
    assert_eq!(of("1"), of("2"));
    Ok(())
}

fn a_full_disk_behind_the_output_ends_the_server() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let full = fs::OpenOptions::new().write(true).open("/dev/full")?;
    let mut server = Server::start(command("stdio", home.path()).stdout(full));
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    // The input stays open: the server ends by itself.
    let input = server.input.take();
    assert_eq!(server.exit_code(), Some(i32::from(EXIT_OUTPUT)));
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
    drop(input);
    Ok(())
}

fn an_output_that_was_closed_ends_the_server() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(&mut command("stdio", home.path()));
    server.ask(1, "ping", Value::Null);
    drop(server.output.take());
    let mut input = server.input.take().expect("it is open");
    // A program that another test starts just now has the output open too until it runs, and then the server can still write.
    let asking = thread::spawn(move || {
        while input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(server.exit_code(), Some(i32::from(EXIT_OUTPUT)));
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
    asking.join().expect("it ends with the server");
    Ok(())
}

fn each_signal_stops_the_service_first() -> Result<(), Failed> {
    for signal in [Signal::INT, Signal::TERM] {
        let home = tempfile::tempdir()?;
        let mut server = Server::start(&mut command("stdio", home.path()));
        let waits =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("wait", json!({})) });
        server.send(&waits);
        assert_eq!(server.ask(2, "ping", Value::Null)["id"], 2);
        server.signal(signal);
        // The wait ends, and its answer is still written.
        assert_eq!(server.next()["result"]["structuredContent"]["running"], true);
        let input = server.input.take();
        assert_eq!(server.exit_code(), Some(0), "{signal:?}");
        assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
        drop(input);
    }
    Ok(())
}

fn a_client_that_dies_in_mid_step_ends_the_server() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(&mut command("stdio", home.path()));
    server.send(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("step", json!({})) }),
    );
    assert_eq!(server.ask(2, "ping", Value::Null)["id"], 2);
    drop((server.input.take(), server.output.take()));
    server.exit_code();
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
    Ok(())
}

fn the_client_of_the_rust_sdk_lists_and_calls() -> Result<(), Failed> {
    for mode in ["stdio", "attach"] {
        let home = tempfile::tempdir()?;
        let http = (mode == "attach").then(|| started_http(home.path()));
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let mut child =
                tokio::process::Command::from(command(mode, home.path())).kill_on_drop(true).spawn()?;
            let streams = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            let client = ().serve(streams).await?;
            let names: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
            assert!(names.contains(&"echo".into()), "{names:?}");
            let arguments = json!({ "text": "hello" }).as_object().cloned().unwrap();
            let result =
                client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
            assert_eq!(result.structured_content, Some(json!({ "text": "hello" })));
            let failed = client.call_tool(CallToolRequestParams::new("fail")).await?;
            assert_eq!(failed.is_error, Some(true));
            client.cancel().await?;
            let status = tokio::time::timeout(PATIENCE, child.wait()).await??;
            assert_eq!(status.code(), Some(0));
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        if let Some((http, _)) = http {
            http.signal(Signal::TERM);
            assert_eq!(http.exit_code(), Some(0));
        }
    }
    Ok(())
}

/// An HTTP server that listens, and its URL.
fn started_http(home: &Path) -> (Server, String) {
    let mut server = Server::start(&mut command("http", home));
    let url = server.line();
    (server, url.trim().to_owned())
}

fn a_home_has_one_http_server_and_says_which() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let (server, url) = started_http(home.path());
    let running = ServerFile::running(home.path(), "workshop")?;
    assert_eq!((format!("http://{}/mcp", running.address), running.pid), (url, server.child.id()));
    let second = command("http", home.path()).stderr(Stdio::piped()).output()?;
    let refused = String::from_utf8(second.stderr)?;
    assert!(refused.contains("already runs") && refused.contains("--attach"), "{refused}");
    assert!(refused.contains(&running.address.to_string()), "{refused}");

    let token = ServerFile::token_path(home.path(), "workshop");
    let mode = fs::metadata(&token)?.permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    let first_token = fs::read_to_string(&token)?;

    // Killed, it leaves its file behind, and nobody takes it for a server.
    server.signal(Signal::KILL);
    server.exit_code();
    assert!(home.path().join("mcp/workshop.json").exists());
    let stale = ServerFile::running(home.path(), "workshop");
    assert!(matches!(stale, Err(ServerFileError::NotRunning { .. })), "{stale:?}");

    // What the killed one had just forked may have its lock for a moment.
    let lock = fs::File::options().append(true).open(home.path().join("mcp/workshop.lock"))?;
    let next = loop {
        lock.try_lock()?;
        let began = Instant::now();
        let mut next = Server::start(&mut command("http", home.path()));
        thread::sleep(Duration::from_millis(300));
        lock.unlock()?;
        let locked_for = began.elapsed();
        if !next.line().is_empty() {
            break next;
        }
        // On a busy machine the lock is not free in time, which this then tries again.
        assert!(locked_for > Duration::from_secs(2), "it does not wait for the lock");
        next.exit_code();
    };
    assert_eq!(fs::read_to_string(&token)?, first_token, "the token is made once");
    next.signal(Signal::INT);
    assert_eq!(next.exit_code(), Some(0));
    assert!(!home.path().join("mcp/workshop.json").exists());
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"));
    Ok(())
}

fn attached_a_client_has_what_the_server_has() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let (http, _) = started_http(home.path());
    let mut client = Server::start(&mut command("attach", home.path()));
    let capabilities = json!({ "protocolVersion": "2025-06-18", "capabilities": { "roots": {} } });
    assert_eq!(client.ask(1, "initialize", capabilities)["result"]["protocolVersion"], "2025-06-18");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(client.ask(2, "tools/list", json!({}))["result"]["tools"][0]["name"], "echo");
    // Its roots are asked for by way of both.
    let asked = client.ask(3, "tools/call", call("roots", json!({})));
    assert_eq!(asked["method"], "roots/list");
    client.send(
        &json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [{ "uri": "file:///a" }] } }),
    );
    assert_eq!(client.next()["result"]["structuredContent"], json!({ "roots": ["/a"] }));
    // Progress comes through, a cancelled call is not answered, and what is no message is refused.
    let mut slow = call("wait", json!({}));
    slow["_meta"] = json!({ "progressToken": 1 });
    assert_eq!(client.ask(4, "tools/call", slow)["method"], "notifications/progress");
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 4 } }),
    );
    client.input.as_mut().unwrap().write_all(b"half a mess\n")?;
    assert_eq!(client.next()["error"]["code"], -32700);
    assert_eq!(client.ask(5, "ping", Value::Null), json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));

    // The client leaves, and the server stays.
    drop(client.input.take());
    assert_eq!(client.exit_code(), Some(0));
    assert_eq!(note_of(home.path()), None);
    // The server leaves, and the next call says so.
    let mut client = Server::start(&mut command("attach", home.path()));
    assert_eq!(client.ask(1, "ping", Value::Null)["result"], json!({}));
    http.signal(Signal::KILL);
    http.exit_code();
    let answer = client.ask(2, "ping", Value::Null);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("did not answer") && message.contains("--http"), "{answer}");
    Ok(())
}

fn attaching_needs_a_server_that_runs() -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let (sender, outputs) = mpsc::channel();
    let mut command = command("attach", home.path());
    thread::spawn(move || sender.send(command.stderr(Stdio::piped()).output()));
    let output = outputs.recv_timeout(PATIENCE)??;
    let refused = String::from_utf8(output.stderr)?;
    assert!(!output.status.success() && refused.contains("--http"), "{refused}");
    Ok(())
}
