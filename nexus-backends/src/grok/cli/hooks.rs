//! Lets a fresh credential lie in the run's home only while no tool of the model runs.
//!
//! The CLI looks for a new `auth.json` when it is about to call the model and its own token has run out. Between
//! the end of a tool and that call there is no time for anyone else, so hooks make some: around every tool, the CLI
//! runs a hook of ours that waits for a word from here. Before a tool the file goes, and a tool does not start while
//! it is there; after the last tool it comes. A turn whose token outlives it has no such hooks. A tool of the caller's
//! does not count: it runs with the caller, not with the CLI, and reads what the caller lets it.
//!
//! What this does not sandbox: a program that a tool left running in the background, or one that imitates the hook,
//! runs as the same user as the CLI and can find the file while the CLI is yet to read it.
//!
//! Source: observed with grok 1.0.41.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use serde_json::json;

use super::mcp_config;

/// The folder where hooks and we meet, in `GROK_HOME`.
const FOLDER: &str = "lent";
/// In that folder while a credential waits to be taken; without it no hook waits.
const WAITING: &str = "waiting";
/// Longest note of a hook that is read, in bytes: it holds the tool's input and output.
const NOTE_BYTES: u64 = 64 << 20;

/// Leaves a note named `$1` with the hook's input, and waits until it is taken: 5 s at the least, which is never
/// needed while we live.
const MEET: &str = r#"meet() { f="$GROK_HOME/lent/$1-$$"; cat > "$f.new" && mv -- "$f.new" "$f.json" || return 1; n=0; while [ -e "$f.json" ]; do [ "$n" -lt 500 ] || return 1; sleep 0.01 || sleep 1; n=$((n+1)); done; }; "#;
/// Exit code 2 keeps the tool from running.
const BEFORE: &str = r#"[ ! -e "$GROK_HOME/lent/waiting" ] || meet began || exit 2; rm -f -- "$GROK_HOME/auth.json" && [ ! -e "$GROK_HOME/auth.json" ] || exit 2"#;
const AFTER: &str = r#"[ ! -e "$GROK_HOME/lent/waiting" ] || meet ended; exit 0"#;

/// The tools that run, as the CLI's output and its hooks tell. Clones see the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolsRunning {
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    running: BTreeSet<String>,
    /// Ended by its hook's word, and not yet by the output's.
    ended_early: BTreeSet<String>,
    /// Counts what the model said.
    words: u64,
}

impl ToolsRunning {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output shows the beginning of a call.
    pub(super) fn began(&self, call: &str) {
        let mut told = self.told();
        // A line may come later than the hook.
        if !told.ended_early.contains(call) {
            told.running.insert(call.to_owned());
        }
    }

    /// The output shows the end of a call.
    pub(super) fn ended(&self, call: &str) {
        let mut told = self.told();
        told.running.remove(call);
        told.ended_early.remove(call);
    }

    /// The output shows something of the model's.
    pub(super) fn spoke(&self) {
        self.told().words += 1;
    }

    /// How much the model has said.
    pub(super) fn words(&self) -> u64 {
        self.told().words
    }

    fn hook_began(&self, call: &str) {
        self.told().running.insert(call.to_owned());
    }

    fn hook_ended(&self, call: &str) {
        let mut told = self.told();
        told.running.remove(call);
        told.ended_early.insert(call.to_owned());
    }

    fn is_idle(&self) -> bool {
        self.told().running.is_empty()
    }
}

/// Where hooks and we meet.
#[derive(Debug)]
pub(super) struct Gate {
    folder: PathBuf,
    tools: ToolsRunning,
}

/// What the hooks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A tool runs.
    Busy,
    /// No tool runs.
    Idle,
    /// No tool runs any more, and the CLI waits for us before it goes on to the model.
    BeforeModel,
}

/// Notes that were read. Their hooks go on when this is dropped.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) moment: Moment,
    notes: Vec<PathBuf>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        for note in &self.notes {
            let _ = fs::remove_file(note);
        }
    }
}

