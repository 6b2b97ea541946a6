//! `nexus-sim` as a person starts it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The program, stopped at the end of the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nexus-sim"));
    command.args(arguments);
    command
}

#[test]
fn a_scenario_in_yaml_is_served_and_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.yaml");
    std::fs::write(
        &file,
        "replies:\n  - parts: [{ part: text, text: It is late. }]\n    pace: { piece_chars: 3, gap_ms: 1 }\n",
    )
    .expect("a file");
    let file = file.to_str().expect("a UTF-8 path");
    let mut program = Program(
        program(&["--scenario", file, "--dialect", "anthropic"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program"),
    );
    let mut lines = BufReader::new(program.0.stdout.take().expect("its output")).lines();
    let mut next = |wanted: &str| {
        lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted)).unwrap_or_default()
    };
    let export = next("ANTHROPIC_BASE_URL=");
    let address = export
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("an address")
        .to_owned();
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let length = body.len();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer.matches("text_delta").count(), 4);
    assert!(next("/v1/messages").contains("MainCall"));
}

#[test]
fn what_it_cannot_serve_it_names() {
    let output = program(&["--scenario", "no-such"]).output().expect("the program");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("`no-such`") && stderr.contains("--list"), "{stderr}");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.yaml");
    std::fs::write(&file, "replies:\n  - partz: []\n").expect("a file");
    let output =
        program(&["--scenario", file.to_str().expect("a UTF-8 path")]).output().expect("the program");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("scenario.yaml") && stderr.contains("partz"), "{stderr}");

    let output = program(&["--list"]).output().expect("the program");
    assert!(String::from_utf8_lossy(&output.stdout).contains("torn-once"));
}

#[test]
fn an_authorization_server_is_served_beside_it() {
    let mut program = Program(
        program(&["--issuer", "--token-life", "7"]).stdout(Stdio::piped()).spawn().expect("the program"),
    );
    let mut lines = BufReader::new(program.0.stdout.take().expect("its output")).lines();
    let mut next = |wanted: &str| {
        lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted)).unwrap_or_default()
    };
    let login = next("nexus login codex --issuer ");
    let url = login.split(' ').next_back().expect("a URL").to_owned();
    let browser = nexus_testkit::issuer::Browser::new();
    let page = browser.submit(&format!("{url}/oauth2/device/code"), &[("client_id", "somebody")]);
    let page = page.wait().expect("an answer");
    assert!(page.body.contains("device_code"), "{page:?}");
    assert!(next("DeviceStart").contains("/oauth2/device/code"));
}
