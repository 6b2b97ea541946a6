//! `nexus acp` before a client that nobody here wrote: `acpx` drives it, and inside Claude Code and Codex do the work. One line of `nexus.yaml`
//! says which of them. The models are loopback servers.
//!
//! Needs `NEXUS_REAL_ACPX`, `NEXUS_REAL_CLAUDE` and `NEXUS_REAL_CODEX`, root, and a namespace with loopback alone:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it acp_real:: -- --ignored`

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::{
    real,
    sim::{Conversation, Dialect, Item, Reply, Scenario, Sim, ToolCall},
};
use serde_json::{Value, json};

const ROUTES: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli] }
backends:
  claude-cli: { executable: CLAUDE, base_url: ANTHROPIC, credential: { file: HOME/secrets/claude }, billing: metered }
  codex-cli: { executable: CODEX, base_url: OPENAI, credential: { file: HOME/secrets/codex, account: account-of-the-test } }
models:
  strong: { anthropic: claude-sonnet-5, openai: gpt-5.5 }
types:
  writer: { group: GROUP, model: strong }
";

/// What a shell runs that makes a file. A program is what an access level that writes leaves to the person, where it is asked.
const MAKES_A_FILE: &str = "python3 -c \"open('made.txt', 'w').write('x')\"";

/// The groups, and the backend of each.
const VENDORS: [(&str, &str); 2] = [("anthropic", "claude-cli"), ("openai", "codex-cli")];

/// What a model answers: by the last words of the person, and whether a tool has answered since.
fn model(conversation: &Conversation) -> Option<Reply> {
    let words = |item: &Item| match item {
        Item::User(text) => {
            ["Say it.", "Run it.", "Write it.", "Wait for me."].into_iter().find(|words| text.contains(words))
        }
        _ => None,
    };
    let (place, asked) =
        conversation.items.iter().enumerate().rev().find_map(|(place, item)| Some((place, words(item)?)))?;
    let is_answered = conversation.items[place..].iter().any(|item| matches!(item, Item::ToolResult { .. }));
    Some(match asked {
        "Wait for me." => Reply::text("One moment, I am").stalled(),
        "Run it." if !is_answered => Reply::call(ToolCall::shell(MAKES_A_FILE)),
        "Write it." if !is_answered => Reply::call(ToolCall::write_file("notes.txt", "new\n")),
        "Say it." => Reply::text(format!("Said after {} answers.", conversation.assistant_texts().len())),
        _ => Reply::text("All done."),
    })
}

struct Stage {
    folder: tempfile::TempDir,
    anthropic: Sim,
    openai: Sim,
}

impl Stage {
    fn new(group: &str) -> Self {
        let start = |dialect| Sim::builder(dialect, Scenario::text("")).answered_by(model).start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let stage = Self { folder, anthropic: start(Dialect::Anthropic), openai: start(Dialect::Responses) };
        fs::create_dir_all(stage.home().join("secrets")).unwrap();
        fs::create_dir_all(stage.home().join(".nexus")).unwrap();
        fs::create_dir_all(stage.project()).unwrap();
        fs::create_dir_all(stage.path().join("bin")).unwrap();
        for (name, token) in [("claude", "sk-ant-canary-token"), ("codex", "canary-token")] {
            let file = stage.home().join("secrets").join(name);
            fs::write(&file, token).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_nexus"), stage.path().join("bin/nexus")).unwrap();
        stage.answered_by(group);
        stage
    }

    /// Writes the configuration, whose last line says who answers.
    fn answered_by(&self, group: &str) {
        let routes = ROUTES
            .replace("CLAUDE", &real::last("NEXUS_REAL_CLAUDE").to_string_lossy())
            .replace("CODEX", &real::last("NEXUS_REAL_CODEX").to_string_lossy())
            .replace("ANTHROPIC", &self.anthropic.base_url())
            .replace("OPENAI", &self.openai.base_url())
            .replace("HOME", &self.home().to_string_lossy())
            .replace("GROUP", group);
        fs::write(self.home().join(".nexus/nexus.yaml"), routes).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// `acpx` with the agent, in an environment that holds a home and where programs are.
    fn acpx(&self, options: &[&str], arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(real::last("NEXUS_REAL_ACPX"));
        command
            .args(["--agent", "nexus acp", "--format", "json", "--ttl", "1", "--timeout", "60"])
            .args(options)
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path().join("bin").display()))
            .env("HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `acpx` to its end: its exit code, and the frames that it saw.
    fn run(&self, options: &[&str], arguments: &[&str]) -> Seen {
        Seen::of(self.acpx(options, arguments).spawn().unwrap())
    }

    /// The programs that run with this home, but for the client's.
    fn running(&self) -> Vec<String> {
        let home = format!("{}/", self.path().display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let is_client = fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("acpx"));
            if String::from_utf8_lossy(&environment).contains(&home) && !is_client {
                found.push(name.trim().to_owned());
            }
        }
        found
    }
}

/// What came of one run of `acpx`.
#[derive(Debug)]
struct Seen {
    code: Option<i32>,
    frames: Vec<Value>,
    #[allow(dead_code, reason = "a test that fails shows it")]
    stderr: String,
}

impl Seen {
    fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let frames = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let seen = Self { code: output.status.code(), frames, stderr };
        seen.holds_the_schema();
        seen
    }

