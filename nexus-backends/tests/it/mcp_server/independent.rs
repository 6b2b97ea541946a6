//! The MCP client of the `rmcp` crate: what it is told, and that its calls are decided on like calls made directly.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use nexus_backends::mcp_server::McpServer;
use nexus_core::{Decision, DecisionOutcome, Denial, Session, ToolCall};
use rmcp::{
    ServiceError,
    model::{CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, Request, RequestId},
    service::PeerRequestOptions,
};
use serde_json::{Value, json};

use super::flood::Target;
use crate::support::party::{Client, Deeds, beside, client, scoped, session, until, until_refused};

async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = arguments.as_object().cloned();
    client.call_tool(params).await.expect("the call is answered")
}

fn text(result: &CallToolResult) -> &str {
    &result.content.last().and_then(|block| block.as_text()).expect("text").text
}

#[tokio::test]
async fn a_client_is_told_of_the_tools_in_scope_and_of_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let session = scoped(&Arc::default(), &["add", "w*"], root.path());
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        let server = client.peer_info().unwrap();
        assert_eq!(serde_json::to_value(&server.capabilities).unwrap(), json!({ "tools": {} }));
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["add", "wait"]);
        let [add, wait] = tools.as_slice() else { panic!("{tools:?}") };
        assert_eq!(add.description.as_deref(), Some("Adds two numbers."));
        assert_eq!(Value::Object((*add.input_schema).clone()), session.definitions()[0].input_schema);
        let reads_only = |tool: &rmcp::model::Tool| tool.annotations.as_ref().unwrap().read_only_hint;
        assert_eq!([reads_only(add), reads_only(wait)], [Some(true), Some(false)]);
        let meta = serde_json::to_value(&add.meta).unwrap();
        assert_eq!(meta, json!({ "anthropic/maxResultSizeChars": 500_000 }));

        for error in [
            client.list_resources(None).await.unwrap_err(),
            client.list_prompts(None).await.unwrap_err(),
            client.list_resource_templates(None).await.unwrap_err(),
        ] {
            let ServiceError::McpError(error) = error else { panic!("{error:?}") };
            assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
        }
        client.cancel().await.unwrap();
    };
    beside(&mut server, work).await;
}

#[tokio::test]
async fn every_kind_of_answer_comes_through() {
    let session = session(&Arc::default());
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        let sum = call(&client, "add", json!({ "a": 1, "b": 2 })).await;
        assert_eq!((text(&sum), sum.is_error, &sum.structured_content), ("3", Some(false), &None));
        let broken = call(&client, "fail", json!({})).await;
        assert_eq!((text(&broken), broken.is_error), ("it is broken", Some(true)));
        let shown = call(&client, "show", Value::Null).await;
        let picture = shown.content[0].as_image().unwrap();
        assert_eq!(picture.mime_type, "image/gif");
        assert_eq!(text(&shown), "a pixel");
        let table = call(&client, "table", json!({})).await;
        assert_eq!((text(&table), &table.structured_content), (r#"{"cranes":3}"#, &None));
        let long = "ü".repeat(500_000);
        let echoed = call(&client, "echo", json!({ "text": long })).await;
        assert_eq!(text(&echoed), long);
        client.cancel().await.unwrap();
    };
    beside(&mut server, work).await;
}

/// Calls that are right, and calls that are not.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("add", json!({ "a": 1, "b": 2 })),
        ("add", json!({ "a": "1" })),
        ("add", json!({})),
        ("add", json!([1, 2])),
        ("add", json!("a and b")),
        ("add", Value::Null),
        ("fail", json!({})),
        ("delete_everything", json!({ "path": "/" })),
        ("", json!({})),
        ("ADD", json!({ "a": 1, "b": 2 })),
        ("show", Value::Null),
        ("table", json!({ "unasked": true })),
        ("look", json!({ "path": "docs/a" })),
        ("look", json!({ "path": "docs/../secrets" })),
        ("look", json!({ "path": ["docs/a"] })),
        ("look", json!({ "path": { "of": "docs/a" } })),
        ("add", json!({ "a": i64::MAX - 1, "b": 1 })),
    ]
}

