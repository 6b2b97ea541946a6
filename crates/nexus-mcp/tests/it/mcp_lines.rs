//! The protocol over lines, message by message, and through the client of the SDK for Rust.

use std::{
    io::{self, BufReader, Read, Write},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use nexus_mcp::{MAX_ANSWER_BYTES, StdioEnd, StdioSettings, serve_lines};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::support::Workshop;

/// A client that writes and reads lines.
struct Lines {
    input: Option<io::PipeWriter>,
    output: mpsc::UnboundedReceiver<Value>,
    server: JoinHandle<StdioEnd>,
    workshop: Workshop,
}

impl Lines {
    fn open() -> Self {
        let workshop = Workshop::default();
        let (theirs, input) = io::pipe().unwrap();
        let (output, ours) = io::pipe().unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in io::BufRead::lines(BufReader::new(output)) {
                let line = serde_json::from_str(&line.unwrap()).expect("every line is JSON");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let service = Arc::new(workshop.clone());
        let server = tokio::spawn(async move {
            let serving = serve_lines(
                service,
                StdioSettings::default(),
                BufReader::new(theirs),
                ours,
                std::future::pending(),
            );
            serving.await.unwrap()
        });
        Self { input: Some(input), output: receiver, server, workshop }
    }

    fn write(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.write(message.to_string());
    }

    async fn next(&mut self) -> Value {
        tokio::time::timeout(Duration::from_secs(60), self.output.recv())
            .await
            .expect("in time")
            .expect("a line")
    }

    async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn call(&mut self, tool: &str, arguments: impl Into<Value>) -> Value {
        self.ask(7, "tools/call", json!({ "name": tool, "arguments": arguments.into() })).await["result"]
            .clone()
    }

    async fn end(mut self) -> (StdioEnd, Vec<Value>) {
        drop(self.input.take());
        let end = tokio::time::timeout(Duration::from_secs(60), self.server).await.expect("in time").unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.output.recv().await {
            rest.push(line);
        }
        (end, rest)
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "roots": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn each_revision_is_spoken_on_one_connection() {
    let mut client = Lines::open();
    for revision in ["2025-06-18", "2025-11-25"] {
        let answer =
            client.ask(1, "initialize", json!({ "protocolVersion": revision, "capabilities": {} })).await;
        assert_eq!(answer["result"]["protocolVersion"], revision);
        assert_eq!(answer["result"]["serverInfo"]["name"], "workshop");
        assert_eq!(answer["result"]["instructions"], "Call `echo`, then `wait`.");
        assert_eq!(answer["result"]["capabilities"], json!({ "tools": {} }));
    }
    let answer = client.ask(2, "server/discover", modern(json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(answer["result"]["ttlMs"].is_u64() && answer["result"]["cacheScope"] == "private", "{answer}");
    let answer = client.ask(3, "ping", modern(json!({}))).await;
    assert_eq!(answer["result"], json!({ "resultType": "complete" }));
    let answer = client.ask(3, "ping", Value::Null).await;
    assert_eq!(answer["result"], json!({}));
    let answer =
        client.ask(4, "tools/call", modern(json!({ "name": "echo", "arguments": { "text": "a" } }))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["structuredContent"], json!({ "text": "a" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_with_schemas_titles_and_hints() {
    let mut client = Lines::open();
    let listed = client.ask(1, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools[0]["name"], "echo");
    assert_eq!(tools[0]["title"], "Echo");
    assert_eq!(tools[0]["outputSchema"]["required"], json!(["text"]));
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    let hints = &tools[3]["annotations"];
    assert_eq!((&hints["readOnlyHint"], &hints["destructiveHint"]), (&json!(false), &json!(true)));
    assert_eq!(listed["result"].get("ttlMs"), None);
    let refused = client.ask(1, "tools/list", json!({ "cursor": "x" })).await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_structured_content_say_the_same() {
    let mut client = Lines::open();
    let result = client.call("echo", json!({ "text": "ü\n\"" })).await;
    assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), result["structuredContent"]);
    assert_eq!(result.get("resultType"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_did_wrong_it_is_told_as_an_answer() {
    let mut client = Lines::open();
    for (arguments, expected) in [
        (json!({}), "`text` is missing"),
        (json!("text"), "a string"),
        (json!([1]), "a list"),
        (Value::Null, "missing"),
    ] {
        let result = client.call("echo", arguments).await;
        assert_eq!(result["isError"], true);
        assert!(text(&result).contains(expected), "{result}");
    }
    let result = client.call("fail", json!({})).await;
    assert!(result["isError"] == true && text(&result).contains("call echo instead"));
    let result = client.call("panic", json!({})).await;
    assert!(result["isError"] == true && text(&result).contains("a fault in the server"), "{result}");
    let result = client.call("big", json!({ "bytes": 50_000 })).await;
    assert!(result["isError"] == true && text(&result).contains("`offset`"), "{result}");
    let result = client.call("big", json!({ "bytes": MAX_ANSWER_BYTES - 20 })).await;
    assert_eq!(result.get("isError").unwrap_or(&json!(false)), false);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_answered_and_the_next_message_too() {
    let mut client = Lines::open();
    let mut huge = br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":""#.to_vec();
    huge.resize(5 << 20, b'x');
    let nonsense: [(&[u8], i64); 8] = [
        (b"hello", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"met", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[]", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
        (b"{\"id\":1,\"method\":\"ping\"}", -32600),
        (&huge, -32600),
    ];
    for (line, code) in nonsense {
        client.write(line);
        let answer = client.next().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    // A request that is too long has its answer, wherever its id stands.
    let text = "x".repeat(5 << 20);
    for request in [
        format!(r#"{{"jsonrpc":"2.0","id":"long","method":"ping","params":{{"x":"{text}"}}}}"#),
        format!(r#"{{"method":"ping","params":{{"x":"{text}"}},"jsonrpc":"2.0","id":"long"}}"#),
    ] {
        client.write(&request);
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("long"), &json!(-32600)), "{answer}");
    }
    client.write("\r");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/whatever", "params": [1] }));
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
    );
    client.send(&json!({ "jsonrpc": "2.0", "id": 4, "result": {} }));
    for (method, params, code) in [
        ("resources/list", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!([]), -32602),
        ("tools/call", json!({ "name": 7 }), -32602),
        ("tools/call", json!({ "name": "unlisted" }), -32602),
        ("tasks/get", json!({ "taskId": "none" }), -32602),
        ("tasks/get", json!({}), -32602),
    ] {
        let answer = client.ask("x", method, params).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let unknown = client.ask(5, "tools/call", json!({ "name": "unlisted" })).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("the tools are echo, wait"), "{unknown}");
    let unknown = client
        .ask(5, "ping", json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2031-01-01" } }))
        .await;
    assert_eq!(unknown["error"]["code"], -32022);
    assert_eq!(client.ask(6, "ping", Value::Null).await["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_to_a_client_that_wants_it() {
    let mut client = Lines::open();
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "hold", "_meta": { "progressToken": "p" } } }));
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/progress");
    assert_eq!((&told["params"]["progressToken"], &told["params"]["progress"]), (&json!("p"), &json!(1)));
    assert!(told["params"]["message"].as_str().unwrap().starts_with("sawing"), "{told}");
    let deeds = client.workshop.deeds.clone();
    deeds.reaches(&deeds.begun, 1).await;
    client.workshop.release.notify_waiters();
    // More of it may have been on the way.
    let mut last = client.next().await;
    while last["method"] == "notifications/progress" {
        last = client.next().await;
    }
    assert_eq!(last["result"]["structuredContent"], json!({ "deferred": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_the_waiting_and_not_the_step() {
    let mut client = Lines::open();
    let deeds = client.workshop.deeds.clone();
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "step" } }));
    deeds.reaches(&deeds.begun, 1).await;
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
    );
    // What was cancelled is not answered; the next request is.
    assert_eq!(client.ask(2, "ping", Value::Null).await["result"], json!({}));
    assert_eq!(deeds.done.load(Ordering::SeqCst), 0);
    client.workshop.release.notify_waiters();
    deeds.reaches(&deeds.done, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_input_ends_the_waiting_and_stops_the_service_once() {
    let mut client = Lines::open();
    let deeds = client.workshop.deeds.clone();
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "wait" } }));
    deeds.reaches(&deeds.begun, 1).await;
    let (end, rest) = client.end().await;
    assert!(matches!(end, StdioEnd::InputClosed), "{end:?}");
    assert_eq!((deeds.left.load(Ordering::SeqCst), deeds.stopped.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["result"]["structuredContent"]["running"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_are_asked_of_a_client_that_says_them() {
    let mut client = Lines::open();
    let result = client.call("roots", json!({})).await;
    assert!(text(&result).contains("NotOffered"), "{result}");
    client
        .ask(1, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} } }))
        .await;
    client.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "roots" } }));
    let asked = client.next().await;
    assert_eq!(asked["method"], "roots/list");
    client.send(
        &json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [{ "uri": "file:///a" }] } }),
    );
    assert_eq!(client.next().await["result"]["structuredContent"], json!({ "roots": ["/a"] }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "roots" } }));
    let asked = client.next().await;
    client
        .send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32601, "message": "no" } }));
    assert!(text(&client.next().await["result"]).contains("NoAnswer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_newest_revision_a_call_is_sent_again_with_the_roots() {
    let mut client = Lines::open();
    let asked = client.ask(1, "tools/call", modern(json!({ "name": "roots" }))).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    assert_eq!(asked["result"]["inputRequests"]["roots"]["method"], "roots/list");
    let roots = json!({ "roots": { "roots": [{ "uri": "file:///b" }] } });
    let answered =
        client.ask(2, "tools/call", modern(json!({ "name": "roots", "inputResponses": roots }))).await;
    assert_eq!(answered["result"]["structuredContent"], json!({ "roots": ["/b"] }));
    let without = client.ask(3, "tools/call", modern(json!({ "name": "roots", "inputResponses": {} }))).await;
    assert!(text(&without["result"]).contains("NoAnswer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_call_becomes_a_task_for_a_client_that_takes_tasks() {
    let mut client = Lines::open();
    // What is answered within a second is no task. A busy machine may need more than one try.
    let until = Instant::now() + Duration::from_secs(60);
    let soon = modern(json!({ "name": "wait", "arguments": { "seconds": 0 } }));
    while client.ask(1, "tools/call", soon.clone()).await["result"]["resultType"] != "complete" {
        assert!(Instant::now() < until, "each call becomes a task");
    }
    let deeds = client.workshop.deeds.clone();
    let begun = deeds.begun.load(Ordering::SeqCst);
    let created = client.ask(2, "tools/call", modern(json!({ "name": "hold" }))).await;
    let created = &created["result"];
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    let fetch = modern(json!({ "taskId": created["taskId"] }));
    deeds.reaches(&deeds.begun, begun + 1).await;
    let working = client.ask(3, "tasks/get", fetch.clone()).await["result"].clone();
    assert_eq!((&working["status"], &working["statusMessage"]), (&json!("working"), &json!("sawing")));
    client.workshop.release.notify_waiters();
    let until = Instant::now() + Duration::from_secs(60);
    let fetched = loop {
        let fetched = client.ask(3, "tasks/get", fetch.clone()).await["result"].clone();
        if fetched["status"] != "working" {
            break fetched;
        }
        assert!(Instant::now() < until, "it does not end: {fetched}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&fetched["status"], &fetched["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(fetched["result"]["structuredContent"], json!({ "deferred": true }));

    let created = client.ask(4, "tools/call", modern(json!({ "name": "wait" }))).await;
    let task = modern(json!({ "taskId": created["result"]["taskId"] }));
    assert_eq!(
        client.ask(5, "tasks/cancel", task.clone()).await["result"],
        json!({ "resultType": "complete" })
    );
    deeds.reaches(&deeds.left, 1).await;
    assert_eq!(client.ask(6, "tasks/get", task).await["result"]["status"], "cancelled");

    // A tool that is not long, and a client that takes no tasks, are answered plainly.
    let plain = client.ask(7, "tools/call", json!({ "name": "wait", "arguments": { "seconds": 1.2 } })).await;
    assert_eq!(plain["result"]["structuredContent"], json!({ "running": false, "deferred": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_listens_for_changes_is_answered_once_and_left_alone() {
    let mut client = Lines::open();
    client.send(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": modern(json!({})) }),
    );
    let answer = client.next().await;
    assert_eq!(answer["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(answer["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    assert_eq!(client.ask(2, "ping", Value::Null).await["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_nobody_reads_ends_the_server_politely() {
    let (theirs, mut input) = io::pipe().unwrap();
    let (output, ours) = io::pipe().unwrap();
    drop(output);
    let workshop = Workshop::default();
    let service = Arc::new(workshop.clone());
    let server = tokio::spawn(serve_lines(
        service,
        StdioSettings::default(),
        BufReader::new(theirs),
        ours,
        std::future::pending(),
    ));
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    let end = tokio::time::timeout(Duration::from_secs(60), server).await.expect("in time").unwrap().unwrap();
    assert!(
        matches!(&end, StdioEnd::OutputFailed(error) if error.kind() == io::ErrorKind::BrokenPipe),
        "{end:?}"
    );
    assert_eq!(workshop.deeds.stopped.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_stop_holds_up_the_end_for_its_bound_only() {
    #[derive(Debug)]
    struct Stubborn;

    #[async_trait::async_trait]
    impl nexus_mcp::ToolService for Stubborn {
        fn info(&self) -> nexus_mcp::ServiceInfo {
            nexus_mcp::ServiceInfo::new("stubborn", "1", "")
        }
        fn tools(&self) -> Vec<nexus_mcp::ServedTool> {
            Vec::new()
        }
        async fn call(
            &self,
            _: &str,
            _: nexus_mcp::JsonObject,
            _: nexus_mcp::CallContext,
        ) -> nexus_mcp::CallAnswer {
            nexus_mcp::CallAnswer::error("")
        }
        async fn stop(&self) {
            std::future::pending::<()>().await;
        }
    }

    let mut settings = StdioSettings::default();
    settings.stop_within = Duration::from_millis(100);
    let end = serve_lines(Arc::new(Stubborn), settings, io::empty(), io::sink(), std::future::pending());
    let end = tokio::time::timeout(Duration::from_secs(60), end).await.expect("in time").unwrap();
    assert!(matches!(end, StdioEnd::InputClosed));
}

/// What reads from a pipe and never ends.
#[derive(Debug)]
struct Never;

impl Read for Never {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        loop {
            std::thread::park();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_when_asked_although_the_input_does_not() {
    let workshop = Workshop::default();
    let service = Arc::new(workshop.clone());
    let settings = StdioSettings::default();
    let end = serve_lines(service, settings, BufReader::new(Never), io::sink(), std::future::ready(()))
        .await
        .unwrap();
    assert!(matches!(end, StdioEnd::Asked));
    assert_eq!(workshop.deeds.stopped.load(Ordering::SeqCst), 1);
}
