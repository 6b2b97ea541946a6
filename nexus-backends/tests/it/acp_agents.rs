//! What is an agent's alone over the Agent Client Protocol, with the real ones against the simulator. The common promises are the
//! conformance suite's.
//!
//! Needs `NEXUS_REAL_CLAUDE_ACP`, `NEXUS_REAL_CODEX_ACP`, `NEXUS_REAL_GROK` and `NEXUS_REAL_OPENCODE`, Node 20 or newer, root, and a
//! namespace in which only loopback is:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it acp_agents:: -- --ignored`

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use nexus_core::{
    Approval, ApprovalAction, ApprovalRequest, Approver, BackendKind, BuildContext, ConversationMode,
    ErrorKind, EventEnvelope, ExecutionBackend, OnLost, ToolAccess, ToolCallStatus, TurnError, TurnEvent,
    TurnHost, TurnRequest, TurnResult,
};
use nexus_testkit::{
    real,
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::{Value, json};

/// An agent against a simulator, with folders of its own.
struct Stage {
    sim: Sim,
    folder: tempfile::TempDir,
    settings: Value,
}

impl Stage {
    /// A known agent, whose program `variable` names.
    fn known(agent: &str, variable: &str, dialect: Dialect, scenario: impl Into<Scenario>) -> Self {
        let sim = Sim::start(dialect, scenario).unwrap();
        let settings = json!({
            "agent": agent, "executable": real::last(variable), "base_url": sim.base_url(),
            "credential": { "env": "TOKEN" },
        });
        Self::of(sim, settings)
    }

    fn of(sim: Sim, settings: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "nexus", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { sim, folder, settings }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    fn backend(&self) -> Arc<dyn ExecutionBackend> {
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), self.path("home").to_str().unwrap().to_owned()),
            ("TOKEN".to_owned(), "lent-key".to_owned()),
        ]);
        let context = BuildContext::in_home(self.path("nexus"))
            .with_base_directory(self.folder.path())
            .with_environment(environment);
        kind().build("agent".into(), self.settings.as_object().unwrap(), &context).unwrap()
    }

    async fn run(&self, request: TurnRequest, host: TurnHost) -> Result<TurnResult, TurnError> {
        let request = request.in_directory(self.path("work"));
        self.backend().run_turn(request, host, &mut |_: EventEnvelope| {}).await
    }
}

fn kind() -> Arc<dyn BackendKind> {
    nexus_backends::registry().kind("acp").cloned().unwrap()
}

fn request(prompt: impl Into<String>, model: &str, access: ToolAccess) -> TurnRequest {
    let mut request = TurnRequest::new(prompt).with_tool_access(access);
    request.model = Some(model.into());
    request
}

/// What the level leaves open is asked; what it forbids is not, whatever the host would say. One agent goes on after a no, the other
/// ends its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn the_host_decides_on_what_the_level_leaves_open() {
    let claude = ("claude-agent-acp", "NEXUS_REAL_CLAUDE_ACP", Dialect::Anthropic, "claude-sonnet-4-5");
    let grok = ("grok", "NEXUS_REAL_GROK", Dialect::Xai, "grok-4.6");
    for (agent, variable, dialect, model) in [claude, grok] {
        for answer in [Some(Approval::Granted), Some(Approval::Refused { reason: None }), None] {
            let call = ToolCall::shell("python3 -c \"open('made.txt', 'w').write('x')\"");
            let stage = Stage::known(agent, variable, dialect, Scenario::tool_then_text(call, "Done."));
            let asked = Arc::new(Mutex::new(Vec::<ApprovalRequest>::new()));
            let host = match &answer {
                None => TurnHost::new(),
                Some(answer) => {
                    let (kept, answer) = (Arc::clone(&asked), answer.clone());
                    TurnHost::new().with_approver(Approver::new(move |request| {
                        kept.lock().unwrap().push(request);
                        std::future::ready(answer.clone())
                    }))
                }
            };
            let ran = stage.run(request("Go.", model, ToolAccess::WorkspaceWrite), host).await;
            let is_made = matches!(answer, Some(Approval::Granted));
            assert_eq!(stage.path("work/made.txt").exists(), is_made, "{agent} {answer:?}: {:?}", ran);
            match (&ran, agent) {
                (Ok(result), _) => {
                    let expected = if is_made { ToolCallStatus::Succeeded } else { ToolCallStatus::Denied };
                    assert_eq!(result.tool_calls[0].status, expected, "{agent} {answer:?}");
                }
                (Err(error), "grok") if !is_made => assert_eq!(error.kind(), ErrorKind::ApprovalRequired),
                (Err(error), _) => panic!("{agent} {answer:?}: {error:?}"),
            }
            let asked = asked.lock().unwrap();
            assert_eq!(asked.len(), usize::from(answer.is_some()), "{agent}: {asked:?}");
            assert!(asked.iter().all(|asked| asked.action == ApprovalAction::Execute), "{agent}: {asked:?}");
        }
    }
}

