//! The driver and the MCP server for the caller's tools: a script is the program, and the test calls the tools in its stead.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_core::{
    Effects, ErrorKind, EventEnvelope, ExecutionBackend, FinishReason, IdleLimits, Limit, Limits,
    ParticipantScope, Phase, Session, Tool, Toolbox, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::caller_tools::CallerTools;
use super::driver_tests::{Bench, MINUTE, SHORT, Script, idle, let_pass, request};

/// Waits until the test says so, and answers.
const ANSWER_WHEN_TOLD: &str = r#"while [ ! -e ../../../told ]; do sleep 0.02; done; echo '{"done":"ok"}'"#;

/// As [`ANSWER_WHEN_TOLD`], and shows meanwhile that the model is at work.
const TALK_UNTIL_TOLD: &str =
    r#"while [ ! -e ../../../told ]; do echo '{"text":"."}'; sleep 0.02; done; echo '{"done":"ok"}'"#;

/// `count`, which counts; `wait`, which waits for a time or a file; and `submit`, if it is asked for, which is terminal.
fn session(running: &Arc<AtomicU32>, has_terminal: bool) -> Arc<Session> {
    struct Running(Arc<AtomicU32>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let running = Arc::clone(running);
    let anything = || json!({ "type": "object" });
    let wait = Tool::with_schema("wait", "", anything(), move |arguments: Value| {
        running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&running));
        async move {
            let _running = running;
            match arguments["until"].as_str() {
                Some(file) => {
                    while !Path::new(file).exists() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                None => {
                    let seconds = arguments["seconds"].as_f64().unwrap_or(3600.0);
                    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                }
            }
        }
    });
    let count = Tool::with_schema("count", "", anything(), |_| async { 1 });
    let submit = Tool::without_arguments("submit", "", || async {}).terminal();
    let tools = Toolbox::new().with(wait).with(count);
    let tools = if has_terminal { tools.with(submit) } else { tools };
    Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools))
}

/// A turn, and beside it what its program does with the tools.
struct Scene {
    bench: Bench,
    session: Arc<Session>,
    running: Arc<AtomicU32>,
}

impl Scene {
    fn new(script: Script) -> Self {
        let running = Arc::default();
        Self { bench: Bench::new(script), session: session(&running, false), running }
    }

    fn with_terminal_tool(mut self) -> Self {
        self.session = session(&self.running, true);
        self
    }

    async fn run(&self, request: TurnRequest, events: &mut Vec<TurnEvent>) -> Result<TurnResult, TurnError> {
        let host = TurnHost::new().with_session(Arc::clone(&self.session));
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        self.bench.backend.run_turn(request, host, &mut sink).await
    }

    /// Runs a turn; its program makes these calls, one after the other, and then answers.
    async fn run_with_calls(
        &self,
        request: TurnRequest,
        calls: &[(&str, Value)],
    ) -> (Result<TurnResult, TurnError>, Vec<Value>) {
        let mut answers = Vec::new();
        let program = async {
            let tools = self.tools().await;
            let client = Client::connect(&tools).await;
            for (number, (tool, arguments)) in calls.iter().enumerate() {
                // A model takes a while, too.
                tokio::time::sleep(Duration::from_millis(80)).await;
                match client.call(number, tool, arguments).await {
                    Some(answer) => answers.push(answer),
                    None => return,
                }
            }
            std::fs::write(self.bench.path("told"), "").unwrap();
        };
        let mut events = Vec::new();
        let turn = self.run(request, &mut events);
        let result = {
            let (mut turn, program) = (std::pin::pin!(turn), std::pin::pin!(program));
            tokio::select! {
                result = &mut turn => result,
                () = program => turn.await,
            }
        };
        (result, answers)
    }

    /// The tools as the program is told of them.
    async fn tools(&self) -> CallerTools {
        loop {
            if let Some(tools) = self.bench.backend.cli().tools.lock().unwrap().clone() {
                return tools;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn spawned(&self) -> usize {
        *self.bench.backend.cli().spawned.lock().unwrap()
    }

    async fn until_running(&self, count: u32) {
        while self.running.load(Ordering::SeqCst) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A client of the MCP server.
struct Client {
    address: String,
    token: String,
    session: String,
}

impl Client {
    async fn connect(tools: &CallerTools) -> Self {
        let address = tools.url().replace("http://", "").replace("/mcp", "");
        let mut client = Self { address, token: tools.token().expose().to_owned(), session: String::new() };
        let hello = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} } });
        let answer = client.say(&hello).await.unwrap();
        let named = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        client.session = format!("Mcp-Session-Id: {named}\r\n");
        client
    }

    async fn say(&self, message: &Value) -> Option<String> {
        let Self { address, token, session } = self;
        let body = message.to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{session}\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }

    /// The result of a call; `None` if the server went before it came.
    async fn call(&self, number: usize, tool: &str, arguments: &Value) -> Option<Value> {
        let call = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } });
        let answer = self.say(&call).await?;
        let message = answer.lines().find_map(|line| line.strip_prefix("data: "))?;
        serde_json::from_str::<Value>(message).unwrap().get("result").cloned()
    }
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap()
}

