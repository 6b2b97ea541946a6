//! The caller's tools inside the program: that they are there whatever the model and the level, that nothing else is in
//! `ScopedOnly`, and whose answer a call gets.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    ConversationMode, DecisionOutcome, Effects, Json, OutputSchema, ParticipantScope, Session, Tool,
    ToolAccess, ToolCallStatus, Toolbox, TurnEvent, TurnHost, TurnRequest, TurnResult, scope::Brief,
    turn::ToolOrigin,
};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::support::{Deeds, Ran, Stage};

/// What the program adds to every list where there is a server. It takes no switch.
const HELPERS: [&str; 3] = ["list_mcp_resource_templates", "list_mcp_resources", "read_mcp_resource"];

/// A model of each kind: with functions, with scripts, and one that the program does not list.
const MODELS: [&str; 3] = ["gpt-5.5", "gpt-6.1-sol", "mystery-1"];

/// A call of a tool of the caller's.
fn own(name: &str, arguments: Value) -> ToolCall {
    ToolCall::namespaced("mcp__nexus", name, arguments)
}

/// `add` and `wipe`, which note what they are asked.
fn toolbox(deeds: &Deeds) -> Toolbox {
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
    let (adds, wipes) = (deeds.clone(), deeds.clone());
    let add = Tool::with_schema("add", "Adds.", schema, move |arguments: Value| {
        adds.note("add", &arguments);
        async move {
            let number = |key: &str| arguments[key].as_i64().unwrap_or_default();
            Json(json!({ "sum": number("a") + number("b") }))
        }
    });
    let wipe = Tool::without_arguments("wipe", "Wipes.", move || {
        wipes.note("wipe", &Value::Null);
        async {}
    });
    Toolbox::new().with(add.read_only()).with(wipe.with_effects(Effects::Wrote))
}

/// A participant that may `add`.
fn adder(deeds: &Deeds, stage: &Stage) -> Arc<Session> {
    let brief = Brief::new(stage.path("work").canonicalize().unwrap()).tool("add".parse().unwrap());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    Session::mint("adder", scope, Arc::new(toolbox(deeds)))
}

fn statuses(result: &TurnResult) -> Vec<(&str, ToolCallStatus)> {
    result.tool_calls.iter().map(|call| (call.name.as_str(), call.status)).collect()
}

/// The tools that the model was offered in its last call, without the namespace of the program's own.
fn offered(stage: &Stage) -> Vec<String> {
    let names = stage.calls().pop().unwrap().conversation.tool_names();
    let mut names: Vec<_> =
        names.iter().map(|name| name.trim_start_matches("functions.").to_owned()).collect();
    names.sort();
    names
}