/// What a hook is told, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    tool_use_id: String,
    /// Of a server's tool the name by which it is offered, however it was called.
    #[serde(default)]
    tool_name: String,
}

impl Gate {
    /// The gate of the run whose `GROK_HOME` this is.
    pub(super) fn new(grok_home: &Path, tools: ToolsRunning) -> Self {
        Self { folder: grok_home.join(FOLDER), tools }
    }

    /// The hooks, as the CLI reads them.
    pub(super) fn hooks() -> String {
        let hook = |command: &str| json!([{ "hooks": [{ "type": "command", "command": format!("{MEET}{command}") }] }]);
        // A tool of a server that answers with an error ends in the last.
        let hooks = json!({
            "PreToolUse": hook(BEFORE),
            "PostToolUse": hook(AFTER),
            "PostToolUseFailure": hook(AFTER),
        });
        json!({ "hooks": hooks }).to_string()
    }

    /// From now on, hooks wait for a word.
    pub(super) fn open(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;

        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        fs::write(self.folder.join(WAITING), "")
    }

    /// Hooks wait no longer. Those that do go on.
    pub(super) fn close(&self) {
        let _ = fs::remove_file(self.folder.join(WAITING));
        drop(self.visit());
    }

    /// How much the model has said.
    pub(super) fn words(&self) -> u64 {
        self.tools.words()
    }

    /// Reads the notes that hooks have left.
    pub(super) fn visit(&self) -> Visit {
        let mut visit = Visit { moment: Moment::Idle, notes: Vec::new() };
        let mut has_ended = false;
        for path in fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.ends_with(".json") {
                continue;
            }
            let is_end = name.starts_with("ended-");
            has_ended |= is_end;
            // Whatever it says, its hook must not wait for ever.
            if let Some(note) = read(&path) {
                let is_callers = mcp_config::own_name(&note.tool_name).is_some();
                match is_end {
                    true => self.tools.hook_ended(&note.tool_use_id),
                    false if is_callers => {}
                    false => self.tools.hook_began(&note.tool_use_id),
                }
            }
            visit.notes.push(path);
        }
        visit.moment = match (self.tools.is_idle(), has_ended) {
            (false, _) => Moment::Busy,
            (true, true) => Moment::BeforeModel,
            (true, false) => Moment::Idle,
        };
        visit
    }
}