fn limited(tool_calls: u32) -> TurnRequest {
    request().with_limits(Limits::new().with_tool_calls(tool_calls).with_deadline(Duration::from_secs(90)))
}

/// Waits until nobody listens at the port. Another test may have got it meanwhile, and closes it again.
async fn until_closed(tools: &CallerTools) {
    let address = tools.url().replace("http://", "").replace("/mcp", "");
    let began = Instant::now();
    while TcpStream::connect(&address).await.is_ok() {
        assert!(began.elapsed() < MINUTE, "the port is still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn calls_are_answered_while_the_process_runs_and_the_server_is_gone_with_the_turn() {
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD));
    let (result, answers) =
        scene.run_with_calls(request(), &[("count", json!({})), ("wait", json!({ "seconds": 0.1 }))]).await;
    assert_eq!(result.unwrap().text, "ok");
    assert_eq!(answers.iter().map(text).collect::<Vec<_>>(), ["1", "done"]);
    let tools = scene.tools().await;
    until_closed(&tools).await;
    assert_eq!(scene.session.calls_made(), 2);
    let late = scene.session.for_turn(None).authorize(tools.token(), "count", &json!({})).is_err();
    assert!(late, "the token of a turn that is over opens another");
    scene.bench.assert_nothing_left();
}

#[tokio::test]
async fn without_tools_there_is_no_server() {
    let bench = Bench::new(Script::new(r#"echo '{"done":"ok"}'"#));
    bench.backend.run_turn(request(), TurnHost::new(), &mut |_: EventEnvelope| ()).await.unwrap();
    assert!(bench.backend.cli().tools.lock().unwrap().is_none());
}

#[tokio::test]
async fn a_turn_that_is_dropped_takes_its_server_and_its_calls_along() {
    let scene = Scene::new(Script::new("sleep 60"));
    let mut events = Vec::new();
    let mut turn = Box::pin(scene.run(request(), &mut events));
    let program = async {
        let tools = scene.tools().await;
        let client = Client::connect(&tools).await;
        let arguments = json!({});
        tokio::select! {
            answer = client.call(1, "wait", &arguments) => panic!("the tool answered: {answer:?}"),
            () = scene.until_running(1) => tools,
        }
    };
    let tools = tokio::select! {
        result = &mut turn => panic!("the turn ended: {result:?}"),
        tools = program => tools,
    };
    drop(turn);
    assert_eq!(scene.running.load(Ordering::SeqCst), 0, "the tool goes on");
    until_closed(&tools).await;
}

#[tokio::test]
async fn a_process_without_its_tools_is_started_again() {
    let missed = r#"echo '{"text":"I have no to"}'; echo '{"no_tools":"count is missing"}'"#;
    let scene = Scene::new(Script::each(&[missed, missed, r#"echo '{"done":"ok"}'"#]));
    let mut events = Vec::new();
    let result = scene.run(request(), &mut events).await.unwrap();
    assert_eq!((result.text.as_str(), result.provenance.attempts, scene.spawned()), ("ok", 3, 3));
    assert_eq!(result.messages.len(), 1, "{:?}", result.messages);
    let voided = events.iter().filter(|event| matches!(event, TurnEvent::MessageVoided(_))).count();
    assert_eq!(voided, 2);
    let warned = events.iter().filter(|event| matches!(event, TurnEvent::Warning(_))).count();
    assert_eq!(warned, 2);
}

#[tokio::test]
async fn the_third_process_without_its_tools_is_the_last() {
    let scene = Scene::new(Script::new(r#"echo '{"no_tools":"count is missing"}'"#));
    let error = scene.run(request(), &mut Vec::new()).await.unwrap_err();
    assert_eq!((error.kind(), scene.spawned()), (ErrorKind::ToolsUnavailable, 3));
    assert!(error.to_string().ends_with("count is missing"), "{error}");
}

#[tokio::test]
async fn a_process_that_did_something_is_not_started_again() {
    let read = Script::new(r#"echo '{"tool":"t"}'; echo '{"no_tools":"count is missing"}'"#);
    let scene = Scene::new(read);
    let error = scene.run(request(), &mut Vec::new()).await.unwrap_err();
    assert_eq!((error.kind(), scene.spawned()), (ErrorKind::ToolsUnavailable, 1));

    let called = ANSWER_WHEN_TOLD.replace(r#"{"done":"ok"}"#, r#"{"no_tools":"count is missing"}"#);
    let scene = Scene::new(Script::new(&called));
    let (result, _) = scene.run_with_calls(request(), &[("unlisted", json!({}))]).await;
    assert_eq!((result.unwrap_err().kind(), scene.spawned()), (ErrorKind::ToolsUnavailable, 1));
}

#[tokio::test]
async fn calls_of_both_kinds_count_together() {
    let own = r#"echo '{"tool":"a"}'; echo '{"tool":"b"}'; "#;
    let count = || ("count", json!({}));
    let scene = Scene::new(Script::new(&format!("{own}{ANSWER_WHEN_TOLD}")));
    let (result, _) = scene.run_with_calls(limited(3), &[count()]).await;
    assert_eq!(result.unwrap().text, "ok");
    let scene = Scene::new(Script::new(&format!("{own}{ANSWER_WHEN_TOLD}")));
    let (result, _) = scene.run_with_calls(limited(3), &[count(), count(), count()]).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test]
async fn a_model_that_goes_on_calling_over_its_budget_ends_the_turn() {
    let count = || ("count", json!({}));
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD));
    let (result, answers) = scene.run_with_calls(limited(2), &[count(), count()]).await;
    assert_eq!((result.unwrap().text.as_str(), answers.len()), ("ok", 2));
    // Where nothing is left to call, once is enough.
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD));
    let (result, _) = scene.run_with_calls(limited(1), &[count(), count()]).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test]
async fn a_model_that_is_over_its_budget_may_still_submit() {
    let count = || ("count", json!({}));
    let scene = Scene::new(Script::new(TALK_UNTIL_TOLD)).with_terminal_tool();
    let (result, answers) =
        scene.run_with_calls(limited(1), &[count(), count(), ("submit", json!({}))]).await;
    assert_eq!(result.unwrap().text, "ok");
    let words = "the budget of 1 tool calls is used up; you may still call: submit";
    assert_eq!(answers.iter().map(text).collect::<Vec<_>>(), ["1", words, "done"]);
    let scene = Scene::new(Script::new(TALK_UNTIL_TOLD)).with_terminal_tool();
    let (result, _) = scene.run_with_calls(limited(1), &[count(), count(), count(), count()]).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test]
async fn what_was_handed_in_stays_so_whatever_becomes_of_the_program() {
    let says = |word: &str| format!(r#"echo '{{"{word}":"it broke"}}'; sleep 1"#);
    for end in ["kill -9 $$", "exit 1", &says("fail"), &says("no_tools")] {
        let script = ANSWER_WHEN_TOLD.replace(r#"echo '{"done":"ok"}'"#, end);
        let scene = Scene::new(Script::new(&script)).with_terminal_tool();
        let (result, answers) = scene.run_with_calls(request(), &[("submit", json!({}))]).await;
        assert_eq!(result.unwrap().finish, FinishReason::Submitted, "{end}");
        assert_eq!((answers.len(), scene.spawned()), (1, 1), "{end}");
    }
}

#[tokio::test]
async fn a_submission_that_is_sent_again_is_handed_in_once() {
    let scene = Scene::new(Script::new("sleep 60")).with_terminal_tool();
    let program = async {
        let tools = scene.tools().await;
        let client = Client::connect(&tools).await;
        let over = scene.bench.path("over");
        let wait = json!({ "until": over });
        let waits = client.call(1, "wait", &wait);
        let submit = async {
            scene.until_running(1).await;
            // It waits for the call before it, and its connection is lost.
            let lost = client.call(2, "submit", &Value::Null);
            assert!(tokio::time::timeout(Duration::from_millis(200), lost).await.is_err());
            let ends = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                std::fs::write(&over, "").unwrap();
            };
            let (second, third) =
                (client.call(2, "submit", &Value::Null), client.call(3, "submit", &Value::Null));
            let (second, third, ()) = futures::join!(second, third, ends);
            (second, third)
        };
        let (waited, (first, second)) = futures::join!(waits, submit);
        let is_error = |answer: Option<Value>| answer.map(|answer| answer["isError"] == true);
        (is_error(waited), [first, second].map(is_error))
    };
    let mut events = Vec::new();
    let (result, (waited, submitted)) = futures::join!(scene.run(request(), &mut events), program);
    assert_eq!(result.unwrap().finish, FinishReason::Submitted);
    assert_eq!(waited, Some(false));
    assert_eq!(submitted.iter().filter(|is_error| **is_error == Some(false)).count(), 1, "{submitted:?}");
}

#[tokio::test]
async fn calls_over_the_budget_end_where_the_process_shows_none_of_them() {
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD)).with_terminal_tool();
    let calls = vec![("count", json!({})); 80];
    let (result, _) = scene.run_with_calls(limited(1), &calls).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test]
async fn a_tool_that_runs_is_no_silence_of_the_model() {
    let script = format!(r#"echo '{{"text":"let me see"}}'; {ANSWER_WHEN_TOLD}"#);
    let model = |limit| idle(IdleLimits::none().with(Phase::Model, limit));
    let scene = Scene::new(Script::new(&script));
    let over = scene.bench.path("over");
    let while_it_runs = async {
        scene.until_running(1).await;
        // The driver is polled before this goes on, and sees that it runs.
        tokio::task::yield_now().await;
        let_pass(10 * MINUTE).await;
        std::fs::write(&over, "").unwrap();
    };
    let calls = [("wait", json!({ "until": over }))];
    let ((result, _), ()) = futures::join!(scene.run_with_calls(model(MINUTE), &calls), while_it_runs);
    assert_eq!(result.unwrap().text, "ok");
    // Once the tool has ended, silence counts again.
    let scene = Scene::new(Script::new(r#"echo '{"text":"let me see"}'; sleep 60"#));
    let (result, _) = scene.run_with_calls(model(SHORT * 2), &[("wait", json!({ "seconds": 0.1 }))]).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Starved(Phase::Model));
}

#[tokio::test]
async fn a_denied_call_is_known_as_one() {
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD));
    let calls = [("unlisted", json!({ "a": 1 })), ("count", Value::Null)];
    let (result, answers) = scene.run_with_calls(request(), &calls).await;
    result.unwrap();
    let tools = scene.tools().await;
    assert!(answers[0]["isError"].as_bool().unwrap() && !answers[1]["isError"].as_bool().unwrap());
    assert!(tools.was_denied("unlisted", &json!({ "a": 1 })));
    assert!(!tools.was_denied("unlisted", &json!({})) && !tools.was_denied("count", &json!({})));
    assert_eq!(tools.missing(|name| name == "wait"), ["count"]);
    assert!(Path::new(tools.url()).ends_with("mcp"));
}

#[tokio::test]
async fn a_call_that_the_process_never_told_of_has_had_its_effects() {
    let crash = ANSWER_WHEN_TOLD.replace(r#"echo '{"done":"ok"}'"#, "exit 3");
    let scene = Scene::new(Script::new(&crash));
    let (result, _) = scene.run_with_calls(request(), &[("count", json!({}))]).await;
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.partial().effects), (ErrorKind::Crashed, Effects::Unknown));
    // So has one of a turn that goes well.
    let scene = Scene::new(Script::new(ANSWER_WHEN_TOLD));
    let (result, _) = scene.run_with_calls(request(), &[("count", json!({}))]).await;
    assert_eq!(result.unwrap().effects, Effects::Unknown);
    // One that was denied has had none.
    let scene = Scene::new(Script::new(&crash));
    let (result, _) = scene.run_with_calls(request(), &[("unlisted", json!({}))]).await;
    assert_eq!(result.unwrap_err().partial().effects, Effects::None);
}

#[tokio::test]
async fn a_process_without_its_tools_does_nothing_more() {
    let script = r#"echo '{"no_tools":"count is missing"}'; sleep 60; touch ../../../late; sleep 1"#;
    let scene = Scene::new(Script::new(script));
    let error = scene.run(request(), &mut Vec::new()).await.unwrap_err();
    assert_eq!((error.kind(), scene.spawned()), (ErrorKind::ToolsUnavailable, 3));
    assert!(!scene.bench.path("late").exists(), "it ran on");
}

#[tokio::test]
async fn finding_the_tools_is_free_within_reason_and_nothing_else_is() {
    let script = |name: &str, count: u32| {
        let calls = (0..count).map(|number| format!(r#"echo '{{"{name}":"{number}"}}'; "#));
        format!(r#"{}echo '{{"done":"ok"}}'"#, calls.collect::<String>())
    };
    let run = async |name: &str, count: u32| {
        let scene = Scene::new(Script::new(&script(name, count)));
        let result = scene.run(limited(1), &mut Vec::new()).await;
        result.map(|result| result.text).map_err(|error| error.kind())
    };
    let too_many = Err(ErrorKind::LimitReached(Limit::ToolCalls));
    assert_eq!(run("find", 64).await, Ok("ok".to_owned()));
    assert_eq!(run("find", 66).await, too_many);
    assert_eq!(run("list", 2).await, too_many);
}
