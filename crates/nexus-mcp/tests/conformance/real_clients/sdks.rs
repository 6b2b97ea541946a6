//! The same assertions over stdio, through the clients of two SDKs.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::{HOME, MODE, note_of};

/// What is called, and what is asserted of it below.
fn calls() -> Value {
    json!([
        ["echo", { "text": "hello" }],
        ["echo", {}],
        ["wait", { "seconds": 3 }],
        ["unlisted", {}],
        ["roots", {}],
        ["big", { "bytes": 50_000 }],
        ["panic", {}],
    ])
}

fn script(name: &str) -> PathBuf {
    let suite = std::env::var_os("NEXUS_REAL_MCP_CONFORMANCE").expect("set by real/servers/install");
    Path::new(&suite).with_file_name(name)
}

/// Runs a client on this program as the server, and asserts what it tells.
fn assert_of(mut client: Command) -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    client.arg(std::env::current_exe()?).env(MODE, "stdio").env(HOME, home.path());
    client.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    let output = client.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    if let Some(version) = told["version"].as_str() {
        println!("the client speaks {version}");
    }

    assert_eq!(told["instructions"], "Call `echo`, then `wait`.");
    let tools = told["tools"].as_array().expect("a list");
    assert_eq!((&tools[0]["name"], &tools[0]["title"]), (&json!("echo"), &json!("Echo")));
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[0]["outputSchema"]["required"], json!(["text"]));

    let answers = told["answers"].as_array().expect("a list");
    let text = |index: usize| answers[index]["content"][0]["text"].as_str().unwrap_or_default();
    let is_error = |index: usize| answers[index]["isError"] == true;
    assert_eq!(answers[0]["structuredContent"], json!({ "text": "hello" }));
    assert_eq!(serde_json::from_str::<Value>(text(0))?, answers[0]["structuredContent"]);
    assert!(is_error(1) && text(1).contains("`text` is missing"), "{}", answers[1]);
    assert_eq!(answers[2]["structuredContent"]["running"], false);
    assert!(
        told["progress"][0][1].as_str().is_some_and(|line| line.starts_with("sawing")),
        "{}",
        told["progress"]
    );
    let refused = answers[3]["refused"].as_str().unwrap_or_default();
    assert!(refused.contains("there is no tool \"unlisted\""), "{}", answers[3]);
    assert_eq!(answers[4]["structuredContent"], json!({ "roots": ["/a"] }));
    assert!(is_error(5) && text(5).contains("`offset`"), "{}", answers[5]);
    assert!(is_error(6) && text(6).contains("a fault in the server"), "{}", answers[6]);
    assert_eq!(note_of(home.path()).as_deref(), Some("stopped"), "it stops with its client");
    Ok(())
}

pub(crate) fn the_client_of_the_python_sdk_lists_and_calls() -> Result<(), Failed> {
    let python = std::env::var_os("NEXUS_REAL_MCP_PYTHON").expect("set by real/servers/install");
    // As it begins by itself, without a handshake; and with one.
    for mode in ["auto", "legacy"] {
        let mut client = Command::new(&python);
        client.arg(script("mcp_stdio_client.py")).arg(mode).arg(calls().to_string());
        assert_of(client)?;
    }
    Ok(())
}

pub(crate) fn the_client_of_the_typescript_sdk_lists_and_calls() -> Result<(), Failed> {
    let mut client = Command::new("node");
    client.arg(script("mcp-stdio-client.mjs")).arg(calls().to_string());
    assert_of(client)
}