fn read(path: &Path) -> Option<Note> {
    let file = fs::File::open(path).ok()?;
    serde_json::from_reader(io::BufReader::new(io::Read::take(file, NOTE_BYTES))).ok()
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Child, Command, Stdio},
        time::{Duration, Instant},
    };

    use super::*;

    /// A run's `GROK_HOME`, and hooks that run as the CLI runs them.
    struct Home {
        folder: tempfile::TempDir,
        gate: Gate,
        tools: ToolsRunning,
    }

    impl Home {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tools = ToolsRunning::default();
            Self { gate: Gate::new(folder.path(), tools.clone()), tools, folder }
        }

        fn hook(&self, event: &str, call: &str) -> Child {
            self.hook_of(event, call, "grep")
        }

        fn hook_of(&self, event: &str, call: &str, tool: &str) -> Child {
            let hooks: serde_json::Value = serde_json::from_str(&Gate::hooks()).unwrap();
            let command = hooks["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap();
            let mut child = Command::new("sh")
                .args(["-c", command])
                .env("GROK_HOME", self.folder.path())
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let input = json!({
                "toolUseId": call,
                "toolName": tool,
                "toolInput": { "toolUseId": "forged", "toolName": "nexus__forged" },
            });
            let input = input.to_string();
            // One that does not wait may be gone before it reads.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("auth.json")
        }

        /// Waits for notes, and says what they come to. Their hooks still wait.
        fn notes(&self, count: usize) -> Visit {
            let began = Instant::now();
            loop {
                let entries = fs::read_dir(self.folder.path().join(FOLDER)).unwrap().flatten();
                let is_note =
                    |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "json");
                if entries.filter(is_note).count() == count {
                    return self.gate.visit();
                }
                assert!(began.elapsed() < Duration::from_secs(10), "no {count} notes");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn code(mut child: Child) -> Option<i32> {
        child.wait().unwrap().code()
    }

    #[test]
    fn no_tool_starts_beside_the_file() {
        let home = Home::new();
        fs::write(home.file(), "canary").unwrap();
        assert_eq!(code(home.hook("PreToolUse", "a")), Some(0));
        assert!(!home.file().exists());
        // A folder in its place cannot be removed so: the tool is kept from running.
        fs::create_dir(home.file()).unwrap();
        assert_eq!(code(home.hook("PreToolUse", "a")), Some(2));
    }

    #[test]
    fn the_moment_comes_after_the_last_tool() {
        let home = Home::new();
        assert_eq!(code(home.hook("PostToolUse", "early")), Some(0), "nothing waits, so it does not either");
        home.gate.open().unwrap();
        home.tools.began("a");
        let second = home.hook("PreToolUse", "b");
        let visit = home.notes(1);
        assert_eq!(visit.moment, Moment::Busy);
        drop(visit);
        assert_eq!(code(second), Some(0));

        let first = home.hook("PostToolUse", "a");
        assert_eq!(home.notes(1).moment, Moment::Busy, "the other runs on");
        assert_eq!(code(first), Some(0));
        let second = home.hook("PostToolUse", "b");
        let visit = home.notes(1);
        assert_eq!(visit.moment, Moment::BeforeModel);
        drop(visit);
        assert_eq!(code(second), Some(0));
        assert_eq!(home.gate.visit().moment, Moment::Idle);
    }

    #[test]
    fn two_that_end_at_once_are_one_moment() {
        let home = Home::new();
        home.gate.open().unwrap();
        let hooks = ["a", "b"].map(|call| {
            home.tools.began(call);
            home.hook("PostToolUse", call)
        });
        let visit = home.notes(2);
        assert_eq!(visit.moment, Moment::BeforeModel);
        drop(visit);
        for hook in hooks {
            assert_eq!(code(hook), Some(0));
        }
    }

    #[test]
    fn a_line_that_comes_after_the_hook_changes_nothing() {
        let home = Home::new();
        home.gate.open().unwrap();
        let hook = home.hook("PostToolUse", "a");
        assert_eq!(home.notes(1).moment, Moment::BeforeModel);
        assert_eq!(code(hook), Some(0));
        home.tools.began("a");
        assert_eq!(home.gate.visit().moment, Moment::Idle);
        home.tools.ended("a");
        // The name may be used again.
        home.tools.began("a");
        assert_eq!(home.gate.visit().moment, Moment::Busy);
    }

    #[test]
    fn a_tool_of_the_callers_holds_nothing_back() {
        let home = Home::new();
        home.gate.open().unwrap();
        let before = home.hook_of("PreToolUse", "a", "nexus__look_up");
        assert_eq!(home.notes(1).moment, Moment::Idle);
        assert_eq!(code(before), Some(0));
        assert_eq!(home.gate.visit().moment, Moment::Idle, "while it runs");
        let after = home.hook_of("PostToolUseFailure", "a", "nexus__look_up");
        assert_eq!(home.notes(1).moment, Moment::BeforeModel);
        assert_eq!(code(after), Some(0));
    }

    #[test]
    fn a_gate_that_closes_lets_everybody_go() {
        let home = Home::new();
        home.gate.open().unwrap();
        let hook = home.hook("PostToolUse", "a");
        drop(home.notes(1));
        home.gate.close();
        assert_eq!(code(hook), Some(0));
        assert_eq!(code(home.hook("PostToolUse", "a")), Some(0));
    }
}
