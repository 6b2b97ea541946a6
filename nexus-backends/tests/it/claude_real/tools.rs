//! The caller's tools: that they are there, that nothing else is, and that their answers arrive.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use nexus_core::{
    ConversationMode, DecisionOutcome, Effects, ErrorKind, OutputSchema, ParticipantScope, Session,
    ToolAccess, ToolCallStatus, ToolDefinition, ToolResult, TurnHost, TurnRequest, scope::Brief,
    turn::ToolOrigin,
};
use nexus_testkit::sim::{Conversation, Item, Reply, Scenario, ToolCall, long_text};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{
    asked_tools::{AskedTools, terms},
    support::{HTTPS_PORT, Ran, Stage},
};

/// Whether `answer` is what the CLI itself says to a call of a tool that the turn does not have. Versions go on differently.
fn is_refusal(answer: &str, name: &str) -> bool {
    let words = format!("<tool_use_error>Error: No such tool available: {name}");
    let Some(more) = answer.strip_prefix(&words) else { return false };
    more == "</tool_use_error>"
        || (more.starts_with(&format!(". {name} ")) && more.ends_with("</tool_use_error>"))
}

/// The harness's own tools that read, write, execute, or start somebody who does.
const OWN: [&str; 8] = ["Bash", "Read", "Write", "Edit", "Glob", "Grep", "WebFetch", "Agent"];

async fn a_scoped_turn_has_the_callers_tools_in_scope_and_nothing_else(program: &Path) {
    let tools = AskedTools::adding().with("sub", |_| async { ToolResult::text("never") }).shared();
    for schema in [None, Some(OutputSchema::new(json!({ "type": "object" })).unwrap())] {
        let stage = Stage::metered(program, answer_by(schema.is_some()));
        let mut request = TurnRequest::new("Hello.");
        request.output = schema.clone();
        let ran = stage.run_with(request, scoped(&tools, "add")).await;
        ran.result();
        let mut expected = vec!["mcp__nexus__add"];
        expected.extend(schema.map(|_| "StructuredOutput"));
        assert_eq!(sorted(stage.calls()[0].conversation.tool_names()), sorted(expected));
    }
}

async fn a_call_beyond_the_scope_reaches_no_tool(program: &Path) {
    let tools = AskedTools::adding().with("sub", |_| async { ToolResult::text("never") }).shared();
    let session = session(&tools, "add");
    let beyond: Vec<&str> =
        OWN.into_iter().chain(["mcp__nexus__sub", "mcp__other__add", "mcp__nexus__", "NoSuchTool"]).collect();
    let stage = Stage::metered(program, Reply::text("unused"));
    let trace = stage.path("work/trace");
    let call = |name: &&str| ToolCall::function(*name, arguments(name, &trace));
    let add = ToolCall::mcp("nexus", "add", terms(1, 2));
    let calls = beyond.iter().map(call).chain([add]);
    stage.sim.set_scenario(Scenario::new([Reply::calls(calls), Reply::text("I tried.")]));
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let ran = stage.run_with(TurnRequest::new("Try.").in_directory(stage.path("work")), host).await;
    assert_eq!(ran.result().text, "I tried.");

    assert_eq!(tools.asked(), ["add"]);
    let decisions = session.decisions();
    let allowed = decisions.iter().filter(|decision| decision.outcome == DecisionOutcome::Allowed).count();
    assert_eq!((decisions.len(), allowed), (1, 1), "what the CLI refuses does not come to the session");
    let model_calls = stage.calls();
    let told = model_calls[1].conversation.tool_results();
    assert_eq!(told.len(), beyond.len() + 1);
    assert!(beyond.iter().zip(&told).all(|(name, answer)| is_refusal(answer, name)), "{told:?}");
    assert_eq!(told.last().copied(), Some("3"));
    assert_eq!(stage.files("work"), Vec::<String>::new());

    let calls = &ran.result().tool_calls;
    assert_eq!(calls.len(), beyond.len() + 1);
    assert!(calls.iter().all(|call| (call.status == ToolCallStatus::Succeeded) == (call.name == "add")));
    let sub = calls.iter().find(|call| call.name == "sub").unwrap();
    assert_eq!((sub.origin, sub.status), (ToolOrigin::Caller, ToolCallStatus::Denied));
    assert_eq!(ran.result().effects, Effects::Read);
}

