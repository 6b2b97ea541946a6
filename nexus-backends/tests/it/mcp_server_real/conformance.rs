//! The conformance suite of the Model Context Protocol. What it asks for beyond tools is listed, with reasons, in
//! `real/servers/mcp-expected-failures.yml`.

use std::{collections::BTreeSet, path::Path, process::Stdio, sync::Arc, time::Duration};

use nexus_backends::mcp_server::McpServer;
use nexus_core::{ParticipantScope, Session, Tool, ToolContent, ToolFault, ToolResult, Toolbox};
use serde_json::{Value, json};
use tokio::process::Command;

use super::bearer::Bearer;
use crate::support::party::{PIXEL, beside};

/// The scenarios that the server must pass. Any other that the suite has must be listed as a failure.
const PASSED: [&str; 9] = [
    "dns-rebinding-protection",
    "json-schema-2020-12",
    "ping",
    "server-initialize",
    "server-sse-multiple-streams",
    "tools-call-error",
    "tools-call-image",
    "tools-call-simple-text",
    "tools-list",
];

/// The tools that the suite calls, as far as a tool can do what it asks for.
fn toolbox() -> Toolbox {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "type": "object", "properties": {
            "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "additionalProperties": false,
    });
    let text = "This is a simple text response for testing.";
    let error = "This tool intentionally returns an error for testing";
    let picture = || ToolContent::image(PIXEL).unwrap();
    Toolbox::new()
        .with(Tool::without_arguments("test_simple_text", "Answers with text.", move || async move { text }))
        .with(Tool::without_arguments("test_image_content", "Answers with a picture.", move || async move {
            picture()
        }))
        .with(Tool::without_arguments(
            "test_multiple_content_types",
            "Answers with both.",
            move || async move {
                ToolResult::ok(vec![ToolContent::text("Multiple content types test:"), picture()])
            },
        ))
        .with(Tool::without_arguments("test_error_handling", "Fails.", move || async move {
            Err::<(), _>(ToolFault::new(error))
        }))
        .with(Tool::with_schema(
            "json_schema_2020_12_tool",
            "Tool with JSON Schema 2020-12 features",
            schema,
            |_| async {},
        ))
}

#[tokio::test]
#[ignore = "needs the suite; run by .ci/deep"]
async fn the_server_is_right_by_the_protocols_own_suite() {
    let suite = std::env::var_os("NEXUS_REAL_MCP_CONFORMANCE").expect("set by real/servers/install");
    let expected = Path::new(&suite).with_file_name("mcp-expected-failures.yml");
    let session = Session::mint("suite", ParticipantScope::unrestricted(), Arc::new(toolbox()));
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let address = server.url().replace("http://", "").replace("/mcp", "").parse().unwrap();
    let bearer = Bearer::before(address, session.token().expose()).await;
    let results = tempfile::tempdir().unwrap();
    let mut node = Command::new("node");
    node.arg(&suite)
        .args(["server", "--suite", "all", "--url", &bearer.url(), "--output-dir"])
        .arg(results.path())
        .arg("--expected-failures")
        .arg(&expected)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let run = async {
        tokio::select! {
            () = bearer.carry() => unreachable!("it carries for as long as it is polled"),
            output = tokio::time::timeout(Duration::from_secs(300), node.output()) => output,
        }
    };
    let output = beside(&mut server, run).await.expect("in time").expect("node runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));

    let listed = std::fs::read_to_string(&expected).unwrap();
    let listed: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_prefix("  - ")).collect();
    let (mut passed, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for (scenario, is_passed) in scenarios(results.path()) {
        if is_passed {
            passed.insert(scenario)
        } else {
            failed.insert(scenario)
        };
    }
    println!("passed: {passed:?}\nfailed as expected: {failed:?}");
    assert_eq!(passed, PASSED.map(str::to_owned).into());
    assert_eq!(failed, listed.into_iter().map(str::to_owned).collect());
    assert!(output.status.success(), "{}", output.status);
}

/// Each scenario that ran, and whether it passed: no check failed, and none warned.
fn scenarios(results: &Path) -> Vec<(String, bool)> {
    let folders = std::fs::read_dir(results).expect("the suite wrote its results");
    let scenario = |folder: std::fs::DirEntry| {
        let name = folder.file_name().into_string().unwrap();
        let checks = std::fs::read(folder.path().join("checks.json")).expect("checks of every scenario");
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        assert!(!checks.is_empty(), "{name} checked nothing");
        let is_bad = |check: &Value| matches!(check["status"].as_str(), Some("FAILURE" | "WARNING"));
        // `server-SCENARIO-2026-01-02T03-04-05-678Z`.
        let scenario = name.strip_prefix("server-").unwrap();
        let (scenario, _) = scenario.split_at(scenario.len() - "-2026-01-02T03-04-05-678Z".len());
        (scenario.to_owned(), !checks.iter().any(is_bad))
    };
    folders.map(|folder| scenario(folder.unwrap())).collect()
}