/// What a model reads, whichever way its call went.
fn words(result: &Value) -> (bool, String) {
    let blocks = result["content"].as_array().unwrap().iter();
    let text = blocks.filter_map(|block| block["text"].as_str());
    (result["is_error"].as_bool().or(result["isError"].as_bool()).unwrap(), text.collect())
}

/// One less than the calls.
const BUDGET: Option<u32> = Some(16);

#[tokio::test]
async fn loop_and_server_decide_alike_and_answer_alike() {
    let (by_door, directly) = (Arc::new(Deeds::default()), Arc::new(Deeds::default()));
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("docs")).unwrap();
    let scope = ["add", "fail", "show", "table", "look"];
    let served = scoped(&by_door, &scope, root.path()).for_turn(BUDGET);
    let mut server = McpServer::open(served.share()).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, served.token().expose()).await.unwrap();
        let mut answers = Vec::new();
        for (tool, arguments) in calls() {
            // Not every argument that a client can send can be written in the client's types.
            let params = json!({ "name": tool, "arguments": arguments });
            let request =
                ClientRequest::CustomRequest(rmcp::model::CustomRequest::new("tools/call", Some(params)));
            let answer = client.send_request(request).await.expect("an answer");
            answers.push(words(&serde_json::to_value(answer).unwrap()));
        }
        client.cancel().await.unwrap();
        answers
    };
    let answers = beside(&mut server, work).await;

    let turn = scoped(&directly, &scope, root.path()).for_turn(BUDGET);
    let mut expected = Vec::new();
    for (number, (tool, arguments)) in calls().into_iter().enumerate() {
        let call = ToolCall::new(number.to_string(), tool, arguments);
        expected.push(words(&json!(turn.call(turn.token(), call).await)));
    }
    // JSON is text on its way to a client.
    expected.iter_mut().zip(&answers).for_each(|(expected, answer)| {
        if expected.1.is_empty() {
            expected.1.clone_from(&answer.1);
        }
    });
    assert_eq!(answers, expected);
    assert_eq!(served.decisions(), turn.decisions());
    assert_eq!(by_door.called(), directly.called());
    let verdicts: Vec<_> = served.decisions().iter().map(verdict).collect();
    let (yes, unknown, shape, unfit) = ("allowed", "unknown tool", "not an object", "unfit");
    let add = [yes, unfit, unfit, shape, shape, unfit];
    let others = [yes, unknown, unknown, unknown, yes, yes];
    let paths = [yes, "path", yes, "not a path"];
    assert_eq!(verdicts, [add.as_slice(), &others, &paths, &["over budget"]].concat());
    assert_eq!(by_door.called(), 4);
}

fn verdict(decision: &Decision) -> &'static str {
    match &decision.outcome {
        DecisionOutcome::Allowed => "allowed",
        DecisionOutcome::Denied(Denial::UnknownTool { .. }) => "unknown tool",
        DecisionOutcome::Denied(Denial::NotAnObject { .. }) => "not an object",
        DecisionOutcome::Denied(Denial::NotAPath { .. }) => "not a path",
        DecisionOutcome::Denied(Denial::Path { .. }) => "path",
        DecisionOutcome::Denied(Denial::Unfit { .. }) => "unfit",
        DecisionOutcome::Denied(Denial::OverBudget { .. }) => "over budget",
        DecisionOutcome::Denied(_) => "something else",
    }
}

