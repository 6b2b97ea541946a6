//! A home with a project, a configuration whose agents are real programs, and the servers that play their models.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
};

use nexus_testkit::{
    real,
    sim::{Dialect, RecordedRequest, Scenario, Sim},
};
use serde_json::Value;

use super::models::{self, LENSES, Trouble};

/// What the agents of the vendors log in with.
pub(crate) const ANTHROPIC_TOKEN: &str = "sk-ant-canary-token-of-one-agent";
pub(crate) const OPENAI_TOKEN: &str = "canary-token-of-another-agent";
pub(crate) const XAI_TOKEN: &str = "canary-token-of-a-third-agent";
/// That of every caller.
pub(crate) const CALLER_TOKEN: &str = "sk-ant-canary-token-of-the-caller";

/// The file of the project as it was committed.
pub(crate) const BEFORE: &str = "echo $(( ${1#-} + ${2#-} ))\n";

const ROUTES: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }
backends:
  claude-cli: { executable: CLAUDE, base_url: ANTHROPIC, credential: { file: HOME/secrets/claude }, billing: metered }
  codex-cli: { executable: CODEX, base_url: OPENAI, credential: { file: HOME/secrets/codex, account: account-of-the-test } }
  grok-cli: { executable: GROK, base_url: XAI, credential: { file: HOME/secrets/grok }, billing: metered }
models:
  strong: { anthropic: claude-sonnet-5, openai: gpt-5.5, xai: grok-4.6 }
types:
  orchestrator: { tier: operations, phase: orchestrate, group: anthropic, model: strong }
  executor:     { tier: execution,  phase: implement,   group: openai, model: strong }
  reviewer:     { tier: operations, phase: review,      panel: review }
  framer:       { group: anthropic, model: strong }
  panelist:     { panel: debate }
  arbiter:      { group: openai, model: strong }
panels:
  review:
    - { group: openai, model: strong, lens: FIRST }
    - { group: anthropic, model: strong, lens: SECOND }
  debate:
    - { group: xai,       model: strong }
    - { group: openai,    model: strong }
    - { group: anthropic, model: strong }
lenses:
  FIRST: \"Look through the lens FIRST.\"
  SECOND: \"Look through the lens SECOND.\"
tasks:
  roots: [HOME/src]
