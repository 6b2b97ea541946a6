//! A home whose agents are real programs, the servers that play their models, and a broker that runs there.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::{
    real,
    sim::{Conversation, Dialect, Item, RecordedRequest, Reply, Scenario, Sim},
};
use serde_json::Value;

use super::seen::Seen;

/// Longest that something may take which programs do. A message of a broker that was killed is given out again after 60 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Who runs the turns of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Claude,
    Codex,
    Grok,
}

impl Program {
    pub(crate) const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Grok];

    /// Its type of the configuration.
    pub(crate) const fn kind(self) -> &'static str {
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

    const fn token(self) -> &'static str {
        match self {
            Self::Claude => "sk-ant-canary-token-of-one-agent",
            Self::Codex => "canary-token-of-another-agent",
            Self::Grok => "canary-token-of-a-third-agent",
        }
    }
}

const ROUTES: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }
backends:
  claude-cli: { executable: PROGRAM-claude, base_url: URL-claude, credential: { file: HOME/secrets/claude }, billing: metered }
  codex-cli: { executable: PROGRAM-codex, base_url: URL-codex, credential: { file: HOME/secrets/codex, account: account-of-the-test } }
  grok-cli: { executable: PROGRAM-grok, base_url: URL-grok, credential: { file: HOME/secrets/grok }, billing: metered }
models:
  strong: { anthropic: claude-sonnet-5, openai: gpt-5.5, xai: grok-4.6 }
types:
  claude: { group: anthropic, model: strong }
  codex: { group: openai, model: strong }
  grok: { group: xai, model: strong }
broker:
  agents:
    lead: { type: LEAD, max_workers: 1, max_depth: 2, worker_types: [claude, codex, grok]PLACE }
";

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    models: Vec<Sim>,
}

impl Stage {
    /// The agent `lead` is of this program's; all models answer by `model`.
    pub(crate) fn new(lead: Program, model: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::lay_out(lead, "", model)
    }

    /// The same in a repository, where agents may write.
    pub(crate) fn in_repository(
        lead: Program,
        model: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let stage = Self::lay_out(lead, ", folder: HOME/src, access: workspace-write", model);
        let project = stage.home().join("src");
        fs::create_dir(&project).unwrap();
        fs::write(project.join("poem.txt"), "one\n").unwrap();
        for arguments in [
            &["init", "-q", "-b", "main"][..],
            &["add", "."],
            &["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "Begin"],
        ] {
            let ran = stage.command("git").current_dir(&project).args(arguments).output().unwrap();
            assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        stage
    }

    fn lay_out(lead: Program, place: &str, model: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(model);
        let models = Program::ALL.map(|program| {
            let model = Arc::clone(&model);
            // Programs ask their models for more than turns, such as titles.
            let reply = move |conversation: &Conversation| Seen::of(conversation).map(|seen| model(&seen));
            Sim::builder(program.dialect(), Scenario::text("")).answered_by(reply).start().unwrap()
        });
        let stage = Self { folder, models: models.into_iter().collect() };
        let home = stage.home();
        fs::create_dir_all(home.join("secrets")).unwrap();
        fs::create_dir_all(home.join(".nexus")).unwrap();
        let mut routes = ROUTES.replace("PLACE", place).replace("LEAD", lead.kind());
        for (program, model) in Program::ALL.into_iter().zip(&stage.models) {
            routes = routes
                .replace(&format!("PROGRAM-{}", program.kind()), &program.path().to_string_lossy())
                .replace(&format!("URL-{}", program.kind()), &model.base_url());
            let file = home.join("secrets").join(program.kind());
            fs::write(&file, program.token()).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(home.join(".nexus/nexus.yaml"), routes.replace("HOME", &home.to_string_lossy())).unwrap();
        stage
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The files of a worker.
    pub(crate) fn work_of(&self, worker: &str) -> PathBuf {
        self.home().join(".nexus/broker/workers").join(worker).join("work")
    }

    /// A command with an environment that holds no more than a home and where programs are.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.home()).stdin(Stdio::null());
        command
    }

    /// `nexus broker`.
    pub(crate) fn broker(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_nexus"));
        command.arg("broker").args(arguments);
        command
    }

    /// What `nexus broker` prints where it succeeds.
    #[track_caller]
    pub(crate) fn said(&self, arguments: &[&str]) -> String {
        text(&self.broker(arguments).output().unwrap())
    }

    /// A broker that takes messages.
    pub(crate) fn run(&self) -> Running<'_> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).unwrap();
        let child = self.broker(&["run"]).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Running { stage: self, child }
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("broker.log")
    }

    /// What the brokers printed.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Every message so far.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.said(&["log", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The first message of this type from one to the other, once it is there.
    #[track_caller]
    pub(crate) fn message(&self, kind: &str, from: &str, to: &str) -> Value {
        self.until(&format!("a {kind} from {from} to {to}"), || {
            self.messages().into_iter().find(|message| {
                message["type"] == kind
                    && message["source_agent_id"] == from
                    && message["target_agent_id"] == to
            })
        })
    }

    /// Waits for something.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not come:\n{}", self.printed());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// An agent, as `nexus broker status` has it.
    pub(crate) fn agent(&self, name: &str) -> Option<Value> {
        let status: Value = serde_json::from_str(&self.said(&["status", "--json"])).unwrap();
        status["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == name).cloned()
    }

    /// What the model of an agent was asked, if it is of this program's.
    pub(crate) fn calls(&self, program: Program, agent: &str) -> Vec<RecordedRequest> {
        let position = Program::ALL.iter().position(|other| *other == program).unwrap();
        let mut calls = self.models[position].main_calls();
        calls.retain(|call| Seen::of(&call.conversation).is_some_and(|seen| seen.agent == agent));
        calls
    }

    /// The programs that run with this home, by their number and name.
    pub(crate) fn running(&self) -> Vec<(u32, String)> {
        let home = format!("{}/", self.folder.path().display());
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

    /// That no program of this home is left.
    #[track_caller]
    pub(crate) fn assert_nothing_runs(&self) {
        self.until("the end of all programs", || self.running().is_empty().then_some(()));
    }
}

/// All that a conversation holds.
pub(crate) fn everything(conversation: &Conversation) -> String {
    let mut all = conversation.system.clone();
    for item in &conversation.items {
        if let Item::User(text) | Item::ToolResult { text, .. } | Item::Other(text) = item {
            all.push('\n');
            all.push_str(text);
        }
    }
    all
}

#[track_caller]
pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A broker that runs. It is killed with this.
pub(crate) struct Running<'s> {
    stage: &'s Stage,
    child: Child,
}

impl Running<'_> {
    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it when its turns have ended; nothing of them is left.
    #[track_caller]
    pub(crate) fn drain(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let stage = self.stage;
        let status = stage.until("the broker's end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", stage.printed());
        stage.assert_nothing_runs();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a file is there and has something.
pub(crate) fn is_written(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