#[tokio::test]
async fn parallel_calls_run_at_once() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        let calls = (0..20).map(|_| call(&client, "wait", json!({})));
        let ended = async {
            until(|| deeds.running() == 20).await;
            deeds.end_waits();
        };
        let (answers, ()) = tokio::join!(join_all(calls), ended);
        assert!(answers.iter().all(|answer| text(answer) == "waited"));
        client.cancel().await.unwrap();
    };
    beside(&mut server, work).await;
    assert_eq!((deeds.most_running(), deeds.running()), (20, 0));
}

#[tokio::test]
async fn a_call_that_the_client_cancels_is_dropped() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        let request = ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("wait")));
        let handle =
            client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
        until(|| deeds.running() == 1).await;
        handle.cancel(None).await.unwrap();
        until(|| deeds.running() == 0).await;
        // The client goes on.
        assert_eq!(text(&call(&client, "add", json!({ "a": 1, "b": 1 })).await), "2");
        client.cancel().await.unwrap();
    };
    beside(&mut server, work).await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_calls_along() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        let caller = client.peer().clone();
        let waiting = tokio::spawn(async move { caller.call_tool(CallToolRequestParams::new("wait")).await });
        until(|| deeds.running() == 1).await;
        client.cancel().await.unwrap();
        waiting.abort();
        until(|| deeds.running() == 0).await;
    };
    beside(&mut server, work).await;
}

#[tokio::test]
async fn a_server_that_is_dropped_takes_its_calls_along_at_once() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let tasks_before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let program = tokio::spawn({
        let (url, token) = (url.clone(), session.token().expose().to_owned());
        async move {
            let client = client(&url, &token).await.unwrap();
            client.call_tool(CallToolRequestParams::new("wait")).await
        }
    });
    beside(&mut server, until(|| deeds.running() == 1)).await;
    drop(server);
    assert_eq!(deeds.running(), 0, "the tool goes on");
    let address = url.replace("http://", "").replace("/mcp", "");
    until_refused(address).await;
    let answer = tokio::time::timeout(Duration::from_secs(90), program).await.expect("it notices");
    assert!(answer.unwrap().is_err());
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until(|| tasks() <= tasks_before).await;
}

#[tokio::test]
async fn serving_spawns_nothing() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let token = session.token().expose().to_owned();
    // The client is a thread with a runtime of its own, so that this one's tasks are the server's.
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = client(&url, &token).await.unwrap();
            let calls = (0..5).map(|_| call(&client, "wait", json!({})));
            join_all(calls).await;
        });
    });
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 0);
    beside(&mut server, until(|| deeds.running() == 5)).await;
    assert_eq!(tasks(), 0);
    deeds.end_waits();
    beside(&mut server, until(|| program.is_finished())).await;
    assert_eq!(tasks(), 0);
    program.join().unwrap();
}

#[tokio::test]
async fn an_answer_that_takes_long_is_announced_meanwhile() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let address = url.replace("http://", "").replace("/mcp", "").parse().unwrap();
    let target = Target { address, session: Arc::clone(&session) };
    let work = async {
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "wait", "arguments": { "seconds": 12.0 } } });
        let begun = target.say(&initialize, "").await;
        assert!(begun.contains(r#""protocolVersion":"2025-06-18""#), "{begun}");
        let mcp_session = begun.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
        let answer = target.say(&call, &format!("{mcp_session}\r\n")).await;
        assert!(answer.contains("\r\ncontent-type: text/event-stream\r\n"), "{answer}");
        answer
    };
    let stream = beside(&mut server, work).await;
    let (announced, event) = stream.split_once("event: message\ndata: ").unwrap();
    assert!(announced.contains("\r\n: \n\n\r\n"), "{stream}");
    let message: Value = serde_json::from_str(event.lines().next().unwrap()).unwrap();
    assert_eq!(message["result"]["content"][0]["text"], "waited");
}