async fn at_every_level_a_call_of_the_callers_is_answered(program: &Path) {
    for access in ToolAccess::ALL {
        let tools = AskedTools::adding().shared();
        let stage = Stage::metered(program, call_then_text("add", terms(2, 3)));
        let request = TurnRequest::new("Add.").with_tool_access(access).in_directory(stage.path("work"));
        let ran = stage.run_with(request, TurnHost::new().with_tools(tools.clone())).await;
        let [call] = &ran.result().tool_calls[..] else { panic!("{:?}", ran.result().tool_calls) };
        assert_eq!((call.name.as_str(), call.status), ("add", ToolCallStatus::Succeeded), "{access:?}");
        assert_eq!(call.arguments, Some(terms(2, 3)));
        assert_eq!(stage.calls()[1].conversation.tool_results(), ["5"], "{access:?}");
    }
}

async fn an_answer_of_300_000_characters_arrives_whole(program: &Path) {
    for (length, is_whole) in [(300_000, true), (499_000, true), (600_000, false)] {
        let text = long_text(length);
        let answer = text.clone();
        let tools = AskedTools::default().with("big", move |_| {
            let answer = answer.clone();
            async move { ToolResult::text(answer) }
        });
        let stage = Stage::metered(program, call_then_text("big", json!({})));
        let ran = stage.run_with(TurnRequest::new("Go."), TurnHost::new().with_tools(tools.shared())).await;
        ran.result();
        let calls = stage.calls();
        assert_eq!(calls[1].conversation.tool_results()[0] == text, is_whole, "{length}");
        let is_said = ran.warnings().iter().any(|warning| warning.contains("big is too long"));
        assert_eq!(is_said, !is_whole, "{length}: {:?}", ran.warnings());
    }
}

async fn a_name_is_called_as_long_as_it_may_be(program: &Path) {
    for (length, fits) in [(64, true), (116, true), (117, false)] {
        let name = "n".repeat(length);
        let tools = AskedTools::default().with(&name, |_| async { ToolResult::text("found") }).shared();
        let stage = Stage::metered(program, call_then_text(&name, json!({})));
        let ran = stage.run_with(TurnRequest::new("Go."), TurnHost::new().with_tools(tools.clone())).await;
        if fits {
            assert_eq!(ran.result().tool_calls[0].name, name);
            assert_eq!(stage.calls()[1].conversation.tool_results(), ["found"]);
        } else {
            assert_eq!(ran.error().kind(), ErrorKind::InvalidRequest, "{:?}", ran.error());
            assert!(ran.error().to_string().contains(&name), "{}", ran.error());
            assert_eq!(stage.calls().len(), 0);
        }
    }
}

async fn what_is_said_about_a_tool_arrives_whole_or_is_warned_of(program: &Path) {
    let words = "d".repeat(5_000);
    let tool = ToolDefinition::new("add", words.clone(), json!({ "type": "object" }));
    let tools = AskedTools::default().with_defined(tool, |_| async { ToolResult::text("") }).shared();
    let stage = Stage::metered(program, Reply::text("Hello."));
    let ran = stage.run_with(TurnRequest::new("Hello."), TurnHost::new().with_tools(tools)).await;
    ran.result();
    let is_whole = stage.calls()[0].conversation.tools[0].description == words;
    let is_warned = ran.warnings().iter().any(|warning| warning.contains("description of \"add\""));
    assert_eq!(is_whole, !is_warned);
}

/// The argument `n` of each call, with what the model has for its answer.
fn answers_by_argument(conversation: &Conversation) -> Vec<(u64, String)> {
    let argument = |wanted: &str| {
        conversation.items.iter().find_map(|item| match item {
            Item::ToolCall { id, arguments, .. } if id == wanted => {
                serde_json::from_str::<Value>(arguments).unwrap()["n"].as_u64()
            }
            _ => None,
        })
    };
    let answers = conversation.items.iter().filter_map(|item| match item {
        Item::ToolResult { id, text, .. } => Some((argument(id).expect("a call of this id"), text.clone())),
        _ => None,
    });
    answers.collect()
}

