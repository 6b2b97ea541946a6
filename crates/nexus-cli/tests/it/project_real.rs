//! The hooks of a project in the real programs of three vendors: an edit without a task is refused in words that the model reads, tags are
//! carried out, and what a model knew is told again after its context was made shorter. All models are loopback servers.
//!
//! Needs `NEXUS_REAL_CLAUDE`, `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, and a namespace with loopback alone:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it project_real:: -- --ignored`

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nexus::ToolAccess;
use nexus_project::{
    harness::Harness,
    role::{Capability, Role, RoleTools},
};
use nexus_testkit::{
    real,
    sim::{Conversation, Dialect, Reply, Scenario, Sim, ToolCall, Usage},
};
use serde_json::Value;

/// Longest that a program may take for a turn.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a model says when it is done.
const DONE: &str = "That is all.";
const TOKEN: &str = "sk-ant-token-of-the-test";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Claude,
    Codex,
    Grok,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Grok => "grok",
        }
    }

    fn path(self) -> PathBuf {
        real::last(match self {
            Self::Claude => "NEXUS_REAL_CLAUDE",
            Self::Codex => "NEXUS_REAL_CODEX",
            Self::Grok => "NEXUS_REAL_GROK",
        })
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::Claude => Dialect::Anthropic,
            Self::Codex => Dialect::Responses,
            Self::Grok => Dialect::Xai,
        }
    }

    /// The program with a prompt, in its own non-interactive way.
    fn command(self, stage: &Stage, model: &Sim, prompt: &str) -> Command {
        let mut command = stage.command(&self.path());
        match self {
            Self::Claude => command
                .args(["-p", prompt, "--model", "claude-sonnet-5", "--permission-mode", "acceptEdits"])
                .env("ANTHROPIC_BASE_URL", model.base_url())
                .env("ANTHROPIC_API_KEY", TOKEN)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            Self::Codex => {
                let folder = stage.home().join(".codex");
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("config.toml"), codex_settings(&model.base_url(), &stage.project()))
                    .unwrap();
                command
                    .args(["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"])
                    .args(["--dangerously-bypass-hook-trust", prompt])
                    .env("CALLER_TOKEN", TOKEN)
            }
            Self::Grok => command
                .args(["--single", prompt, "--always-approve", "--trust"])
                .env("XAI_API_KEY", TOKEN)
                .env("GROK_XAI_API_BASE_URL", model.base_url())
                .env("GROK_CLI_CHAT_PROXY_BASE_URL", model.base_url())
                .env("GROK_DISABLE_AUTOUPDATER", "1")
                .env("GROK_TELEMETRY_ENABLED", "0"),
        };
        command
    }
}

fn codex_settings(base_url: &str, project: &Path) -> String {
    format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"simulated\"\n\n[features]\napps = false\nplugins = false\n\n\
         [analytics]\nenabled = false\n\n[model_providers.simulated]\nname = \"simulated\"\nbase_url = \"{base_url}\"\n\
         wire_api = \"responses\"\nenv_key = \"CALLER_TOKEN\"\nsupports_websockets = false\n\n\
         [projects.{:?}]\ntrust_level = \"trusted\"\n",
        project.to_str().unwrap()
    )
}

