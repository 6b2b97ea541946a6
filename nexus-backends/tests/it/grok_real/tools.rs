//! The caller's tools inside the real program: what the model is offered, what reaches the caller, and what the
//! program refuses by itself, in its own words.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use nexus_core::{
    Brief, ConversationMode, Effects, ErrorKind, OutputSchema, ParticipantScope, Session, ToolAccess,
    ToolCall as Asked, ToolCallStatus, ToolContent, ToolDefinition, ToolResult, ToolRouter, TurnEvent,
    TurnHost, TurnRequest, TurnResult, turn::ToolOrigin,
};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::support::{Ran, Stage};

/// Tools that note what they are asked, and answer with the same content every time.
#[derive(Debug)]
struct Noting {
    names: Vec<String>,
    content: Vec<ToolContent>,
    /// Each call waits for as many.
    together: Barrier,
    asked: Mutex<Vec<(String, Value)>>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Noting {
    fn new(names: &[&str], answer: impl Into<String>) -> Arc<Self> {
        Arc::new(Self::with_content(names, vec![ToolContent::text(answer)]))
    }

    fn with_content(names: &[&str], content: Vec<ToolContent>) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            names,
            content,
            together: Barrier::new(1),
            asked: Mutex::default(),
            running: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn host(self: &Arc<Self>) -> TurnHost {
        TurnHost::new().with_tools(Arc::clone(self) as Arc<dyn ToolRouter>)
    }
}

#[async_trait]
impl ToolRouter for Noting {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
        let define = |name: &String| {
            ToolDefinition::new(name, format!("Takes a word: {name}."), schema.clone())
                .with_effects(Effects::Read)
        };
        self.names.iter().map(define).collect()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: Asked) -> ToolResult {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((call.name, call.arguments));
        let at_once = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let _ = tokio::time::timeout(Duration::from_secs(60), self.together.wait()).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        ToolResult::ok(self.content.clone())
    }
}

fn nexus(name: &str, word: &str) -> ToolCall {
    ToolCall::mcp("nexus", name, json!({ "word": word }))
}

fn use_tool(input: Value) -> ToolCall {
    ToolCall::function("use_tool", input)
}

/// What the model was told last, call by call.
fn told(stage: &Stage) -> Vec<String> {
    let calls = stage.calls();
    let last = calls.last().expect("the model was called");
    last.conversation.tool_results().into_iter().map(str::to_owned).collect()
}

fn statuses(result: &TurnResult) -> Vec<(&str, ToolOrigin, ToolCallStatus)> {
    result.tool_calls.iter().map(|call| (call.name.as_str(), call.origin, call.status)).collect()
}