async fn calls_made_together_are_each_answered(program: &Path) {
    for (effects, at_once) in [(Effects::Read, 6), (Effects::Wrote, 1)] {
        let tool =
            ToolDefinition::new("double", "Doubles.", json!({ "type": "object" })).with_effects(effects);
        // Where they run at once each waits for the others, however late they come; else each takes its time alone.
        let others = Arc::new(Barrier::new(at_once));
        let tools = AskedTools::default().with_defined(tool, move |arguments| {
            let others = Arc::clone(&others);
            async move {
                let _ = tokio::time::timeout(Duration::from_secs(60), others.wait()).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                ToolResult::text((2 * arguments["n"].as_i64().unwrap()).to_string())
            }
        });
        let tools = tools.shared();
        let calls = (0..6).map(|n| ToolCall::mcp("nexus", "double", json!({ "n": n })));
        let stage = Stage::metered(program, [Reply::calls(calls), Reply::text("Done.")]);
        let ran = stage.run_with(TurnRequest::new("Go."), TurnHost::new().with_tools(tools.clone())).await;
        for (n, call) in (0..6).zip(&ran.result().tool_calls) {
            assert_eq!(call.arguments, Some(json!({ "n": n })));
            assert_eq!(call.output, [nexus_core::ToolContent::text((2 * n).to_string())]);
        }
        // The model has them in the order in which they came.
        let mut results: Vec<_> = answers_by_argument(&stage.calls()[1].conversation);
        results.sort_unstable();
        assert_eq!(results, [0, 1, 2, 3, 4, 5].map(|n| (n, (2 * n).to_string())));
        assert_eq!((tools.asked().len(), tools.most_at_once()), (6, at_once), "{effects:?}");
    }
}

async fn a_call_of_more_than_two_minutes_is_waited_for(program: &Path) {
    let tools = AskedTools::default().with("think", |_| async {
        tokio::time::sleep(Duration::from_secs(150)).await;
        ToolResult::text("It is done.")
    });
    let stage = Stage::metered(program, call_then_text("think", json!({})));
    let ran = stage.run_with(TurnRequest::new("Go."), TurnHost::new().with_tools(tools.shared())).await;
    assert_eq!(ran.result().tool_calls[0].status, ToolCallStatus::Succeeded);
    assert_eq!(stage.calls()[1].conversation.tool_results(), ["It is done."]);
}

async fn a_conversation_that_goes_on_has_the_tools_of_its_turn(program: &Path) {
    let scenario = [
        Reply::call(ToolCall::mcp("nexus", "add", terms(1, 1))),
        Reply::text("Two."),
        Reply::call(ToolCall::mcp("nexus", "add", terms(2, 2))),
        Reply::text("Four."),
        Reply::text("None."),
    ];
    let stage = Stage::metered(program, scenario);
    let tools = AskedTools::adding().shared();
    let host = || TurnHost::new().with_tools(tools.clone());
    let first =
        stage.run_with(TurnRequest::new("One.").with_conversation(ConversationMode::Keep), host()).await;
    let resume = |ran: &Ran| ConversationMode::resume(ran.result().resume.clone().expect("a handle"));
    let second = stage.run_with(TurnRequest::new("Two.").with_conversation(resume(&first)), host()).await;
    assert_eq!(second.result().tool_calls[0].output, [nexus_core::ToolContent::text("4")]);
    let third = TurnRequest::new("Three.").with_conversation(resume(&second));
    stage.run_with(third, TurnHost::new()).await.result();
    let calls = stage.calls();
    assert_eq!(calls[2].conversation.tool_names(), ["mcp__nexus__add"]);
    assert_eq!(calls[4].conversation.tool_names(), [""; 0], "a turn without tools has none");
    assert_eq!(tools.asked(), ["add", "add"]);
}

async fn an_answer_in_shape_is_given_beside_the_callers_tools(program: &Path) {
    let answer = ToolCall::function("StructuredOutput", json!({ "sum": 3 }));
    let add = ToolCall::mcp("nexus", "add", terms(1, 2));
    let stage = Stage::metered(program, [Reply::call(add), Reply::call(answer)]);
    let shape =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let request = TurnRequest::new("Add.").with_output(OutputSchema::new(shape).unwrap());
    let ran = stage.run_with(request, TurnHost::new().with_tools(AskedTools::adding().shared())).await;
    assert_eq!(ran.result().output, Some(json!({ "sum": 3 })));
    let names: Vec<_> = ran.result().tool_calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["add"]);
}