/// Of a longer one the model would be shown a part, and nobody would know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn the_longest_prompt_of_grok_arrives_whole_and_a_longer_one_is_refused() {
    let stage = Stage::known("grok", "NEXUS_REAL_GROK", Dialect::Xai, Reply::text("Received."));
    let longest: String = (0u32..).map(|line| format!("{line:015}\n")).take(4096).collect();
    assert_eq!(longest.len(), 64 << 10);
    let ask = |prompt: String| request(prompt, "grok-4.6", ToolAccess::ReadOnly);
    stage.run(ask(longest.clone()), TurnHost::new()).await.unwrap();
    let told = stage.sim.main_calls()[0].conversation.user_texts().join("");
    assert!(told.contains(longest.trim_end()), "{} bytes arrived", told.len());
    let error = stage.run(ask(longest + "x"), TurnHost::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error:?}");
    assert_eq!(stage.sim.main_calls().len(), 1, "nothing was sent");
}

/// A program that nobody here knows: with the user's own home and settings, at the one level that needs no keeping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn any_other_program_is_run_as_its_user_would() {
    let call = ToolCall::write_file("made.txt", "by an agent that is not known");
    let sim = Sim::start(Dialect::Responses, Scenario::tool_then_text(call, "Written.")).unwrap();
    let program = real::last("NEXUS_REAL_OPENCODE");
    let stage = Stage::of(sim, json!({ "command": [program, "acp"] }));
    let config = json!({
        "model": "own/some-model",
        "provider": { "own": {
            "npm": "@ai-sdk/openai",
            "options": { "baseURL": stage.sim.base_url(), "apiKey": "own" },
            "models": { "some-model": {} },
        } },
        "agent": { "title": { "disable": true } },
    });
    fs::create_dir_all(stage.path("home/.config/opencode")).unwrap();
    fs::write(stage.path("home/.config/opencode/opencode.json"), config.to_string()).unwrap();

    let unrestricted = TurnRequest::new("Write it.").with_tool_access(ToolAccess::Unrestricted);
    let result = stage.run(unrestricted, TurnHost::new()).await.unwrap();
    assert_eq!(result.text, "Written.");
    assert_eq!(result.tool_calls.len(), 1, "{:?}", result.tool_calls);
    let written = fs::read_to_string(stage.path("work/made.txt")).unwrap();
    assert_eq!(written.trim_end(), "by an agent that is not known");

    // The sandbox enforces the levels between, but cannot take the agent's own tools away.
    let without_tools = TurnRequest::new("Write it.").with_tool_access(ToolAccess::ScopedOnly);
    let error = stage.run(without_tools, TurnHost::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// The level is the mode's, so a turn without it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn what_is_written_at_a_level_that_reads_is_asked_and_refused() {
    let codex = ("codex-acp", "NEXUS_REAL_CODEX_ACP", Dialect::Responses, "gpt-5.5");
    let claude = ("claude-agent-acp", "NEXUS_REAL_CLAUDE_ACP", Dialect::Anthropic, "claude-sonnet-4-5");
    for (agent, variable, dialect, model) in [codex, claude] {
        let call = ToolCall::write_file("made.txt", "x");
        let stage = Stage::known(agent, variable, dialect, Scenario::tool_then_text(call, "Done."));
        let yes = TurnHost::new().with_approver(Approver::new(|_| std::future::ready(Approval::Granted)));
        let ran = stage.run(request("Go.", model, ToolAccess::ReadOnly), yes).await;
        assert!(!stage.path("work/made.txt").exists(), "{agent}: {:?}", ran);
    }
}