fn warnings(ran: &Ran) -> Vec<&str> {
    let warnings = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Warning(warning) => Some(warning.text.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn with_the_callers_tools_alone_there_is_nothing_else() {
    let stage = Stage::new(Reply::text("unused"));
    let tools = Noting::new(&["look_up", "look_away"], "a long-legged bird");
    let scope = ParticipantScope::assemble(
        &Brief::new(stage.path("work")).tool("look_up".parse().unwrap()),
        None,
        None,
    );
    let session = Session::mint("clerk", scope.unwrap(), Arc::clone(&tools) as Arc<dyn ToolRouter>);
    let file = stage.write(
        "work/call.json",
        r#"{"tool_name":"nexus__look_up","tool_input":{"word":"canary-of-a-file"}}"#,
    );
    let file = file.to_str().unwrap().to_owned();
    let written = stage.path("work/written").to_str().unwrap().to_owned();

    let not_found =
        |name: &str| format!("Failed to parse arguments for tool `{name}`: Tool not found: {name}");
    let no_server = |name: &str| format!("Tool `{name}` failed via `use_tool`: Tool not found: {name}");
    let no_file = || {
        "MCP source Read denied: Denied by permission policy: deny rule on read matching \"**\"".to_owned()
    };
    let not_of_a_server =
        |name: &str| format!("Tool `{name}` failed via `use_tool`: '{name}' is not a valid MCP tool name.");
    let refused = vec![
        (ToolCall::shell(format!("echo x > '{written}'")), not_found("run_terminal_command")),
        (ToolCall::read_file(&file), not_found("read_file")),
        (ToolCall::write_file(&written, "x"), not_found("write")),
        (ToolCall::function("grep", json!({ "pattern": "canary" })), not_found("grep")),
        (ToolCall::function("spawn_subagent", json!({ "prompt": "Write." })), not_found("spawn_subagent")),
        (ToolCall::function("look_up", json!({ "word": "x" })), not_found("look_up")),
        (ToolCall::function("nexus__look_away", json!({ "word": "x" })), not_found("nexus__look_away")),
        (nexus("look_away", "x"), no_server("nexus__look_away")),
        (ToolCall::mcp("other", "look_up", json!({})), no_server("other__look_up")),
        (
            use_tool(json!({ "tool_name": "read_file", "tool_input": { "target_file": file } })),
            not_of_a_server("read_file"),
        ),
        (use_tool(json!({ "tool_name": "nexus__look_up", "tool_input_file": file })), no_file()),
        (use_tool(json!({ "tool_name": "nexus__look_up", "tool_input_file": "call.json" })), no_file()),
        (use_tool(json!({ "file": file })), no_file()),
    ];
    let search = ToolCall::function("search_tool", json!({ "query": "look" }));
    // One by one, since answers come in the order in which they are ready.
    let calls = [search]
        .into_iter()
        .chain(refused.iter().map(|(call, _)| call.clone()))
        .chain([nexus("look_up", "heron")]);
    let script = calls.map(Reply::call).chain([Reply::text("A bird.")]);
    stage.sim.set_scenario(script.collect::<Vec<_>>());

    let request = TurnRequest::new("Look it up.").in_directory(stage.path("work"));
    let ran = stage.run_for(request, TurnHost::new().with_session(Arc::clone(&session))).await;
    assert_eq!(ran.result().text, "A bird.");
    for call in stage.calls() {
        assert_eq!(call.conversation.tool_names(), ["search_tool", "use_tool"]);
    }
    let told = told(&stage);
    let (found, rest) = told.split_first().unwrap();
    assert!(found.contains("nexus__look_up") && !found.contains("look_away"), "{found}");
    assert_eq!(rest.len(), refused.len() + 1);
    for ((call, words), told) in refused.iter().zip(rest) {
        assert!(told.starts_with(words), "{call:?}: {told}");
    }
    assert_eq!(rest.last().map(String::as_str), Some("a long-legged bird"));
    assert!(!stage.path("work/written").exists());

    assert_eq!(
        tools.asked(),
        [("look_up".to_owned(), json!({ "word": "heron" }))],
        "nothing else reached a handler"
    );
    let decisions: Vec<_> = session.decisions().into_iter().map(|decision| decision.tool).collect();
    assert_eq!(decisions, ["look_up"], "nothing else reached the session");
    let last = ran.result().tool_calls.last().unwrap();
    assert_eq!((last.name.as_str(), last.origin), ("look_up", ToolOrigin::Caller));
    assert_eq!(last.arguments, Some(json!({ "word": "heron" })));
    assert_eq!(last.output, [ToolContent::text("a long-legged bird")]);
    assert_eq!(ran.result().effects, Effects::Read, "{:?}", ran.result().tool_calls);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn at_every_level_the_callers_tools_are_there_and_need_no_approval() {
    for access in ToolAccess::ALL {
        let stage = Stage::new(Scenario::new([
            Reply::calls([
                nexus("look_up", "heron"),
                ToolCall::function("nexus__look_up", json!({ "word": "crane" })),
            ]),
            Reply::text("Birds."),
        ]));
        let tools = Noting::new(&["look_up"], "a bird");
        let request = TurnRequest::new("Look.").with_tool_access(access).in_directory(stage.path("work"));
        let ran = stage.run_for(request, tools.host()).await;
        assert_eq!(ran.result().text, "Birds.", "{access:?}");
        let expected = ("look_up", ToolOrigin::Caller, ToolCallStatus::Succeeded);
        assert_eq!(statuses(ran.result()), [expected, expected], "{access:?}");
        let mut asked: Vec<_> =
            tools.asked().into_iter().map(|(_, arguments)| arguments["word"].clone()).collect();
        asked.sort_by_key(Value::to_string);
        assert_eq!(asked, ["crane", "heron"], "{access:?}");
        let offered = stage.calls()[0].conversation.tool_names();
        let of_servers = offered.iter().filter(|name| name.ends_with("_tool")).count();
        assert_eq!(of_servers, 2, "{access:?}: {offered:?}");
        if access == ToolAccess::ReadOnly {
            assert_eq!(offered.len(), 6, "{offered:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn no_file_of_the_logins_or_of_the_run_is_sent_to_a_tool() {
    let mark = "canary-of-what-makes-new-tokens";
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage = Stage::new(Reply::text("unused"));
        let login = stage.write("nexus/auth/grok-build.json", &json!({ "word": mark }).to_string());
        let beside = stage.write("work/beside.json", r#"{"word":"this-can-be-sent"}"#);
        std::os::unix::fs::symlink(&login, stage.path("work/link.json")).unwrap();
        let login = login.to_str().unwrap().to_owned();
        let around = stage.path("nexus/tmp/../auth/grok-build.json").to_str().unwrap().to_owned();
        let from_file =
            |file: &str| use_tool(json!({ "tool_name": "nexus__look_up", "tool_input_file": file }));
        let calls = [
            from_file(&login),
            from_file(&around),
            from_file("link.json"),
            from_file("../nexus/auth/grok-build.json"),
            use_tool(json!({ "file": login })),
            from_file(beside.to_str().unwrap()),
        ];
        stage.sim.set_scenario([Reply::calls(calls), Reply::text("I sent it.")]);
        let tools = Noting::new(&["look_up"], "taken");
        let request = TurnRequest::new("Send.").with_tool_access(access).in_directory(stage.path("work"));
        let ran = stage.run_for(request, tools.host()).await;
        assert_eq!(ran.result().text, "I sent it.", "{access:?}");
        let sent = json!({ "word": "this-can-be-sent" });
        assert_eq!(tools.asked(), [("look_up".to_owned(), sent)], "{access:?}: {:?}", told(&stage));
        assert!(!told(&stage).join("").contains(mark));
    }
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_token_of_the_tools_is_in_no_file_and_in_no_variable() {
    let look = r#"h=$(tr '\0' '\n' < /proc/$PPID/environ | sed -n 's/^GROK_HOME=//p'); t='beare[r] [A-Za-z0-9_-]\{40\}\|_TOOLS_TOKE[N]'; grep -l 'mcp_init_completed' "$h"/sessions/*/*/events.jsonl | wc -l; grep -rlsi "$t" "$h" | wc -l; tr '\0' '\n' < /proc/$PPID/environ | grep -ci "$t"; env | grep -v '^t=' | grep -ci "$t"; echo looked"#;
    let stage = Stage::new(Scenario::new([
        Reply::call(ToolCall::shell(look)),
        Reply::call(nexus("look_up", "heron")),
        Reply::text("A bird."),
    ]));
    let tools = Noting::new(&["look_up"], "a bird");
    let request =
        TurnRequest::new("Look.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let ran = stage.run_for(request, tools.host()).await;
    assert_eq!(ran.result().text, "A bird.");
    assert_eq!(tools.asked().len(), 1);
    let found = &told(&stage)[0];
    let lines: Vec<_> = found.lines().filter(|line| !line.is_empty()).collect();
    // The record of the session was found, and nothing in the three places.
    assert!(lines.ends_with(&["1", "0", "0", "0", "looked"]), "{found}");
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_long_answer_is_whole() {
    let long = format!("{}the-end", "word ".repeat((1 << 20) / 5));
    let tools = Noting::new(&["look_up"], long.as_str());
    let stage = Stage::new(Scenario::tool_then_text(nexus("look_up", "heron"), "Long."));
    let ran = stage.run_for(TurnRequest::new("Look."), tools.host()).await;
    assert_eq!(ran.result().text, "Long.");
    assert!(told(&stage) == [long.as_str()], "of {} bytes came {:?}", long.len(), told(&stage)[0].len());
    assert!(ran.result().tool_calls[0].output == [ToolContent::text(long)]);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn calls_that_are_made_at_once_run_at_once() {
    let mut tools = Noting::with_content(&["look_up"], vec![ToolContent::text("a bird")]);
    tools.together = Barrier::new(5);
    let tools = Arc::new(tools);
    let calls = (0..5).map(|number| nexus("look_up", &number.to_string()));
    let stage = Stage::new([Reply::calls(calls), Reply::text("Birds.")]);
    let ran = stage.run_for(TurnRequest::new("Look."), tools.host()).await;
    assert_eq!(ran.result().text, "Birds.");
    assert_eq!(told(&stage), ["a bird"; 5]);
    assert_eq!(tools.most_at_once.load(Ordering::SeqCst), 5);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_picture_of_a_tool_is_told_as_text_which_the_caller_is_warned_of() {
    let picture = ToolContent::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let content = vec![ToolContent::text("a heron"), picture];
    let tools = Arc::new(Noting::with_content(&["look_up"], content.clone()));
    let calls = [nexus("look_up", "heron"), nexus("look_up", "crane")];
    let stage = Stage::new(Scenario::new([Reply::calls(calls), Reply::text("Birds.")]));
    let ran = stage.run_for(TurnRequest::new("Look."), tools.host()).await;
    for (told, call) in told(&stage).iter().zip(&ran.result().tool_calls) {
        assert_eq!(told, "a heron\ndata:image/png;base64,iVBORw0KGgo=");
        assert_eq!(call.output, content);
    }
    assert_eq!(stage.calls().last().unwrap().conversation.images(), 0);
    assert_eq!(warnings(&ran).iter().filter(|text| text.contains("pictures")).count(), 1);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_call_that_the_session_denies_is_told_as_denied() {
    let stage = Stage::new(Scenario::new([
        Reply::call(nexus("look_up", "heron")),
        Reply::call(ToolCall::mcp("nexus", "read", json!({ "path": "../outside" }))),
        Reply::text("It is outside."),
    ]));
    #[derive(Debug)]
    struct Reading(Arc<Noting>);
    #[async_trait]
    impl ToolRouter for Reading {
        fn definitions(&self) -> Vec<ToolDefinition> {
            let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
            let read = ToolDefinition::new("read", "Reads a file.", schema)
                .with_effects(Effects::Read)
                .with_path("/path", nexus_core::PathAccess::Read);
            self.0.definitions().into_iter().chain([read]).collect()
        }

        fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
            Ok(())
        }

        async fn call(&self, call: Asked) -> ToolResult {
            self.0.call(call).await
        }
    }
    let tools = Noting::new(&["look_up"], "a bird");
    let every = Brief::new(stage.path("work")).tool("*".parse().unwrap()).reading(".");
    let scope = ParticipantScope::assemble(&every, None, None).unwrap();
    let session = Session::mint("clerk", scope, Arc::new(Reading(Arc::clone(&tools))));
    let request = TurnRequest::new("Read.").in_directory(stage.path("work"));
    let ran = stage.run_for(request, TurnHost::new().with_session(Arc::clone(&session))).await;
    let told = told(&stage).pop().unwrap();
    let expected = [
        ("look_up", ToolOrigin::Caller, ToolCallStatus::Succeeded),
        ("read", ToolOrigin::Caller, ToolCallStatus::Denied),
    ];
    assert_eq!(statuses(ran.result()), expected, "{told}");
    assert_eq!(tools.asked().len(), 1, "the handler was not asked");
    assert_eq!(session.decisions().len(), 2);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_repair_and_a_later_turn_have_their_tools() {
    let stage = Stage::new([
        Reply::call(nexus("look_up", "first")),
        Reply::text("not JSON"),
        Reply::call(nexus("look_up", "second")),
        Reply::text("{\"moons\": 146}"),
    ]);
    let tools = Noting::new(&["look_up"], "146");
    let schema =
        json!({ "type": "object", "required": ["moons"], "properties": { "moons": { "type": "integer" } } });
    let request = TurnRequest::new("How many moons?")
        .with_conversation(ConversationMode::Keep)
        .with_output(OutputSchema::new(schema).unwrap());
    let ran = stage.run_for(request, tools.host()).await;
    assert_eq!(ran.result().output, Some(json!({ "moons": 146 })));
    assert_eq!(ran.result().provenance.attempts, 2);

    let handle = ran.result().resume.clone().unwrap();
    stage.sim.set_scenario([Reply::call(nexus("look_up", "third")), Reply::text("Still 146.")]);
    let request = TurnRequest::new("Sure?").with_conversation(ConversationMode::resume(handle));
    let ran = stage.run_for(request, tools.host()).await;
    assert_eq!(ran.result().text, "Still 146.");
    let words: Vec<_> = tools.asked().into_iter().map(|(_, arguments)| arguments["word"].clone()).collect();
    assert_eq!(words, ["first", "second", "third"]);
    let kept = stage.files("nexus").join("\n");
    assert!(!kept.contains("config") && kept.contains("sessions/grok/"), "{kept}");
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn every_name_is_offered_or_refused() {
    let long = "w".repeat(64);
    let stage = Stage::new([Reply::call(nexus(&long, "heron")), Reply::text("A bird.")]);
    let names: Vec<String> =
        (0..60).map(|number| format!("tool-{number}_of_many")).chain([long.clone()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tools = Noting::new(&names, "a bird");
    assert_eq!(stage.run_for(TurnRequest::new("Look."), tools.host()).await.result().text, "A bird.");
    assert_eq!(tools.asked()[0].0, long);

    let before = stage.calls().len();
    let tools = Noting::new(&["fine", "a__b", "_hidden"], "a bird");
    let error = stage.run_for(TurnRequest::new("Look."), tools.host()).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let reason = error.message().unwrap_or_default();
    assert!(reason.contains("a__b, _hidden") && !reason.contains("fine"), "{reason}");
    assert_eq!(stage.calls().len(), before);
}

/// A stage whose program finds its server gone, since the port is another; before that it does what `more` says.
fn without_a_server(more: &str) -> Stage {
    let real = nexus_testkit::real::last("NEXUS_REAL_GROK");
    let real = real.display();
    let stage = Stage::new(Reply::text("I have no tools."));
    let break_it = r##"sed -i 's#^url = .*#url = "http://127.0.0.1:9/mcp"#' "$GROK_HOME/config.toml" "$GROK_HOME/config.quiet""##;
    let script =
        format!("[ -f \"$GROK_HOME/config.toml\" ] && {{ {break_it}; {more}; }}\nexec '{real}' \"$@\"");
    stage.running("broken", &script)
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_model_is_not_called_without_the_tools_it_should_have() {
    let stage = without_a_server("true");
    let tools = Noting::new(&["look_up", "note"], "a bird");
    let began = Instant::now();
    let error = stage.run_for(TurnRequest::new("Look."), tools.host()).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolsUnavailable, "{error:?}");
    let reason = error.message().unwrap_or_default();
    assert!(reason.contains("look_up, note"), "{reason}");
    assert!(stage.calls().is_empty(), "the model was not asked");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn what_a_model_says_without_its_tools_is_not_believed() {
    // Without the hook that holds the prompt back, the model is called.
    let stage = without_a_server("rm -f \"$GROK_HOME\"/hooks/forget.json");
    let tools = Noting::new(&["look_up"], "a bird");
    let ran = stage.run_for(TurnRequest::new("Look."), tools.host()).await;
    let error = ran.outcome.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolsUnavailable, "{error:?}");
    assert_eq!(error.partial().text, "");
    assert_eq!(stage.calls().len(), 3, "it was started again twice");
    assert!(!ran.events.iter().any(|event| matches!(event, TurnEvent::TextDelta(_))));
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_program_that_did_something_without_the_tools_is_not_started_again() {
    let stage = without_a_server("rm -f \"$GROK_HOME\"/hooks/forget.json");
    let marks = stage.path("work/marks");
    // Long enough for the program to be ended meanwhile, however busy the machine is.
    let mark = || ToolCall::shell(format!("echo x >> '{}'; sleep 20", marks.display()));
    stage.sim.set_scenario((0..9).map(|_| Reply::call(mark())).collect::<Vec<_>>());
    let tools = Noting::new(&["look_up"], "a bird");
    let request =
        TurnRequest::new("Go.").in_directory(stage.path("work")).with_tool_access(ToolAccess::Unrestricted);
    let error = stage.run_for(request, tools.host()).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolsUnavailable, "{error:?}");
    let partial = error.partial();
    assert_eq!((partial.effects, partial.tool_calls.len()), (Effects::Wrote, 1), "{:?}", partial.tool_calls);
    assert_eq!(stage.calls().len(), 1);
    let marked = std::fs::read_to_string(marks).unwrap_or_default();
    assert!(marked.lines().count() <= 1, "{marked}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_tools_are_reached_past_any_proxy() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let stage = Stage::new(Scenario::tool_then_text(nexus("look_up", "heron"), "A bird."))
        .with("network", json!({ "inherit_proxy": true }))
        .with_variable("http_proxy", &format!("http://{}", proxy.local_addr().unwrap()));
    let tools = Noting::new(&["look_up"], "a long-legged bird");
    let ran = stage.run_for(TurnRequest::new("Look it up."), tools.host()).await;
    assert_eq!(ran.result().text, "A bird.");
    assert_eq!(tools.asked().len(), 1);
    assert!(proxy.accept().is_err(), "the proxy was asked");
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn looking_for_the_tools_costs_nothing_of_their_budget() {
    let look = ToolCall::function("search_tool", json!({ "query": "look up" }));
    let stage = Stage::new(Scenario::new([
        Reply::call(look.clone()),
        Reply::call(look),
        Reply::call(nexus("look_up", "heron")),
        Reply::text("A bird."),
    ]));
    let tools = Noting::new(&["look_up"], "a long-legged bird");
    let request = TurnRequest::new("Look it up.").with_limits(nexus_core::Limits::new().with_tool_calls(1));
    let ran = stage.run_for(request, tools.host()).await;
    assert_eq!(ran.result().text, "A bird.");
    assert_eq!(tools.asked().len(), 1);
}
