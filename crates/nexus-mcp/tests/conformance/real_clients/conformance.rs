//! The conformance suite of the Model Context Protocol, over HTTP. What it asks for beyond tools is listed, with reasons, in
//! `real/servers/mcp-tools-expected-failures.yml`.

use std::{collections::BTreeSet, path::Path, process::Stdio, sync::Arc, time::Duration};

use libtest_mimic::Failed;
use nexus_mcp::{
    CallAnswer, CallContext, HttpServer, HttpSettings, HttpToken, JsonObject, ServedTool, ServiceInfo,
    ToolService,
};
use serde_json::{Value, json};
use tokio::process::Command;

#[path = "../../../../../nexus-backends/tests/it/mcp_server_real/bearer.rs"]
mod bearer;

/// The scenarios that the server must pass. Any other that the suite has must be listed as a failure.
///
/// `server-sse-polling` takes a server that does not have its tool for one that passes.
const PASSED: [&str; 10] = [
    "dns-rebinding-protection",
    "json-schema-2020-12",
    "ping",
    "server-initialize",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "tools-call-error",
    "tools-call-simple-text",
    "tools-call-with-progress",
    "tools-list",
];

/// The tools that the suite calls, as far as they can do what it asks for.
#[derive(Debug)]
struct Suite;

#[async_trait::async_trait]
impl ToolService for Suite {
    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("suite", "1.0.0", "For the conformance suite.")
    }

    fn tools(&self) -> Vec<ServedTool> {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": { "type": "object", "properties": {
                "street": { "type": "string" }, "city": { "type": "string" } } } },
            "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
            "additionalProperties": false,
        });
        let object = || json!({ "type": "object" });
        vec![
            ServedTool::new("test_simple_text", "Answers with text.", object()),
            ServedTool::new("test_error_handling", "Fails.", object()),
            ServedTool::new("test_tool_with_progress", "Tells its progress.", object()),
            ServedTool::new("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", schema),
        ]
    }

    async fn call(&self, name: &str, _arguments: JsonObject, context: CallContext) -> CallAnswer {
        match name {
            "test_error_handling" => {
                CallAnswer::error("This tool intentionally returns an error for testing")
            }
            "test_tool_with_progress" => {
                for line in ["sawing", "planing", "polishing"] {
                    context.progress().say(line);
                    tokio::time::sleep(Duration::from_millis(700)).await;
                }
                CallAnswer::structured(json!({ "done": true }))
            }
            _ => CallAnswer::with_text(json!({}), "This is a simple text response for testing."),
        }
    }

    async fn stop(&self) {}
}

pub(crate) fn the_server_is_right_by_the_protocols_own_suite() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Failed> {
    let suite = std::env::var_os("NEXUS_REAL_MCP_CONFORMANCE").expect("set by real/servers/install");
    let expected = Path::new(&suite).with_file_name("mcp-tools-expected-failures.yml");
    let results = tempfile::tempdir()?;
    let token = HttpToken::load_or_create(&results.path().join("token"))?;
    let settings = HttpSettings::new("127.0.0.1:0".parse()?, token.clone());
    let server = HttpServer::bind(Arc::new(Suite), settings).await?;
    let bearer = bearer::Bearer::before(server.address(), token.expose()).await;
    let output_folder = results.path().join("results");
    let mut node = Command::new("node");
    node.arg(&suite)
        .args(["server", "--suite", "all", "--url", &bearer.url(), "--output-dir"])
        .arg(&output_folder)
        .arg("--expected-failures")
        .arg(&expected)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::select! {
        () = server.serve(std::future::pending()) => unreachable!("it serves for as long as it is polled"),
        () = bearer.carry() => unreachable!("it carries for as long as it is polled"),
        output = tokio::time::timeout(Duration::from_secs(300), node.output()) => output.expect("in time")?,
    };
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));

    let listed = std::fs::read_to_string(&expected)?;
    let listed: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_prefix("  - ")).collect();
    let (passed, failed): (Vec<_>, Vec<_>) =
        scenarios(&output_folder).into_iter().partition(|(_, is_passed)| *is_passed);
    let names =
        |scenarios: Vec<(String, bool)>| scenarios.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
    let (passed, failed) = (names(passed), names(failed));
    println!("passed: {passed:?}\nfailed as expected: {failed:?}");
    assert_eq!(passed, PASSED.map(str::to_owned).into());
    assert_eq!(failed, listed.into_iter().map(str::to_owned).collect());
    assert!(output.status.success(), "{}", output.status);
    Ok(())
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
