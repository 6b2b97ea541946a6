//! The testbed with the real programs of two vendors as reviewers: Claude Code and Codex run the turns, scripts on loopback servers play
//! their models. Those that anchor ship eight planted answers of eight, those that probe none.
//!
//! Needs `NEXUS_REAL_CLAUDE` and `NEXUS_REAL_CODEX`, git, Python and bubblewrap, root, and a namespace with loopback alone:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it testbed_real:: -- --ignored`

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use nexus_testbed::{Script, Trap};
use nexus_testkit::{
    real,
    sim::{Conversation, Dialect, Reply, Scenario, Sim, ToolCall},
};
use serde_json::Value;

const ROUTES: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli] }
backends:
  claude-cli: { executable: CLAUDE, base_url: ANTHROPIC, credential: { file: HOME/secrets/claude }, billing: metered }
  codex-cli: { executable: CODEX, base_url: OPENAI, credential: { file: HOME/secrets/codex, account: account-of-the-test } }
models:
  strong: { anthropic: claude-sonnet-5, openai: gpt-5.5 }
types:
  reviewer: { tier: operations, phase: review, panel: review }
panels:
  review:
    - { group: openai, model: strong, lens: boundary-inputs }
    - { group: anthropic, model: strong, lens: hidden-contracts }
lenses:
  boundary-inputs: Probe negatives, zero, empty and capped inputs.
  hidden-contracts: Find behaviour that the criteria do not name.
";

/// The servers that play the models of one arm.
struct Models {
    anthropic: Sim,
    openai: Sim,
}

impl Models {
    fn playing(script: Script) -> Self {
        let model = |dialect| {
            let traps = Trap::built_in().unwrap();
            let reply = move |conversation: &Conversation| reply(script, &traps, conversation);
            Sim::builder(dialect, Scenario::text("")).answered_by(reply).start().unwrap()
        };
        Self { anthropic: model(Dialect::Anthropic), openai: model(Dialect::Responses) }
    }
}

/// What a model does next: by what its tools answered. The trap whose problem it was given says which probe it knows.
fn reply(script: Script, traps: &[Trap], conversation: &Conversation) -> Option<Reply> {
    if !conversation.system.contains("You judge one step of a task") {
        return None;
    }
    let asked = conversation.user_texts().join("\n");
    let trap = traps.iter().find(|trap| asked.contains(trap.brief().problem.trim()))?;
    let answers: Vec<String> = conversation.tool_results().into_iter().map(unwrapped).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    Some(match script.next(trap, &["run_probe", "submit_verdict"], &answers) {
        Some(call) => Reply::call(ToolCall::mcp("nexus", call.tool, call.arguments)),
        None => Reply::text("Done."),
    })
}

/// The text of an answer. One program says before it how long it took, and may hand it on as JSON.
fn unwrapped(answer: &str) -> String {
    let behind = answer.split_once("Output:\n").filter(|(head, _)| head.contains("Wall time"));
    let text = behind.map_or(answer, |(_, text)| text);
    let parts: Option<Vec<Value>> = serde_json::from_str(text).ok();
    let texts =
        parts.and_then(|parts| parts.iter().map(|part| part["text"].as_str().map(str::to_owned)).collect());
    texts.map_or_else(|| text.to_owned(), |texts: Vec<String>| texts.concat())
}

struct Stage {
    folder: tempfile::TempDir,
    _models: [Models; 2],
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(home.join("secrets")).unwrap();
        for (name, token) in [("claude", "sk-ant-canary-token"), ("codex", "canary-token")] {
            let file = home.join("secrets").join(name);
            fs::write(&file, token).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let models = [Script::Anchored, Script::Probing].map(|script| {
            let models = Models::playing(script);
            let routes = ROUTES
                .replace("CLAUDE", &real::last("NEXUS_REAL_CLAUDE").to_string_lossy())
                .replace("CODEX", &real::last("NEXUS_REAL_CODEX").to_string_lossy())
                .replace("ANTHROPIC", &models.anthropic.base_url())
                .replace("OPENAI", &models.openai.base_url())
                .replace("HOME", &home.to_string_lossy());
            fs::write(folder.path().join(format!("{script}.yaml")), routes).unwrap();
            models
        });
        Self { folder, _models: models }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn nexus(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nexus"))
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path().join("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What an experiment of both arms says in the end.
    fn run(&self, folder: &str, more: &[&str]) -> String {
        let arms = ["--arm", "anchored=anchored.yaml", "--arm", "probing=probing.yaml", "--real", "--yes"];
        let output = self.nexus(&[&["testbed", "run", folder], &arms[..], more].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complaint}");
        println!("{complaint}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[track_caller]
fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in\n{said}");
    }
}

#[test]
#[ignore = "needs the real CLIs"]
fn real_programs_ship_eight_of_eight_where_their_models_anchor_and_catch_eight_of_eight_where_they_probe() {
    let stage = Stage::new();
    let said = stage.run("planted", &["--answer", "planted"]);
    assert_says(
        &said,
        &[
            "anchored: caught 0 of 8 wrong answers",
            "probing: caught 8 of 8 wrong answers",
            "; 0 invalid runs",
        ],
    );
    assert_says(&said, &["7.77e-5 that it is lower", "1.55e-4 two-sided"]);
    // Each verdict of the probing ones is by a probe that was run.
    let runs = fs::read_to_string(stage.path().join("planted/runs.jsonl")).unwrap();
    let (mut vendors, mut probes) = (Vec::new(), 0);
    for run in runs.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let votes = run["votes"].as_array().unwrap();
        vendors.extend(votes.iter().map(|vote| vote["vendor"].as_str().unwrap().to_owned()));
        probes += run["probes"].as_array().unwrap().len();
    }
    assert_eq!((vendors.len(), probes), (32, 16));
    assert!(
        ["anthropic", "openai"]
            .iter()
            .all(|vendor| vendors.iter().filter(|other| other == vendor).count() == 16)
    );
}

#[test]
#[ignore = "needs the real CLIs"]
fn real_programs_let_right_answers_pass() {
    let stage = Stage::new();
    let said = stage.run("right", &["--answer", "right"]);
    assert_says(
        &said,
        &["anchored: caught 0 of 0 wrong answers", "refused 0 of 8 right ones; 0 invalid runs"],
    );
    assert_eq!(said.matches("refused 0 of 8 right ones").count(), 2, "{said}");
}