";

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) trouble: Arc<Trouble>,
    /// The models of the agents.
    pub(crate) anthropic: Sim,
    pub(crate) openai: Sim,
    pub(crate) xai: Sim,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_claude(real::last("NEXUS_REAL_CLAUDE"))
    }

    /// With this program as `claude`, for callers and for agents.
    pub(crate) fn with_claude(claude: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trouble = Arc::new(Trouble::default());
        let model = |dialect, trouble: &Arc<Trouble>| {
            let trouble = Arc::clone(trouble);
            let agent = move |conversation: &_| models::agent(conversation, &trouble);
            Sim::builder(dialect, Scenario::text("")).answered_by(agent).start().unwrap()
        };
        let anthropic = model(Dialect::Anthropic, &Arc::default());
        // Only the vendor that does the work has trouble.
        let openai = model(Dialect::Responses, &trouble);
        let xai = model(Dialect::Xai, &Arc::default());
        let stage = Self { folder, trouble, anthropic, openai, xai };
        stage.lay_out(claude);
        stage
    }

    fn lay_out(&self, claude: PathBuf) {
        let home = self.home();
        fs::create_dir_all(home.join("src/sums")).unwrap();
        fs::create_dir_all(home.join(".nexus")).unwrap();
        fs::create_dir_all(self.programs()).unwrap();
        self.log_in("claude", ANTHROPIC_TOKEN);
        self.log_in("codex", OPENAI_TOKEN);
        self.log_in("grok", XAI_TOKEN);
        let programs = [
            ("nexus", PathBuf::from(env!("CARGO_BIN_EXE_nexus"))),
            ("claude", claude),
            ("codex", real::last("NEXUS_REAL_CODEX")),
            ("grok", real::last("NEXUS_REAL_GROK")),
        ];
        for (name, program) in &programs {
            symlink(program, self.programs().join(name)).unwrap();
        }
        let routes = ROUTES
            .replace("CLAUDE", &programs[1].1.to_string_lossy())
            .replace("CODEX", &programs[2].1.to_string_lossy())
            .replace("GROK", &programs[3].1.to_string_lossy())
            .replace("ANTHROPIC", &self.anthropic.base_url())
            .replace("OPENAI", &self.openai.base_url())
            .replace("XAI", &self.xai.base_url())
            .replace("HOME", &home.to_string_lossy())
            .replace("FIRST", LENSES[0])
            .replace("SECOND", LENSES[1]);
        fs::write(home.join(".nexus/nexus.yaml"), routes).unwrap();
        fs::write(self.project().join("sum.sh"), BEFORE).unwrap();
        fs::write(self.project().join("test.sh"), "test \"$(sh sum.sh 1 2)\" = 3\n").unwrap();
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["add", "."]);
        self.git(&[
            "-c",
            "user.name=Somebody",
            "-c",
            "user.email=somebody@example.org",
            "commit",
            "-q",
            "-m",
            "Begin",
        ]);
    }

    /// Puts a token where the agents of a vendor find theirs.
    pub(crate) fn log_in(&self, name: &str, token: &str) {
        let file = self.home().join("secrets").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, token).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.home().join("src/sums")
    }

    fn programs(&self) -> PathBuf {
        self.path().join("bin")
    }

    /// A command in the project, with an environment that holds no more than a home and where programs are.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.programs().display()))
            .env("HOME", self.home())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_nexus")).args(arguments).output().unwrap()
    }

    /// What the command says on the task of the home, each line as JSON.
    pub(crate) fn task(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.nexus(&[&["task"], arguments, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        let values = serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
        assert!(!text.is_empty(), "{arguments:?}: {complaint}");
        values
    }

    /// The one answer of the command; of a walk, its result.
    pub(crate) fn told(&self, arguments: &[&str]) -> Value {
        let mut values = self.task(arguments);
        if arguments[0] == "run" {
            return values.pop().unwrap()["result"].take();
        }
        assert_eq!(values.len(), 1, "{arguments:?}: {values:?}");
        values.remove(0)
    }

    /// The log's entries of this kind.
    pub(crate) fn logged(&self, kind: &str) -> Vec<Value> {
        let events = self.task(&["log", "last"]).into_iter();
        events.filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn file(&self) -> String {
        fs::read_to_string(self.project().join("sum.sh")).unwrap()
    }

    /// Each agents' vendor, the server that plays its models, and its token.
    pub(crate) fn sims(&self) -> [(&'static str, &Sim, &'static str); 3] {
        [
            ("anthropic", &self.anthropic, ANTHROPIC_TOKEN),
            ("openai", &self.openai, OPENAI_TOKEN),
            ("xai", &self.xai, XAI_TOKEN),
        ]
    }

    /// The calls of the agents' models with their vendors.
    pub(crate) fn calls(&self) -> Vec<(&'static str, RecordedRequest)> {
        let of = |vendor, sim: &Sim| sim.main_calls().into_iter().map(move |call| (vendor, call));
        self.sims().into_iter().flat_map(|(vendor, sim, _)| of(vendor, sim)).collect()
    }

    /// Every file below the stage's folder that holds this text, but for what is kept there on purpose.
    pub(crate) fn files_with(&self, text: &str, below: &Path) -> Vec<PathBuf> {
        let (mut folders, mut found) = (vec![below.to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() && path != self.home().join("secrets") {
                    folders.push(path);
                } else if kind.is_file() {
                    let bytes = fs::read(&path).unwrap();
                    if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                        found.push(path);
                    }
                }
            }
        }
        found
    }

    /// The programs that run with this home, by their number and name.
    pub(crate) fn running(&self) -> Vec<(u32, String)> {
        let home = format!("{}/", self.path().display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&home) {
                found.push((pid, fs::read_to_string(entry.path().join("comm")).unwrap_or_default()));
            }
        }
        found
    }
}