async fn a_proxy_is_not_asked_for_the_callers_tools(program: &Path) {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let stage = Stage::metered(program, call_then_text("add", terms(1, 2)))
        .with("network", json!({ "inherit_proxy": true }))
        .with_variable("HTTP_PROXY", &url)
        .with_variable("no_proxy", "example.com");
    let ran = stage
        .run_with(TurnRequest::new("Go."), TurnHost::new().with_tools(AskedTools::adding().shared()))
        .await;
    assert_eq!(ran.result().tool_calls[0].status, ToolCallStatus::Succeeded);
    proxy.set_nonblocking(true).unwrap();
    assert!(proxy.accept().is_err(), "nobody came");
}

async fn the_token_lies_where_nobody_else_finds_it(program: &Path) {
    // Whatever has the shape of a token is taken for one; this one has, and must be found.
    let planted = "planted-where-the-models-shell-can-read-it_";
    let stage = Stage::metered(program, Reply::text("unused")).with_variable("PLANTED", planted);
    let record = stage.path("record");
    let stage = stage.with("record", json!(record));
    let (found, folder) = (Arc::new(Mutex::new(Vec::new())), stage.path(""));
    let finds = Arc::clone(&found);
    let tools = AskedTools::default().with("peek", move |_| {
        *finds.lock().unwrap() = tokens_of_children().chain(tokens_in(&folder)).collect();
        async { ToolResult::text("peeked") }
    });
    let look = "env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'";
    let scenario = [
        Reply::call(ToolCall::mcp("nexus", "peek", json!({}))),
        Reply::call(ToolCall::shell(look)),
        Reply::text("Done."),
    ];
    stage.sim.set_scenario(Scenario::new(scenario));
    let request = TurnRequest::new("Look.")
        .with_tool_access(ToolAccess::Unrestricted)
        .with_variable("PLANTED")
        .in_directory(stage.path("work"));
    let ran = stage.run_with(request, TurnHost::new().with_tools(tools.shared())).await;
    assert_eq!(ran.result().text, "Done.");
    let calls = stage.calls();
    let seen = calls.last().unwrap().conversation.tool_results().join("\n");
    for tokens in [found.lock().unwrap().clone(), tokens(seen.as_bytes())] {
        assert!(tokens.contains(&planted.to_owned()), "{tokens:?}");
        assert!(tokens.iter().all(|token| token == planted), "{tokens:?}");
    }
    let left = tokens_in(&record);
    assert!(left.iter().all(|token| token == planted), "{left:?}");
    let said =
        stage.files("record").into_iter().map(|file| std::fs::read_to_string(record.join(file)).unwrap());
    assert!(said.collect::<String>().contains("[redacted]"), "the CLI says the token back");
}

async fn a_subscriber_has_the_callers_tools_and_no_others(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let tools = AskedTools::adding().shared();
    let settings = json!({ "credential": { "env": "TOKEN" }, "billing": "plan" });
    let stage = Stage::at_the_vendors_host(program, call_then_text("add", terms(1, 2)), settings);
    let ran = stage.run_with(TurnRequest::new("Add."), scoped(&tools, "add")).await;
    ran.result();
    assert_eq!(stage.calls()[0].conversation.tool_names(), ["mcp__nexus__add"]);
    assert_eq!(stage.calls()[1].conversation.tool_results(), ["3"]);
}

async fn with_the_users_own_login_nothing_of_the_users_comes_in(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    for access in [ToolAccess::ScopedOnly, ToolAccess::WorkspaceWrite] {
        let stage = super::account::own_login_with(program, call_then_text("add", terms(1, 2)));
        let server = json!({ "command": "sh", "args": ["-c", "touch SERVED; cat"] });
        let servers = json!({ "mcpServers": { "poison": server } }).to_string();
        let plugin = json!({ "enabledPlugins": { "poison@here": true }, "env": { "POISON": "poison" } });
        for (path, text) in [
            ("home/.claude.json", servers.as_str()),
            ("home/.claude/settings.json", &plugin.to_string()),
            ("home/.claude/CLAUDE.md", "poison"),
            ("work/.mcp.json", &servers),
        ] {
            stage.write(path, text);
        }
        let request = TurnRequest::new("Add.").with_tool_access(access).in_directory(stage.path("work"));
        let tools = AskedTools::adding().shared();
        let ran = stage.run_with(request, TurnHost::new().with_tools(tools.clone())).await;
        assert_eq!(ran.result().tool_calls[0].status, ToolCallStatus::Succeeded);
        let calls = stage.calls();
        let served: Vec<_> = calls[0].conversation.tool_names();
        let served: Vec<_> = served.iter().filter(|name| name.starts_with("mcp__")).collect();
        assert_eq!(served, ["mcp__nexus__add"], "{access:?}");
        assert!(!String::from_utf8_lossy(&calls[0].body).contains("poison"), "{access:?}");
        assert!(!stage.path("work/SERVED").exists());
        let left = stage.files("home");
        assert_eq!(
            left.iter().any(|file| file.contains("mcp-logs-nexus")),
            access == ToolAccess::WorkspaceWrite
        );
    }
}