#[tokio::test]
async fn the_newest_revision_is_spoken_without_a_handshake() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let address = server.url().replace("http://", "").replace("/mcp", "").parse().unwrap();
    let target = Target { address, session: Arc::clone(&session) };
    let work = async {
        let request = |method: &str, mut params: Value| {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":
                    { "extensions": { "io.modelcontextprotocol/tasks": {} }, "roots": {} },
            });
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
        };
        let version = "MCP-Protocol-Version: 2026-07-28\r\n";
        let found = target.say(&request("server/discover", json!({})), version).await;
        assert!(found.contains("\"ttlMs\":") && found.contains("\"cacheScope\":"), "{found}");
        assert!(!found.contains("io.modelcontextprotocol/tasks"), "a turn has no protocol tasks: {found}");
        let call = request("tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }));
        let called = target.say(&call, version).await;
        assert!(
            called.contains("\"resultType\":\"complete\"") && called.contains("\"text\":\"3\""),
            "{called}"
        );
        let denied = target.say(&request("tools/call", json!({ "name": "unknown" })), version).await;
        assert!(denied.contains("\"isError\":true"), "{denied}");
        let updates = request("subscriptions/listen", json!({}));
        let listening = tokio::time::timeout(Duration::from_secs(1), target.say(&updates, version));
        assert!(listening.await.is_err(), "it is held open until the client goes");
    };
    beside(&mut server, work).await;
    assert_eq!((deeds.called(), session.decisions().len()), (1, 2));
}

#[tokio::test]
async fn a_client_that_ends_its_mcp_session_takes_its_calls_along() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let address = server.url().replace("http://", "").replace("/mcp", "").parse().unwrap();
    let target = Target { address, session };
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "wait" } });
    let work = async {
        let waiting = target.say(&call, "Mcp-Session-Id: mine\r\n");
        let ending = async {
            until(|| deeds.running() == 1).await;
            for (named, running) in [("other", 1), ("mine", 0)] {
                let head = format!("{}Connection: close\r\nMcp-Session-Id: {named}", target.good_headers());
                target.answer(format!("DELETE /mcp HTTP/1.1\r\n{head}\r\n\r\n")).await;
                until(|| deeds.running() == running).await;
            }
        };
        let (answer, ()) = tokio::join!(waiting, ending);
        assert!(!answer.contains("result"), "{answer}");
    };
    beside(&mut server, work).await;
}

#[tokio::test]
async fn one_client_does_not_cancel_the_calls_of_another() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut server = McpServer::open(Arc::clone(&session)).await.unwrap();
    let url = server.url();
    let token = session.token().expose();
    let work = async {
        let (one, other) = (client(&url, token).await.unwrap(), client(&url, token).await.unwrap());
        let request = || ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("wait")));
        let options = PeerRequestOptions::no_options;
        let first = one.send_cancellable_request(request(), options()).await.unwrap();
        let second = other.send_cancellable_request(request(), options()).await.unwrap();
        let ids: [RequestId; 2] = [first.id.clone(), second.id.clone()];
        assert_eq!(ids[0], ids[1], "both clients count alike");
        until(|| deeds.running() == 2).await;
        first.cancel(None).await.unwrap();
        until(|| deeds.running() == 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(deeds.running(), 1);
        second.cancel(None).await.unwrap();
        until(|| deeds.running() == 0).await;
    };
    beside(&mut server, work).await;
}

#[tokio::test]
async fn a_session_that_is_closed_meanwhile_lets_no_call_through() {
    let deeds = Arc::new(Deeds::default());
    let whole: Arc<Session> = session(&deeds);
    let turn = whole.for_turn(None);
    let mut server = McpServer::open(turn.share()).await.unwrap();
    let url = server.url();
    let work = async {
        let client = client(&url, turn.token().expose()).await.unwrap();
        call(&client, "add", json!({ "a": 1, "b": 1 })).await;
        drop(turn);
        let late = client.call_tool(CallToolRequestParams::new("fail")).await;
        assert!(late.is_err(), "{late:?}");
    };
    beside(&mut server, work).await;
    assert_eq!(deeds.called(), 1);
}