/// A command that the host approved sees the agent's own variables without its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn a_command_of_groks_does_not_see_the_key() {
    let call = ToolCall::shell("env > seen.txt");
    let stage =
        Stage::known("grok", "NEXUS_REAL_GROK", Dialect::Xai, Scenario::tool_then_text(call, "Done."));
    let yes = TurnHost::new().with_approver(Approver::new(|_| std::future::ready(Approval::Granted)));
    stage.run(request("Go.", "grok-4.6", ToolAccess::WorkspaceWrite), yes).await.unwrap();
    let seen = fs::read_to_string(stage.path("work/seen.txt")).unwrap();
    assert!(seen.contains("PATH=") && !seen.contains("lent-key"), "{seen}");
}

/// Also where the folder of Nexus is below the one that may be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn the_logins_are_closed_to_claudes_tools() {
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let stage =
            Stage::known("claude-agent-acp", "NEXUS_REAL_CLAUDE_ACP", Dialect::Anthropic, Reply::text(""));
        let auth = stage.path("nexus/auth");
        fs::create_dir(&auth).unwrap();
        fs::write(auth.join("login.json"), "canary-of-a-login").unwrap();
        fs::write(stage.path("nexus/beside.txt"), "this-can-be-read").unwrap();
        let read = |path: PathBuf| ToolCall::function("Read", json!({ "file_path": path }));
        let calls = [read(auth.join("login.json")), read(stage.path("nexus/beside.txt"))];
        stage.sim.set_scenario([Reply::calls(calls), Reply::text("I looked.")]);
        let request = request("Look.", "claude-sonnet-4-5", access).in_directory(stage.path(""));
        stage.backend().run_turn(request, TurnHost::new(), &mut |_: EventEnvelope| {}).await.unwrap();
        let seen = stage.sim.main_calls().last().unwrap().conversation.tool_results().join("\n");
        assert!(seen.contains("this-can-be-read"), "{access:?}: {seen}");
        assert!(!seen.contains("canary-of-a-login"), "{access:?}: {seen}");
    }
}

/// The agent is asked to close its session, and answers before its input is closed; another process resumes the conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn a_stored_session_is_closed_and_resumed_in_another_process() {
    let mut stage =
        Stage::known("codex-acp", "NEXUS_REAL_CODEX_ACP", Dialect::Responses, Reply::text("Noted."));
    let record = stage.path("record");
    stage.settings["record"] = json!(record);
    let ask = |prompt: &str| request(prompt, "gpt-5.5", ToolAccess::ReadOnly);
    let mut first = ask("Remember 4711.");
    first.conversation = ConversationMode::Keep;
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&contexts);
    let mut events = move |envelope: EventEnvelope| {
        if let TurnEvent::ContextUsage(context) = envelope.event {
            seen.lock().unwrap().push(context);
        }
    };
    let backend = stage.backend();
    let first = first.in_directory(stage.path("work"));
    let result = backend.run_turn(first, TurnHost::new(), &mut events).await.unwrap();
    let contexts = contexts.lock().unwrap().clone();
    assert!(contexts.iter().any(|context| context.window_tokens.is_some()), "{contexts:?}");
    assert_eq!(result.usage.total_tokens(), None, "how full the context is counts as no usage");

    let mut second = ask("Which number?");
    second.conversation = ConversationMode::Resume { handle: result.resume.unwrap(), on_lost: OnLost::Fail };
    stage.run(second, TurnHost::new()).await.unwrap();
    let told = stage.sim.main_calls().pop().unwrap().conversation.user_texts().join("\n");
    assert!(told.contains("Remember 4711.") && told.contains("Which number?"), "{told}");

    let answers = fs::read_dir(&record).unwrap().flatten().flat_map(|entry| {
        let files = if entry.path().is_dir() {
            fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path()).collect()
        } else {
            vec![entry.path()]
        };
        files.into_iter().map(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned())
    });
    // Each process answers `initialize`, the session, its mode, the prompt, and last `session/close`.
    let closed =
        answers.filter(|text| text.lines().last().is_some_and(|line| line.contains(r#""result":{}"#)));
    assert_eq!(closed.count(), 2);
}