/// A home with a project that has the hooks of a program.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn with_hooks_of(program: Program) -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(stage.project()).unwrap();
        fs::create_dir_all(stage.home().join(".nexus")).unwrap();
        // A program that asks whether a folder is trusted asks it of a repository.
        assert!(stage.command(Path::new("git")).args(["init", "-q"]).status().unwrap().success());
        // What the program tells and is told, beside what comes of it.
        let log = stage.path("hooks.log");
        let script = format!(
            "#!/bin/sh\ninput=$(cat)\nprintf '%s %s\\n' \"$2\" \"$input\" >> {log:?}\nanswer=$(printf '%s' \"$input\" | {nexus:?} \"$@\")\n\
             status=$?\nprintf '  %s %s\\n' \"$status\" \"$answer\" >> {log:?}\nprintf '%s' \"$answer\"\nexit $status\n",
            nexus = env!("CARGO_BIN_EXE_nexus"),
        );
        let wrapper = stage.path("nexus-hook");
        fs::write(&wrapper, script).unwrap();
        Command::new("chmod").arg("+x").arg(&wrapper).status().unwrap();
        stage.nexus(&["project", "init"]);
        stage.nexus(&["project", "install", program.name(), "--command", wrapper.to_str().unwrap()]);
        stage
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn project(&self) -> PathBuf {
        self.path("home/work/project")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.home());
        command.stdin(Stdio::null());
        command
    }

    fn nexus(&self, arguments: &[&str]) -> String {
        let output = self.command(Path::new(env!("CARGO_BIN_EXE_nexus"))).args(arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.nexus(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// A configuration whose work is done by a program, before this model.
    fn configure(&self, program: Program, model: &Sim) {
        let (kind, billing) = match program {
            Program::Claude => ("claude-cli", ", billing: metered"),
            Program::Codex => ("codex-cli", ""),
            Program::Grok => ("grok-cli", ", billing: metered"),
        };
        let account = if program == Program::Codex { ", account: account-of-the-test" } else { "" };
        let token = self.path("token");
        // What looks like a key of another vendor is billed otherwise.
        fs::write(&token, if program == Program::Codex { "token-of-the-test" } else { TOKEN }).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let config = format!(
            "groups: {{ all: [{kind}] }}\nbackends:\n  {kind}: {{ executable: {:?}, base_url: {:?}, credential: {{ file: {token:?}{account} }}{billing} }}\n\
             types:\n  worker: {{ group: all }}\n",
            program.path(),
            model.base_url()
        );
        fs::write(self.project().join("nexus.yaml"), config).unwrap();
    }

    /// What the hooks were told and have answered, and what the program has said.
    fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.path(name)).unwrap_or_default();
        format!("HOOKS\n{}\nSAID\n{}", read("hooks.log"), read("said"))
    }

    /// Runs a program to its end, before this model.
    fn run(&self, program: Program, prompt: &str, model: &Sim) {
        self.run_with(program, prompt, &[], model);
    }

    /// The same, with further arguments.
    fn run_with(&self, program: Program, prompt: &str, further: &[&str], model: &Sim) {
        let said = fs::File::create(self.path("said")).unwrap();
        let mut child = program
            .command(self, model, prompt)
            .args(further)
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                panic!(
                    "{program:?} does not end: {}\n{}",
                    fs::read_to_string(self.path("said")).unwrap(),
                    self.log()
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A model that writes a file once, and is done with whatever it hears of it.
fn writes(program: Program, stage: &Stage, name: &str) -> Sim {
    let path = stage.project().join(name).to_str().unwrap().to_owned();
    let answer = move |conversation: &Conversation| {
        Some(match conversation.tool_results().is_empty() {
            true => Reply::call(ToolCall::WriteFile { path: path.clone(), text: "a note\n".to_owned() }),
            false => Reply::text(DONE),
        })
    };
    Sim::builder(program.dialect(), Scenario::text(DONE)).answered_by(answer).start().unwrap()
}

fn all_that_the_model_read(model: &Sim) -> String {
    model
        .main_calls()
        .iter()
        .map(|call| String::from_utf8_lossy(&call.body).into_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

fn an_edit_needs_a_task(program: Program) {
    let stage = Stage::with_hooks_of(program);
    let model = writes(program, &stage, "note.txt");
    stage.run(program, "Write the note.", &model);
    let read = all_that_the_model_read(&model);
    let log = stage.log();
    assert!(!stage.project().join("note.txt").exists(), "{log}");
    assert!(read.contains("First call task_add"), "{read}\n{log}");
    let stands = "State of the work in this project";
    // One passes on to its model nothing but what is said to a tool that it then runs.
    assert_eq!(read.contains(stands), program != Program::Grok, "{read}\n{log}");

    stage.nexus(&["project", "add", "write the note"]);
    let model = writes(program, &stage, "note.txt");
    stage.run(program, "Write the note.", &model);
    let (read, log) = (all_that_the_model_read(&model), stage.log());
    assert!(stage.project().join("note.txt").exists() && read.contains(stands), "{read}\n{log}");
    let tools = fs::read_to_string(stage.project().join(".nexus/state/tool-log.jsonl")).unwrap_or_default();
    assert!(tools.contains("note.txt"), "{tools}\n{log}");
}

fn tags_are_carried_out(program: Program) {
    let stage = Stage::with_hooks_of(program);
    stage.nexus(&["project", "plan", "Notes", "--issue", "where?"]);
    // What the project knows is changed without a task.
    let model = writes(program, &stage, ".nexus/memory/first.md");
    stage.run(program, "[d] in one file", &model);
    assert!(stage.project().join(".nexus/memory/first.md").exists(), "{}", stage.log());
    let context = stage.json(&["project", "status"]);
    let (read, log) = (all_that_the_model_read(&model), stage.log());
    assert_eq!(context["decisions"][0]["decision"], "in one file", "{log}");
    assert!(read.contains("The decision on issue 1"), "{read}\n{log}");

    let model = writes(program, &stage, ".nexus/memory/second.md");
    stage.run(program, "[plan:auto] the next thing", &model);
    let (read, log) = (all_that_the_model_read(&model), stage.log());
    assert!(
        read.contains("Variant: auto") && read.contains("Decide before anything is changed"),
        "{read}\n{log}"
    );
}

#[test]
#[ignore = "needs a real program: see the module"]
fn claude_edits_nothing_without_a_task() {
    an_edit_needs_a_task(Program::Claude);
}

#[test]
#[ignore = "needs a real program: see the module"]
fn codex_edits_nothing_without_a_task() {
    an_edit_needs_a_task(Program::Codex);
}

#[test]
#[ignore = "needs a real program: see the module"]
fn grok_edits_nothing_without_a_task() {
    an_edit_needs_a_task(Program::Grok);
}

#[test]
#[ignore = "needs a real program: see the module"]
fn claude_carries_out_tags() {
    tags_are_carried_out(Program::Claude);
}

#[test]
#[ignore = "needs a real program: see the module"]
fn codex_carries_out_tags() {
    tags_are_carried_out(Program::Codex);
}

#[test]
#[ignore = "needs a real program: see the module"]
fn grok_carries_out_tags() {
    tags_are_carried_out(Program::Grok);
}

/// A role that edits nothing and runs no command is offered no tool that does, by the program's own map, and one that does both is.
#[test]
#[ignore = "needs a real program: see the module"]
fn a_role_is_offered_no_tool_that_is_taken_from_it() {
    for program in [Program::Claude, Program::Codex, Program::Grok] {
        let (stage, map) =
            (Stage::with_hooks_of(program), Harness::find(program.name()).unwrap().map().unwrap());
        let offered = |role: &str, additions: &[Capability]| {
            let tools = RoleTools::of(&Role::find(role).unwrap().capabilities, additions, &map);
            let model = Sim::builder(program.dialect(), Scenario::text(DONE)).start().unwrap();
            stage.configure(program, &model);
            // One of them keeps no level between reading and everything.
            let access = match tools.access {
                ToolAccess::WorkspaceWrite if program == Program::Grok => ToolAccess::Unrestricted,
                access => access,
            };
            let access = access.as_str();
            stage.nexus(&[
                "run",
                "--config",
                "nexus.yaml",
                "worker",
                "Say when you are done.",
                "--access",
                access,
            ]);
            let offered = model.main_calls()[0].conversation.tool_names();
            (tools.taken, offered)
        };
        let (taken, names) = offered("reviewer", &[Capability::NoShellExec]);
        // One puts a namespace before its names.
        let is_taken = |name: &String| taken.contains(name.rsplit('.').next().unwrap());
        assert!(!taken.is_empty() && !names.iter().any(is_taken), "{program:?}: {taken:?} of {names:?}");
        // The same map sees such a tool where there is one.
        let (_, names) = offered("engineer", &[]);
        assert!(names.iter().any(is_taken), "{program:?}: {names:?}");
    }
}

/// The settings that a person had are the same, byte for byte, after the hooks came twice and went.
#[test]
#[ignore = "needs a real program: see the module"]
fn what_a_person_had_in_the_settings_stays() {
    for program in [Program::Claude, Program::Codex, Program::Grok] {
        let stage = Stage::with_hooks_of(program);
        stage.nexus(&["project", "uninstall", program.name()]);
        let report = stage.json(&["project", "uninstall", program.name()]);
        assert_eq!(report["changed"], false);
        let file = stage.project().join(report["file"].as_str().unwrap());
        assert!(!file.exists() && !file.parent().unwrap().exists(), "{file:?} was left");

        // One of them takes nothing else in the file of its hooks.
        let mine = if program == Program::Codex { "\"description\": \"mine\"" } else { "\"mine\": [1,2]" };
        let own = "{\n    \"hooks\": {\n        \"SessionStart\": [ {\"hooks\": [{\"type\":\"command\",\"command\":\"true\"}]} ]\n    },\n    MINE}".replace("MINE", mine);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &own).unwrap();
        for _ in 0..2 {
            stage.nexus(&[
                "project",
                "install",
                program.name(),
                "--command",
                stage.path("nexus-hook").to_str().unwrap(),
            ]);
        }
        let model = writes(program, &stage, "note.txt");
        stage.run(program, "Write the note.", &model);
        assert!(all_that_the_model_read(&model).contains("First call task_add"), "{}", stage.log());
        // Of two installations one is left.
        assert_eq!(
            stage.log().lines().filter(|line| line.starts_with("pre_tool_use ")).count(),
            1,
            "{}",
            stage.log()
        );
        stage.nexus(&["project", "uninstall", program.name()]);
        assert_eq!(fs::read_to_string(&file).unwrap(), own);
    }
}

/// What a model knew of the project is told again after its context was made shorter.
#[test]
#[ignore = "needs a real program: see the module"]
fn claude_is_told_again_what_was_lost() {
    let program = Program::Claude;
    let stage = Stage::with_hooks_of(program);
    stage.nexus(&["project", "plan", "Notes", "--issue", "where?"]);
    let model = Sim::builder(program.dialect(), Scenario::text(DONE)).start().unwrap();
    stage.run(program, "Hello.", &model);
    for prompt in ["/compact", "And now?"] {
        stage.run_with(program, prompt, &["--continue"], &model);
    }
    let calls = model.main_calls();
    let last = String::from_utf8_lossy(&calls[calls.len() - 1].body).into_owned();
    let log = stage.log();
    assert!(log.lines().any(|line| line.starts_with("context_compact ")), "{log}");
    // By the compaction, and as the session went on: what was there before is gone.
    assert_eq!(last.matches("State of the work in this project").count(), 2, "{last}\n{log}");
}

#[test]
#[ignore = "needs a real program: see the module"]
fn codex_is_told_again_what_was_lost() {
    let program = Program::Codex;
    let stage = Stage::with_hooks_of(program);
    stage.nexus(&["project", "plan", "Notes", "--issue", "where?"]);
    // The first answer is said to have filled the context.
    let full = Usage { input: 250_000, ..Usage::default() };
    let is_begun = AtomicBool::new(false);
    let answer = move |_: &Conversation| {
        Some(match is_begun.swap(true, Ordering::SeqCst) {
            false => Reply::call(ToolCall::Shell { command: "true".to_owned() }).usage(full),
            true => Reply::text(DONE),
        })
    };
    let model = Sim::builder(program.dialect(), Scenario::text(DONE)).answered_by(answer).start().unwrap();
    stage.run_with(program, "[plan] notes", &["-c", "model_auto_compact_token_limit=100000"], &model);
    let log = stage.log();
    assert!(log.lines().any(|line| line.starts_with("context_compact ")), "{log}");
    let calls = model.main_calls();
    let last = String::from_utf8_lossy(&calls[calls.len() - 1].body).into_owned();
    assert!(last.contains("Decide before anything is changed"), "{last}\n{log}");
}