/// What the model was told, in its last call.
fn told(stage: &Stage) -> Vec<String> {
    let calls = stage.calls();
    calls.last().unwrap().conversation.tool_results().iter().map(|&text| text.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_scope_is_all_that_there_is_and_what_else_is_called_reaches_nobody() {
    for model in MODELS {
        let stage = Stage::new(Scenario::new([
            Reply::call(own("add", json!({ "a": 2, "b": 3 }))),
            Reply::calls([
                own("wipe", json!({})),
                ToolCall::function("exec_command", json!({ "cmd": "touch escaped" })),
                ToolCall::custom("apply_patch", "*** Begin Patch\n*** Add File: escaped\n+x\n*** End Patch"),
                ToolCall::custom("exec", "await tools.exec_command({cmd: 'touch escaped'})"),
                ToolCall::function("mcp__nexus__add", json!({ "a": 7 })),
                ToolCall::function("view_image", json!({ "path": "/etc/hostname" })),
            ]),
            Reply::text("Five."),
        ]));
        let deeds = Deeds::default();
        let session = adder(&deeds, &stage);
        let request = TurnRequest::new("Add.").with_model(model);
        let ran = stage.run_in(request, TurnHost::new().with_session(Arc::clone(&session))).await;
        let result = ran.result();
        assert_eq!(result.text, "Five.", "{model}");

        let mut expected: Vec<_> = HELPERS.map(str::to_owned).into();
        expected.push("mcp__nexus.add".to_owned());
        expected.sort();
        assert_eq!(offered(&stage), expected, "{model}");

        let answers = told(&stage);
        assert!(
            answers[0].contains("Wall time: ") && answers[0].contains(r#"{"sum":5}"#),
            "{model}: {answers:?}"
        );
        assert_eq!(
            answers[1..],
            [
                "unsupported call: mcp__nexuswipe",
                "unsupported call: exec_command",
                "unsupported custom tool call: apply_patch",
                "unsupported custom tool call: exec",
                "unsupported call: mcp__nexus__add",
                "unsupported call: view_image",
            ],
            "{model}"
        );
        assert_eq!(deeds.all(), [("add".to_owned(), json!({ "a": 2, "b": 3 }))], "{model}");
        let decided: Vec<_> = session.decisions().into_iter().map(|one| (one.tool, one.outcome)).collect();
        assert_eq!(decided, [("add".to_owned(), DecisionOutcome::Allowed)], "{model}");
        assert_eq!(stage.files("work"), Vec::<String>::new(), "{model}");

        let (fine, denied, failed) =
            (ToolCallStatus::Succeeded, ToolCallStatus::Denied, ToolCallStatus::Failed);
        assert_eq!(statuses(result)[..2], [("add", fine), ("wipe", denied)], "{model}");
        let rest: Vec<_> = statuses(result)[2..].iter().map(|(_, status)| *status).collect();
        assert_eq!(rest, vec![failed; rest.len()], "{model}");
        assert_eq!(result.effects, Effects::Read, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_programs_helpers_for_resources_reach_nothing() {
    for model in MODELS {
        let secret = "canary-of-a-file";
        let read = |server: &str, uri: &str| {
            ToolCall::function("read_mcp_resource", json!({ "server": server, "uri": uri }))
        };
        let stage = Stage::new(Scenario::text(""));
        let file = stage.write("work/file", secret);
        let file = format!("file://{}", file.display());
        let stage = stage.playing(Scenario::new([
            Reply::calls([
                ToolCall::function("list_mcp_resources", json!({})),
                ToolCall::function("list_mcp_resource_templates", json!({})),
                read("nexus", &file),
                read("nexus", "/etc/hostname"),
                read("codex", &file),
                read("codex_apps", &file),
            ]),
            Reply::text("Nothing."),
        ]));
        let deeds = Deeds::default();
        let session = adder(&deeds, &stage);
        let request = TurnRequest::new("Read.").with_model(model);
        let ran = stage.run_in(request, TurnHost::new().with_session(Arc::clone(&session))).await;
        let result = ran.result();
        assert_eq!((result.text.as_str(), result.effects), ("Nothing.", Effects::None), "{model}");
        let answers = told(&stage);
        assert_eq!(answers[..2], [r#"{"resources":[]}"#, r#"{"resourceTemplates":[]}"#], "{model}");
        for answer in &answers[2..4] {
            assert!(answer.starts_with("resources/read failed: "), "{model}: {answer}");
        }
        // Version 0.171.0 adds "for the selected environment".
        for (answer, server) in answers[4..].iter().zip(["codex", "codex_apps"]) {
            assert!(answer.starts_with(&format!("unknown MCP server '{server}'")), "{model}: {answer}");
        }
        assert!(!answers.iter().any(|answer| answer.contains(secret)), "{model}: {answers:?}");
        assert_eq!((deeds.all().len(), session.decisions().len()), (0, 0), "{model}");
        let own = result.tool_calls.iter().filter(|call| call.origin == ToolOrigin::Caller).count();
        assert_eq!((own, result.tool_calls.len()), (0, 6), "{model}: {:?}", result.tool_calls);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn at_every_level_a_call_is_the_callers_by_its_own_name() {
    for access in ToolAccess::ALL {
        for model in MODELS {
            let call = own("add", json!({ "a": 2, "b": 3 }));
            let stage = Stage::new(Scenario::tool_then_text(call, "Five."));
            let deeds = Deeds::default();
            let host = TurnHost::new().with_session(adder(&deeds, &stage));
            let request = TurnRequest::new("Add.").with_model(model).with_tool_access(access);
            let ran = stage.run_in(request, host).await;
            assert_eq!(ran.result().text, "Five.");
            assert!(offered(&stage).contains(&"mcp__nexus.add".to_owned()), "{access:?} {model}");
            assert_eq!(deeds.all(), [("add".to_owned(), json!({ "a": 2, "b": 3 }))], "{access:?} {model}");
            let [call] = ran.result().tool_calls.as_slice() else { panic!("{:?}", ran.result().tool_calls) };
            assert_eq!((call.name.as_str(), call.origin), ("add", ToolOrigin::Caller), "{access:?} {model}");
            assert_eq!((call.effects, call.status), (Effects::Read, ToolCallStatus::Succeeded));
            assert_eq!(call.arguments, Some(json!({ "a": 2, "b": 3 })));
            assert_eq!(ran.result().effects, Effects::Read, "{access:?} {model}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_name_arrives_whole_or_the_caller_is_told() {
    let longest = "n".repeat(64);
    for model in MODELS {
        let deeds = Deeds::default();
        let tool = |name: &str| {
            let (deeds, name) = (deeds.clone(), name.to_owned());
            Tool::without_arguments(name.clone(), "Does it.", move || {
                deeds.note(&name, &Value::Null);
                async { "Done." }
            })
        };
        let tools = Toolbox::new().with(tool(&longest)).with(tool("read-file"));
        assert!(tools.quarantined().is_empty());
        let calls = [own(&longest, json!({})), own("read_file", json!({}))];
        let stage = Stage::new(Scenario::new([Reply::calls(calls), Reply::text("Both.")]));
        let host = TurnHost::new().with_tools(Arc::new(tools));
        let ran = stage.run_in(TurnRequest::new("Do it.").with_model(model), host).await;
        assert_eq!(ran.result().text, "Both.", "{model}");
        let mut asked: Vec<_> = deeds.all().into_iter().map(|(name, _)| name).collect();
        asked.sort();
        assert_eq!(asked, [longest.as_str(), "read-file"], "{model}");
        let mut names: Vec<_> = ran.result().tool_calls.iter().map(|call| call.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, [longest.as_str(), "read-file"], "{model}");
        let warnings = ran.events.iter().filter_map(|event| match event {
            TurnEvent::Warning(warning) => Some(warning.text.as_str()),
            _ => None,
        });
        let about: Vec<_> = warnings.filter(|text| text.contains("read-file")).collect();
        assert!(matches!(about.as_slice(), [text] if !text.contains(&longest)), "{model}: {about:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn calls_that_the_model_makes_at_once_run_at_once() {
    for model in MODELS {
        let meeting = Arc::new(Barrier::new(2));
        let tool = Tool::without_arguments("meet", "Waits for another.", move || {
            let meeting = Arc::clone(&meeting);
            async move {
                let met = tokio::time::timeout(Duration::from_secs(20), meeting.wait()).await;
                met.map(|_| "Met.").map_err(|_| "alone")
            }
        });
        let calls = [own("meet", json!({})), own("meet", json!({}))];
        let stage = Stage::new(Scenario::new([Reply::calls(calls), Reply::text("Both.")]));
        let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(tool)));
        let ran = stage.run_in(TurnRequest::new("Meet.").with_model(model), host).await;
        let fine = ToolCallStatus::Succeeded;
        assert_eq!(statuses(ran.result()), [("meet", fine), ("meet", fine)], "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_result_of_half_a_mebibyte_reaches_the_model_whole() {
    for (access, model) in MODELS
        .into_iter()
        .flat_map(|model| [ToolAccess::ScopedOnly, ToolAccess::ReadOnly].map(|it| (it, model)))
    {
        let text = format!("{}the end", "0123456789abcde\n".repeat(32 << 10));
        let whole = text.clone();
        let tool = Tool::without_arguments("tell", "Tells all.", move || {
            let text = text.clone();
            async move { text }
        });
        let stage = Stage::new(Scenario::tool_then_text(own("tell", json!({})), "Read."));
        let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(tool)));
        let request = TurnRequest::new("Tell.").with_model(model).with_tool_access(access);
        let ran = stage.run_in(request, host).await;
        assert_eq!(ran.result().text, "Read.");
        let answers = told(&stage);
        assert!(answers[0].ends_with(&whole), "{access:?} {model}: {} bytes", answers[0].len());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_conversation_that_goes_on_has_the_tools_of_its_new_turn() {
    let stage = Stage::new(Scenario::new([
        Reply::call(own("add", json!({ "a": 1, "b": 1 }))),
        Reply::text("Two."),
        Reply::call(own("add", json!({ "a": 2, "b": 2 }))),
        Reply::text("Four."),
    ]));
    let deeds = Deeds::default();
    let host = || TurnHost::new().with_session(adder(&deeds, &stage));
    let first =
        stage.run_in(TurnRequest::new("Add.").with_conversation(ConversationMode::Keep), host()).await;
    let handle = first.result().resume.clone().unwrap();
    let request = TurnRequest::new("Go on.").with_conversation(ConversationMode::resume(handle));
    let second = stage.run_in(request, host()).await;
    assert_eq!(second.result().text, "Four.");
    assert_eq!(statuses(second.result()), [("add", ToolCallStatus::Succeeded)]);
    assert_eq!(deeds.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn an_answer_that_is_asked_for_again_may_call_again() {
    let stage = Stage::new(Scenario::new([
        Reply::call(own("add", json!({ "a": 1, "b": 1 }))),
        Reply::text("Two."),
        Reply::call(own("add", json!({ "a": 1, "b": 1 }))),
        Reply::text(r#"{"sum":2}"#),
    ]));
    let deeds = Deeds::default();
    let host = TurnHost::new().with_session(adder(&deeds, &stage));
    let schema = json!({
        "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"],
        "additionalProperties": false,
    });
    let request = TurnRequest::new("Add.").with_output(OutputSchema::new(schema).unwrap());
    let ran = stage.run_in(request, host).await;
    assert_eq!(ran.result().output, Some(json!({ "sum": 2 })));
    assert_eq!(deeds.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_sub_agent_has_the_same_tools_and_its_calls_are_told_apart() {
    let helper = json!({ "message": "You are the helper." });
    let parent = [
        Reply::call(ToolCall::namespaced("multi_agent_v1", "spawn_agent", helper)),
        Reply::call(own("add", json!({ "a": 1, "b": 1 }))),
        Reply::text("Two.").after(Duration::from_secs(4)),
    ];
    let child = [Reply::call(own("add", json!({ "a": 2, "b": 2 }))), Reply::text("Four.")];
    let stage = Stage::new(Scenario::new(parent).when_prompt("You are the helper.", child));
    let deeds = Deeds::default();
    let session = adder(&deeds, &stage);
    let request = TurnRequest::new("Add.").with_model("mystery-1").with_tool_access(ToolAccess::ReadOnly);
    let ran = stage.run_in(request, TurnHost::new().with_session(Arc::clone(&session))).await;
    assert_eq!(ran.result().text, "Two.");
    assert_eq!((deeds.all().len(), session.decisions().len()), (2, 2));
    let calls = ran.result().tool_calls.iter().filter(|call| call.origin == ToolOrigin::Caller);
    let mut seen: Vec<_> = calls.map(|call| (call.arguments.clone(), call.parent.is_some())).collect();
    seen.sort_by_key(|(_, is_helpers)| *is_helpers);
    let sums = [json!({ "a": 1, "b": 1 }), json!({ "a": 2, "b": 2 })].map(Some);
    assert_eq!(seen, sums.into_iter().zip([false, true]).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn no_command_sees_the_token_of_the_tools() {
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage = Stage::new(Scenario::tool_then_text(ToolCall::shell("env"), "Listed."));
        let host = TurnHost::new().with_session(adder(&Deeds::default(), &stage));
        let request = TurnRequest::new("List.").with_model("gpt-5.5").with_tool_access(access);
        let ran = stage.run_in(request.with_variable("PASSED_ON"), host).await;
        assert_eq!(ran.result().text, "Listed.");
        let listed = told(&stage).join("\n");
        assert!(listed.contains("PASSED_ON=as-asked"), "{access:?}: {listed}");
        assert!(!listed.contains("NEXUS_TOOLS_TOKEN"), "{access:?}: {listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_tools_are_reached_past_any_proxy() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let call = own("add", json!({ "a": 2, "b": 3 }));
    let stage = Stage::new(Scenario::tool_then_text(call, "Five."))
        .with("network", json!({ "inherit_proxy": true }))
        .with_variable("http_proxy", &format!("http://{}", proxy.local_addr().unwrap()));
    let host = TurnHost::new().with_session(adder(&Deeds::default(), &stage));
    let ran: Ran = stage.run_in(TurnRequest::new("Add."), host).await;
    assert_eq!(ran.result().text, "Five.");
    assert!(proxy.accept().is_err(), "the proxy was asked");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_tool_of_its_own_that_somebody_else_switches_on_ends_a_scoped_turn_before_the_prompt() {
    let program = nexus_testkit::real::last("NEXUS_REAL_CODEX");
    for (flags, settings) in [
        (
            "-c features.goals=true -c tools.update_plan.enabled=true -c features.view_image=true",
            "features.goals, features.view_image, tools.update_plan.enabled",
        ),
        ("-c features.view_image=true", "features.view_image"),
        ("-c tools.update_plan.enabled=true", "tools.update_plan.enabled"),
        ("-c web_search=live", "web_search"),
        ("-c agents.enabled=true", "agents.enabled"),
    ] {
        let stage = Stage::new(Reply::text("I have tools.")).started_by(&program, flags, "");
        let error = stage.run_in(TurnRequest::new("Go."), TurnHost::new()).await.outcome.unwrap_err();
        assert_eq!(error.kind(), nexus_core::ErrorKind::Unsupported, "{flags}: {error:?}");
        let named = format!("program's start: {settings}; nothing was sent");
        assert!(error.message().unwrap_or_default().contains(&named), "{flags}: {error:?}");
        assert_eq!(stage.calls().len(), 0, "{flags}");
        // At a level with tools of the program's own, nothing is taken away.
        let request = TurnRequest::new("Go.").with_tool_access(ToolAccess::ReadOnly);
        stage.run_in(request, TurnHost::new()).await.outcome.unwrap();
    }
}

/// A program before which the machine's administrator wrote this into the file `name` of `/etc/codex`. Needs root.
fn administered(stage: Stage, name: &str, configuration: &str) -> Stage {
    let file = stage.write("administered.toml", configuration);
    let real = nexus_testkit::real::last("NEXUS_REAL_CODEX");
    let real = real.display();
    let script = format!(
        "exec unshare --mount sh -c 'mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work &&\n\
         mount -t overlay none -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc &&\n\
         mkdir -p /etc/codex && cp {} /etc/codex/{name} && exec {real} \"$@\"' sh \"$@\"",
        file.display(),
    );
    stage.running("administered", &script)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_server_of_the_machines_is_neither_started_nor_offered_at_any_level() {
    for (access, name) in ToolAccess::ALL
        .into_iter()
        .flat_map(|access| ["config.toml", "managed_config.toml"].map(|name| (access, name)))
    {
        for has_tools in [true, false] {
            let stage = Stage::new(Scenario::new([
                Reply::call(ToolCall::namespaced("mcp__left", "leak", json!({}))),
                Reply::text("Done."),
            ]));
            let (program, started) = (stage.path("administered"), stage.path("started"));
            let server =
                stage.write("left", &format!("#!/bin/sh\necho > '{}'\ncat > /dev/null\n", started.display()));
            let configuration = format!(
                "[mcp_servers.left]\ncommand = \"/bin/sh\"\nargs = [{:?}]\nstartup_timeout_sec = 5\n",
                server.display().to_string(),
            );
            let stage = administered(stage, name, &configuration);
            let mut control = std::process::Command::new(program);
            let home = stage.path("home");
            let listed = control.args(["mcp", "list"]).env("HOME", &home).env_remove("CODEX_HOME").output();
            let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
            assert!(listed.contains("left"), "by itself the program would have it: {listed}");

            let host = if has_tools {
                TurnHost::new().with_session(adder(&Deeds::default(), &stage))
            } else {
                TurnHost::new()
            };
            let request = TurnRequest::new("Go.").with_model("gpt-5.5").with_tool_access(access);
            let ran = stage.run_in(request, host).await;
            assert_eq!(ran.result().text, "Done.", "{access:?} {name}");
            assert!(!started.exists(), "{access:?} {name}");
            let offered = offered(&stage);
            assert!(!offered.iter().any(|tool| tool.contains("left")), "{access:?} {name}: {offered:?}");
            if access == ToolAccess::ScopedOnly && !has_tools {
                assert_eq!(offered, Vec::<String>::new(), "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn the_programs_helpers_asked_for_the_callers_server_by_name_change_nothing() {
    let asks = |name: &str| ToolCall::function(name, json!({ "server": "nexus" }));
    let calls = [asks("list_mcp_resources"), asks("list_mcp_resource_templates")];
    let stage = Stage::new(Scenario::new([Reply::calls(calls), Reply::text("Nothing.")]));
    let host = TurnHost::new().with_session(adder(&Deeds::default(), &stage));
    let ran = stage.run_in(TurnRequest::new("List.").with_model("gpt-5.5"), host).await;
    let calls = &ran.result().tool_calls;
    assert!(calls.iter().all(|call| call.origin == ToolOrigin::Harness), "{calls:?}");
    assert_eq!((calls.len(), ran.result().effects), (2, Effects::None), "{calls:?}");
}