    /// Holds every frame of the agent's against the JSON schema that comes with the protocol's own library.
    fn holds_the_schema(&self) {
        const LIBRARY: &str = "../../real/clis/node_modules/@agentclientprotocol/sdk/schema/schema.json";
        let schema = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIBRARY)).unwrap();
        let schema: Value = serde_json::from_slice(&schema).unwrap();
        let asked = |id: &Value| {
            let mut requests =
                self.frames.iter().filter(|frame| frame["method"].is_string() && frame["id"] == *id);
            requests.find_map(|frame| frame["method"].as_str())
        };
        for frame in &self.frames {
            let (name, value) = match (frame["method"].as_str(), frame.get("result")) {
                (Some("session/update"), _) => ("SessionNotification", &frame["params"]),
                (Some("session/request_permission"), _) => ("RequestPermissionRequest", &frame["params"]),
                // The client's, to a request of the agent's, whose ids are counted apart.
                (None, Some(result)) if result.get("outcome").is_some() => continue,
                (None, Some(result)) => match asked(&frame["id"]) {
                    Some("initialize") => ("InitializeResponse", result),
                    Some("session/new") => ("NewSessionResponse", result),
                    Some("session/load") => ("LoadSessionResponse", result),
                    Some("session/prompt") => ("PromptResponse", result),
                    _ => continue,
                },
                _ => continue,
            };
            let wanted = json!({ "$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"] });
            let validator = jsonschema::validator_for(&wanted).unwrap();
            let faults: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{name}: {faults:?}: {value}");
        }
    }

    fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.frames.iter().map(|frame| &frame["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    fn said(&self) -> String {
        self.updates("agent_message_chunk")
            .iter()
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    /// The answer of the prompt.
    fn answer(&self) -> &Value {
        let mut answers = self.frames.iter().map(|frame| &frame["result"]);
        answers
            .find(|result| result["stopReason"].is_string())
            .unwrap_or_else(|| panic!("no answer: {self:#?}"))
    }

    /// Who ran the prompt.
    fn backend(&self) -> &str {
        self.answer()["_meta"]["nexus"]["backend"].as_str().unwrap_or_else(|| panic!("{self:#?}"))
    }

    fn asked(&self) -> usize {
        self.frames.iter().filter(|frame| frame["method"] == "session/request_permission").count()
    }
}

#[test]
#[ignore = "needs the real programs: see the head of this file"]
fn one_line_changes_who_answers() {
    let stage = Stage::new("anthropic");
    for (group, backend) in VENDORS {
        stage.answered_by(group);
        let seen = stage.run(&["--deny-all"], &["exec", "Say it."]);
        assert_eq!(seen.code, Some(0), "{seen:#?}");
        assert_eq!((seen.said().as_str(), seen.backend()), ("Said after 0 answers.", backend), "{seen:#?}");
        assert_eq!(seen.answer()["stopReason"], "end_turn");
    }
}

#[test]
#[ignore = "needs the real programs: see the head of this file"]
fn a_file_is_written_and_shown_as_what_changed() {
    for (group, backend) in VENDORS {
        let stage = Stage::new(group);
        let seen = stage.run(&["--approve-all"], &["exec", "Write it."]);
        assert_eq!((seen.code, seen.backend()), (Some(0), backend), "{seen:#?}");
        assert_eq!(fs::read_to_string(stage.project().join("notes.txt")).unwrap(), "new\n");
        let diffs: Vec<&Value> = seen
            .updates("tool_call_update")
            .into_iter()
            .filter_map(|update| update["content"].as_array())
            .flatten()
            .filter(|content| content["type"] == "diff")
            .collect();
        let [diff] = &diffs[..] else { panic!("{group}: {seen:#?}") };
        assert_eq!((&diff["newText"], &diff["oldText"]), (&"new\n".into(), &Value::Null), "{diff}");
        assert!(diff["path"].as_str().unwrap().ends_with("/project/notes.txt"), "{diff}");
        assert_eq!(seen.said(), "All done.", "{seen:#?}");
    }
}

#[test]
#[ignore = "needs the real programs: see the head of this file"]
fn a_program_runs_if_the_person_says_so_where_the_vendor_asks() {
    for (person, is_made) in [("--approve-all", true), ("--deny-all", false)] {
        let stage = Stage::new("anthropic");
        let seen = stage.run(&[person], &["exec", "Run it."]);
        assert_eq!(seen.asked(), 1, "{person}: {seen:#?}");
        assert_eq!(stage.project().join("made.txt").exists(), is_made, "{person}: {seen:#?}");
        assert_eq!(seen.answer()["stopReason"], "end_turn");
        let updates = seen.updates("tool_call_update");
        let last = updates.iter().rev().find_map(|update| update["status"].as_str());
        assert_eq!(last, Some(if is_made { "completed" } else { "failed" }), "{seen:#?}");
        // The client's own word for a permission that was denied.
        assert_eq!(seen.code, Some(if is_made { 0 } else { 5 }), "{seen:#?}");
    }
    // The other one asks nobody: its sandbox decides.
    let stage = Stage::new("openai");
    let seen = stage.run(&["--deny-all"], &["exec", "Run it."]);
    assert_eq!((seen.asked(), seen.code), (0, Some(0)), "{seen:#?}");
    assert!(stage.project().join("made.txt").exists(), "{seen:#?}");
}

#[test]
#[ignore = "needs the real programs: see the head of this file"]
fn a_session_goes_on_in_other_processes_and_on_another_vendor() {
    let stage = Stage::new("anthropic");
    let made = stage.run(&["--approve-all"], &["sessions", "new"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    let first = stage.run(&["--approve-all"], &["prompt", "Say it."]);
    assert_eq!((first.code, first.said().as_str()), (Some(0), "Said after 0 answers."), "{first:#?}");
    stage.owner_is_gone();
    let second = stage.run(&["--approve-all"], &["prompt", "Say it."]);
    assert_eq!(second.code, Some(0), "{second:#?}");
    // The client does not show what was told while it loaded.
    assert_eq!(second.said(), "Said after 1 answers.", "{second:#?}");
    assert!(second.frames.iter().any(|frame| frame["method"] == "session/load"), "{second:#?}");
    assert_eq!(second.answer()["_meta"]["nexus"]["conversation"]["continuity"], "resumed");
    stage.owner_is_gone();
    stage.answered_by("openai");
    let third = stage.run(&["--approve-all"], &["prompt", "Say it."]);
    assert_eq!((third.code, third.backend()), (Some(0), "codex-cli"), "{third:#?}");
    assert_eq!(third.answer()["_meta"]["nexus"]["conversation"]["continuity"], "reseeded");
}

#[test]
#[ignore = "needs the real programs: see the head of this file"]
fn a_prompt_is_cancelled_and_no_program_stays() {
    for (group, _) in VENDORS {
        let stage = Stage::new(group);
        let made = stage.run(&["--approve-all"], &["sessions", "new"]);
        assert_eq!(made.code, Some(0), "{made:#?}");
        let waiting = stage.acpx(&["--approve-all"], &["prompt", "Wait for me."]).spawn().unwrap();
        stage.until("the model is asked", || {
            let sims = [&stage.anthropic, &stage.openai];
            sims.iter().any(|sim| !sim.main_calls().is_empty())
        });
        thread::sleep(Duration::from_secs(1));
        let cancelled = stage.run(&[], &["cancel"]);
        assert_eq!(cancelled.code, Some(0), "{cancelled:#?}");
        let seen = Seen::of(waiting);
        assert_eq!(seen.answer()["stopReason"], "cancelled", "{group}: {seen:#?}");
        stage.until("only the agent runs, if it still does", || {
            stage.running().iter().all(|name| name == "nexus")
        });
        stage.owner_is_gone();
    }
}

impl Stage {
    /// Waits until the process with which `acpx` keeps the agent has ended, and nothing of it is left.
    fn owner_is_gone(&self) {
        self.until("nothing runs", || self.running().is_empty());
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < until, "{what}: {:?}", self.running());
            thread::sleep(Duration::from_millis(50));
        }
    }
}
