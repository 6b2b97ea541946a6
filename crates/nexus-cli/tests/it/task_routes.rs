//! A task over models of four wires, and over the programs of vendors. One line of `nexus.yaml` moves a part of it.

use std::{fs, path::PathBuf, process::Command};

use nexus_testkit::{
    real,
    sim::{Conversation, Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::Value;

use crate::{
    support::{Folder, text},
    task_model,
};

/// Groups of a task's parts: orchestrator, executor, and the two reviewers.
type Parts = [&'static str; 4];

/// A project, and a configuration with a group for each backend.
struct Routes {
    folder: Folder,
    project: PathBuf,
    model: Sim,
    /// Groups and backends of the configuration.
    backends: String,
}

impl Routes {
    /// `backends` has the name of each group, the settings of its backend for the address of the simulator, and its model.
    fn new(
        reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
        backends: impl Fn(&str) -> Vec<(&'static str, String, &'static str)>,
    ) -> Self {
        let model = Sim::builder(Dialect::All, Scenario::text("")).answered_by(reply).start().unwrap();
        let backends = backends(&model.root_url());
        let lines = |line: fn(&(&str, String, &str)) -> String| backends.iter().map(line).collect::<String>();
        let backends = format!(
            "groups:\n{}backends:\n{}models:\n  main:\n{}",
            lines(|(name, ..)| format!("  {name}: [{name}-model]\n")),
            lines(|(name, settings, _)| format!("  {name}-model: {{ {settings} }}\n")),
            lines(|(name, _, model)| format!("    {name}: {model}\n")),
        );
        let folder = Folder::empty();
        let project = folder.path().canonicalize().unwrap().join("sums");
        fs::create_dir(folder.nexus_home()).unwrap();
        Self { folder, project, model, backends }
    }

    /// Runs a task to its end, and returns the groups of its turns' backends in their order.
    fn run(
        &self,
        [orchestrator, executor, first, second]: Parts,
        adjust: impl Fn(&mut Command),
    ) -> Vec<String> {
        let yaml = format!(
            "{}\
             types:\n\
             \x20 orchestrator: {{ tier: operations, phase: orchestrate, group: {orchestrator}, model: main }}\n\
             \x20 executor: {{ tier: execution, phase: implement, group: {executor}, model: main }}\n\
             \x20 reviewer: {{ tier: operations, phase: review, panel: review }}\n\
             panels: {{ review: {{ distinct: vendor, seats: [{{ group: {first}, model: main }}, {{ group: {second}, model: main }}] }} }}\n\
             tasks: {{ defaults: {{ sandbox: {{ kind: none }} }} }}\n",
            self.backends
        );
        fs::write(self.folder.nexus_home().join("nexus.yaml"), yaml).unwrap();
        let _ = fs::remove_dir_all(&self.project);
        fs::create_dir(&self.project).unwrap();
        task_model::begin(&self.project).unwrap();
        let nexus = |arguments: &[&str]| {
            let mut command = self.folder.command(arguments);
            adjust(&mut command);
            let output = command.output().unwrap();
            let (said, beside) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{arguments:?}: {said}\n{beside}");
            said.to_owned()
        };
        let goal = "`sh sum.sh -1 -2` is to print -3";
        nexus(&["task", "new", goal, "--project", self.project.to_str().unwrap(), "--test", "sh test.sh"]);
        let said = nexus(&["task", "run", "last"]);
        assert!(said.contains("complete"), "{said}");
        nexus(&["task", "land", "last"]);
        assert_eq!(fs::read_to_string(self.project.join("sum.sh")).unwrap(), "echo $(( $1 + $2 ))\n");
        let log = nexus(&["task", "log", "last", "--json"]);
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ended = events.filter(|event| event["kind"] == "turn_ended");
        let backend = |event: &Value| event["data"]["backend"].as_str().unwrap().to_owned();
        ended.map(|event| backend(&event).trim_end_matches("-model").to_owned()).collect()
    }
}

/// Returns true where git is missing, and says so.
fn lacks_git() -> bool {
    let lacks = Command::new("git").arg("--version").output().is_err();
    assert!(!lacks || std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
    lacks
}

#[test]
fn each_part_of_a_task_moves_between_four_wires_by_one_line() {
    if lacks_git() {
        return;
    }
    let routes = Routes::new(task_model::reply, |root| {
        let at = |kind: &'static str, path: &str| {
            (kind, format!("kind: {kind}, vendor: {kind}, base_url: \"{root}{path}\""), "simulated")
        };
        vec![at("responses", "/v1"), at("messages", ""), at("chat", "/v1"), at("gemini", "/v1beta")]
    });
    for parts in [
        ["messages", "chat", "gemini", "responses"],
        ["gemini", "chat", "messages", "responses"],
        ["gemini", "responses", "messages", "chat"],
    ] {
        let ran = routes.run(parts, |_| {});
        assert_eq!(ran[..2], parts[..2], "{ran:?}");
        for reviewer in &parts[2..] {
            assert!(ran[2..].iter().any(|backend| backend == reviewer), "{reviewer}: {ran:?}");
        }
    }
}

/// OpenCode is described by data alone. Claude Code, Codex and Grok are backends of their own.
#[test]
#[ignore = "needs the real programs; run by .ci/deep"]
fn three_lines_move_a_task_from_apis_to_programs_of_vendors_and_to_an_agent_of_the_protocol() {
    let reply = |conversation: &Conversation| {
        task_model::reply_with(conversation, |tool, arguments| match conversation.model.as_deref() {
            Some("simulated") => ToolCall::function(tool, arguments),
            _ => ToolCall::mcp("nexus", tool, arguments),
        })
    };
    let [claude, codex, grok] = ["NEXUS_REAL_CLAUDE", "NEXUS_REAL_CODEX", "NEXUS_REAL_GROK"].map(real::last);
    let packages = PathBuf::from(std::env::var_os("NEXUS_REAL_AGENTS").expect("NEXUS_REAL_AGENTS"));
    let opencode = packages.join("opencode-linux-x64/bin/opencode");
    let routes = Routes::new(reply, |root| {
        let metered = "billing: metered, credential: { env: TOKEN }";
        let api = |kind: &'static str, path: &str| {
            (kind, format!("kind: {kind}, vendor: {kind}, base_url: \"{root}{path}\""), "simulated")
        };
        let cli = |name: &'static str, kind: &str, program: &PathBuf, path: &str, model: &'static str| {
            let settings =
                format!("kind: {kind}, executable: {program:?}, {metered}, base_url: \"{root}{path}\"");
            (name, settings, model)
        };
        vec![
            api("chat", "/v1"),
            api("messages", ""),
            cli("claude", "claude-cli", &claude, "", "claude-sonnet-5"),
            cli("codex", "codex-cli", &codex, "/v1", "gpt-5.5"),
            cli("grok", "grok-cli", &grok, "/v1", "grok-4.6"),
            cli("opencode", "acp, agent: opencode", &opencode, "/v1", "m1"),
        ]
    });
    let path = std::env::var_os("PATH").unwrap();
    for parts in [
        ["messages", "chat", "claude", "codex"],
        ["claude", "opencode", "codex", "grok"],
        ["opencode", "claude", "chat", "messages"],
    ] {
        let ran = routes.run(parts, |command| {
            command.env("TOKEN", "sk-simulated").env("PATH", &path);
        });
        assert_eq!(ran[..2], parts[..2], "{ran:?}");
        assert!(
            routes.model.main_calls().iter().all(|call| call.json.to_string().find("sk-simulated").is_none())
        );
    }
}
