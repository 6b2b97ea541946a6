//! Commands and tools as the program itself lists them.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use super::{Folder, text};

/// Servers of `nexus mcp` whose tools do not depend on the configuration.
pub(crate) const SERVERS: [&str; 3] = ["spawn", "debate", "project"];

/// Every command, with its help: `""` is `nexus` itself. Subcommands follow their command, in the order of its help.
pub(crate) fn commands() -> Vec<(String, String)> {
    let folder = Folder::empty();
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(command) = open.pop() {
        let arguments: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let output = folder.command(&arguments).env("COLUMNS", "100").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let help = text(&output.stdout).to_owned();
        // The overview has five headings in place of one.
        let is_first = |line: &str| match command.is_empty() {
            true => line.ends_with(':') && !line.starts_with(' '),
            false => line == "Commands:",
        };
        let is_last = |line: &str| match command.is_empty() {
            true => line == "Global options:",
            false => !line.starts_with(' ') && !line.is_empty(),
        };
        let subcommands: Vec<String> = help
            .lines()
            .skip_while(|line| !is_first(line))
            .skip(1)
            .take_while(|line| !is_last(line))
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| !line.starts_with([' ', '-']))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(|name| format!("{command} {name}").trim_start().to_owned())
            .collect();
        open.extend(subcommands.into_iter().rev());
        found.push((command, help));
    }
    found
}

/// Name that a server gives itself, and its tools.
pub(crate) fn tools_of(server: &str) -> (String, Vec<Value>) {
    let folder = Folder::with("groups: {}\n");
    let mut command = folder.command(&["mcp", server]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |method: &str, params: Value| -> Value {
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
            .unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("a message, not {line:?}"))
    };
    let client = json!({ "name": "test", "version": "1" });
    let opened = ask(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
    );
    let name = opened["result"]["serverInfo"]["name"].as_str().unwrap().to_owned();
    let tools = ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    drop(input);
    child.wait().unwrap();
    (name, tools)
}