/// A host whose session has the tools that `pattern` allows.
fn scoped(tools: &Arc<AskedTools>, pattern: &str) -> TurnHost {
    TurnHost::new().with_session(session(tools, pattern))
}

fn session(tools: &Arc<AskedTools>, pattern: &str) -> Arc<Session> {
    let brief = Brief::new(std::env::temp_dir()).tool(pattern.parse().unwrap());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    Session::mint("tests", scope, Arc::clone(tools) as _)
}

/// A model that calls the caller's tool `name` once.
fn call_then_text(name: &str, arguments: Value) -> Scenario {
    Scenario::tool_then_text(ToolCall::mcp("nexus", name, arguments), "Done.")
}

fn answer_by(schema: bool) -> Scenario {
    match schema {
        true => Scenario::new([Reply::call(ToolCall::function("StructuredOutput", json!({})))]),
        false => Scenario::text("Hello."),
    }
}

/// What each of the harness's own tools would leave a trace with.
fn arguments(name: &str, trace: &Path) -> Value {
    match name {
        "Bash" => json!({ "command": format!("touch {}", trace.display()), "description": "Touch" }),
        "Write" => json!({ "file_path": trace, "content": "x" }),
        "Agent" => {
            json!({ "description": "Touch", "prompt": "Touch it.", "subagent_type": "general-purpose" })
        }
        _ => {
            json!({ "file_path": "/etc/hostname", "pattern": "*", "url": "http://127.0.0.1:1", "prompt": "x" })
        }
    }
}

/// What looks like a session's token: 43 letters, digits, `_` and `-` in a row.
fn tokens(bytes: &[u8]) -> Vec<String> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let words = bytes.split(move |byte| !fits(byte)).filter(|word| word.len() == 43);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Those in the arguments and the environments of the processes below this one.
fn tokens_of_children() -> impl Iterator<Item = String> {
    let parent = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
    };
    let own = std::process::id().to_string();
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let below = pids.filter(move |pid| {
        let mut line = std::iter::successors(parent(pid), |pid| parent(pid));
        line.any(|above| above == own)
    });
    below.flat_map(|pid| {
        let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        tokens(&[read("environ"), read("cmdline")].concat())
    })
}

/// Those in the files below a folder.
fn tokens_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tokens_in(&path)),
            false => found.extend(tokens(&std::fs::read(path).unwrap_or_default())),
        }
    }
    found
}

fn sorted<T: Into<String>>(names: Vec<T>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
    names.sort();
    names
}

mod tests {
    /// With all programs at once, for it waits and computes nothing.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs the real CLI; run by .ci/deep"]
    async fn a_call_of_more_than_two_minutes_is_waited_for() {
        let programs = crate::claude_real::support::programs();
        let each =
            programs.iter().map(|program| super::a_call_of_more_than_two_minutes_is_waited_for(program));
        futures::future::join_all(each).await;
    }

    crate::claude_real::support::with_each_program! {
        a_scoped_turn_has_the_callers_tools_in_scope_and_nothing_else
        a_call_beyond_the_scope_reaches_no_tool
        at_every_level_a_call_of_the_callers_is_answered
        an_answer_of_300_000_characters_arrives_whole
        a_name_is_called_as_long_as_it_may_be
        what_is_said_about_a_tool_arrives_whole_or_is_warned_of
        calls_made_together_are_each_answered
        a_conversation_that_goes_on_has_the_tools_of_its_turn
        an_answer_in_shape_is_given_beside_the_callers_tools
        a_proxy_is_not_asked_for_the_callers_tools
        the_token_lies_where_nobody_else_finds_it
        a_subscriber_has_the_callers_tools_and_no_others
        with_the_users_own_login_nothing_of_the_users_comes_in
    }
}
