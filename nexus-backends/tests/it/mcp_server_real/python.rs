//! The client of the MCP SDK for Python, as `real/servers/mcp_client.py` uses it.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use nexus_backends::mcp_server::McpServer;
use nexus_core::{DecisionOutcome, Denial};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::party::{Deeds, beside, session};

async fn run(server: &mut McpServer, token: &str) -> std::process::Output {
    let python = std::env::var_os("NEXUS_REAL_MCP_PYTHON").expect("set by real/servers/install");
    let suite = std::env::var_os("NEXUS_REAL_MCP_CONFORMANCE").expect("set by real/servers/install");
    let mut program = Command::new(python);
    program
        .arg(Path::new(&suite).with_file_name("mcp_client.py"))
        .arg(server.url())
        .env("NEXUS_TOOLS_TOKEN", token)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(120), program.output());
    beside(server, output).await.expect("in time").expect("Python runs")
}

#[tokio::test]
#[ignore = "needs the SDK; run by .ci/deep"]
async fn the_python_client_lists_and_calls() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let output = run(&mut server, session.token().expose()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("the client speaks {}", told["version"]);

    let names: Vec<_> = told["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    let expected: Vec<_> = session.definitions().iter().map(|tool| json!(tool.name)).collect();
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    let answers = told["answers"].as_array().unwrap();
    let of = |index: usize| (answers[index]["is_error"].as_bool().unwrap(), &answers[index]["content"]);
    assert_eq!(of(0), (false, &json!([{ "type": "text", "text": "23" }])));
    assert_eq!(of(1), (true, &json!([{ "type": "text", "text": "it is broken" }])));
    assert_eq!((of(2).0, &of(2).1[0]["type"]), (false, &json!("image")));
    assert_eq!(of(3), (false, &json!([{ "type": "text", "text": r#"{"cranes":3}"# }])));
    assert!(of(4).0 && of(4).1[0]["text"].as_str().unwrap().contains("no tool named \"unlisted\""));
    assert_eq!(told["parallel"].as_array().unwrap().len(), 8);
    assert_eq!(deeds.most_running(), 8);
    let decisions = session.decisions();
    assert_eq!(decisions.len(), 13);
    assert!(matches!(&decisions[4].outcome, DecisionOutcome::Denied(Denial::UnknownTool { .. })));
}

#[tokio::test]
#[ignore = "needs the SDK; run by .ci/deep"]
async fn the_python_client_gets_nowhere_without_the_token() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let output = run(&mut server, "guess").await;
    assert!(!output.status.success());
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((deeds.called(), session.decisions().len()), (0, 0));
}
